"""Remarks: what a pass or the planner wants the user to know, with the place and the cure.

A remark is the only way in which a pass reports. It never raises on what a user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RemarkKind = Literal["applied", "declined", "done", "note"]
"""applied, declined: the headline. done: what was changed, or will be at launches; left out for a declined kernel."""


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
    """One finding. `reason` says what, with values; `cure` says what the user can change."""

    kind: RemarkKind
    reason: str
    location: SourceLocation | None = None
    cure: str = ""

    def __str__(self) -> str:
        where = f"\n  at {self.location}" if self.location else ""
        cure = f"\n  cure: {self.cure}" if self.cure else ""
        return f"{self.reason}{where}{cure}"
