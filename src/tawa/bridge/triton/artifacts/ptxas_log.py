"""The log of the ptxas that Triton runs. Triton asks for a verbose one and discards it.

Triton's back end looks up the module `subprocess` by name. It gets a stand-in that runs the same commands and reads the
file with their messages before Triton removes it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class PtxasLog:
    """The messages of the last ptxas that ran; empty if they were not available."""

    text: str = ""


_wanted: ContextVar[PtxasLog | None] = ContextVar("tawa_ptxas_log", default=None)


class _Listening:
    """The module `subprocess`; its `run` also keeps the log."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        done, log, file = subprocess.run(*args, **kwargs), _wanted.get(), getattr(kwargs.get("stderr"), "name", None)
        if log is not None and isinstance(file, str):
            log.text = Path(file).read_text(errors="replace")
        return done


_LISTENING = _Listening()


@contextmanager
def kept_log() -> Iterator[PtxasLog]:
    """Keeps the messages of ptxas that Triton runs inside the ``with`` block, in this thread."""
    from triton.backends.nvidia import compiler

    if getattr(compiler, "subprocess", None) is subprocess:
        compiler.subprocess = _LISTENING  # permanently: without a reader it behaves as the module itself
    log = PtxasLog()
    token = _wanted.set(log)
    try:
        yield log
    finally:
        _wanted.reset(token)
