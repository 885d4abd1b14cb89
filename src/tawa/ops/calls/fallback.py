"""Calls that an operator leaves to PyTorch, because it has no kernel for their shapes or layouts."""

from __future__ import annotations

import logging

_log = logging.getLogger("tawa")
_said: set[tuple[str, str]] = set()


def left_to_pytorch(operator: str, reason: str) -> None:
    """Says once, in the log, that PyTorch computes such calls of an operator, and why."""
    if (operator, reason) not in _said:
        _said.add((operator, reason))
        _log.info("%s is left to PyTorch: %s", operator, reason)
