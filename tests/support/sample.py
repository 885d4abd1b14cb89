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
_MAIN = 6
"""The minor version of the Triton that all tests run on."""


def sample(cases: Iterable[T], step: int) -> list[T]:
    """Every `step`-th case, starting with the first; on each release other than Triton 3.6 another third of those."""
    every = list(cases)
    chosen = every if EVERY_CASE else every[::step]
    return chosen if EVERY_CASE or _main_triton() else chosen[_minor() % 3 :: 3] or chosen[:1]


def seeds(count: int) -> range:
    """The random seeds of a test, of `count`."""
    return range(0, count, 1 if EVERY_CASE else RANDOM_STEP)


def examples(count: int) -> int:
    """How many random examples of a property are tried, of `count`: the first is always the smallest one."""
    return count if EVERY_CASE else 1 + len(seeds(count))


@functools.cache
def _minor() -> int:
    """9 for Triton 3.9."""
    try:
        return int(version("triton").split(".")[1])
    except PackageNotFoundError:
        return _MAIN


def _main_triton() -> bool:
    return _minor() == _MAIN


simulated_once = pytest.mark.skipif(not _main_triton(), reason="simulated with Triton 3.6's layouts")
"""Marks simulations that run on one release: programs differ little between releases, which compile tests cover."""
