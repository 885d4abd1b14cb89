"""Lets a process learn which kernel is the fastest, before it is measured. Needs a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MOST = 200
"""Calls after which a step that is not decided yet stays as it is."""
WITHOUT_WARMUP = 120


def learn(step: Callable[[], Any]) -> int:
    """Calls a step until all that it launches is compiled, and has learned. Returns the number of calls."""
    import tawa

    warm_up: Any = getattr(tawa, "warmup", None)
    if warm_up is not None:
        return warm_up(step, MOST)
    for _ in range(WITHOUT_WARMUP):
        step()
        tawa.wait()
    return WITHOUT_WARMUP


@contextmanager
def tables_in(folder: str) -> Iterator[None]:
    """In the block, what is learned or tuned is stored in a folder, and only what is stored there is found."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
