"""Warnings: each points at the user's line, the nearest one that is neither Tawa's nor Triton's."""

from __future__ import annotations

import logging
import sys
import warnings

_log = logging.getLogger("tawa")

_NOT_THE_USERS = frozenset({"tawa", "triton", "contextlib", "functools"})
"""Packages through which a call of the user reaches a warning."""


def warn_user(text: str) -> None:
    """Warns of something that the user can change, with `RuntimeWarning`.

    ``python -W error`` must not fail a launch that did not ask for Tawa: there it is logged.
    """
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=_level_of_user())
    except RuntimeWarning:
        _log.warning(text)


def _level_of_user() -> int:
    """The stack level of the user's line for a warning of the caller; the outermost one if all lines are ours."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        level, frame = level + 1, frame.f_back
    return level
