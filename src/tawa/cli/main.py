"""The `tawa` command. Nothing here loads Triton; each command loads it when needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tawa.cli.commands.compile import compile_command
from tawa.cli.commands.demo import demo_command
from tawa.cli.commands.doctor import doctor_command, env_command
from tawa.cli.commands.explain import explain_command
from tawa.cli.commands.replay import replay_command
from tawa.cli.commands.report import report_command
from tawa.cli.commands.run import run_command
from tawa.cli.commands.simulate import simulate_command
from tawa.cli.commands.tune import TuneCommand, tune_command
from tawa.cli.commands.verify import verify_command
from tawa.cli.completion import colons_in_words
from tawa.cli.failures import CHECKING
from tawa.cli.terminal import any_terminal

_TyperUsageError: Any = typer.BadParameter.__base__  # click's own, or the copy of click that typer carries


class CheckingCommand(TyperCommand):
    """A command that answers a question: errors in its arguments have the usage status of `CHECKING`."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parses the arguments."""
        try:
            return super().make_context(*args, **kwargs)
        except _TyperUsageError as error:
            error.exit_code = CHECKING.usage
            raise


def _print_version(wanted: bool) -> None:
    if wanted:
        from tawa import __version__

        typer.echo(f"tawa {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="tawa",
    epilog="Exit status: 0 done, 1 a kernel that could not be compiled or (pinned) specialised, 2 wrong usage; "
    "verify, simulate and doctor have statuses of their own, which their --help names.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, no_args_is_help=True
)(run_command)
app.command(
    "tune",
    cls=TuneCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    no_args_is_help=True,
)(tune_command)
app.command("report")(report_command)
app.command("explain")(explain_command)
app.command("compile")(compile_command)
app.command("demo")(demo_command)
app.command("verify", cls=CheckingCommand)(verify_command)
app.command("simulate", cls=CheckingCommand)(simulate_command)
app.command("doctor")(doctor_command)
app.command("env", hidden=True)(env_command)
app.command("replay")(replay_command)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Turns unmodified Triton kernels into warp-specialised kernels for NVIDIA Hopper."""


def main() -> None:
    """Entry point of the console script."""
    with any_terminal(), colons_in_words():
        app()
