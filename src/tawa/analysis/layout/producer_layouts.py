"""The layouts in which a producer of four warps computes addresses.

The program is laid out for the warps of a consumer. Where these are eight, each blocked layout that the producer uses
is cut to four warps; nothing else sees it, because only a slot leaves the producer:

    #ttg.blocked<{…, warpsPerCTA = [8, 1], order = [1, 0]}>  →  #ttg.blocked<{…, warpsPerCTA = [4, 1], order = [1, 0]}>

Slices follow their parents. A thread that holds less than the 4 bytes of one cp.async side by side gets as many, where
nothing relates the layouts of the addresses by more than their names; some threads then hold the same as others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tawa.analysis.layout.layouts import BlockedLayout, blocked_layout, origin, tile_order
from tawa.analysis.rings.slices import slice_from
from tawa.dialects.declare.declaration import is_terminator, op_names
from tawa.dialects.tt import CatOp, FuncOp, GatherOp, HistogramOp, JoinOp, LoadOp, ReshapeOp, SplitOp
from tawa.ir import Module, Operation, ScalarType, TensorType, parse_type

PRODUCER_WARPS = 4
CP_ASYNC_BITS = 32
"""The least that one cp.async brings."""
# What relates the layouts of its operands and results by more than their names.
_RELATED = op_names(CatOp, GatherOp, HistogramOp, JoinOp, ReshapeOp, SplitOp)
_ALIAS = re.compile(r"#[A-Za-z_]\w*")


def fixed_layout(module: Module, ops: Sequence[Operation], num_warps: int) -> tuple[Operation, str] | None:
    """The first of `ops` whose layouts four warps cannot take over from `num_warps`, and which; None if they can."""
    if num_warps == PRODUCER_WARPS:
        return None
    for op in ops:
        for encoding in [] if op.regions or is_terminator(op.name) else _encodings([op]):
            name = module.aliases.get(encoding, encoding)
            if op.name in _RELATED or _origin(module, encoding) is None:
                return op, name
    return None


def may_widen(load: LoadOp) -> bool:
    """Whether a thread may get more elements side by side than the program gave it."""
    function = next((op for op in load.op.ancestors() if FuncOp.of(op)), None)
    return function is not None and not any(op.name in _RELATED for op in slice_from([load.op], function).ops)


def layouts_for(module: Module, ops: Sequence[Operation], num_warps: int, copies: Sequence[LoadOp]) -> dict[str, str]:
    """For each blocked layout that `ops` use and that is to change, by its name: that of `num_warps` warps.

    copies: the loads that become cp.async.
    """
    wide: dict[str, dict[int, int]] = {}
    for load in copies:
        tile = load.tile
        element = parse_type(tile.element) if tile else None
        found = origin(module, tile.encoding, tile_order(module, tile.encoding)[0]) if tile else None
        if found and isinstance(element, ScalarType):
            sizes = wide.setdefault(found[0], {})
            sizes[found[1]] = max(sizes.get(found[1], 1), CP_ASYNC_BITS // element.bits)
    names: dict[str, str] = {}
    for encoding in _encodings(ops):
        root = _origin(module, encoding)
        layout = blocked_layout(module, root) if root else None
        if root is None or layout is None or root in names:
            continue
        made = with_warps(_widened(layout, wide.get(root, {})), num_warps)
        if made != layout:
            names[root] = _named(module, str(made))
    return names


def _widened(layout: BlockedLayout, least: Mapping[int, int]) -> BlockedLayout:
    sizes = tuple(max(size, least.get(dim, 1)) for dim, size in enumerate(layout.size_per_thread))
    return replace(layout, size_per_thread=sizes)


def with_warps(layout: BlockedLayout, num_warps: int) -> BlockedLayout:
    """The same with fewer warps, or more: taken from, or given to, the dimension that moves slowest and has some."""
    warps = list(layout.warps)
    for dim in reversed(layout.order):
        while layout.num_warps > num_warps and warps[dim] > 1 and _product(warps) > num_warps:
            warps[dim] //= 2
    while _product(warps) < num_warps:
        warps[layout.order[-1]] *= 2
    return replace(layout, warps=tuple(warps))


def rename(text: str, names: dict[str, str]) -> str:
    """A type or an attribute with other layouts."""
    for inline, new in names.items():
        if "<" in inline:
            text = text.replace(inline, new)
    return _ALIAS.sub(lambda found: names.get(found.group(), found.group()), text)


def _origin(module: Module, encoding: str) -> str | None:
    """The name of the blocked layout that an encoding is, or is a slice of; None where there is none."""
    found = origin(module, encoding)
    return found[0] if found else None


def _encodings(ops: Iterable[Operation]) -> list[str]:
    """The layouts of all tiles that operations use or make, in order."""
    types = [parse_type(value.type) for op in ops for value in (*op.operands, *op.results)]
    return list(dict.fromkeys(type.encoding for type in types if isinstance(type, TensorType) and type.encoding))


def _named(module: Module, layout: str) -> str:
    """The alias of a layout in the module, a new one where there is none."""
    for name, text in module.aliases.items():
        if text == layout:
            return name
    number = sum(name.startswith("#producer") for name in module.aliases)
    name = f"#producer{number}"
    module.aliases[name] = layout
    return name


def _product(numbers: Sequence[int]) -> int:
    made = 1
    for number in numbers:
        made *= number
    return made
