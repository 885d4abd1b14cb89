"""Verdicts: the result of a check. Not a bool but one of four: proved, checked, refuted by a witness, or unknown.

A proof picks no number: it holds for every run. A check that only made runs of stated numbers, and found no fault in
them, proves nothing about the others.

A witness is a finite run that violates the protocol: one `Step` per event, in the order of the events. It prints as a
table (time × partition) and exports as a Chrome trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tawa.html import Element, element, notebook_markup, table
from tawa.remarks import SourceLocation

FaultKind = Literal[
    "deadlock",
    "leftover credit",
    "order",
    "write before release",
    "read before write",
    "out of bounds",
    "write-write race",
    "parity alias",
    "phase overrun",
    "arrive count",
    "transaction bytes",
    "missing fence",
    "accumulator in flight",
    "barrier lifecycle",
    "reserved barrier",
    "refinement",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a partition: the action, the ring or barrier with slot and parity, and the source line."""

    partition: str
    action: str
    target: str = ""
    slot: int | None = None
    parity: int | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """A run that violates the protocol: inputs (trip counts and other values) by name, steps, and the violation."""

    kind: FaultKind
    message: str
    inputs: Mapping[str, int]
    steps: tuple[Step, ...]


class _Shown:
    """Shows a verdict in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        assert isinstance(self, Proved | Checked | Refuted | Unknown)
        return notebook_markup(element("div", *_cell(self)))


@dataclass(frozen=True, slots=True)
class Proved(_Shown):
    """All runs are correct: those of all trip counts, arguments and interleavings, under the assumptions."""

    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked(_Shown):
    """Runs of stated numbers are correct; nothing is known of the others.

    bound: which runs these are. left: what was not proved for all runs, and what would make it provable; location: its
    source line.
    """

    bound: str
    left: str
    location: SourceLocation | None = None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuted(_Shown):
    """At least one run violates the protocol: `witness`."""

    witness: Witness
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown(_Shown):
    """The check is inconclusive: `reason` names what is not modelled, or the exhausted budget. Never a success."""

    reason: str
    location: SourceLocation | None = None
    assumptions: tuple[str, ...] = field(default=())


Verdict = Proved | Checked | Refuted | Unknown

Accept = Literal["proved", "checked"]
"""The verdicts that are a success: a proof alone, or a check as well."""

ALL_RUNS = "all trip counts, all arguments, all interleavings"
"""The runs that a proof covers, as text."""


def _cell(verdict: Verdict) -> Iterator[Element]:
    """A verdict for a notebook; the run of a refuted program is folded away."""
    match verdict:
        case Proved():
            yield element("b", f"proved: {ALL_RUNS}")
        case Checked(bound, left):
            yield element("b", f"checked: {bound}")
            yield element("p", f"not proved: {left}")
        case Refuted(witness):
            yield element("b", f"refuted: {witness.kind}")
            yield element("p", witness.message)
            rows = [
                (str(number), it.partition, it.action, _place(it), str(it.location or ""))
                for number, it in enumerate(witness.steps, 1)
            ]
            run = table(("step", "partition", "action", "of", "at"), rows)
            yield element("details", element("summary", f"the run that goes wrong, {len(rows)} steps"), run)
        case Unknown(reason):
            yield element("b", f"unknown: {reason}")
    if verdict.assumptions:
        yield element("p", f"assuming {'; '.join(verdict.assumptions)}")


def _place(step: Step) -> str:
    return step.target + ("" if step.slot is None else f"[{step.slot}]")
