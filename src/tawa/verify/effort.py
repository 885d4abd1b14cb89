"""How hard a check tries: `fast` is made for every compile (milliseconds), `full` for people who ask (seconds)."""

from __future__ import annotations

from typing import Literal

Effort = Literal["fast", "full"]
Verification = Literal["off", "fast", "full"]
"""What a compile does: nothing, or a check of that effort."""
