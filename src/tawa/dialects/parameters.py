"""The names of a kernel's parameters.

Triton names the parameter in the location of the block argument: ``#loc3 = loc("a_ptr"(#loc))``.
"""

from __future__ import annotations

import re

from tawa.ir import Module, Value

_NAMED = re.compile(r'(?:loc\()?"((?:[^"\\]|\\.)*)"\(')
_MOST_LOCATIONS = 8
"""Aliases that are followed from one location to the next."""


def parameter_name(module: Module, argument: Value, unnamed: str = "") -> str:
    """The name in the kernel's source of the parameter that a block argument belongs to.

    Without one, the name that the argument has in the IR; without that, `unnamed`.
    """
    loc = argument.loc
    for _ in range(_MOST_LOCATIONS):
        loc = module.locs.get(loc.strip(), loc)
        if found := _NAMED.match(loc.strip()):
            return found.group(1)
    return argument.hint or unnamed


__all__ = ["parameter_name"]
