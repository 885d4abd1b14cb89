"""The jitted functions that a kernel may call, and where each is defined."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tawa.remarks import SourceLocation


def definition_of(function: Any) -> tuple[int, int]:
    """The line of a jitted function's ``def`` in its file, below its decorators, and its indent.

    Triton parses the source from the ``def`` on, without the indent, and counts lines and columns from there.
    """
    for number, text in enumerate(function.raw_src):
        if found := re.match(r"(\s*)def\s", text):
            return function.starting_line_number + number, len(found[1])
    return function.starting_line_number, 0


def named(kernel: Any) -> tuple[str, SourceLocation]:
    """A jitted function in messages, and where it is defined."""
    return f"the kernel {kernel.__name__}", SourceLocation(kernel.fn.__code__.co_filename, definition_of(kernel)[0])


def every_jitted() -> Iterator[Any]:
    """The jitted functions of this process; some come twice."""
    from triton.runtime.jit import JITCallable

    modules = [vars(it) for it in list(sys.modules.values()) if isinstance(it, ModuleType)]
    # Servers freeze what they have loaded (`gc.freeze`): the garbage collector does not list it any more.
    for found in (gc.get_objects(), *(list(it.values()) for it in modules)):
        yield from (it for it in found if issubclass(type(it), JITCallable))


def is_gluon(kernel: Any) -> bool:
    """Whether a kernel is written in Gluon, which assigns work to warps explicitly."""
    return bool(getattr(kernel, "is_gluon", bool)())


def default_constants(kernel: Any, num_warps: int) -> dict[str, Any]:
    """Default values of the constexpr parameters, and the number of warps for a Gluon kernel that has it as one."""
    found = {it.name: it.default for it in kernel.params if it.is_constexpr and it.has_default}
    if is_gluon(kernel) and "num_warps" in kernel.arg_names:  # Triton passes the option to a parameter of this name
        found["num_warps"] = num_warps
    return found


def reachable(values: Iterable[Any]) -> Iterator[Any]:
    """The jitted functions among the values, and all that these may call, transitively; Triton's own are left out.

    Names are looked up in everything that a function can see. The result may have a function too many, never one less.
    """
    from triton.runtime.jit import JITCallable

    found = list(values)
    seen: set[int] = set()
    while found:
        value = found.pop(0)
        if isinstance(value, tuple):
            found += value
            continue
        written = isinstance(value, JITCallable) and isinstance(getattr(value, "fn", None), FunctionType)
        if id(value) in seen or not written:
            continue
        seen.add(id(value))
        if not str(getattr(value, "__module__", "")).startswith("triton."):
            yield value
            found += _visible_to(value)


def _visible_to(function: Any) -> list[Any]:
    """What the names in a function's code may refer to: globals, closure variables, and members of both."""
    names, scope = set(_names(function.fn.__code__)), function.fn.__globals__
    values = [scope[name] for name in names if name in scope]
    values += [cell.cell_contents for cell in function.fn.__closure__ or () if _is_filled(cell)]
    values += function.fn.__defaults__ or ()
    for value in values:  # the list grows: a member may have members
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
