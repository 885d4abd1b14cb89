"""What of many cases a change runs; `make nightly` runs all of them, with ``TEST_EVERY_CASE=1``.

A change runs a sample of the cases that compile or simulate a kernel each, one in six of the random examples, and a
part of the mutants. The benches run the whole matrix on a GPU.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

import pytest

T = TypeVar("T")
EVERY_CASE = bool(os.environ.get("TEST_EVERY_CASE"))
RANDOM_STEP = 6
"""One random example in so many is tried for a change."""
_MAIN_TRITON = "3.6"


def sample(cases: Iterable[T], step: int) -> list[T]:
    """Every `step`-th case, starting with the first; a third of those on releases other than Triton 3.6."""
    return list(cases) if EVERY_CASE else list(cases)[:: step * (1 if _main_triton() else 3)]


def seeds(count: int) -> range:
    """The random seeds of a test, of `count`."""
    return range(0, count, 1 if EVERY_CASE else RANDOM_STEP)


def examples(count: int) -> int:
    """How many random examples of a property are tried, of `count`: the first is always the smallest one."""
    return count if EVERY_CASE else 1 + len(seeds(count))


@functools.cache
def _main_triton() -> bool:
    try:
        return version("triton").startswith(_MAIN_TRITON)
    except PackageNotFoundError:
        return True


simulated_once = pytest.mark.skipif(not _main_triton(), reason="simulated with Triton 3.6's layouts")
"""Marks simulations that run on one release: programs differ little between releases, which compile tests cover."""
