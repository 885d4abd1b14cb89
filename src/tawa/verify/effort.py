"""The effort of a check: `fast` runs in every compile (milliseconds), `full` on request (seconds)."""

from __future__ import annotations

from typing import Literal

Effort = Literal["fast", "full"]
Verification = Literal["off", "fast", "full"]
"""The checks of a compile: none, or checks of that effort."""
