"""The names of a kernel's parameters, and of what Tawa adds to a kernel in Triton's dialects.

Triton names the parameter in the location of the block argument: ``#loc3 = loc("a_ptr"(#loc))``. Behind the descriptor
`a` of a host come its shape and strides, which Triton gives the same name: ``a.shape[0]``, ``a.strides[1]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tawa.ir import Module, TensorDescType, Value, parse_type

ADDED_BASE = "tawa.base"
"""Attribute of a descriptor argument that Tawa added: the number of the argument whose memory it describes."""
GRID_SIZE = "tawa_grid_"
"""The prefix, before the axis, of the arguments that pass the grid size to a persistent form."""
PROGRAMS = f"{GRID_SIZE}programs"
"""The argument that passes the size of the grid along the axis whose programs share a CTA."""
TILE_COUNTER = "tawa_tile_counter"
"""The argument that points to the counter from which programs take their next tiles."""
WORKSPACE = "tawa_workspace"
"""The argument that points to the memory for partial sums of programs that share a tile."""
SEMAPHORES = "tawa_semaphores"
"""The argument that points to the numbers of programs that have written their partial sums, one for each tile."""
STAYS = "tawa.stays"
"""Attribute of a load that stays in the consumer because it is rarely executed."""

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


def part_of_descriptor(argument: Value, arguments: Sequence[Value]) -> tuple[Value, str] | None:
    """The descriptor of whose shape or strides an argument is a part, and which: ``.shape[0]``; None for any other.

    arguments: all arguments of the kernel.
    """
    for descriptor in reversed(arguments[: argument.index]):
        kind = parse_type(descriptor.type)
        if isinstance(kind, TensorDescType):
            rank, place = len(kind.block.shape), argument.index - descriptor.index - 1
            behind = [it.type for it in arguments[descriptor.index + 1 : descriptor.index + 1 + 2 * rank]]
            found = place < 2 * rank and behind == ["i32"] * rank + ["i64"] * rank
            return (descriptor, f".{'shape' if place < rank else 'strides'}[{place % rank}]") if found else None
    return None
