"""What a launcher needs of the process around it, and what this package cannot provide without importing PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tawa.plan import Plan

Allocate = Callable[[int, int, int | None], Any]
"""Bytes, alignment, stream → scratch memory with a ``data_ptr()``."""

Prepare = Callable[[Plan], Callable[[], None] | str]
"""From a Plan, one launch by it, compiled and loaded. A text is the reason that there is none."""


class Choices(Protocol):
    """Which Plan the launches of one kernel get, according to measurements."""

    arguments: frozenset[int]
    """The arguments of the kernel's function that the choice depends on, beside the grid."""

    def lookup(self, values: Sequence[Any], grid: Sequence[int]) -> Plan | None:
        """The Plan of such a launch; None if it was never measured. values: of the function's arguments."""
        ...

    def measure(self, values: Sequence[Any], grid: Sequence[int], args: Sequence[Any], prepare: Prepare) -> Plan | None:
        """Measures Plans for such a launch; None if it must not be measured, or not now. args: of the launch."""
        ...

    def remarks(self) -> tuple[str, ...]:
        """What was measured, for people."""
        ...


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Host:
    """The services of a process; handed on with the request that a kernel is compiled under.

    allocate: scratch memory for launches without a Triton allocator of the user's; None: no such memory.
    choices: for a compiled kernel, how its launches are chosen by measurement; None (also as a result): they are not.
    reproducer_dir: as in the request, for what is compiled at launches.
    capturing: whether launches are being captured, as into a CUDA graph. Then nothing is compiled, loaded or timed.
    """

    allocate: Allocate | None = None
    choices: Callable[[Any], Choices | None] | None = None
    capturing: Callable[[], bool] = _never
    reproducer_dir: Path | None = None


NO_HOST = Host()
