"""Progress bars are there for who watches, and for nobody else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from types import ModuleType

import pytest

from tawa.runtime import progress as module
from tawa.runtime.progress import progress

SLOW = """
import time, sys
from tawa.runtime import progress as module
from tawa.runtime.progress import progress
module.DELAY_S = 0.1
with progress("checking gemm", 4) as tell:
    for done in range(4):
        tell(done, None, f"part {done}")
        time.sleep(0.3)
print("the answer")
"""
FAST = SLOW.replace("module.DELAY_S = 0.1", "module.DELAY_S = 30")
NESTED = SLOW.replace("time.sleep(0.3)", "\n        with progress('compiling'):\n            time.sleep(0.3)")


def on_a_terminal(program: str, **variables: str) -> tuple[str, str]:
    """What a program prints to stdout, a pipe, and to stderr, a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=follower, env=environment, text=True
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                chunk = os.read(leader, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        assert process.stdout is not None
        said = process.stdout.read()
        os.close(leader)
        assert process.wait() == 0, shown.decode()
    return said, shown.decode()


def test_slow_work_has_a_bar_on_a_terminal_that_is_gone_at_the_end() -> None:
    said, shown = on_a_terminal(SLOW)
    assert said == "the answer\n"
    assert "checking gemm: part 1" in shown and "━" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is back
    assert shown.rstrip("\r").endswith("\x1b[2K\x1b[?25h")  # the line is erased


def test_fast_work_has_none() -> None:
    assert on_a_terminal(FAST) == ("the answer\n", "")


def test_work_inside_of_other_work_has_a_row_below() -> None:
    _, shown = on_a_terminal(NESTED)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"checking gemm: part \d [━╸╺ ]+ [\d:]+\s+. compiling [━╸╺ ]+ [\d:]+", plain)


def test_a_dumb_terminal_has_none() -> None:
    assert on_a_terminal(SLOW, TERM="dumb") == ("the answer\n", "")


def test_a_pipe_has_none_and_rich_is_not_loaded() -> None:
    program = SLOW.replace("0.3", "0.1") + "assert 'rich' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("the answer\n", "", 0)


def test_a_process_without_stderr_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress("checking") as tell:
        tell(1, 2, "part")
    assert module._BARS.shown is None


@pytest.mark.parametrize("widgets", [False, True])
def test_a_notebook_has_one_only_with_ipywidgets(monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    found = {"ipywidgets": widgets or None}
    monkeypatch.setattr(module.importlib.util, "find_spec", found.get)
    assert (module._new() is not None) == widgets


def test_work_that_fails_removes_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []

    class Bars:
        def add_task(self, what: str, total: float | None) -> str:
            rows.append(what)
            return what

        def remove_task(self, row: str) -> None:
            rows.remove(row)

        def update(self, row: str, **_: object) -> None: ...

        def start(self) -> None: ...

        def stop(self) -> None:
            rows.append("stopped")

    monkeypatch.setattr(module, "_new", Bars)
    with pytest.raises(ZeroDivisionError), progress("checking"), progress("compiling"):
        assert rows == ["checking", "compiling"]
        _ = 1 / 0
    assert rows == ["stopped"] and module._BARS.shown is None
