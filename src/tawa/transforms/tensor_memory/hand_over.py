"""Hand over: rings for buffers in tensor memory that two partitions use in turn.

The dots of one thread (M) and the threads that compute (C) access a buffer in some order. Who comes first in the
program is the writer of its ring; where the other one follows, the buffer changes hands:

    loop { M }                            acquire r; loop { M }; publish r
    C                             →       get r; C; consumed r

    C; loop { C; M }; C                   acquire r; C; loop { acquire r; C; publish r; get r; M; consumed r }
                                          acquire r; C

A loop in which both access the buffer begins, in every iteration, with the partition that also follows it; so a buffer
is in the same hands at its begin, at its end, and if it has no trip. To acquire a slot that is held already is
harmless. Both partitions may change what is in a slot: the buffer is exchanged.

A buffer whose contents no dot needs any more when the writer gets it back may have several slots, two unless the Plan
says otherwise: then the dots of the next tile do not wait for the epilogue of this one. Each consumer group has its own
copy of a ring (`resolve_groups`).

Requires: `accumulate`. Ensures: no buffer in tensor memory but those of rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import AcquireOp, ConsumedOp, CreateOp, Fill, FirstOp, GetOp, PublishOp, RingType
from tawa.dialects.arith import constant_int
from tawa.dialects.scf import LOOPS
from tawa.dialects.tcgen05 import DOTS, TMEMAllocOp, TMEMLoadOp, dot_of, pitch_of
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS
from tawa.errors import PlanError
from tawa.ir import Block, Builder, Module, Operation, Value, clone_op, memdesc_type, source_of
from tawa.ir.attributes import bool_attr, string_attr
from tawa.machine.machines import SM_100
from tawa.plan import Plan
from tawa.plan.fields import TENSOR_RING, RingPlan
from tawa.remarks import Remark
from tawa.transforms.partition.insert_arefs import thread
from tawa.transforms.result import PassResult

Owner = Literal["mma", "consumer"]


TWO_SLOTS = "the dots of the next tile do not wait for the epilogue of this one"
IN_TURN = "the dots and the threads change what is in it by turns"
ONCE = "a program hands it over only once"
NO_ROOM = "a second one does not fit in tensor memory"


@dataclass(frozen=True, slots=True)
class HandOver:
    """plan: has the consumer groups. pins: what the user pins of the rings."""

    plan: Plan = Plan()
    pins: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Makes a ring of every buffer in tensor memory."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        buffers = [made for op in (function.op.walk() if function else ()) if (made := TMEMAllocOp.of(op))]
        if function is None or not buffers:
            return PassResult(changed=False)
        groups = self.plan.groups or 1
        columns = [groups * _columns(it) for it in buffers]
        if sum(columns) > SM_100.tensor_columns:
            place = source_of(module, buffers[0].op)
            reason = f"the accumulators need {sum(columns)} columns of tensor memory, which has {SM_100.tensor_columns}"
            return PassResult(False, (Remark("declined", reason, place, "use a smaller tile"),))
        turns = [_Turns(function.body, it) for it in buffers]
        for it in turns:
            if it.reason:
                return PassResult(True, (Remark("declined", it.reason, source_of(module, it.made.op)),))
        rings = self._rings(turns, columns, groups)
        for it, ring in zip(turns, rings, strict=True):
            it.make_ring(ring.name, ring.slots)
        for op in function.op.walk():
            if op.name in DOTS:
                op.properties["is_async"] = "unit"
        for create in [view for op in function.op.walk() if (view := CreateOp.of(op)) and view.fill not in _OURS]:
            reason = _read_by_dots(create)
            if reason:
                return PassResult(True, (Remark("declined", reason, source_of(module, create.op)),))
        most = SM_100.tensor_columns
        why = {
            f"rings.{ring.name}.depth": f"{_why(ring.slots, it)}; {ring.slots * size} of {most} columns"
            for ring, it, size in zip(rings, turns, columns, strict=True)
        }
        return PassResult(True, decided=Plan(rings=rings), why=why)

    def _rings(self, turns: Sequence[_Turns], columns: Sequence[int], groups: int) -> tuple[RingPlan, ...]:
        """The rings, with the pinned depths; raises PlanError for a pinned value that a ring cannot have.

        columns: of one slot of all copies of each ring.
        """
        names = [f"{TENSOR_RING}{number}" for number in range(len(turns))]
        if unknown := [it.name for it in self.pins.rings if it.in_tensor_memory and it.name not in names]:
            raise PlanError(
                f"the Plan names a ring that the kernel does not have: {unknown[0]}; cure: {', '.join(names)}"
            )
        pins = [self.pins.ring(it) for it in names]
        least = [1 if pin.depth is None else pin.depth for pin in pins]
        needed = sum(depth * size for depth, size in zip(least, columns, strict=True))
        found: list[RingPlan] = []
        for pin, it, size in zip(pins, turns, columns, strict=True):
            depth = pin.depth
            if depth is None:
                depth = 2 if not it.why_one and needed + size <= SM_100.tensor_columns else 1
                needed += size * (depth - 1)
            elif depth != 1 and (it.why_one or not depth):
                raise PlanError(f"D = {depth} in {pin.name}: {it.why_one or 'a ring has a slot'}; cure: D = 1")
            ring = RingPlan(pin.name, (it.made.buffer.type,), depth, 0, groups, it.fill)
            _check_pinned(pin, ring)
            found.append(ring)
        if needed > SM_100.tensor_columns:
            deep = max(found, key=lambda ring: ring.slots)
            raise PlanError(
                f"D = {deep.depth} in {deep.name}: {needed} columns of tensor memory, which has "
                f"{SM_100.tensor_columns}; cure: D = {deep.slots - 1} or less"
            )
        return tuple(found)


def _check_pinned(pin: RingPlan, ring: RingPlan) -> None:
    """Raises PlanError for what a Plan has otherwise than the kernel."""
    for it in fields(RingPlan):
        asked, own = getattr(pin, it.name), getattr(ring, it.name)
        if asked not in (None, (), own):
            raise PlanError(f"the Plan has {it.name}={asked!r} in {ring.name}; cure: {it.name}={own!r}")


def _why(depth: int, turns: _Turns) -> str:
    """The reason for D."""
    return TWO_SLOTS if depth > 1 else turns.why_one or NO_ROOM


_OURS = ("commit", "threads")


def _read_by_dots(create: CreateOp) -> str:
    """Lets the partition of the dots read a ring of loaded tiles: commits release its slots."""
    gets = [use.op for use in create.op.result.uses if GetOp.matches(use.op)]
    readers = [op for get in gets for view in get.results for op in slot_readers(view)]
    if not any(op.name in DOTS for op in readers):
        return ""
    if not all(op.name in DOTS for op in readers):
        return "both a dot and the threads read a tile that is loaded for a dot"
    create.op.properties["reader"] = string_attr("mma")
    for use in create.op.result.uses:
        if ConsumedOp.matches(use.op):
            use.op.properties["by_commit"] = bool_attr(True)
    return ""


def _columns(made: TMEMAllocOp) -> int:
    """The columns of 32 bits that a buffer takes: a power of two, 32 or more."""
    type = memdesc_type(made.buffer.type)
    columns = type.shape[-1] * pitch_of(made.op, type) // 32
    return max(32, 1 << (columns - 1).bit_length())


class _Turns:
    """Who accesses a buffer, in the order of the program."""

    def __init__(self, body: Block, made: TMEMAllocOp) -> None:
        self.body, self.made = body, made
        self.accesses: dict[Operation, Owner] = {op: _owner(op) for op in _users(made.buffer)}
        self.reason = ""
        self.writer: Owner = next((self.accesses[op] for op in body.parent_op.walk() if op in self.accesses), "mma")  # type: ignore[union-attr]
        self.puts: list[Operation] = []
        self.gets: list[tuple[Operation, Operation]] = []
        self.ring: Value = made.buffer
        self._check(body)

    @property
    def reader(self) -> Owner:
        """The other partition."""
        return "consumer" if self.writer == "mma" else "mma"

    @property
    def fill(self) -> Fill:
        """How the writer fills a slot."""
        return "commit" if self.writer == "mma" else "threads"

    @property
    def why_one(self) -> str:
        """Why the ring has one slot; empty if the writer needs nothing of what is in a slot, and gets it in a loop."""
        loops = {it for op in self.accesses for it in op.ancestors() if it.name in LOOPS}
        if self.writer != "mma":
            return IN_TURN
        dots = [dot for op in self.accesses if (dot := dot_of(op))]
        reads = [dot for dot in dots if self._is_view(dot.a) or self._is_view(dot.b)]
        loads = all(TMEMLoadOp.matches(op) for op, owner in self.accesses.items() if owner == "consumer")
        if reads or not loads or any(constant_int(dot.use_d) == 1 for dot in dots):
            return IN_TURN
        return "" if any(len(set(self._inside(it))) > 1 for it in loops) else ONCE

    def _is_view(self, value: Value) -> bool:
        op = value.defining_op
        while op is not None and op.name in VIEWS:
            value, op = op.operands[0], op.operands[0].defining_op
        return value is self.made.buffer

    def _inside(self, op: Operation) -> list[Owner]:
        """Who accesses the buffer in an operation, in order."""
        found: list[Owner] = [self.accesses[it] for it in op.walk() if it in self.accesses]
        return found

    def _items(self, block: Block) -> list[tuple[Operation, list[Owner]]]:
        return [(op, found) for op in block.ops if (found := self._inside(op))]

    def _check(self, block: Block, around: Owner | None = None) -> None:
        """Sets the reason for which the buffer cannot change hands. around: who follows the block, if it is known."""
        items = self._items(block)
        for (op, inside), following in zip(items, [*items[1:], None], strict=True):
            after = following[1][0] if following else around
            if len(set(inside)) == 1:
                continue
            if op.name not in LOOPS:
                self.reason = "both the dots and the threads access an accumulator under a condition"
                return
            if after is not None and after != inside[0]:
                self.reason = "a loop ends with an accumulator in other hands than it begins"
                return
            for region in op.regions:
                for nested in region.blocks:
                    self._check(nested, inside[0])

    # -- the ring ------------------------------------------------------------------------------------------------------

    def make_ring(self, name: str, depth: int) -> None:
        """Replaces the buffer by a ring."""
        builder = Builder.at_start(self.body, self.made.op.loc)
        type = RingType(depth, (self.made.buffer.type,))
        properties = {"name": string_attr(name), "fill": string_attr(self.fill), "reader": string_attr(self.reader)}
        self.ring = builder.create(CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result
        first = builder.create(FirstOp.NAME, (self.ring,), (type.index_type,), hints=("count",)).result
        self._place(self.body, first, None, None)
        thread(self.body, first, {*self.puts, *(get for get, _ in self.gets)})
        for get, consumed in self.gets:
            consumed.set_operand(ConsumedOp.index.index, GetOp(get).index)
        for op in [it for it in self.made.buffer.users if it.name in VIEWS]:
            _erase_view(op)
        self.made.op.erase()

    def _place(self, block: Block, count: Value, before: Owner | None, after: Owner | None) -> None:
        """Places the accesses to the ring in a block. before, after: who accesses the buffer around it."""
        items = self._items(block)
        held: Value | None = None
        got: Operation | None = None
        last = before
        for (op, inside), following in zip(items, [*items[1:], None], strict=True):
            follows = following[1][0] if following else after
            if len(set(inside)) > 1:
                for region in op.regions:
                    for nested in region.blocks:
                        self._place(nested, count, inside[-1], inside[0])
                held, got, last = None, None, None
                continue
            owner = inside[0]
            builder = Builder.before(op)
            if held is None or last != owner:
                name = AcquireOp.NAME if owner == self.writer else GetOp.NAME
                buffer = self.made.buffer
                made = builder.create(name, (self.ring, count), (buffer.type,), hints=(buffer.hint,))
                held, got = made.results[0], made if owner == self.reader else None
                if owner == self.writer:
                    self.puts.append(made)
            self._use(op, held)
            last = owner
            if follows == owner:
                continue
            behind = Builder.after(op)
            if owner == self.reader:
                assert got is not None
                commit = {"by_commit": bool_attr(True)} if owner == "mma" else {}
                consumed = behind.create(ConsumedOp.NAME, (self.ring, count), properties=commit)
                self.gets.append((got, consumed))
            elif follows is not None:
                self.puts.append(behind.create(PublishOp.NAME, (self.ring, count)))
            held = None

    def _use(self, op: Operation, view: Value) -> None:
        """Lets the accesses inside an operation use the view of a slot, through views of their own."""
        for access in [it for it in op.walk() if it in self.accesses]:
            for at, operand in enumerate(access.operands):
                if operand.type.startswith("!ttg.memdesc") and self._is_view(operand):
                    access.set_operand(at, _viewed(Builder.before(access), operand, self.made.buffer, view))


def _viewed(builder: Builder, operand: Value, root: Value, view: Value) -> Value:
    """The same view of another buffer."""
    if operand is root:
        return view
    op = operand.defining_op
    assert op is not None
    copy = clone_op(op, {op.operands[0]: _viewed(builder, op.operands[0], root, view)})
    return builder.insert(copy).results[0]


def _erase_view(op: Operation) -> None:
    for user in [it for it in op.result.users if it.name in VIEWS]:
        _erase_view(user)
    op.erase()


def _users(buffer: Value) -> Sequence[Operation]:
    """The operations that access a buffer, directly or through views."""
    found: dict[Operation, None] = {}
    for user in buffer.users:
        if user.name in VIEWS:
            found.update(dict.fromkeys(_users(user.result)))
        else:
            found[user] = None
    return list(found)


def _owner(op: Operation) -> Owner:
    return "mma" if op.name in DOTS else "consumer"


__all__ = ["HandOver"]
