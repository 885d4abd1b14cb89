"""Idle tiles: memory of tiles that all groups can read, but from some place on only one group does, or none.

    %k = local_alloc … {tawa.common = 0}                    64 x 256
    loop { %s = dot %q, trans %k        group 0 alone (it owns %s)
           %dq = dot %ds, %k[:, 128 g:] }                   each group g its columns
    store %dk                                               group 0 may stage its 128 columns in %k[:, 0:128]

What a group stores by TMA behind its loops can be staged in a box that no other group reads, and that the group has
finished to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.analysis.rings.channels import ancestor_in, slot_readers
from tawa.analysis.rings.exchanges import BY_GROUP, COMMON, OWNER
from tawa.analysis.rings.loads import same_layout
from tawa.dialects.arith import constant_int
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.tt import DOTS, DescriptorStoreOp, FuncOp, ReshapeOp
from tawa.dialects.ttg import VIEWS, ConvertLayoutOp, MemDescSubsliceOp
from tawa.ir import Block, Module, Operation, TensorDescType, Value, Worklist, memdesc_type, parse_type, shape_of
from tawa.ir.attributes import read_array, read_int


@dataclass(frozen=True, slots=True)
class IdleBox:
    """Columns of a common tile. number: of the tile (`exchanges.COMMON`). column: the first one."""

    number: int
    column: int


@dataclass(frozen=True, slots=True)
class _Read:
    """Columns that a group g reads: from first + g · step to that + size."""

    op: Operation
    first: int
    step: int
    size: int

    def touches(self, group: int, column: int, columns: int) -> bool:
        """Whether a group reads some of these columns."""
        first = self.first + group * self.step
        return first < column + columns and column < first + self.size


def idle_boxes(module: Module) -> dict[Operation, tuple[IdleBox, ...]]:
    """For each store by TMA behind all loops that can be staged in such a box: the box of each group.

    Two stores of a group get different boxes, if there are two.
    """
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    index = next((view for op in module.walk() if (view := GroupIndexOp.of(op))), None)
    groups = constant_int(index.groups) if index is not None else None
    tiles = [op for op in function.body.ops if COMMON in op.attributes]
    if groups is None or not tiles:
        return {}
    owners = _owners(module)
    reads = {tile: list(_reads(tile.result)) for tile in tiles}
    taken: list[tuple[int, IdleBox]] = []
    found: dict[Operation, tuple[IdleBox, ...]] = {}
    for store in [view for op in function.body.ops if (view := DescriptorStoreOp.of(op))]:
        own = list[IdleBox]()
        for group in range(groups):
            fitting = [
                box
                for tile in tiles
                if all(_precedes(function.body, read.op, store.op) for read in reads[tile])
                for box in _boxes(module, tile, store)
                if not any(
                    read.touches(other, box.column, shape_of(store.source)[-1])
                    for read in reads[tile]
                    for other in range(groups)
                    if other != group and owners.get(read.op, other) == other
                )
            ]
            own += sorted(fitting, key=lambda box: taken.count((group, box)))[:1]
            taken += [(group, box) for box in own[group:]]
        if len(own) == groups:
            found[store.op] = tuple(own)
    return found


def _precedes(block: Block, op: Operation, other: Operation) -> bool:
    return block.index_of(ancestor_in(block, op)) < block.index_of(other)


def _boxes(module: Module, tile: Operation, store: DescriptorStoreOp) -> list[IdleBox]:
    """The boxes of a tile that have the layout of the store's block; any reader of the tile is ignored."""
    buffer, block = memdesc_type(tile.result.type), parse_type(store.descriptor.type)
    assert isinstance(block, TensorDescType)
    shape, (rows, columns) = shape_of(matrix_of(store.source)), buffer.shape
    alike = buffer.element == block.block.element and same_layout(module, buffer.encoding, block.block.encoding)
    if not alike or shape[:-1] != (rows,) or block.block.shape[-2:] != shape or columns % shape[-1]:
        return []
    return [IdleBox(read_int(tile.attributes[COMMON]), column) for column in range(0, columns, shape[-1])]


def matrix_of(tile: Value) -> Value:
    """The tile of two dimensions that one with more of them has the elements of, in whatever layout; or the tile."""
    value = tile
    while len(shape_of(value)) > 2 or ConvertLayoutOp.matches(value.defining_op):
        op = value.defining_op
        if not (ConvertLayoutOp.matches(op) or ReshapeOp.matches(op)) or op is None:
            return tile
        value = op.operands[0]
    return value


def _reads(tile: Value) -> Iterator[_Read]:
    """What is read of a tile, with the operations that read it."""
    columns = memdesc_type(tile.type).shape[-1]
    for user in tile.users:
        view = MemDescSubsliceOp.of(user)
        size = memdesc_type(user.result.type).shape[-1] if view else columns
        first = int(view.offsets[-1]) if view else 0
        step = int(read_array(user.attributes[BY_GROUP])[-1]) if BY_GROUP in user.attributes else 0
        for reader in slot_readers(user.result) if user.name in VIEWS else (user,):
            yield _Read(reader, first, step, size)


def _owners(module: Module) -> dict[Operation, int]:
    """The group of each dot that only one group executes."""
    found: dict[Operation, int] = {}
    for op in module.walk():
        if OWNER in op.attributes:
            work = Worklist(op.operands)
            for value in work:
                maker = value.defining_op
                if maker is not None and maker.name in DOTS:
                    found[maker] = read_int(op.attributes[OWNER])
                elif maker is not None and OWNER not in maker.attributes:
                    work += maker.operands
    return found
