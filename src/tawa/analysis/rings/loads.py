"""Dot loads: loads that feed a dot. They are the roots of the producer.

A load feeds a dot if its tile reaches operand A or B through layout conversions, views, casts and elementwise
operations, without passing another dot. The path decides how the consumer reads the slot:

    shared     load → local_alloc → views → wgmma: the slot replaces the allocation
    registers  any other path: the consumer first reads the slot into registers

The kind of load decides how the producer fills the slot:

    descriptor_load                                     tma
    pointer load, 4 or more contiguous bytes per thread cp.async, if masked-off lanes are zero or undefined
    any other pointer load                              registers of the producer

A pointer load does not feed a dot through values that depend on another dot: tiles of masks and biases that are
combined with a product are not moved. Neither are loads that are marked to stay (`LoadOp.stays`).

A row that is combined with a product (the logarithms of sums in attention's backward pass, scales, gates) travels with
a tile: a descriptor load of a row counts as an operand of the dots of the tile from which the product is computed, if
both are loaded in one block.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tawa.analysis.layout.axis_info import ModuleAxisInfo
from tawa.analysis.layout.layouts import per_thread, tile_order
from tawa.analysis.layout.producer_layouts import CP_ASYNC_BITS, may_widen
from tawa.analysis.rings.transposed import TransposedInfo
from tawa.dialects.aref import Fill
from tawa.dialects.arith import is_zero
from tawa.dialects.control_flow import outgoing
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tcgen05 import ACCUMULATOR
from tawa.dialects.tt import DOTS, DescriptorLoadOp, LoadOp, TransOp
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp, LocalLoadOp
from tawa.ir import MemDescType, Module, Operation, ScalarType, TensorType, Value, Worklist, parse_type
from tawa.ir.attributes import read_bool, read_int
from tawa.ir.encodings import fields_of, kind_of
from tawa.ir.text import print_dictionary
from tawa.machine.nvidia import BANK_BYTES, MATRIX_ROWS, VECTOR_BYTES
from tawa.symbolic.dim_relations import has_rows

TMA_BYTES = 128
"""Alignment in shared memory of the destination of a TMA copy."""
_FED, _SCALES = (0, 1), (3, 4)
"""The operands of a dot that loads feed, and those of one on Blackwell."""


@dataclass(frozen=True, slots=True, eq=False)
class DotLoadInfo:
    """One load that feeds dots inside a loop.

    payload: the type of the slot's buffer. allocations: those that the slot replaces. fill: how the producer fills the
    slot. transposed: how a converter transposes the tile, if one does; its slots then replace the allocations. beside:
    whether it is a row that travels with a tile; it is read where it is used.
    """

    load: DescriptorLoadOp | LoadOp
    dots: tuple[Operation, ...]
    payload: MemDescType
    allocations: tuple[Operation, ...]
    fill: Fill = "tma"
    transposed: TransposedInfo | None = None
    beside: bool = False

    @property
    def replaced(self) -> tuple[Operation, ...]:
        """The allocations that a ring replaces, directly or behind a converter."""
        return self.transposed.allocations if self.transposed else self.allocations

    @property
    def through_registers(self) -> bool:
        """Whether some user reads the tile in registers."""
        return len(self.allocations) < len(self.load.op.result.users)


def find_dots(module: Module) -> list[Operation]:
    """Every dot, in textual order."""
    return [op for op in module.walk() if op.name in DOTS]


def find_dot_loads(module: Module) -> list[DotLoadInfo]:
    """Every load inside a loop that feeds a dot, in textual order.

    Those outside of loops, too, if one thread issues the dots: it is in a partition of its own.
    """
    found: list[DotLoadInfo] = []
    rows: dict[Operation, tuple[Operation, int]] = {}  # the tile of each, and how many loads were found before
    products: set[Value] | None = None
    axis_info: ModuleAxisInfo | None = None
    anywhere = any(ACCUMULATOR in dot.attributes for dot in find_dots(module))
    for op in module.walk():
        descriptor, pointers = DescriptorLoadOp.of(op), LoadOp.of(op)
        if (descriptor is None and pointers is None) or not (anywhere or enclosing_loops(op)):
            continue
        if descriptor and not has_rows(op.result):
            products = products if products is not None else from_dots(module)
            tile = tile_beside(op, products)
            if tile is not None:
                rows[op] = tile, len(found)
                continue
        if descriptor:
            dots = dots_fed_by(op.result)
            if dots:
                payload = slot_type(module, descriptor)
                found.append(DotLoadInfo(descriptor, tuple(dots), payload, _slot_like(module, op, payload)))
        elif pointers and is_plain_load(op) and not pointers.stays and _has_order(module, pointers):
            products = products if products is not None else from_dots(module)
            dots = dots_fed_by(op.result, products)
            if dots:
                axis_info = axis_info or ModuleAxisInfo(module)
                payload = pointer_slot_type(module, pointers)
                fill = pointer_fill(module, pointers, payload, axis_info)
                found.append(DotLoadInfo(pointers, tuple(dots), payload, _slot_like(module, op, payload), fill))
    tiles = {info.load.op: info for info in found if info.fill == "tma"}
    for op, (tile, before) in reversed(rows.items()):
        if tile in tiles:
            row = DescriptorLoadOp(op)
            found.insert(before, DotLoadInfo(row, tiles[tile].dots, slot_type(module, row), (), beside=True))
    return found


def dots_fed_by(tile: Value, apart: Collection[Value] = ()) -> list[Operation]:
    """Dots whose operand A or B, or a scale, depends on `tile`, in order of discovery.

    apart: values that are not followed.
    """
    dots: list[Operation] = []
    seen: set[Value] = set()
    work = [tile]
    while work:
        value = work.pop(0)
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.op
            if user.name in DOTS:
                if use.index in _FED or (use.index in _SCALES and ACCUMULATOR in user.attributes):
                    dots += [user] if user not in dots else []
            elif is_pure(user) or LocalAllocOp.of(user) or LocalLoadOp.matches(user):
                work += [result for result in user.results if result not in apart]
    return dots


def tile_beside(row: Operation, products: Collection[Value]) -> Operation | None:
    """The load of the tile in whose slot a row travels: an operand of the dot whose result the row first meets.

    row: a load. products: values that depend on dots (`from_dots`). The tile is loaded in the same block.
    """
    seen: set[Value] = set()
    work = [row.result]
    while work:
        value = work.pop(0)
        for user in value.users if value not in seen and value not in products else ():
            if not is_pure(user):
                continue
            partners = [it for it in user.operands if it in products]
            loads = [load for it in partners for load in _operand_loads(it, row)]
            if loads:
                return loads[0]
            work += user.results
        seen.add(value)
    return None


def _operand_loads(product: Value, row: Operation) -> list[Operation]:
    """The loads, in the block of `row`, of the operands of the dots from which a product is computed."""
    found: list[Operation] = []
    seen: set[Value] = set()
    work, behind_dot = [product], False
    while work:
        value = work.pop(0)
        op = value.defining_op
        if value in seen or op is None or op.parent is not row.parent:
            continue
        seen.add(value)
        if op.name in DOTS:
            behind_dot = True
            work += op.operands[:2]
        elif behind_dot and (DescriptorLoadOp.matches(op) or LoadOp.matches(op)):
            if has_rows(op.result):
                found.append(op)
        elif is_pure(op) or LocalAllocOp.matches(op) or LocalLoadOp.matches(op):
            work += op.operands
    return found


def from_dots(module: Module) -> set[Value]:
    """Every value that depends on the result of a dot, including dots of earlier iterations."""
    work = Worklist(result for dot in find_dots(module) for result in dot.results)
    for value in work:
        for use in value.uses:
            work += outgoing(use) or use.op.results
    return work.given


def slot_type(module: Module, load: DescriptorLoadOp) -> MemDescType:
    """The buffer that TMA fills for `load`: its tile in the descriptor's layout, reduced to the tile's rank."""
    tile = load.tile
    encoding = load.encoding
    for user in load.op.result.users:
        view = parse_type(user.results[0].type) if LocalAllocOp.of(user) else None
        if isinstance(view, MemDescType) and same_layout(module, view.encoding, encoding):
            encoding = view.encoding
            break
    else:
        encoding = of_rank(module, encoding, len(tile.shape))
    return MemDescType(tile.shape, tile.element, encoding, "#smem", mutable=True)


def tma_alignment(module: Module, slot: MemDescType) -> int:
    """Alignment of a slot that TMA fills: 128 bytes, or the eight rows that a swizzle spans."""
    swizzle = fields_of(module.aliases, slot.encoding).get("swizzlingByteWidth", "0")
    return max(TMA_BYTES, 8 * read_int(swizzle))


def pointer_slot_type(module: Module, load: LoadOp) -> MemDescType:
    """The buffer for a tile of a pointer load: in the layout of its allocation; else one for reads into registers.

    A dot without wgmma reads eight rows of 16 bytes at a time (ldmatrix). Its buffer is swizzled, as stock Triton's, so
    that these lie in different banks. Other tiles are read in the layout in which they were written.
    """
    tile = load.tile
    assert tile is not None
    order = tile_order(module, tile.encoding)
    for user in load.op.result.users:
        view = parse_type(user.results[0].type) if LocalAllocOp.of(user) else None
        if isinstance(view, MemDescType) and view.shape == tile.shape and _fastest(module, view) == order[0]:
            return MemDescType(tile.shape, tile.element, view.encoding, "#smem", mutable=True)
    row_bytes = tile.bytes // math.prod(tile.shape) * tile.shape[order[0]]
    vector, per_phase, phases = 1, 1, 1
    if _is_matrix_of_dot(module, load) and row_bytes >= 2 * VECTOR_BYTES:
        vector = VECTOR_BYTES * math.prod(tile.shape) // tile.bytes
        per_phase = max(1, BANK_BYTES // row_bytes)
        phases = MATRIX_ROWS // per_phase
    dims = ", ".join(map(str, order))
    encoding = (
        f"#ttg.swizzled_shared<{{vec = {vector}, perPhase = {per_phase}, maxPhase = {phases}, order = [{dims}]}}>"
    )
    return MemDescType(tile.shape, tile.element, encoding, "#smem", mutable=True)


def _is_matrix_of_dot(module: Module, load: LoadOp) -> bool:
    """Whether a dot takes the tile, perhaps transposed, from registers: it is read in the layout of dot operands."""
    left = [load.op.result]
    while left:
        value = left.pop()
        tile = parse_type(value.type)
        if isinstance(tile, TensorType) and kind_of(module.aliases, tile.encoding) == "#ttg.dot_op":
            return True
        left += [it for user in value.users if user.name in _MOVES for it in user.results]
    return False


_MOVES = op_names(ConvertLayoutOp, TransOp)


def pointer_fill(module: Module, load: LoadOp, payload: MemDescType, axis_info: ModuleAxisInfo) -> Fill:
    """How the producer fills the slot of a pointer load."""
    element, tile = parse_type(payload.element), load.tile
    assert tile is not None
    if not isinstance(element, ScalarType) or (load.other is not None and not is_zero(load.other)):
        return "registers"  # cp.async fills masked-off lanes with zeros
    if axis_info.vector_width(load) * element.bits < CP_ASYNC_BITS:
        return "registers"
    fastest = tile_order(module, tile.encoding)[0]
    enough = per_thread(module, tile.encoding, fastest) * element.bits >= CP_ASYNC_BITS
    return "cp.async" if enough or may_widen(load) else "registers"


def _has_order(module: Module, load: LoadOp) -> bool:
    """Whether the load has a tile with a known layout."""
    return load.tile is not None and bool(tile_order(module, load.tile.encoding))


def _fastest(module: Module, type: MemDescType) -> int | None:
    """The contiguous dimension of a buffer; None if the layout is unknown."""
    fields, rank = fields_of(module.aliases, type.encoding), len(type.shape)
    match kind_of(module.aliases, type.encoding):
        case "#ttg.nvmma_shared":
            return rank - 2 if read_bool(fields["transposed"]) else rank - 1
        case "#ttg.swizzled_shared":
            return int(fields["order"].strip("[]").split(",")[0])
        case "#ttg.shared_linear":
            nearest = fields["offset"].lstrip("[").partition("]")[0].split(",")
            return next((dim for dim, step in enumerate(nearest) if int(step)), None)
        case _:
            return None


def same_layout(module: Module, first: str, second: str) -> bool:
    """Whether two shared encodings are the same layout, apart from the rank of a batched descriptor."""
    return first == second or _layout(module, first) == _layout(module, second)


def _slot_like(module: Module, load: Operation, payload: MemDescType) -> tuple[Operation, ...]:
    """The allocations of a load's tile that the slot replaces."""
    return tuple(user for user in load.result.users if _is_slot_like(module, user, payload))


