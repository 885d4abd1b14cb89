"""Transposed operands: tiles that reach a dot only after their rows have become columns.

    %v = load : 128x64 of 8 bits         its rows are contiguous, as TMA writes them
    %b = local_alloc %v                  its columns are: wgmma reads 8-bit operands along the summed dimension only

Between the two every byte changes its neighbours. The consumer does it through its registers, or a partition of its own
does it between two rings (`transforms.partition.transpose_operands`), of which the second takes the place of the
allocation.

The order of the summed dimension is free where the other operand of every dot is an accumulator that became an operand
in registers. A thread has other elements of a row of an accumulator than of an operand, so the two differ by an
exchange between threads. If the summed dimension is taken in another order, on both sides, the exchange becomes a
renaming of registers:

    bits of a place      4 3 2 1 0        operand, 8 bits: four neighbours in a thread, four threads in a row
    bits of its element  4 2 1 3 0        accumulator: pairs in a thread, four threads in a row, then pairs again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import DescriptorLoadOp, LoadOp, TransOp
from tawa.dialects.ttg import VIEWS, ConvertLayoutOp, LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Module, Operation, ScalarType, TensorType, Value, memdesc_type, parse_type
from tawa.ir.attributes import read_bool, read_int
from tawa.ir.encodings import fields_of, kind_of
from tawa.machine.distribution import Base, Distribution, distribution_at

_BITS = 8
_MOVES = op_names(ConvertLayoutOp, TransOp)
_LEAST_ROWS, _LEAST_COLUMNS = 32, 16
"""The least extents of a tile that `ldmatrix` and `stmatrix` of two warps transpose as a whole."""


@dataclass(frozen=True, slots=True, eq=False)
class TransposedInfo:
    """A tile that dots read transposed.

    payload: the type of the buffer that the dots read. allocations: what the second ring replaces. moves: conversions
    and transpositions in registers between the load and the allocations. order: for each bit of a place along the
    summed dimension the bit of the element that is there; the natural order unless the Plan asks for another one.
    """

    payload: MemDescType
    allocations: tuple[Operation, ...]
    moves: tuple[Operation, ...]
    order: tuple[int, ...]

    @property
    def reordered(self) -> bool:
        """Whether the summed dimension is in another order than in memory."""
        return self.order != tuple(range(len(self.order)))


def find_transposed(module: Module, load: DescriptorLoadOp | LoadOp, slot: MemDescType) -> TransposedInfo | str:
    """Finds how a tile in a slot of type `slot` is transposed on the way to its dots; a text says why it is not."""
    if not isinstance(load, DescriptorLoadOp):
        return "it is not loaded by TMA"
    element = parse_type(slot.element)
    if len(slot.shape) != 2 or not isinstance(element, ScalarType) or element.bits != _BITS:
        return "only matrices of 8-bit elements are transposed"
    found = _paths(load.op.result, (0, 1))
    if found is None:
        return "it reaches its dots through more than a transposition"
    moves, ends = found
    types = dict.fromkeys(str(_memdesc(op)) for op, _ in ends)
    if len(types) != 1:
        return "its dots read it in different layouts"
    allocation, order = ends[0]
    payload = _memdesc(allocation)
    contiguous = _contiguous(module, payload)
    if contiguous is None or _contiguous(module, slot) != 1 or order[contiguous] != 0:
        return "its dots read it as it is stored"
    if slot.shape[0] < _LEAST_ROWS or slot.shape[1] < _LEAST_COLUMNS or not _swizzled(module, slot, payload):
        return "the tile is too small"
    natural = tuple(range(slot.shape[0].bit_length() - 1))
    return TransposedInfo(payload, tuple(op for op, _ in ends), moves, natural)


def _paths(tile: Value, order: Base) -> tuple[tuple[Operation, ...], list[tuple[Operation, Base]]] | None:
    """The moves behind a tile and the allocations at their ends, each with the dimensions of the tile in its order."""
    moves, ends = list[Operation](), list[tuple[Operation, Base]]()
    for user in tile.users:
        if LocalAllocOp.of(user):
            ends.append((user, order))
        elif user.name in _MOVES:
            trans = TransOp.of(user)
            inner = _paths(user.result, tuple(order[dim] for dim in trans.order) if trans else order)
            if inner is None:
                return None
            moves += [user, *inner[0]]
            ends += inner[1]
        else:
            return None
    return (tuple(moves), ends) if ends else None


def _memdesc(allocation: Operation) -> MemDescType:
    type = memdesc_type(allocation.result.type)
    return MemDescType(type.shape, type.element, type.encoding, "#smem", mutable=True)


def _contiguous(module: Module, type: MemDescType) -> int | None:
    """The contiguous dimension of a buffer that wgmma reads; None for other layouts."""
    if kind_of(module.aliases, type.encoding) != "#ttg.nvmma_shared":
        return None
    return 0 if read_bool(fields_of(module.aliases, type.encoding)["transposed"]) else 1


def _swizzled(module: Module, *types: MemDescType) -> bool:
    return all(read_int(fields_of(module.aliases, it.encoding)["swizzlingByteWidth"]) >= _LEAST_ROWS for it in types)


# -- the order of the summed dimension ---------------------------------------------------------------------------------


def dots_of_transposed(transposed: TransposedInfo) -> list[WarpGroupDotOp]:
    """The dots that read a transposed tile."""
    return [dot for op in transposed.allocations for dot in _dots(op.result)]


def _dots(buffer: Value) -> list[WarpGroupDotOp]:
    """The dots that read a buffer or a view of it."""
    found: list[WarpGroupDotOp] = []
    for user in buffer.users:
        if user.name in VIEWS:
            found += _dots(user.result)
        elif dot := WarpGroupDotOp.of(user):
            found.append(dot)
    return found


def free_order(transposed: TransposedInfo) -> tuple[int, ...] | None:
    """The order of the summed dimension in which no other operand is exchanged between threads; None if none is known.

    For each bit of a place the bit of the element that is there.
    """
    converts = [dot.a.defining_op for dot in dots_of_transposed(transposed)]
    orders = {order_of(it) if it is not None and ConvertLayoutOp.matches(it) else None for it in converts}
    return orders.pop() if len(orders) == 1 else None


def order_of(convert: Operation) -> tuple[int, ...] | None:
    """The order of the columns of a tile in which a conversion of its layout renames registers; None if none is known.

    The result at column `place` is then the source at the column whose bits are those of `place` in this order.
    """
    source = distribution_at(convert, ConvertLayoutOp(convert).source.type)
    target = distribution_at(convert, convert.result.type)
    tile = parse_type(convert.result.type)
    if source is None or target is None or not isinstance(tile, TensorType) or len(tile.shape) != 2:
        return None
    return _matched(source, target, tile.shape[1].bit_length() - 1)


def _matched(source: Distribution, target: Distribution, bits: int) -> tuple[int, ...] | None:
    """Bits of columns of the source, for each bit of a column of the target, that are in the same threads."""
    found: dict[int, int] = {}
    pairs = list(zip((*target.lanes, *target.warps), (*source.lanes, *source.warps), strict=False))
    if len(target.lanes) != len(source.lanes) or len(target.warps) != len(source.warps):
        return None
    for place, element in pairs:
        if place[0] != element[0] or bool(place[1]) != bool(element[1]):
            return None
        if place[1]:
            found[place[1]] = element[1]
    mine, its = _columns(target), _columns(source)
    if len(mine) != len(its):
        return None
    found |= dict(zip(mine, its, strict=True))
    order = [found.get(1 << bit, 0).bit_length() - 1 for bit in range(bits)]
    return tuple(order) if sorted(order) == list(range(bits)) else None


def _columns(layout: Distribution) -> list[int]:
    """The columns of the bases of registers along a row, in order."""
    return sorted(base[1] for base in layout.registers if base[1] and not base[0])


# -- orders of bits as reshapes ----------------------------------------------------------------------------------------


def runs_of(order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """An order of bits as a reshape and a permutation: the extents of the parts, and the order of the parts.

    Both from the highest bit down. (0, 3, 1, 2, 4): extents (2, 2, 4, 2) of the source, in the order (0, 2, 1, 3).
    """
    high_first = list(reversed(order))
    runs: list[list[int]] = []
    for bit in high_first:
        if runs and runs[-1][-1] == bit + 1:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    source = sorted(runs, key=lambda run: -run[0])
    return tuple(1 << len(run) for run in source), tuple(source.index(run) for run in runs)
