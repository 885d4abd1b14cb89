"""Verdicts: what a check found. Never a bool: a program is proved, refuted by a witness, or the check does not know.

A witness is a finite run that goes wrong, one `Step` an event, in the order in which they happened. It prints as a
table time × partition and saves as a Chrome trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tawa.remarks import SourceLocation

FaultKind = Literal[
    "deadlock",
    "leftover credit",
    "order",
    "write before release",
    "read before write",
    "write-write race",
    "parity alias",
    "phase overrun",
    "arrive count",
    "transaction bytes",
    "missing fence",
    "accumulator in flight",
    "barrier lifecycle",
    "refinement",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One event: which partition did what, to which ring or barrier, slot and parity, at which line."""

    partition: str
    action: str
    target: str = ""
    slot: int | None = None
    parity: int | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """A run that goes wrong: trip counts (and other values) by name, the steps, and what is wrong at the end."""

    kind: FaultKind
    message: str
    inputs: Mapping[str, int]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Proved:
    """Right for all runs within `bound`, in words: "all trip counts" where recurrence makes it so."""

    bound: str
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuted:
    """Wrong, and `witness` shows it."""

    witness: Witness
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """The check cannot tell: `reason` says what it does not understand, or which budget ran out. Never a success."""

    reason: str
    location: SourceLocation | None = None
    assumptions: tuple[str, ...] = field(default=())


Verdict = Proved | Refuted | Unknown
