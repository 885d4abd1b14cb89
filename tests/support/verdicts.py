"""Verdicts that tests accept where a check of some runs is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.verify.verdict import Checked, Proved, Verdict


def passes(verdict: Verdict | Mapping[str, Any] | str | None) -> bool:
    """Whether no fault was found, in all runs or in those that were tried. verdict: also as JSON data, or as text."""
    if isinstance(verdict, str):
        return verdict.startswith(("proved", "checked"))
    if isinstance(verdict, Mapping):
        return passes(verdict["verdict"])
    return isinstance(verdict, Proved | Checked)


def credits_proved(verdict: Verdict | Mapping[str, Any] | None) -> bool:
    """Whether a combined verdict passes, and the aref level is proved: what is only checked is named in the bound."""
    return passes(verdict) and "credits: " not in str(verdict)
