"""Dynamic tiles: programs take their next tile from a counter in memory, on TTIR.

    for %tile in range(get_program_id x,        %tile = while (%first = get_program_id x)
                       %tiles,                    condition(%tile < %tiles)
                       get_num_programs x) {    do {
      work                                →       work
    }                                             %ticket = atomic_rmw add, %counter, 1
                                                  %last = cmpi eq, %ticket, %tiles - 1
                                                  atomic_rmw exch, %counter, 0 if %last
                                                  yield %ticket + get_num_programs x }

A program that has finished a short tile takes the next one, while others still work on long ones. The first tile of a
program is its id, so P programs have the first P tiles, and ticket t is tile P + t. A program takes one ticket behind
each tile that it works on. Hence all programs together take exactly as many tickets as there are tiles, whatever their
number is, and the program that gets the last ticket resets the counter for the next launch. No kernel before or behind
this one does that.

Where tiles have another order (`tile_ids`), the program carries the tile, -1 behind the last one, and finds the next
one from the ticket. The consumers of the specialised kernel then need nothing of the order:

    for %place in range(…) {                    %tile = while (%tile of get_program_id x) {
      %tile = f(%place)                           condition(%tile >= 0) } do {
      work(%tile)                         →       work(%tile); …
    }                                             %next = %ticket + get_num_programs x
                                                  yield f(%next) if %next < %tiles else -1 }

In the specialised kernel the producer takes the tickets. It takes one when it has issued the loads of a tile, so the
latency of the atomic is hidden by the dots of all slots that are full then, and by the epilogue of the tile. (Triton
waits for the result of a scalar atomic at once, so a ticket that is taken earlier would delay the loads behind it.)

The counter is an added argument, zero before the launch. Launches that may run at the same time need counters of their
own (`tawa.bridge.launch.tile_counters`).

Which program works on which tile differs from run to run. The results do not, because programs do not communicate: as
for `make_persistent`, a kernel with atomics, volatile loads, prints or unknown effects is declined. So is a
kernel that uses the program id for anything but its first tile, or carries values from one tile to the next.

Requires: TTIR without layouts, one structured function; `make_persistent` if the kernel has no loop over tiles;
`split_rows` already ran, which does not split a program whose groups would each execute an atomic.
Ensures: launched with any number of programs along x, the kernel has the effects of all tiles, and the counter is 0.
Declines: if no loop outside of all other control flow iterates over tiles as above.
Source: T. Aila and S. Laine, "Understanding the Efficiency of Ray Traversal on GPUs" (HPG 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.memory.provenance import Root, memory_roots
from tawa.declines import COUNTER
from tawa.dialects.arith import AddIOp, CmpIOp, Predicate, SelectOp, SubIOp
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.declare.declaration import address_of
from tawa.dialects.effects import effects_of, is_plain_load, is_pure, orders_programs
from tawa.dialects.parameters import TILE_COUNTER
from tawa.dialects.scf import ConditionOp, ForOp, WhileOp, YieldOp
from tawa.dialects.tt import RELAXED, AtomicRMWOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp, RmwKind
from tawa.ir import Block, Builder, Module, Operation, Region, Value, ValueMap, Worklist, clone_op, source_of
from tawa.ir.attributes import int_attr
from tawa.remarks import Remark
from tawa.symbolic.words import word_of
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_pointer
from tawa.transforms.ttir.orders.tile_ids import TILE_ID

_GPU_SCOPE = 1


@dataclass(frozen=True, slots=True)
class DynamicTiles:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites the loop over tiles, or returns a `declined` remark."""
        found = loop_over_tiles(module)
        if isinstance(found, Remark):
            return PassResult(False, (found,))
        _take_from_counter(next(view for op in module.body.ops if (view := FuncOp.of(op))), found)
        return PassResult(True)


def loop_over_tiles(module: Module) -> ForOp | Remark:
    """Finds the loop over the tiles of a program. A remark says why the kernel has no such loop, or needs its order."""
    function = structured_kernel(module)
    if function is None:
        return _declined(module, None, "the kernel has more than one function, or branches between blocks")
    for op in function.op.walk():
        if orders_programs(op):
            return _declined(
                module, op, f"{word_of(op)} may give programs an order, which a counter of tiles would change"
            )
    loops = [loop for op in function.body.ops if (loop := ForOp.of(op)) and _strides_over_programs(loop)]
    if len(loops) != 1:
        reason = "no loop, outside of all others, takes every n-th tile, for n programs: range(id, tiles, n)"
        return _declined(module, None, reason if not loops else f"{len(loops)} loops iterate over tiles")
    loop = loops[0]
    return _unfit(module, function, loop) or loop


def _unfit(module: Module, function: FuncOp, loop: ForOp) -> Remark | None:
    """Why the order of the loop's iterations matters, or which program executes them."""
    if loop.inits:
        return _declined(module, loop.op, "the loop over tiles carries values from one tile to the next")
    if loop.induction.type != "i32" or loop.unsigned:
        return _declined(
            module, loop.op, f"the tiles are counted in {loop.induction.type}, a counter has signed 32 bits"
        )
    for op in function.op.walk():
        read = GetProgramIdOp.of(op) or GetNumProgramsOp.of(op)
        if read is not None and read.axis != 0:
            return _declined(
                module, op, f"the loop over tiles of axis 0 is not the only one: {word_of(op)} of axis {read.axis}"
            )
        if GetProgramIdOp.of(op) and any(use.op is not loop.op for use in op.result.uses):
            return _declined(module, op, "the program id is used for more than the first tile")
    if not _same_in_all_programs(function, loop.upper):
        return _declined(module, loop.op, "the number of tiles may differ between programs")
    return None


