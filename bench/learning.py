"""Lets a process learn which kernel is the fastest, before it is measured. Needs a GPU."""

from __future__ import annotations

import os
import tempfile
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
def tables_of_its_own() -> Iterator[None]:
    """What is learned or tuned in the block is not found elsewhere, and nothing that was learned before is found."""
    before = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(prefix="tawa-tables-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = before
