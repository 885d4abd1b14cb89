"""Every command prints to any terminal: no encoding ends in a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.cli.terminal import any_terminal, own_terminal
from tests.cli.conftest import FILL, GEMM
from tests.support.sample import sample

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


def run(arguments: list[str], environment: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-c", "from tawa.cli.main import main; main()"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    settings = {**plain, "COLUMNS": "100", **environment}
    return subprocess.run([*program, *arguments], capture_output=True, env=settings, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["ascii"])
@pytest.mark.parametrize("command", sample(COMMANDS, 4))
def test_a_command_ends_as_ever_on_a_terminal_of_ascii(command: str, environment: str, tmp_path: Path) -> None:
    check(command, environment, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["latin-1", "POSIX"])
@pytest.mark.parametrize("command", sample(["verify", "help of verify", "explain, declined", "wrong usage"], 4))
def test_so_it_does_on_others_without_utf8(command: str, environment: str, tmp_path: Path) -> None:
    check(command, environment, tmp_path)


def check(command: str, environment: str, tmp_path: Path) -> None:
    arguments, status = COMMANDS[command]
    done = run(arguments, ENVIRONMENTS[environment], tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == status, said.decode(errors="replace")
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