def _strides_over_programs(loop: ForOp) -> bool:
    first, step = GetProgramIdOp.of(loop.lower.defining_op), GetNumProgramsOp.of(loop.step.defining_op)
    return first is not None and step is not None and first.axis == step.axis == 0


def _same_in_all_programs(function: FuncOp, value: Value) -> bool:
    """Whether a number is computed from arguments and from memory that the kernel does not write."""
    written = _written(function)
    work = Worklist([value])
    for value in work:
        op = value.defining_op
        if op is None:
            if FuncOp.of(value.owner.parent_op) is None:  # type: ignore[union-attr]
                return False
            continue
        if op.regions or GetProgramIdOp.of(op) or not (is_pure(op) or is_plain_load(op)):
            return False
        load = LoadOp.of(op)
        roots = memory_roots(load.pointers) if load else []
        if roots is None or written is None or (load and written.intersection(roots)):
            return False
        work += op.operands
    return True


def _written(function: FuncOp) -> set[Root] | None:
    """The memory that a kernel writes; None if that is unknown."""
    found: set[Root] = set()
    for op in function.op.walk():
        for effect in effects_of(op) if not op.regions else ():
            address = address_of(op, effect) if effect.kind == "write" and effect.space == "global" else None
            roots = memory_roots(address) if address is not None else []
            if roots is None:
                return None
            found.update(roots)
    return found


def _declined(module: Module, op: Operation | None, reason: str) -> Remark:
    return COUNTER.remark(source_of(module, op) if op is not None else None, why=reason)


def forget_order(module: Module) -> None:
    """Removes the mark of the operation that computes the tile from its place in the order."""
    for op in module.walk():
        op.attributes.pop(TILE_ID, None)


@dataclass(frozen=True, slots=True)
class _Order:
    """The operations of the loop's body that compute the tile from its place, which is used for nothing else."""

    steps: tuple[Operation, ...]

    def tile(self, builder: Builder, place: Value, loop: ForOp, tiles: Value, none: Value) -> Value:
        """The tile at a place; -1 behind the last one."""
        mapping: ValueMap = {loop.induction: place}
        for op in self.steps:
            builder.insert(clone_op(op, mapping))
        more = CmpIOp.create(builder, Predicate.SLT, place, tiles)
        return SelectOp.create(builder, more, mapping[self.steps[-1].result], none, "tile")


def _order_of(loop: ForOp) -> _Order | None:
    """The order of the tiles; None if the loop's body uses their places themselves."""
    marked = next((op for op in loop.body.ops if TILE_ID in op.attributes), None)
    if marked is None:
        return None
    needed, work = {marked}, [marked]
    while work:
        made = [operand.defining_op for operand in work.pop().operands]
        fresh = [op for op in made if op is not None and op.parent is loop.body and op not in needed]
        needed.update(fresh)
        work += fresh
    steps = tuple(op for op in loop.body.ops if op in needed)
    inside = all(user in needed for op in steps if op is not marked for user in op.result.users)
    inside = inside and all(user in needed for user in loop.induction.users)
    return _Order(steps) if inside and all(is_pure(op) and not op.regions for op in steps) else None


def _take_from_counter(function: FuncOp, loop: ForOp) -> None:
    counter, order = add_pointer(function, TILE_COUNTER, "i32"), _order_of(loop)
    first, tiles, programs = loop.bounds
    builder = Builder.before(loop.op)
    one, zero, yes = builder.constant(1), builder.constant(0), builder.constant(1, "i1")
    last, none = SubIOp.create(builder, tiles, one, "last"), builder.constant(-1)
    start = first if order is None else order.tile(builder, first, loop, tiles, none)

    test, body = Block(("i32",), ("tile",)), Block(("i32",), ("tile",))
    inside = Builder.at_end(test, loop.op.loc)
    if order is None:
        more = CmpIOp.create(inside, Predicate.SLT, test.args[0], tiles)
    else:
        more = CmpIOp.create(inside, Predicate.SGE, test.args[0], zero)
    inside.create(ConditionOp.NAME, (more, test.args[0]))

    inside = Builder.at_end(body, loop.op.loc)
    (loop.induction if order is None else order.steps[-1].result).replace_all_uses_with(body.args[0])
    for op in loop.body.ops[:-1]:
        if order is None or op not in order.steps:
            body.append(op.detach())
    ticket = _atomic(inside, RmwKind.ADD, (counter, one, yes), "ticket")
    is_last = CmpIOp.create(inside, Predicate.EQ, ticket, last)
    _atomic(inside, RmwKind.EXCHANGE, (counter, zero, is_last))
    following = AddIOp.create(inside, ticket, programs, "next")
    if order is not None:
        following = order.tile(inside, following, loop, tiles, none)
    inside.create(YieldOp.NAME, (following,))

    builder.create(WhileOp.NAME, (start,), ("i32",), regions=[Region([test]), Region([body])], hints=("behind",))
    loop.op.erase()


def _atomic(builder: Builder, kind: RmwKind, operands: tuple[Value, ...], hint: str = "") -> Value:
    properties = {
        "atomic_rmw_op": int_attr(kind),
        "scope": int_attr(_GPU_SCOPE),
        "sem": int_attr(RELAXED),
    }
    return builder.create(AtomicRMWOp.NAME, operands, ("i32",), properties=properties, hints=(hint,)).result
