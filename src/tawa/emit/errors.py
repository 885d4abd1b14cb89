"""The refusal of a kernel that cannot be written in Gluon."""

from __future__ import annotations

from tawa.errors import EmitError
from tawa.remarks import SourceLocation


def cannot_say(what: str, location: SourceLocation | None = None) -> EmitError:
    """The error for something that Gluon has no word for."""
    place = f"\n  at {location}" if location else ""
    return EmitError(f"the kernel cannot be written in Gluon: {what} has no counterpart there{place}")
