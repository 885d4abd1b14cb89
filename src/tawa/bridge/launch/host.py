"""What a launcher needs of the process around it, and what this package cannot provide without importing PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tawa.plan import Plan
from tawa.plan.search.measured import Prepare, Timed

Allocate = Callable[[int, int, int | None], Any]
"""Bytes, alignment, stream → scratch memory with a ``data_ptr()``."""


class Choices:
    """Which Plan the launches of one kernel get, according to measurements; this one knows nothing.

    arguments: those of the kernel's function that the choice depends on, beside the grid. known: whether an earlier
    measurement prefers a specialised kernel for some launches. tuned: whether the user asked for a measurement.
    """

    arguments: frozenset[int] = frozenset()
    known: bool = False
    tuned: bool = False

    def lookup(self, values: Sequence[Any], grid: Sequence[int]) -> Plan | None:
        """The Plan of such a launch; None if it was never measured. values: of the function's arguments."""
        return None

    def measure(self, values: Sequence[Any], grid: Sequence[int], args: Sequence[Any], prepare: Prepare) -> Plan | None:
        """Measures Plans for such a launch; None if it must not be measured, or not now. args: of the launch."""
        return None

    def class_of(self, values: Sequence[Any], grid: Sequence[int]) -> str:
        """The shape class of such a launch; empty if launches cannot learn."""
        return ""

    def learn(self, name: str, best: Plan, words: str, found: Sequence[Timed]) -> None:
        """Real launches of a shape class have measured Plans; `best` is the fastest."""

    def remarks(self) -> tuple[str, ...]:
        """What was measured, for people."""
        return ()


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Host:
    """The services of a process; handed on with the request that a kernel is compiled under.

    allocate: scratch memory for launches without a Triton allocator of the user's; None: no such memory.
    choices: for a compiled kernel, how its launches are chosen by measurement; None (also as a result): they are not.
    start: as the option of this name, where that is left open.
    reproducer_dir: as in the request, for what is compiled at launches.
    capturing: whether launches are being captured, as into a CUDA graph. Then nothing is compiled, loaded or timed.
    """

    allocate: Allocate | None = None
    choices: Callable[[Any], Choices | None] | None = None
    capturing: Callable[[], bool] = _never
    start: Literal["stock", "ready"] = "ready"
    reproducer_dir: Path | None = None


NO_HOST = Host()
