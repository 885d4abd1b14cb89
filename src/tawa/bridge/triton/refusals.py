"""Triton's errors for a kernel that it refuses, with the user's file and line for every call.

Triton's error names only the outermost call, by a line counted from the ``def``; the inner calls are its causes:

```
CompilationError: at 3:35: … helper(x, BM)           Triton cannot compile the kernel shapes: … incompatible dimensions
  from CompilationError: at 2:11: … inner(x, BM)       at kernels.py:40
    from CompilationError: … incompatible dimensions   called at kernels.py:45, in helper: return inner(x, BM)
                                                       called at kernels.py:51, in shapes: …
```
"""

from __future__ import annotations

import ast
import itertools
import linecache
import os
import re
import traceback
from types import ModuleType
from typing import Any

from tawa.bridge.triton.jitted import definition_of, every_jitted, reachable
from tawa.errors import CompileError
from tawa.remarks import SourceLocation

_WRAPPED = re.compile(r"""(?P<kind>\w*(?:Error|Exception))\((?P<quote>['"])(?P<text>.*)(?P=quote)\)$""", re.DOTALL)


def refusal(error: BaseException, kernel: Any) -> CompileError | None:
    """The error for a kernel that Triton refuses; None if `error` does not come from Triton.

    kernel: the `JITFunction` that was compiled, or a text that names it.
    """
    from triton.compiler.errors import CompilationError
    from triton.errors import TritonError

    name = kernel if isinstance(kernel, str) else getattr(kernel, "__name__", "")
    what = f"Triton cannot compile the kernel {name}".rstrip()
    if isinstance(error, CompilationError):
        return _located(what, error, kernel)
    if isinstance(error, TritonError) or _raised_by_triton(error):
        return CompileError(f"{what}: {type(error).__name__}: {error}")
    return None


def _located(what: str, outermost: Any, kernel: Any) -> CompileError:
    """The innermost message with its location, and the calls that lead there."""
    from triton.compiler.errors import CompilationError

    chain = [outermost]
    while isinstance(cause := chain[-1].__cause__, CompilationError):
        chain.append(cause)
    places = [_place(it, kernel) for it in chain]
    last = chain[-1]
    said = last.error_message or (str(last.__cause__) if last.__cause__ else "it gives no reason")
    function = places[-1][1]
    inside = f"in {function}: " if len(places) > 1 else ""
    while len(places) > 1 and _is_tritons(places[-1][0]):
        places.pop()  # leaves the user's own line, which calls tl.zeros for instance
    place = places[-1][0]
    calls = [call for call, _ in itertools.groupby(_call(*it) for it in reversed(places[:-1]))]
    if place is None:  # a function without a file: Triton's own excerpt is all there is
        return CompileError(f"{what}: {inside}{_unwrapped(said)}\n{last}", None, calls)
    return CompileError(f"{what}: {inside}{_unwrapped(said)}", place, calls)


def _is_tritons(place: SourceLocation | None) -> bool:
    import triton

    return place is not None and _is_part_of(triton, place.file)


def _unwrapped(said: str) -> str:
    """``ValueError('text')`` as ``ValueError: text``."""
    found = _WRAPPED.match(said.strip())
    if found is None:
        return said.strip()
    try:
        text = ast.literal_eval(f"{found['quote']}{found['text']}{found['quote']}")
    except (SyntaxError, ValueError):
        return said.strip()
    return f"{found['kind']}: {text}"


def _call(place: SourceLocation | None, function: str) -> str:
    if place is None:
        return f"{function}, a function without a file"
    source = linecache.getline(place.file, place.line).strip()
    return f"{place}, in {function}: {source}"


def _place(error: Any, kernel: Any) -> tuple[SourceLocation | None, str]:
    """The location of an error's node in the user's file, and the name of the function around it."""
    function = _function_of(error.src, kernel)
    if function is not None and error.node is not None and not _holds(function, error.node):
        # Where a function without inlining is called with a tile, Triton's error has the callee's source, but the call.
        function = next((it for it in reachable([kernel]) if _holds(it, error.node)), None)
    line = getattr(error.node, "lineno", None)
    if function is None or line is None:
        found = re.search(r"def\s+(\w+)", error.src or "")
        return None, found[1] if found else "?"
    file = function.fn.__code__.co_filename
    first, indent = definition_of(function)
    return SourceLocation(file, first + line - 1, indent + getattr(error.node, "col_offset", 0)), function.__name__


def _holds(function: Any, node: ast.AST) -> bool:
    """Whether a node is one of a function's source."""

    def place(it: ast.AST) -> tuple[str, int, int]:
        return type(it).__name__, getattr(it, "lineno", 0), getattr(it, "col_offset", 0)

    wanted = ast.dump(node)
    return any(place(it) == place(node) and ast.dump(it) == wanted for it in ast.walk(ast.parse(function.src)))


def _function_of(source: str | None, kernel: Any) -> Any | None:
    """The function that has this source: the kernel, one that it can reach, or any that was jitted."""
    known = itertools.chain(reachable([kernel]), every_jitted())
    return next((it for it in known if it.src == source), None)


def _raised_by_triton(error: BaseException) -> bool:
    """Whether the innermost frame that is Triton's or ours is Triton's."""
    import triton

    import tawa

    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if _is_part_of(triton, file):
            return True
        if _is_part_of(tawa, file):
            return False
    return False


def _is_part_of(package: ModuleType, file: str) -> bool:
    return file.startswith(os.path.dirname(str(package.__file__)) + os.sep)
