"""What the tests of interpreted launches read: how each case went, each a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def report(group: str, name: str, run: Callable[..., Any], *arguments: Any) -> None:
    """Runs a case; prints its group, its name, and what went wrong: empty if nothing. Tests of these names read it."""
    try:
        run(*arguments)
        failure = ""
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    print(json.dumps([group, name, failure]), flush=True)
