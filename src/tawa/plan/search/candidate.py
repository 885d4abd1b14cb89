"""What a search tries, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tawa.plan.plan import Plan
from tawa.plan.thresholds import CLEAR

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Plan to try.

    plan: partial; ``form="stock"`` for stock Triton's kernel. predicted_us: the expected time of a launch, if known.
    words: the decisions that tell it from the others, for people. why: the reasons of fields that feedback decided.
    """

    plan: Plan
    predicted_us: float | None = None
    words: str = ""
    why: dict[str, str] = field(default_factory=dict[str, str], compare=False)

    def with_(self, plan: Plan, pins: Plan, **why: str) -> Candidate:
        """This candidate with more fields decided; fields that the user pinned do not change."""
        return Candidate(pins.over(plan.over(self.plan)), why={**self.why, **why})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"plan": self.plan.to_dict(), "predicted_us": self.predicted_us, "words": self.words}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a search may spend. most: candidates. seconds: for all of them. None: any. least: tried in any case."""

    most: int | None = None
    seconds: float | None = None
    least: int = 1

    def is_spent(self, tried: int, seconds: float = 0.0) -> bool:
        """Whether no further candidate may be tried. tried: candidates. seconds: that they took, with the next one."""
        if tried < self.least:
            return False
        return (self.most is not None and tried >= self.most) or (self.seconds is not None and seconds > self.seconds)

    def of(self, candidates: Sequence[_T]) -> Sequence[_T]:
        """The candidates that may be tried. Best first."""
        return candidates[: self.most]


def clearly_fastest(candidates: Iterable[_T], time: Callable[[_T], float]) -> _T:
    """The first candidate that none is clearly faster than: candidates stand in the order of preference."""
    times = [(time(it), it) for it in candidates]
    least = min(time for time, _ in times)
    return next(it for time, it in times if time <= CLEAR * least)
