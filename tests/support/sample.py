"""Samples of cases for tests that compile each case: the whole matrix takes too long for CI on two cores.

``TEST_EVERY_CASE=1 make test`` takes all. What runs over all of it anyway: the benches, on a GPU.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

import pytest

T = TypeVar("T")
EVERY_CASE = bool(os.environ.get("TEST_EVERY_CASE"))
_MAIN_TRITON = "3.6"


def sample(cases: Sequence[T], step: int) -> list[T]:
    """Every `step`-th case, starting with the first; a third of those on releases other than Triton 3.6."""
    return list(cases) if EVERY_CASE else list(cases[:: step * (1 if _main_triton() else 3)])


@functools.cache
def _main_triton() -> bool:
    try:
        return version("triton").startswith(_MAIN_TRITON)
    except PackageNotFoundError:
        return True


simulated_once = pytest.mark.skipif(not (EVERY_CASE or _main_triton()), reason="simulated with Triton 3.6's layouts")
"""Marks simulations that run on one release: programs differ little between releases, which compile tests cover."""
