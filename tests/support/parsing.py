"""`ast.parse` that threads may call at once, for the Pythons where it fails.

Triton parses each kernel, in whatever thread compiles it; what fails is told in `tawa.runtime.pytorch.inductor`.
"""

from __future__ import annotations

import ast
import functools
import gc
import threading
from typing import Any

from tawa.runtime.pytorch.inductor import parser_fails_in_threads

_ONE_AT_A_TIME = threading.Lock()
_parse = ast.parse


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
    if parser_fails_in_threads():
        ast.parse = _parse_alone
