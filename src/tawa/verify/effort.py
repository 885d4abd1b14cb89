"""The effort of a check: `fast` runs in every compile (milliseconds), `full` on request (seconds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Effort = Literal["fast", "full"]
Verification = Literal["off", "fast", "full"]
"""The checks of a compile: none, or checks of that effort."""
Told = Callable[[int, int], None]
"""Is told of a check while it runs: how much of its budget is used, and the whole budget."""


def untold(used: int, budget: int) -> None:
    """Ignores the progress."""
