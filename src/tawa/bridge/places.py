"""Where a kernel and its helpers stand: part of the key on disk, since a compile writes it into what it leaves there.

Triton keys a kernel by its source. Two equal files would share one entry, whose remarks, levels and line table name
the file that was compiled first, be it deleted since; so would one file before and after its decorators grew by a
line. Places of files that are no files (cells of a notebook, which get another name in each session) are left out:
there is nothing to open, and each session would compile anew.

Code that ``torch.compile`` generates needs no exception: Inductor names such a file by a hash of what is in it, in the
folder in which Triton's cache lies too, so a new place goes with an empty cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import takewhile
from types import CodeType, FunctionType, ModuleType
from typing import Any


def places_key(source: Any) -> str:
    """Text for Triton's key on disk. source: what is compiled, Triton's `ASTSource` or `IRSource`."""
    places = sorted(set(_places(source)))
    return f"-at:{hashlib.sha256(repr(places).encode()).hexdigest()}" if places else ""


def _places(source: Any) -> Iterator[tuple[str, int]]:
    """File and line of each function that is compiled; the file of a kernel that is read from IR."""
    path = getattr(source, "path", None)
    if path is not None:
        yield str(path), 0
    for function in _functions(source):
        file = function.fn.__code__.co_filename
        if os.path.isfile(file):
            yield file, _first_line(function)


def _first_line(function: Any) -> int:
    """Of its ``def``, from which Triton counts the lines of its operations: decorators stand above it."""
    above = takewhile(lambda line: not line.lstrip().startswith("def "), function.raw_src)
    return function.starting_line_number + sum(1 for _ in above)


def _functions(source: Any) -> Iterator[Any]:
    """The kernel, the functions that it may call, those that these may call, and so on; Triton's own left out.

    Names are looked up in whatever a function can see, so that there may be one too many, never one too few.
    """
    from triton.runtime.jit import JITCallable

    constants: Any = getattr(source, "constants", {})
    found = [getattr(source, "fn", None), *constants.values()]
    seen: set[int] = set()
    while found:
        value = found.pop()
        if isinstance(value, tuple):
            found += value
            continue
        written = isinstance(value, JITCallable) and isinstance(getattr(value, "fn", None), FunctionType)
        if id(value) in seen or not written:
            continue
        seen.add(id(value))
        if not str(getattr(value, "__module__", "")).startswith("triton."):
            yield value
            found += _seen_by(value)


def _seen_by(function: Any) -> list[Any]:
    """What the names in a function's code may stand for: globals, what it closes over, and members of both."""
    names, scope = set(_names(function.fn.__code__)), function.fn.__globals__
    values = [scope[name] for name in names if name in scope]
    values += [cell.cell_contents for cell in function.fn.__closure__ or () if _is_filled(cell)]
    values += function.fn.__defaults__ or ()
    for value in values:  # it grows: a member of a member
        if isinstance(value, (ModuleType, type)):
            members = vars(value)
            fresh = [members[name] for name in names if name in members]
            values += [it for it in fresh if not any(it is known for known in values)]
    return values


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
