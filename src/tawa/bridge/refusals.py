"""What Triton says of a kernel that it does not compile, with the user's file and line at every call.

Triton's error names the outermost call only, as a line counted from the ``def``; each inner one is its cause:

```
CompilationError: at 3:35: … helper(x, BM)           Triton cannot compile the kernel shapes: … incompatible dimensions
  from CompilationError: at 2:11: … inner(x, BM)       at kernels.py:40
    from CompilationError: … incompatible dimensions   called at kernels.py:45, in helper: return inner(x, BM)
                                                       called at kernels.py:51, in shapes: …
```
"""

from __future__ import annotations

import ast
import gc
import linecache
import os
import re
import traceback
from typing import Any

from tawa.errors import CompileError
from tawa.remarks import SourceLocation

_WRAPPED = re.compile(r"""(?P<kind>\w*(?:Error|Exception))\((?P<quote>['"])(?P<text>.*)(?P=quote)\)$""", re.DOTALL)


def refusal(error: BaseException, kernel: Any) -> CompileError | None:
    """The error for a kernel that Triton refuses; None where `error` does not come out of Triton.

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
    """The innermost message at its place, and the calls that lead there."""
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
        places.pop()  # the user's line is the one that calls tl.zeros, not one of Triton's own
    place = places[-1][0]
    calls = [_call(*it) for it in reversed(places[:-1])]
    if place is None:  # a function without a file: Triton's own excerpt is all there is
        return CompileError(f"{what}: {inside}{_unwrapped(said)}\n{last}", None, calls)
    return CompileError(f"{what}: {inside}{_unwrapped(said)}", place, calls)


def _is_tritons(place: SourceLocation | None) -> bool:
    import triton

    return place is not None and place.file.startswith(os.path.dirname(triton.__file__) + os.sep)


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
    """Where an error's node stands in the user's file, and the name of the function around it."""
    function = _function_of(error.src, kernel)
    line = getattr(error.node, "lineno", None)
    if function is None or line is None:
        found = re.search(r"def\s+(\w+)", error.src or "")
        return None, found[1] if found else "?"
    file = function.fn.__code__.co_filename
    first, indent = _start(function)
    return SourceLocation(file, first + line - 1, indent + error.node.col_offset), function.__name__


def _start(function: Any) -> tuple[int, int]:
    """The line of the ``def`` and its indent: the source that Triton parses has neither decorators nor indent."""
    for number, text in enumerate(function.raw_src):
        if found := re.match(r"(\s*)def\s", text):
            return function.starting_line_number + number, len(found[1])
    return function.starting_line_number, 0


def _function_of(source: str | None, kernel: Any) -> Any | None:
    """The function that has this source: the kernel, one that it can reach, or any that was jitted."""
    from triton.runtime.jit import JITCallable

    seen: set[int] = set()
    waiting = [kernel] if isinstance(kernel, JITCallable) else []
    while waiting:
        function = waiting.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        if function.src == source:
            return function
        waiting += _called(function)
    return next((it for it in gc.get_objects() if isinstance(it, JITCallable) and it.src == source), None)


def _called(function: Any) -> list[Any]:
    """The jitted functions that a function names, in order."""
    from triton.runtime.jit import JITCallable

    scope = function.get_capture_scope()
    found: list[Any] = []
    for node in ast.walk(function.parse()):
        value: Any = None
        if isinstance(node, ast.Name):
            value = scope.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = getattr(scope.get(node.value.id), node.attr, None)
        if isinstance(value, JITCallable):
            found.append(value)
    return found


def _raised_by_triton(error: BaseException) -> bool:
    """Whether the innermost frame that is Triton's or ours is Triton's."""
    import triton

    import tawa

    roots = {"triton": os.path.dirname(triton.__file__), "tawa": os.path.dirname(tawa.__file__)}
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        for name, root in roots.items():
            if file.startswith(root + os.sep):
                return name == "triton"
    return False
