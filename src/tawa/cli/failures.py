"""Turns the exceptions of commands into text and an exit status.

    error: shared memory: 294912 bytes are needed, 232448 are there      what, with the values
      --> gemm.py:12                                                      where
       12 |     acc = tl.dot(a, b, acc)
          |           ^
      cure: aref_depth=3 fits                                             how to fix it

Exit status: 0 done, 1 a kernel could not be compiled or (if pinned) specialised, 2 wrong usage. The commands verify and
simulate answer a question; they use `CHECKING`: 0 yes, 1 no, 2 cannot tell, 3 wrong usage; verify has 4 as well: yes
for the runs that were tried.
"""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from tawa.declines import section_of
from tawa.errors import (
    ISSUES_URL,
    AssumptionError,
    CompileError,
    KernelError,
    ParseError,
    PlanError,
    TargetError,
    TawaError,
    UnsupportedKernel,
)
from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt


@dataclass(frozen=True, slots=True)
class Statuses:
    """Exit statuses. failed: the command failed. usage: the command line, or a file that it names, is wrong."""

    failed: int
    usage: int


COMPILING = Statuses(failed=1, usage=2)
CHECKING = Statuses(failed=2, usage=3)
STATUS_REFUTED = 1
STATUS_CHECKED = 4

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_CURE = re.compile(r"(?:;|\.|\n)\s*[Cc]ure: ")
_AT = re.compile(r"\n\s*at (?P<file>[^\n]+):(?P<line>\d+)(?=\n|$)")


class UsageError(Exception):
    """An error in the command line: a file, a name, a notation. cure: what to type instead."""

    def __init__(self, what: str, cure: str = "", location: SourceLocation | None = None) -> None:
        self.what = what
        self.cure = cure
        self.location = location
        super().__init__(what)


def reports_failures(
    command: Callable[Arguments, Result], statuses: Statuses = COMPILING
) -> Callable[Arguments, Result]:
    """Wraps a command so that a failure becomes a message on stderr and an exit status."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with failures_reported(statuses):
            return command(*args, **kwargs)

    return wrapped


def checks(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """As `reports_failures`, for a command that answers a question; used with `CheckingCommand`."""
    return reports_failures(command, CHECKING)


@contextmanager
def failures_reported(statuses: Statuses = COMPILING) -> Iterator[None]:
    """Turns failures of the block into a message on stderr and a `typer.Exit` with the right status."""
    import typer

    try:
        yield
    except UsageError as error:
        print_failure(error.what, error.location, error.cure)
        raise typer.Exit(statuses.usage) from error
    except (PlanError, ParseError, AssumptionError, KernelError) as error:
        print_failure(*split_message(str(error)))
        raise typer.Exit(statuses.usage) from error
    except TargetError as error:
        print_failure(error.what, error.location, error.cure)
        raise typer.Exit(statuses.usage) from error
    except UnsupportedKernel as error:
        remark = error.remark
        what = f"{error.kernel}: cannot be warp-specialised: {remark.reason}"
        print_failure(what, remark.location, remark.cure, more=section_of(remark.reason))
        raise typer.Exit(statuses.failed) from error
    except CompileError as error:
        what, location, cure = split_message(error.what)
        print_failure(what, error.location or location, error.cure or cure, error.calls)
        raise typer.Exit(statuses.failed) from error
    except TawaError as error:
        print_failure(*split_message(str(error)))
        raise typer.Exit(statuses.failed) from error
    except (typer.Exit, typer.Abort):
        raise
    except BrokenPipeError:  # `tawa compile … --emit ptx | head`
        sys.stderr.close()
        # A checking command whose answer was not read has failed.
        raise typer.Exit(0 if statuses is COMPILING else statuses.failed) from None
    except OSError as error:
        from tawa.bridge.triton.surroundings import folder_failure

        where = f"{error.filename}: " if error.filename else ""
        what = f"{where}{error.strerror or error}\n  cure: name a file, or a folder, that can be read and written"
        print_failure(*split_message(str(folder_failure(error) or what)))
        raise typer.Exit(statuses.failed) from error
    except Exception as error:
        traceback.print_exception(error)
        what = f"internal error: {type(error).__name__}: {error}"
        print_failure(what, None, f"please report it, with the program and the lines above: {ISSUES_URL}")
        raise typer.Exit(statuses.failed) from error


def require_folder(option: str, path: Path) -> None:
    """Raises UsageError if the folder of a file to be written does not exist; called before the work begins."""
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}", "name a file in a folder that exists")


def split_message(message: str) -> tuple[str, SourceLocation | None, str]:
    """Splits an error's text into what, where (``at file:line``) and cure."""
    what, *cures = _CURE.split(message, maxsplit=1)
    found = _AT.search(what)
    location = None
    if found:
        location = SourceLocation(found["file"], int(found["line"]))
        what = what[: found.start()] + what[found.end() :]
    return what.strip(), location, cures[0].strip() if cures else ""


def print_failure(
    what: str, location: SourceLocation | None = None, cure: str = "", calls: Sequence[str] = (), more: str = ""
) -> None:  # fmt: skip
    """Prints one failure to stderr, coloured on a terminal.

    calls: those that lead there, innermost first. more: the section of the documentation.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), what))
    if location:
        console.print(Text(excerpt(location), style="dim"))
    for call in calls:
        console.print(Text(f"  called at {call.removeprefix(f'{Path.cwd()}/')}", style="dim"))
    if cure:
        console.print(Text.assemble(("  cure: ", "bold green"), cure))
    if more:
        console.print(Text(f"  more: {more}", style="dim"))
