"""`Specimen`: a `tawa.runtime.case.Case` with what Tawa must make of it and what it must compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tawa.runtime.case import Absent, Argument, Case, Descriptor, Grid, Number, One, Pointer, Size, Tensor

__all__ = [
    "Absent",
    "Argument",
    "Case",
    "Descriptor",
    "Expectation",
    "Grid",
    "Number",
    "One",
    "Pointer",
    "Size",
    "Specimen",
    "Tensor",
    "Verdict",
]

Verdict = Literal["specialised", "declined", "either"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What Tawa must make of a case.

    verdict: "specialised", "declined" (byte for byte stock, with `reason` in the remark), or "either" (both are right).
    payloads: how many tensors each ring carries, in program order.
    sites: places in the program where a ring is written (and read); consecutive sites may share a ring.
    dots: dots of one iteration, by loop: ``(1,)`` one loop with one dot, ``(2,)`` gate and up, ``(1, 1)`` two loops.
    in_flight: whether wgmmas may stay in flight across iterations; otherwise P is 0 even if another P was asked for.
    copied: sites whose slots are read into registers only, and released at once.
    """

    verdict: Verdict
    reason: str = ""
    payloads: tuple[int, ...] = (2,)
    sites: int = 1
    dots: tuple[int, ...] = (1,)
    in_flight: bool = True
    copied: int = 0

    def releases(self, mma_depth: int) -> int:
        """The number of `aref.consumed` in the program: in the loop, and after it for each wgmma in flight."""
        return self.sites + (self.sites - self.copied) * mma_depth * self.in_flight

    def waits(self, mma_depth: int) -> list[int]:
        """The `pendings` of the wgmma waits, smallest first.

        One wait per loop, and one with 0 after the loop if any wgmma stays in flight; one wait per dot if dots may not
        overlap.
        """
        if not self.in_flight:
            return [0] * sum(self.dots)
        if mma_depth == 0:
            return [0] * len(self.dots)
        return sorted(pendings for dots in self.dots for pendings in (0, dots * mma_depth))


@dataclass(frozen=True, slots=True)
class Specimen(Case):
    """A case of the tests.

    reference: names the function of the references that computes its outputs; empty if none does. plans: the (D, P) it
    is run with. tags: properties that tests select by.
    """

    reference: str
    expect: Expectation
    plans: tuple[tuple[int, int], ...] = ((3, 1),)
    tags: frozenset[str] = field(default_factory=frozenset[str])
