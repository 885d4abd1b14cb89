"""A thread-safe `ast.parse` for Python versions where it is not.

Triton parses each kernel in the thread that compiles it; `tawa.bridge.launch.first.background` describes the failure.
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
    # Without garbage collection no Python code runs inside the parser, so no thread can deadlock on its lock.
    with _ONE_AT_A_TIME:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return _parse(*arguments, **keywords)
        finally:
            if collecting:
                gc.enable()


def let_threads_parse() -> None:
    """Replaces `ast.parse` in this process if it is not thread-safe."""
    if parser_fails_in_threads():
        ast.parse = _parse_alone
