"""Work in a child process: whatever ends it, this process goes on and knows why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.bridge.triton.apart import compiled_apart, run_apart, text_apart
from tawa.errors import CompileError
from tawa.machine.machines import SM_90, SM_100
from tawa.remarks import SourceLocation


def says(text: str, last: Callable[[], object]) -> Callable[[], str]:
    """Work that writes to stderr, as MLIR does, and then does the last thing."""

    def work() -> str:
        os.write(2, text.encode())
        return str(last())

    return work


def fails() -> None:
    raise ZeroDivisionError


ENDS: dict[str, tuple[Callable[[], str], str]] = {
    "an abort of LLVM": (says("LLVM ERROR: no such register\nmore", os.abort), "SIGABRT: LLVM ERROR: no such register"),
    "an assertion": (says("python: a.h:6: Assertion `x' failed.\n", os.abort), "SIGABRT: Assertion `x' failed."),
    "a signal": (lambda: str(os.kill(os.getpid(), signal.SIGSEGV)), "SIGSEGV"),
    "an exit": (lambda: str(os._exit(3)), "status 3"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_death_of_the_child_is_told_with_what_it_said(end: str) -> None:
    work, died = ENDS[end]
    fate = run_apart(work)
    assert (fate.text, fate.died) == (None, died)


def test_what_the_work_returns_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    fate = run_apart(lambda: f"{os.system('echo printed')} é")
    assert (fate.text, fate.died) == ("0 é", "")
    assert capfd.readouterr().out == "printed\n"


def test_an_exception_is_no_death() -> None:
    fate = run_apart(says('loc("a.py":7:2): error: no\n', fails))
    assert (fate.text, fate.died) == (None, "")
    assert fate.diagnostic == ("no", SourceLocation("a.py", 7))


def test_a_kernel_is_compiled_here_once_the_child_has_compiled_it(capfd: pytest.CaptureFixture[str]) -> None:
    here = os.getpid()
    assert compiled_apart(lambda: os.write(2, b"a note\n") and os.getpid(), "it") == here
    assert capfd.readouterr().err == "a note\n" * 2


def test_an_exception_of_the_compile_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        compiled_apart(fails, "it")


def test_a_text_is_made_by_the_child_alone() -> None:
    assert text_apart(lambda: str(os.getpid()), "it", None, SM_100) != str(os.getpid())
    with pytest.raises(ZeroDivisionError):
        text_apart(says("", fails), "it", None, SM_100)


@pytest.mark.parametrize("target, lacks", [(SM_90, "tensor memory"), (SM_100, "wgmma")])
def test_the_cure_names_what_the_gpu_lacks(target, lacks) -> None:
    place = SourceLocation("a.py", 7)
    with pytest.raises(CompileError, match=rf"SIGABRT\). Cure: leave out what {target.name} .*") as died:
        text_apart(says("", os.abort), "it", place, target)
    assert lacks in str(died.value) and died.value.location == place


@pytest.mark.parametrize("place", ['loc("a.py":7:2)', "a.py:7:2"])
def test_an_error_that_triton_printed_is_raised_with_its_place(place: str) -> None:
    with pytest.raises(CompileError, match=r"Triton cannot compile it: no room\n  at a\.py:7"):
        compiled_apart(says(f"{place}: error: no room\n", fails), "it")


def test_an_interrupt_ends_the_child_too(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def work() -> str:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        (tmp_path / "child").write_text(str(os.getpid()))
        time.sleep(60)
        return ""

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_apart(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)