def _is_slot_like(module: Module, user: Operation, payload: MemDescType) -> bool:
    if LocalAllocOp.of(user) is None:
        return False
    type = parse_type(user.result.type)
    if not isinstance(type, MemDescType) or type.shape != payload.shape:
        return False
    return same_layout(module, type.encoding, payload.encoding) or (in_rows(module, type) and in_rows(module, payload))


def in_rows(module: Module, type: MemDescType) -> bool:
    """Whether a buffer holds its elements row after row, as TMA writes one box without a swizzle."""
    fields = fields_of(module.aliases, type.encoding)
    match kind_of(module.aliases, type.encoding):
        case "#ttg.nvmma_shared":
            plain = read_int(fields["swizzlingByteWidth"]) == 0 and not read_bool(fields["transposed"])
            return plain and max(type.shape) <= 256
        case "#ttg.shared_linear":
            return fields["offset"].replace(" ", "") == str(_row_steps(type.shape)).replace(" ", "")
        case _:
            return False


def _row_steps(shape: Sequence[int]) -> list[list[int]]:
    """By bit of the place in memory: how far an element is, in each dimension, if the last one is contiguous."""
    found: list[list[int]] = []
    for dim in reversed(range(len(shape))):
        for bit in range(shape[dim].bit_length() - 1):
            found.append([1 << bit if it == dim else 0 for it in range(len(shape))])
    return found


def _layout(module: Module, encoding: str) -> tuple[str, dict[str, str]]:
    fields = fields_of(module.aliases, encoding)
    fields.pop("rank", None)
    return kind_of(module.aliases, encoding), fields


def of_rank(module: Module, encoding: str, rank: int) -> str:
    """`encoding` for a tile of `rank` dimensions."""
    fields = fields_of(module.aliases, encoding)
    if not fields or read_int(fields.pop("rank", "2")) == rank:
        return encoding
    if rank != 2:
        fields["rank"] = str(rank)
    return f"{kind_of(module.aliases, encoding)}<{{{print_dictionary(fields)}}}>"
