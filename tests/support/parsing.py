"""`ast.parse` that threads may call at once, for the Pythons where it fails.

Up to Python 3.11.7 (and 3.12.1) the parser counts its depth in a place that all threads share: a thread that a garbage
collection lets in while another one builds its tree upsets the count, and `ast.parse` raises `SystemError: AST
constructor recursion depth mismatch` (CPython, gh-106905). Triton parses each kernel, in whatever thread compiles it.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
import threading
from typing import Any

_ONE_AT_A_TIME = threading.Lock()
_parse = ast.parse


def depth_is_shared(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> bool:
    """Whether threads upset each other in the `ast.parse` of this Python."""
    return version < (3, 11, 8) or (3, 12) <= version < (3, 12, 2)


@functools.wraps(ast.parse)
def _parse_alone(*arguments: Any, **keywords: Any) -> ast.AST:
    # Without collections no Python code runs inside the parser, so nothing here waits for the lock it holds.
    with _ONE_AT_A_TIME:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return _parse(*arguments, **keywords)
        finally:
            if collecting:
                gc.enable()


def let_threads_parse() -> None:
    """Replace `ast.parse` in this process where it fails in threads."""
    if depth_is_shared():
        ast.parse = _parse_alone
