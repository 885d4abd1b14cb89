"""Work of Triton in a process of its own, where an abort of MLIR or LLVM ends that process alone.

Triton's parser and passes end the process for some inputs: an attribute of the wrong kind in a text, a Gluon kernel for
another GPU. Python cannot catch that, so what others wrote is read and compiled in a forked process first. A fork takes
some milliseconds, because Triton is loaded already.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from tawa.errors import CompileError
from tawa.machine.machines import MACHINES, SM_90, Machine
from tawa.remarks import SourceLocation

_CAUSE = re.compile(r"(?:LLVM ERROR: |Assertion `).*")
_DIAGNOSTIC = re.compile(r'^(?:loc\("([^"]+)":|([^\s:]+):)(\d+):\d+\)?: error: (.*)', re.MULTILINE)
_RETURNED, _RAISED = 0, 86


@dataclass(frozen=True, slots=True)
class Fate:
    """How the work ended. text: what it returned; None if it raised an exception, or its process died.

    died: how the process ended, with what Triton said of it; empty if it did not die. said: what is on its stderr.
    """

    text: str | None
    died: str
    said: str

    @property
    def diagnostic(self) -> tuple[str, SourceLocation | None]:
        """Triton's first error, and where it is; empty if it printed none."""
        found = _DIAGNOSTIC.search(self.said)
        return (found[4], SourceLocation(found[1] or found[2], int(found[3]))) if found else ("", None)


def run_apart(work: Callable[[], str]) -> Fate:
    """Does the work in a child process. What it prints to stdout appears if it returns."""
    with _memory() as result, _memory() as out, _memory() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns of threads that may hold locks. Those of MLIR wait for work and hold none.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _work_as_child(work, result, out, err)
        try:
            _, status = os.waitpid(child, 0)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        text, printed, said = map(_written, (result, out, err))
    code = os.waitstatus_to_exitcode(status)
    if code == _RETURNED:
        sys.stdout.write(printed)
        return Fate(text, "", said)
    return Fate(None, "" if code == _RAISED else _death(code, said), said)


def compiled_apart(
    compile_it: Callable[[], Any], what: str, location: SourceLocation | None = None, target: Machine = SM_90
) -> Any:
    """Compiles a kernel in a child process, and then in this one, which finds it in Triton's cache.

    what: names the kernel. Raises what `compile_it` raises, and CompileError if Triton ended the child.
    """
    _done_apart(lambda: str(compile_it() and ""), what, location, target)
    return compile_it()


def text_apart(work: Callable[[], str], what: str, location: SourceLocation | None, target: Machine) -> str:
    """The text that work on a kernel makes in a child process, and not in this one; raises as `compiled_apart` does."""
    text = _done_apart(work, what, location, target)
    return text if text is not None else work()  # raises in this process


def _done_apart(work: Callable[[], str], what: str, location: SourceLocation | None, target: Machine) -> str | None:
    """What the work returns in a child process; None if it raises an exception. Raises CompileError."""
    fate = run_apart(work)
    reason, place = fate.diagnostic
    if fate.died:
        others = " or ".join(it.own for it in MACHINES if it != target)
        cure = f"leave out what {target} does not have, such as {others}, and check inline assembly"
        raise CompileError(
            f"Triton cannot compile {what}: it ends the process ({fate.died}). Cure: {cure}", place or location
        )
    if fate.text is None and reason:
        raise CompileError(f"Triton cannot compile {what}: {reason}", place)
    if fate.text is not None:
        sys.stderr.write(fate.said)
    return fate.text


def _work_as_child(work: Callable[[], str], result: IO[bytes], out: IO[bytes], err: IO[bytes]) -> NoReturn:
    code = _RAISED
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        result.write(work().encode())
        result.flush()
        sys.stdout.flush()
        code = _RETURNED
    finally:
        os._exit(code)  # an exception goes no further: the parent meets it again, or has what is on stderr


def _memory() -> IO[bytes]:
    """A file in memory, which a child process shares."""
    return open(os.memfd_create("tawa"), "w+b")


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _death(code: int, said: str) -> str:
    by = signal.Signals(-code).name if code < 0 else f"status {code}"
    found = _CAUSE.search(said)
    return f"{by}: {found[0].strip()}" if found else by
