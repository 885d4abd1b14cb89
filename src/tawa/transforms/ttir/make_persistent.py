"""Make persistent: wraps the body of a kernel with one tile per program in a loop over tiles, on TTIR.

    func(%a, …)                          func(%a, …, %grid_0, %grid_1)
      %x = get_program_id x                %tiles = muli %grid_0, %grid_1
      %y = get_program_id y        →       for %tile in range(get_program_id x, %tiles, get_num_programs x) {
      work                                   %x = remsi %tile, %grid_0
      return                                 %y = divsi %tile, %grid_0
                                             work }

The launcher starts as many programs as there are SMs, or a few for each. The grid size is passed as added arguments
(i32), one for each axis up to the last one that the kernel reads; the grid must be 1 along the other axes. The order of
the tiles is that of the Plan (`tawa.transforms.ttir.orders`). The producer then loads the first operands of the next
tile while the consumer stores the current one, and the partitions start once. Scalars that are invariant over tiles,
and descriptors made from them, stay before the loop.

The programs of a grid are unordered, so any order of tiles is correct unless programs communicate: a tile that waits
for a later tile of the same persistent program would deadlock. Hence a kernel with atomics, volatile loads, prints or
unknown effects stays as it is, and so does one whose inline assembly reads its position in the grid. A barrier orders
the threads of one program only.

Requires: TTIR without layouts, one structured function.
Declines also if the order is "longest first" and programs do not get longer along one axis, or if it is one of blocks
and the grid has one axis.
Ensures: launched with any number of programs, the kernel has the effects of the whole grid.
Source: S. Gupta, J. Stuart and J. Owens, "A Study of Persistent Threads Style GPU Programming" (InPar 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from tawa.analysis.work.longer_programs import LongerInfo, find_longer_programs
from tawa.analysis.work.persistent import grid_axes, why_not_persistent
from tawa.declines import TILE_ORDER
from tawa.dialects.arith import ConstantOp, MulIOp
from tawa.dialects.effects import is_pure
from tawa.dialects.parameters import GRID_SIZE
from tawa.dialects.scf import ForOp, YieldOp
from tawa.dialects.tt import FuncOp, GetNumProgramsOp, GetProgramIdOp, MakeTensorDescOp
from tawa.ir import Block, Builder, Module, Operation, Region, Value, is_scalar
from tawa.ir.attributes import read_int
from tawa.plan.plan import TileOrder
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_number
from tawa.transforms.ttir.orders.grid_orders import ids_grouped, ids_in_halves, ids_on_curve
from tawa.transforms.ttir.orders.tile_ids import Ids, ids_in_launch_order, ids_longest_first

_ID, _COUNT = GetProgramIdOp.NAME, GetNumProgramsOp.NAME
_CONSTANT, _DESCRIPTOR = ConstantOp.NAME, MakeTensorDescOp.NAME


@dataclass(frozen=True, slots=True)
class PersistentResult(PassResult):
    """axes: how many grid sizes were added as arguments."""

    axes: int = 0


@dataclass(frozen=True, slots=True)
class MakePersistent:
    """Options: the order of the tiles. group: G, for the orders of blocks."""

    order: TileOrder = "launch"
    group: int = 1

    def run(self, module: Module) -> PersistentResult:
        """Wraps the body in the loop, or returns a `declined` remark."""
        refusal = why_not_persistent(module)
        if refusal is not None:
            return PersistentResult(False, (refusal,))
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        axes, longer = grid_axes(module), None
        if self.order == "longest_first":
            longer = find_longer_programs(function)
            if longer is None:
                return PersistentResult(
                    False, (TILE_ORDER.remark(None, "tile_order='launch'", order=repr(self.order), why=NOT_LONGER),)
                )
        if self.order in ("grouped", "hilbert") and axes < 2:
            cure = "tile_order='launch' or 'l2_halves'"
            return PersistentResult(False, (TILE_ORDER.remark(None, cure, order=repr(self.order), why=ONE_AXIS),))
        _wrap(function, axes, partial(_ids_of, self.order, self.group if axes > 1 else 1, longer))
        return PersistentResult(True, axes=axes)


NOT_LONGER = "no axis of the grid is known along which programs get longer, so there is no longest tile to start first"

ONE_AXIS = "it takes blocks of a grid of two axes, and the kernel reads its program id along one only"


def _ids_of(
    order: TileOrder, group: int, longer: LongerInfo | None, front: Builder, sizes: Sequence[Value], tiles: Value,
    programs: Value,
) -> Ids:  # fmt: skip
    """The ids of the tiles in an order. front: builds before the loop. longer: which tiles take longer."""
    match order:
        case "launch":
            return ids_in_launch_order(sizes)
        case "longest_first":
            assert longer is not None
            return ids_longest_first(front, sizes, tiles, programs, longer)
        case "grouped":
            return ids_grouped(sizes, group)
        case "hilbert":
            return ids_on_curve(sizes)
        case "l2_halves":
            return ids_in_halves(sizes, group)
        case _:
            assert_never(order)


def _wrap(function: FuncOp, axes: int, ids_for: Callable[[Builder, Sequence[Value], Value, Value], Ids]) -> None:
    """ids_for: the order, from a builder before the loop, the sizes of the grid, all tiles, and the programs."""
    sizes = [add_number(function, f"{GRID_SIZE}{axis}") for axis in range(axes)]
    body, queries = function.body, [op for op in function.op.walk() if op.name in (_ID, _COUNT)]
    front, count = Builder(body, body.ops[0], function.op.loc), len(body.ops)
    tiles = sizes[0]
    for size in sizes[1:]:
        tiles = MulIOp.create(front, tiles, size, "tiles")
    first = front.create(_ID, (), ("i32",), properties={"axis": "0 : i32"}, hints=("first",))
    step = front.create(_COUNT, (), ("i32",), properties={"axis": "0 : i32"}, hints=("programs",))
    inside = Block(("i32",), ("tile",))
    ids_of = ids_for(front, sizes, tiles, step.result)
    own = len(body.ops) - count
    ids = ids_of(Builder.at_end(inside, function.op.loc), inside.args[0])
    for op in queries:
        op.result.replace_all_uses_with((ids if op.name == _ID else sizes)[_axis(op)])
        op.erase()
    work = body.ops[own:-1]
    for op in work:
        if not _tile_invariant(op, body):
            inside.append(op.detach())
    inside.append(Operation(YieldOp.NAME, loc=function.op.loc))
    bounds = (first.result, tiles, step.result)
    # The loop serves the kernel, not the line of its return.
    Builder(body, body.terminator, function.op.loc).create(ForOp.NAME, bounds, regions=[Region([inside])])


def _tile_invariant(op: Operation, body: Block) -> bool:
    """Whether `op` is invariant over tiles and worth keeping live: a scalar, a constant or a descriptor."""
    if op.regions or not is_pure(op) or any(_block(operand) is not body for operand in op.operands):
        return False
    return op.name in (_CONSTANT, _DESCRIPTOR) or all(is_scalar(result.type) for result in op.results)


def _block(value: Value) -> Block | None:
    return value.defining_op.parent if value.defining_op else value.owner  # type: ignore[return-value]


def _axis(op: Operation) -> int:
    return read_int(op.properties["axis"])
