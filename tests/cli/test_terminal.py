"""Every command prints to any terminal: no encoding ends in a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from tawa.cli.main import main
from tawa.cli.terminal import any_terminal, own_terminal
from tests.cli.conftest import FILL, GEMM
from tests.support.sample import EVERY_CASE, sample

ENVIRONMENTS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
TENSORS = ["--arg", "x=zeros:64:f16", "--arg", "n=64", "--grid", "1"]
COMMANDS: dict[str, tuple[list[str], int]] = {
    "help": (["--help"], 0),
    "help of verify": (["verify", "--help"], 0),
    "help of simulate": (["simulate", "--help"], 0),
    "help of run": (["run", "--help"], 0),
    "doctor": (["doctor"], 0),
    "explain": (["explain", *GEMM], 0),
    "explain, declined": (["explain", *FILL], 0),
    "compile": (["compile", *GEMM, "--emit", "aref"], 0),
    "verify": (["verify", *GEMM, "--accept", "checked"], 0),
    "verify, table": (["verify", *GEMM, "--trips", "1", "--accept", "checked"], 0),
    "simulate": (["simulate", FILL[0], *TENSORS, *FILL[3:]], 0),
    "report": (["report", "/no/such/report"], 2),
    "wrong usage": (["explain", f"{GEMM[0]}…", "--sig", "…"], 2),
    "a name that is no text": (["explain", "kö.py:gemm"], 2),
}


IN_PROCESSES = (("help", "ascii"), ("wrong usage", "POSIX"))
"""A change runs these as processes, whose streams Python makes; the others print to streams with such an encoding."""


def run(arguments: list[str], environment: dict[str, str]) -> tuple[int, bytes]:
    """The status and the output of a process."""
    program = [sys.executable, "-c", "from tawa.cli.main import main; main()"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    settings = {**plain, "COLUMNS": "100", **environment}
    done = subprocess.run([*program, *arguments], capture_output=True, env=settings, check=False)
    return done.returncode, done.stdout + done.stderr


def run_here(arguments: list[str], encoding: str) -> tuple[int, bytes]:
    """The status and the output of the command in this process, on streams with an encoding."""
    raw = io.BytesIO()
    streams = {
        name: io.TextIOWrapper(raw, encoding, errors, write_through=True)
        for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace"))
    }
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "argv", ["tawa", *arguments])
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        main()
    return int(ended.value.code or 0), raw.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["ascii"])
@pytest.mark.parametrize("command", sample(COMMANDS, 6))
def test_a_command_ends_as_ever_on_a_terminal_of_ascii(command: str, environment: str) -> None:
    check(command, environment)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["latin-1", "POSIX"])
@pytest.mark.parametrize("command", sample(["wrong usage", "verify", "help of verify", "explain, declined"], 6))
def test_so_it_does_on_others_without_utf8(command: str, environment: str) -> None:
    check(command, environment)


def check(command: str, environment: str) -> None:
    arguments, status = COMMANDS[command]
    if EVERY_CASE or (command, environment) in IN_PROCESSES:
        ended, said = run(arguments, ENVIRONMENTS[environment])
    else:
        ended, said = run_here(arguments, "latin-1" if environment == "latin-1" else "ascii")
    assert ended == status, said.decode(errors="replace")
    assert b"Traceback" not in said
    assert said.strip()
    said.decode("latin-1" if environment == "latin-1" else "ascii")


def test_what_an_encoding_lacks_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii", write_through=True))
    with any_terminal():
        print("64 × 64 → … ≥ █▓ ┌─┐ \udcc3 ö")
    assert raw.getvalue().decode() == "64 x 64 -> ... >= #% +-+ \\udcc3 \\xf6\n"
    with pytest.raises(UnicodeEncodeError):
        print("…")


def test_a_script_under_tawa_run_has_the_streams_that_python_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True))
    with any_terminal():
        with own_terminal(), pytest.raises(UnicodeEncodeError):
            print("…")
        print("…")
