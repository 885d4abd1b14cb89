"""What the tables of tiles share. Nothing here needs torch."""

from __future__ import annotations

import json
from typing import Any


def blocks(length: int, size: int) -> int:
    """How many blocks of `size` hold `length`."""
    return -(-length // size)


def plan(**fields: Any) -> tuple[str, str]:
    """The launch option of a Plan in part."""
    return "plan", json.dumps(fields)
