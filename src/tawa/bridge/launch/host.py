"""What a launcher needs of the process around it, and what this package cannot provide without importing PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["stock", "tawa"]
"""Which of two kernels: stock Triton's, or the specialised one."""

Allocate = Callable[[int, int, int | None], Any]
"""Bytes, alignment, stream → scratch memory with a ``data_ptr()``."""

Benchmark = Callable[[str, str, Callable[[], None], Callable[[], None]], Form | None]
"""Key, name, launch of the stock kernel, launch of the specialised one → the faster; None: not now."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Host:
    """The services of a process; handed on with the request that a kernel is compiled under.

    allocate: scratch memory for launches without a Triton allocator of the user's; None: no such memory.
    benchmark: times both kernels for ``mode="measure"``; None: the specialised kernel is launched untimed.
    capturing: whether launches are being captured, as into a CUDA graph. Then nothing is compiled, loaded or timed.
    """

    allocate: Allocate | None = None
    benchmark: Benchmark | None = None
    capturing: Callable[[], bool] = _never


NO_HOST = Host()
