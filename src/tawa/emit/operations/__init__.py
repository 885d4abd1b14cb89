"""Writers of the operations that only some kernels have."""

from __future__ import annotations

from tawa.emit.body import Writer
from tawa.emit.operations import combine, copies, effects, functions

WRITERS: dict[str, Writer] = {**combine.WRITERS, **copies.WRITERS, **effects.WRITERS, **functions.WRITERS}

__all__ = ["WRITERS"]
