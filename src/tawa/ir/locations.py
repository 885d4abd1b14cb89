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
    place = resolve(module, op.loc)
    for outer in op.ancestors():
        if place is not None:
            break
        place = resolve(module, outer.loc)
    return place


def resolve(module: Module, loc: str) -> SourceLocation | None:
    """Reads a location text, following aliases, names, call sites and fusions."""
    for _ in range(32):
        loc = loc.strip()
        if loc.startswith("#"):
            loc = module.locs.get(loc, "unknown")
        if loc.startswith("loc(") and match_bracket(loc, 3) == len(loc):
            loc = loc[4:-1]
        elif loc.startswith("callsite("):
            _, _, caller = loc[9:-1].rpartition(" at ")
            loc = caller
        elif loc.startswith("fused"):
            parts = split_top_level(loc[loc.index("[") + 1 : loc.rindex("]")])
            places = [place for part in parts if (place := resolve(module, part))]
            return places[0] if places else None
        elif found := _FILE.fullmatch(loc):
            file, line, column = found.groups()
            return SourceLocation(file, int(line), int(column))
        elif named := _NAMED.fullmatch(loc):
            loc = named.group(1)
        elif not loc.startswith("#"):
            return None
    return None
