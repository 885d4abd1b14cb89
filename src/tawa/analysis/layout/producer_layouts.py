"""Producer layouts: the register layouts in which a producer of four warps computes addresses.

Triton assigns layouts for the warps of a consumer. If a consumer has eight warps, each blocked layout in the producer
is reduced to four warps. No other partition is affected, because the producer passes data on only through slots:

    #ttg.blocked<{…, warpsPerCTA = [8, 1], order = [1, 0]}>  →  #ttg.blocked<{…, warpsPerCTA = [4, 1], order = [1, 0]}>

Slices follow their parents. If a thread holds fewer contiguous bytes than the 4 of one cp.async, its `sizePerThread` is
raised to 4 bytes; some threads then hold duplicates. This requires that no operation of the address computation
constrains its layouts by more than equality.
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
from tawa.machine.nvidia import CP_ASYNC_BYTES

PRODUCER_WARPS = 4
CP_ASYNC_BITS = 8 * CP_ASYNC_BYTES
# Operations whose layouts of operands and results are related by more than equality.
_RELATED = op_names(CatOp, GatherOp, HistogramOp, JoinOp, ReshapeOp, SplitOp)
_ALIAS = re.compile(r"#[A-Za-z_]\w*")


def fixed_layout(module: Module, ops: Sequence[Operation], num_warps: int) -> tuple[Operation, str] | None:
    """The first of `ops` with a layout that cannot be reduced from `num_warps` to four warps, and that layout.

    None if all layouts can be.
    """
    if num_warps == PRODUCER_WARPS:
        return None
    for op in ops:
        for encoding in [] if op.regions or is_terminator(op.name) else _encodings([op]):
            name = module.aliases.get(encoding, encoding)
            if op.name in _RELATED or _origin(module, encoding) is None:
                return op, name
    return None


def may_widen(load: LoadOp) -> bool:
    """Whether `sizePerThread` may be raised in the address computation of a load."""
    function = next((op for op in load.op.ancestors() if FuncOp.of(op)), None)
    return function is not None and not any(op.name in _RELATED for op in slice_from([load.op], function).ops)


def layouts_for(module: Module, ops: Sequence[Operation], num_warps: int, copies: Sequence[LoadOp]) -> dict[str, str]:
    """The new layout, for `num_warps` warps, of each blocked layout that `ops` use and that changes; by name.

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
    """The layout with another number of warps. Warps are removed from, or added to, the slowest-varying dimension."""
    warps = list(layout.warps)
    for dim in reversed(layout.order):
        while layout.num_warps > num_warps and warps[dim] > 1 and _product(warps) > num_warps:
            warps[dim] //= 2
    while _product(warps) < num_warps:
        warps[layout.order[-1]] *= 2
    return replace(layout, warps=tuple(warps))


def rename(text: str, names: dict[str, str]) -> str:
    """The text of a type or an attribute with its layouts replaced."""
    for inline, new in names.items():
        if "<" in inline:
            text = text.replace(inline, new)
    return _ALIAS.sub(lambda found: names.get(found.group(), found.group()), text)


def _origin(module: Module, encoding: str) -> str | None:
    """The name of the blocked layout that an encoding is, or is a slice of, or None."""
    found = origin(module, encoding)
    return found[0] if found else None


def _encodings(ops: Iterable[Operation]) -> list[str]:
    """The layouts of all tiles that the operations use or define, in order."""
    types = [parse_type(value.type) for op in ops for value in (*op.operands, *op.results)]
    return list(dict.fromkeys(type.encoding for type in types if isinstance(type, TensorType) and type.encoding))


def _named(module: Module, layout: str) -> str:
    """The alias of a layout in the module. Adds one if the module has none."""
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
