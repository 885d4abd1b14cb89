"""The names of a kernel's parameters.

Triton names the parameter in the location of the block argument: ``#loc3 = loc("a_ptr"(#loc))``.
"""

from __future__ import annotations

import re

from tawa.ir import Module, Value

_NAMED = re.compile(r'(?:loc\()?"((?:[^"\\]|\\.)*)"\(')
_MOST_LOCATIONS = 8
"""The most location aliases that are followed."""


def parameter_name(module: Module, argument: Value, unnamed: str = "") -> str:
    """The source name of the parameter for a block argument.

    If the location has no name, the name of the argument in the IR; if that has none either, `unnamed`.
    """
    loc = argument.loc
    for _ in range(_MOST_LOCATIONS):
        loc = module.locs.get(loc.strip(), loc)
        if found := _NAMED.match(loc.strip()):
            return found.group(1)
    return argument.hint or unnamed


__all__ = ["parameter_name"]
