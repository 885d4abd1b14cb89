"""Remarks: messages of passes and of the planner to the user, with a location and a cure.

Passes report only through remarks. They never raise because of what a user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RemarkKind = Literal["applied", "declined", "done", "note"]
"""applied, declined: the result. done: a change, now or at launch; omitted for a declined kernel. note: the rest."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's kernel."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Remark:
    """One message. reason: the finding, with values. cure: what the user can change."""

    kind: RemarkKind
    reason: str
    location: SourceLocation | None = None
    cure: str = ""

    def __str__(self) -> str:
        where = f"\n  at {self.location}" if self.location else ""
        cure = f"\n  cure: {self.cure}" if self.cure else ""
        return f"{self.reason}{where}{cure}"
