"""Hand over: rings for buffers that the partition of the dots and the threads use in turn.

The dots of one thread (M) and the threads that compute (C) access a buffer in some order. Who comes first in the
program is the writer of its ring; where the other one follows, the buffer changes hands:

    loop { M }                            acquire r; loop { M }; publish r
    C                             →       get r; C; consumed r

    C; loop { C; M }; C                   acquire r; C; loop { acquire r; C; publish r; get r; M; consumed r }
                                          acquire r; C

A loop or a branch in which both access the buffer begins with the partition that also follows it; so a buffer is in the
same hands at its begin, at its end, and if it is not executed. To acquire a slot that is held already is
harmless. Both partitions may change what is in a slot: the buffer is exchanged.

A buffer whose contents no dot needs any more when the writer gets it back may have several slots, two unless the Plan
says otherwise: then the next dots do not wait until this result has been read. Each consumer group has its own
copy of a ring (`resolve_groups`).

These are the buffers in tensor memory, and the operands in shared memory that the threads compute.

Requires: `accumulate`, `store_operands`. Ensures: no such buffer but those of rings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.analysis.rings.channels import slot_readers
from tawa.declines import TENSOR_COLUMNS, TENSOR_MEMORY
from tawa.dialects.aref import EXCHANGES, AcquireOp, ConsumedOp, CreateOp, Fill, FirstOp, GetOp, PublishOp, RingType
from tawa.dialects.arith import constant_int
from tawa.dialects.scf import LOOPS
from tawa.dialects.tcgen05 import CORRECTED, DOTS, ISSUED_BY_ONE_THREAD, TMEMAllocOp, TMEMLoadOp, dot_of
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, whole_of
from tawa.ir import Block, Builder, Module, Operation, Value, clone_op, source_of
from tawa.ir.attributes import bool_attr, string_attr
from tawa.machine.machines import SM_100
from tawa.plan import Plan
from tawa.transforms.partition.insert_arefs import thread
from tawa.transforms.result import PassResult
from tawa.transforms.tensor_memory.buffers import changes_hands, columns_of
from tawa.transforms.tensor_memory.tensor_rings import IN_TURN, ONCE, Exchange, reasons, rings_of

_BY_CONSUMER = "pin the path of this operand to 'consumer': then the threads load it, and store it for the dot"
Owner = Literal["mma", "consumer", "correction"]


@dataclass(frozen=True, slots=True)
class HandOver:
    """plan: has the consumer groups. pins: what the user pins of the rings."""

    plan: Plan = Plan()
    pins: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Makes a ring of every buffer in tensor memory."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        buffers = [op for op in (function.op.walk() if function else ()) if changes_hands(op)]
        if function is None or not buffers:
            return PassResult(changed=False)
        work = next((op.parent for op in function.op.walk() if CreateOp.matches(op) and op.parent), function.body)
        copied = [op.result for op in function.op.walk() if TMEMAllocOp.matches(op) and op not in buffers]
        columns = [columns_of(it) * (self.plan.groups or 1) for it in (*(op.result for op in buffers), *copied)]
        if sum(columns) > SM_100.tensor_columns:
            place = source_of(module, buffers[0])
            remark = TENSOR_COLUMNS.remark(place, columns=sum(columns), most=SM_100.tensor_columns)
            return PassResult(False, (remark,))
        turns = [_Turns(work, it) for it in buffers]
        for it in turns:
            if it.reason:
                return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, it.made), why=it.reason),))
        exchanges = [Exchange(it.buffer, it.fill, it.why_one) for it in turns]
        rings = rings_of(self.pins, exchanges, self.plan.groups or 1, sum(map(columns_of, copied)))
        why = reasons(rings, exchanges)
        for it, ring in zip(turns, rings, strict=True):
            it.make_ring(ring.name, ring.slots)
        for op in function.op.walk():
            if op.name in DOTS:
                op.properties["is_async"] = "unit"
        for create in [view for op in function.op.walk() if (view := CreateOp.of(op)) and view.fill not in EXCHANGES]:
            reason = _read_by_dots(create)
            if reason:
                return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, create.op), _BY_CONSUMER, why=reason),))
        return PassResult(True, decided=Plan(rings=rings), why=why)


def _read_by_dots(create: CreateOp) -> str:
    """Lets the partition of the dots read a ring of loaded tiles: commits release its slots."""
    gets = [use.op for use in create.op.result.uses if GetOp.matches(use.op)]
    readers = [op for get in gets for view in get.results for op in slot_readers(view)]
    if not any(op.name in ISSUED_BY_ONE_THREAD for op in readers):
        return ""
    if not all(op.name in ISSUED_BY_ONE_THREAD for op in readers):
        return "both a dot and the threads read a tile that is loaded for a dot"
    create.op.properties["reader"] = string_attr("mma")
    for use in create.op.result.uses:
        if ConsumedOp.matches(use.op):
            use.op.properties["by_commit"] = bool_attr(True)
    return ""


class _Turns:
    """Who accesses a buffer, in the order of the program."""

    def __init__(self, body: Block, made: Operation) -> None:
        self.body, self.made, self.buffer = body, made, made.result
        self.threads: Owner = "correction" if CORRECTED in made.attributes else "consumer"
        self.accesses: dict[Operation, Owner] = {op: self._owner(op) for op in slot_readers(self.buffer)}
        self.reason = ""
        owners = self._inside(body.parent_op) if body.parent_op is not None else []
        self.writer: Owner = owners[0] if owners else "mma"
        self.puts: list[Operation] = []
        self.gets: list[tuple[Operation, Operation]] = []
        self.ring: Value = self.buffer
        if not all(op.within(body) for op in self.accesses):
            self.reason = "an accumulator is used outside the branch in which its operands are loaded"
        else:
            self._check(body)

    @property
    def reader(self) -> Owner:
        """The other partition."""
        return self.threads if self.writer == "mma" else "mma"

    @property
    def fill(self) -> Fill:
        """How the writer fills a slot."""
        return "commit" if self.writer == "mma" else "threads"

    @property
    def why_one(self) -> str:
        """Why the ring has one slot; empty if the writer needs nothing of what is in a slot, and gets it in a loop."""
        loops = {it for op in self.accesses for it in op.ancestors() if it.name in LOOPS}
        if self.writer != "mma":
            return IN_TURN.format(self.threads)
        dots = [dot for op in self.accesses if (dot := dot_of(op))]
        reads = [dot for dot in dots if self._is_view(dot.a) or self._is_view(dot.b)]
        loads = all(TMEMLoadOp.matches(op) for op, owner in self.accesses.items() if owner != "mma")
        if reads or not loads or any(constant_int(dot.use_d) == 1 for dot in dots):
            return IN_TURN.format(self.threads)
        return "" if any(len(set(self._inside(it))) > 1 for it in loops) else ONCE

    def _owner(self, op: Operation) -> Owner:
        return "mma" if op.name in ISSUED_BY_ONE_THREAD else self.threads

    def _is_view(self, value: Value) -> bool:
        return whole_of(value) is self.buffer

    def _inside(self, op: Operation) -> list[Owner]:
        """Who accesses the buffer in an operation, in order."""
        found: list[Owner] = [self.accesses[it] for it in op.walk() if it in self.accesses]
        return found

    def _items(self, block: Block, around: Owner | None) -> list[tuple[Operation, list[Owner], Owner | None]]:
        """What accesses the buffer in a block, who does, and who follows. around: who follows the block, if known."""
        found = [(op, inside) for op in block.ops if (inside := self._inside(op))]
        following: list[Owner | None] = [*(inside[0] for _, inside in found[1:]), around]
        return [(op, inside, after) for (op, inside), after in zip(found, following, strict=False)]

    def _check(self, block: Block, around: Owner | None = None) -> None:
        """Sets the reason for which the buffer cannot change hands. around: who follows the block, if it is known."""
        before: Owner | None = None
        for op, inside, after in self._items(block, around):
            if len(set(inside)) == 1:
                before = inside[0]
                continue
            nested = [it for region in op.regions for it in region.blocks]
            if after is not None and after != inside[0]:
                self.reason = "a loop or branch hands an accumulator to the other partition and does not get it back"
            elif inside[0] == before == self.reader:
                self.reason = "a loop or branch first uses an accumulator in the partition that used it last before"
            elif any(found[0][1][0] != inside[0] for it in nested if (found := self._items(it, None))):
                self.reason = "the branches of a condition first use an accumulator in different partitions"
            before = None
            for it in nested if not self.reason else ():
                self._check(it, inside[0])

    # -- the ring ------------------------------------------------------------------------------------------------------

    def make_ring(self, name: str, depth: int) -> None:
        """Replaces the buffer by a ring."""
        builder = Builder.at_start(self.body, self.made.loc)
        type = RingType(depth, (self.buffer.type,))
        properties = {"name": string_attr(name), "fill": string_attr(self.fill), "reader": string_attr(self.reader)}
        properties |= {"corrected": "unit"} if self.writer == "correction" else {}
        self.ring = builder.create(CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result
        first = builder.create(FirstOp.NAME, (self.ring,), (type.index_type,), hints=("count",)).result
        self._place(self.body, first, None, None)
        thread(self.body, first, {*self.puts, *(get for get, _ in self.gets)})
        for get, consumed in self.gets:
            consumed.set_operand(ConsumedOp.index.index, GetOp(get).index)
        for op in [it for it in self.buffer.users if it.name in VIEWS]:
            _erase_view(op)
        self.made.erase()

    def _place(self, block: Block, count: Value, before: Owner | None, after: Owner | None) -> None:
        """Places the accesses to the ring in a block. before, after: who accesses the buffer around it."""
        held: Value | None = None
        got: Operation | None = None
        last = before
        for op, inside, follows in self._items(block, after):
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
                types, hints = (self.buffer.type,), (self.buffer.hint,)
                made = builder.create(name, (self.ring, count), types, hints=hints)
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
            if self.accesses[access] == "correction":
                access.attributes[CORRECTED] = "unit"
            for at, operand in enumerate(access.operands):
                if operand.type.startswith("!ttg.memdesc") and self._is_view(operand):
                    access.set_operand(at, _viewed(Builder.before(access), operand, self.buffer, view))


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
