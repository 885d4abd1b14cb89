"""What Triton warns of is not printed before the output of a command, but is where a command runs the user's script."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import typer

from tawa.cli.main import options

NOTICE = "TRITON_DEFAULT_FP_FUSION is unset: defaulting to FP fusion ENABLED"


def shown(command: str, message: str) -> bool:
    """Whether a warning is shown under a command."""
    context: Any = typer.Context(typer.main.get_command(typer.Typer(callback=options)))
    context.invoked_subcommand = command
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        options(context)
        warnings.warn(message, UserWarning, stacklevel=1)
    return bool(found)


@pytest.mark.parametrize(("command", "told"), [("explain", False), ("doctor", False), ("run", True), ("tune", True)])
def test_tritons_notice_of_a_new_default_is_the_users_only_where_the_script_is(command: str, told: bool) -> None:
    assert shown(command, NOTICE) is told
    assert shown(command, "another warning")
