"""Maps the location text of an operation to a line of the user's kernel.

Triton nests locations: a name around a place (``loc("acc"(#loc7))``), a call site around a callee (an inlined helper)
and its caller. The outermost caller is the line in the user's kernel.
"""

from __future__ import annotations

import re

from tawa.ir.core import Module, Operation
from tawa.ir.text import match_bracket, split_top_level
from tawa.remarks import SourceLocation

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to .*)?')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)', re.DOTALL)


def source_of(module: Module, op: Operation) -> SourceLocation | None:
    """The source location of `op`; None if unknown.

    An operation without a location (a constant that Triton folded) gets the one of the enclosing operation.
    """
    outers = list(op.ancestors())
    kernel = next((resolve(module, outer.loc) for outer in outers if outer.name == "tt.func"), None)
    for it in (op, *outers):
        place = resolve(module, it.loc, kernel)
        if place is not None:
            return place
    return None


def resolve(module: Module, loc: str, kernel: SourceLocation | None = None) -> SourceLocation | None:
    """Reads a location text, following aliases, names, call sites and fusions.

    Of a call, the place of the caller counts; but not that of the `kernel` as a whole, where partitions in Gluon are
    called.
    """
    for _ in range(32):
        loc = loc.strip()
        if loc.startswith("#"):
            loc = module.locs.get(loc, "unknown")
        if loc.startswith("loc(") and match_bracket(loc, 3) == len(loc):
            loc = loc[4:-1]
        elif loc.startswith("callsite("):
            callee, _, caller = loc[9:-1].rpartition(" at ")
            place = resolve(module, caller, kernel)
            if place is not None and place != kernel:
                return place
            loc = caller if kernel is None else callee
        elif loc.startswith("fused"):
            parts = split_top_level(loc[loc.index("[") + 1 : loc.rindex("]")])
            places = [place for part in parts if (place := resolve(module, part, kernel))]
            return places[0] if places else None
        elif found := _FILE.fullmatch(loc):
            file, line, column = found.groups()
            return SourceLocation(file, int(line), int(column))
        elif named := _NAMED.fullmatch(loc):
            loc = named.group(1)
        elif not loc.startswith("#"):
            return None
    return None


_LIBRARIES = ("/triton/language/", "/triton/experimental/", "/tawa/rings/")


def user_frames(module: Module, op: Operation) -> list[SourceLocation]:
    """As `frames_of`, without the functions of Triton's language and of `tawa.rings`."""
    return [it for it in frames_of(module, op) if not any(library in it.file for library in _LIBRARIES)]


def written_at(module: Module, op: Operation) -> SourceLocation | None:
    """Where the user wrote an operation: in the innermost function that is not of a library. None if unknown.

    `source_of` is the line of the kernel that leads there.
    """
    return next(iter(user_frames(module, op)), None) or source_of(module, op)


def frames_of(module: Module, op: Operation) -> list[SourceLocation]:
    """The places that an operation comes from: of the innermost function that was inlined first, the kernel's last."""
    return _frames(module, op.loc)


def _frames(module: Module, loc: str, depth: int = 32) -> list[SourceLocation]:
    loc = loc.strip()
    if loc.startswith("#"):
        loc = module.locs.get(loc, "unknown")
    if loc.startswith("loc(") and match_bracket(loc, 3) == len(loc):
        loc = loc[4:-1]
    if depth == 0:
        return []
    if loc.startswith("#"):
        return _frames(module, loc, depth - 1)
    if loc.startswith("callsite("):
        callee, _, caller = loc[9:-1].rpartition(" at ")
        return _frames(module, callee, depth - 1) + _frames(module, caller, depth - 1)
    if loc.startswith("fused"):
        parts = split_top_level(loc[loc.index("[") + 1 : loc.rindex("]")])
        return next((found for part in parts if (found := _frames(module, part, depth - 1))), list[SourceLocation]())
    if found := _FILE.fullmatch(loc):
        file, line, column = found.groups()
        return [SourceLocation(file, int(line), int(column))]
    named = _NAMED.fullmatch(loc)
    return _frames(module, named.group(1), depth - 1) if named else []
