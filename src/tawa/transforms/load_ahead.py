"""Load ahead: what a consumer loads by itself in a loop, it loads an iteration before it is used.

    for k:                            x0 = load(p + lower), where lower < upper
      …                               for k, x:
      x = load(p + k)           →       n = load(p + k + step), where k + step < upper
      … use x                           … use x
                                        yield n

Rows that meet a product stay with the consumer: gates, softmax statistics, biases. Where it loads them it waits for
global memory in each iteration; stock Triton's pipeliner copies them ahead. The forward pass of the gated delta rule,
whose iterations wait for each other, is slower than stock Triton's without.

Only loads of numbers and rows, whose address is computed from the loop's variable, from what the loop counts, and from
what it does not change, and that nothing written in the loop may lie in. The schedule of a staged loop moves loads by
itself.

Requires: `partition`.
Ensures: the same values; no address is read that the loop as it was does not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.analysis.effects import effects_of, gives_order, is_plain_load, is_pure
from tawa.analysis.layouts import WARP
from tawa.analysis.memory import memory_roots
from tawa.analysis.split_rules import has_rows
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import DOTS, LoadOp
from tawa.dialects.warp import find_groups
from tawa.ir import Builder, Module, Operation, TensorType, Value, clone_op, parse_type
from tawa.ir.attributes import array_attr
from tawa.plan import Plan
from tawa.plan.schedule import Schedule
from tawa.transforms.pipeline_stages import choose_schedules, staged_loops
from tawa.transforms.result import PassResult

MOST_BYTES = 32
"""Of all that is carried so, for each thread."""
_LESS, _UNSIGNED_LESS = 2, 6  # arith.cmpi; what is left of a loop is exact as an unsigned number
_DIVISIONS = ("arith.div", "arith.rem", "arith.ceildiv", "arith.floordiv")


@dataclass(frozen=True, slots=True)
class LoadAhead:
    """Options: those of `PipelineStages`, whose loops are left alone.

    A Plan without stages has none of this either: it is for kernels that have no registers left.
    """

    plan: Plan
    schedules: tuple[Schedule, ...] | None = None

    def run(self, module: Module) -> PassResult:
        """Moves the loads of every loop with a dot in every consumer."""
        if self.plan.max_stages == 0:
            return PassResult(changed=False)
        schedules = choose_schedules(module, self.plan) if self.schedules is None else self.schedules
        loops = staged_loops(module)
        staged = {loops[schedule.loop].op for schedule in schedules}
        changed = False
        for group in find_groups(module):
            for op in list(group.op.walk()) if group.role == "consumer" else ():
                loop = ForOp.of(op)
                if loop and op not in staged and not loop.unsigned and any(it.name in DOTS for it in loop.body.ops):
                    changed |= _Ahead(loop, group.num_warps).run()
        return PassResult(changed)


@dataclass(slots=True)
class _Ahead:
    """One loop under change."""

    loop: ForOp
    num_warps: int
    _needed: dict[Value, bool] = field(default_factory=dict[Value, bool])

    def run(self) -> bool:
        """Moves what may be moved, as long as there is room."""
        if any(gives_order(op) and not _is_of_rings(op) for op in self.loop.op.walk()):
            return False
        room = MOST_BYTES
        for op in list(self.loop.body.ops):
            size = self._bytes(op) if is_plain_load(op) and op.result.uses else room + 1
            if size <= room and all(map(self._is_known, op.operands)) and not self._is_written(op):
                self._move(LoadOp(op))
                room -= size
        return room < MOST_BYTES

    def _bytes(self, load: Operation) -> int:
        """Of a row, as many as there would be if no two threads held the same; too many of any other tile."""
        type = parse_type(load.result.type)
        if not isinstance(type, TensorType):
            return 4
        return MOST_BYTES + 1 if has_rows(load.result) else max(4, type.bytes // (self.num_warps * WARP))

    def _is_known(self, value: Value) -> bool:
        """Whether a value can be computed for the next iteration as well as for this one."""
        if value not in self._needed:
            self._needed[value] = False  # while it is being worked out: what depends on itself
            self._needed[value] = self._work_out(value)
        return self._needed[value]

    def _work_out(self, value: Value) -> bool:
        if value.owner is self.loop.body:
            return value.index == 0 or self._is_counted(value)
        op = value.defining_op
        if op is None or op.parent is not self.loop.body:
            return op is None or not self.loop.op.is_ancestor_of(op)
        if not is_pure(op) or op.regions or op.name in DOTS or _may_divide_by_zero(op):
            return False
        return all(map(self._is_known, op.operands))

    def _is_counted(self, value: Value) -> bool:
        """Whether a carried value is the one before moved on, as pointers are: no tile of sums."""
        end = self.loop.yielded[value.index - 1]
        self._needed[value] = True  # what it becomes may depend on what it is
        known = end is value or self._is_known(end)
        if not known:
            self._needed = {other: fact for other, fact in self._needed.items() if not fact}
        return known

    def _is_written(self, load: Operation) -> bool:
        """Whether something written in the loop may lie where `load` reads."""
        roots = memory_roots(load.operands[0])
        for op in self.loop.op.walk():
            for effect in effects_of(op) if not op.regions else ():
                if effect.kind != "write" or effect.space != "global":
                    continue
                written = memory_roots(op.operands[effect.operand]) if effect.operand is not None else None
                if roots is None or written is None or any(root in written for root in roots):
                    return True
        return False

    # -- the move ----------------------------------------------------------------------------------------------------

    def _move(self, load: LoadOp) -> None:
        lower, upper, step = self.loop.bounds
        first, start = Builder.before(self.loop.op), Builder.at_start(self.loop.body)
        first.loc = start.loc = load.op.loc
        inits = dict(zip(self.loop.iter_args, self.loop.inits, strict=True))
        init = self._load(load, first, {self.loop.induction: lower, **inits}, _less(first, lower, upper))
        following = _arithmetic(start, "arith.addi", self.loop.induction, step)
        left = _arithmetic(start, "arith.subi", upper, self.loop.induction)
        ahead: dict[Value, Value] = {self.loop.induction: following}
        now: dict[Value, Value] = {}
        for arg, end in zip(self.loop.iter_args, self.loop.yielded, strict=True):
            if self._is_known(arg) and self._leads_to(load, arg):
                ahead[arg] = self._computed(end, start, now)
        made = self._load(load, start, ahead, _less(start, step, left, _UNSIGNED_LESS))
        carried = self.loop.carry(init, load.op.result.hint)
        self.loop.body.terminator.add_operand(made)
        load.op.result.replace_all_uses_with(carried)
        load.op.erase()

    def _leads_to(self, load: LoadOp, arg: Value) -> bool:
        """Whether the address or the mask depends on a carried value."""
        seen: set[Value] = set()
        work = list(load.op.operands)
        while work:
            value = work.pop()
            if value is arg:
                return True
            op = value.defining_op
            if value in seen or op is None or op.parent is not self.loop.body:
                continue
            seen.add(value)
            work += op.operands
        return False

    def _load(self, load: LoadOp, builder: Builder, values: dict[Value, Value], some: Value) -> Value:
        """The load with other values for what the loop changes, where `some` holds."""
        operands = [self._computed(operand, builder, values) for operand in load.op.operands]
        tile, mask = load.tile, load.mask
        if tile is not None:
            type = f"tensor<{'x'.join(map(str, tile.shape))}xi1, {tile.encoding}>" if mask is None else mask.type
            some = builder.create("tt.splat", (some,), (type,)).result
        if mask is not None:
            some = builder.create("arith.andi", (operands[1], some), (some.type,)).result
        rest = operands[2:] if mask is not None else operands[1:]
        made = clone_op(load.op, dict(zip(load.op.operands, operands, strict=True)))
        made.set_operands([operands[0], some, *rest])
        made.properties["operandSegmentSizes"] = array_attr([1, 1, len(rest)])
        return builder.insert(made).result

    def _computed(self, value: Value, builder: Builder, values: dict[Value, Value]) -> Value:
        """A value of the loop's body, computed again from other values for its arguments."""
        op = value.defining_op
        if value in values or op is None or op.parent is not self.loop.body:
            return values.get(value, value)
        for operand in op.operands:
            self._computed(operand, builder, values)
        builder.insert(clone_op(op, values))
        return values[value]


def _is_of_rings(op: Operation) -> bool:
    """Whether what an operation orders is in shared memory."""
    return op.name.startswith(("aref.", "ttg.", "ttng.")) and not op.name.endswith("barrier")


def _may_divide_by_zero(op: Operation) -> bool:
    """Whether an operation may be undefined in an iteration that there is not."""
    if not op.name.startswith(_DIVISIONS):
        return False
    divisor = op.operands[1].defining_op
    return divisor is None or divisor.name != "arith.constant"


def _arithmetic(builder: Builder, name: str, left: Value, right: Value) -> Value:
    wrap = {"overflowFlags": "#arith.overflow<none>"}
    return builder.create(name, (left, right), (left.type,), properties=wrap).result


def _less(builder: Builder, left: Value, right: Value, predicate: int = _LESS) -> Value:
    return builder.create("arith.cmpi", (left, right), ("i1",), properties={"predicate": f"{predicate} : i64"}).result


__all__ = ["LoadAhead"]
