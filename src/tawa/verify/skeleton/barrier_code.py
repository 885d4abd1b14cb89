"""Compiles the operations that only the barrier level has: events on barriers and memory, views, tiles in flight.

    ttng.wait_barrier %slot, %p, %true     →   ACT wait
    %slot = ttg.memdesc_index %full[%s]    →   VIEW
    %t = arith.select %c, %one, %other     →   PICK            of tiles that a dot may still write

The events themselves are in `skeleton.barrier_level`.
"""

from __future__ import annotations

from typing import Any

from tawa.dialects.aref import LandedOp
from tawa.dialects.builtin import CastOp
from tawa.dialects.inline.effects import acts
from tawa.dialects.ttg import VIEWS, MemDescIndexOp
from tawa.dialects.ttng import ReinterpretTensorDescOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Operation, Value
from tawa.verify.run.events import Act
from tawa.verify.run.places import Place
from tawa.verify.skeleton.barrier_level import DESCRIBING, Accesses, barrier_events, chooses_tile, in_loop
from tawa.verify.skeleton.emitter import Emitter
from tawa.verify.skeleton.named_barriers import assembly
from tawa.verify.skeleton.program import Code, UnsupportedError


class BarrierCode:
    """The compiler of the barrier level, as its templates use it."""

    def __init__(self, code: Emitter, accesses: Accesses) -> None:
        self.code = code
        self.accesses = accesses

    def compiled(self, op: Operation) -> bool:
        """Compiles an operation that only the barrier level has; returns whether it is one."""
        accesses = self.accesses
        if landed := LandedOp.of(op):
            count = self.code.use(landed.index)
            self.act(Act("landed", op, amount=self.code.ring(landed), reads=(count,)))
            return True
        if acts(op):
            assembly(self, op, accesses.forks)
            return True
        if chooses_tile(op):
            if op.result in self.code.needed:
                self.code.emit(op, Code.PICK, *(self.code.use(it) for it in op.operands), self.code.define(op.result))
            return True
        if accesses.uses_tile(op) and not WarpGroupDotWaitOp.matches(op):
            tiles = [it for it in op.operands if it in accesses.tiles]
            if dot := WarpGroupDotOp.of(op):
                tiles = [it for it in tiles if it is not dot.accumulator]
            if tiles:
                self.act(Act("use", op, uses=tuple(self.code.use(it) for it in tiles)))
        make = barrier_events().get(op.name)
        if make is not None and (op.name not in DESCRIBING or in_loop(op)):
            make(self, op)
            return True
        if op in accesses.allocations and op.results[0] in self.code.needed:
            self.code.registers[self.code.define(op.results[0])] = Place(accesses.allocations[op])
            return True
        if op.name in (CastOp.NAME, ReinterpretTensorDescOp.NAME) and op.result in self.code.needed:
            self.code.register[op.result] = self.code.use(op.operands[0])
            return True
        if op.name in VIEWS:
            if op.result in self.code.needed:
                slot = self.code.use(MemDescIndexOp(op).index) if op.name == MemDescIndexOp.NAME else -1
                self.code.emit(op, Code.VIEW, self.code.use(op.operands[0]), slot, self.code.define(op.result))
            return True
        return False

    def use(self, value: Value) -> int:
        """The register of a value."""
        return self.code.use(value)

    def define(self, value: Value) -> int:
        """The register of a value that an operation makes; -1 if nothing needs it."""
        return self.code.define(value) if value in self.code.needed else -1

    def constant(self, number: Any) -> int:
        """A register with this content."""
        return self.code.constant(number)

    def act(self, act: Act, *conditions: Value | None) -> None:
        """Emits an event, under conditions that must all hold."""
        asked = {it: self.code.canonical.get(it) for it in conditions if it is not None}
        if any(isinstance(holds, int) and not holds for holds in asked.values()):
            return
        unknown = [it for it, holds in asked.items() if not isinstance(holds, int)]
        starts = [self.code.emit(act.op, Code.IF, self.code.use(it), -1) for it in unknown]
        number = self.code.sources.crossed.stores.get(act.op) if act.kind == "write" else None
        if number is not None:
            act.number = self.code.use(number)
        if act.kind == "read" and (number := self.code.sources.crossed.loads.get(act.op)) in self.code.needed:
            assert number is not None
            act.number, act.takes = self.code.define(number), True
        self.code.part.puts += act.kind in ("copy in", "cp.async")
        self.code.emit(act.op, Code.ACT, act)
        for at in starts:
            self.code.patch(at, 2, len(self.code.part.code))

    def allocate(self, op: Operation) -> None:
        """An allocation, which is also a write if it has an initial value."""
        register = self.code.define(op.results[0])
        self.code.registers[register] = Place(self.accesses.allocations[op])
        if op.operands:
            self.act(Act("write", op, (register,), reads=(register,)))

    def describe(self, op: Operation, memory: Value, kind: str) -> None:
        """The creation of a descriptor in a loop."""
        while memory not in self.accesses.described and memory.defining_op is not None:
            memory = memory.defining_op.operands[0]
        if memory.defining_op not in self.accesses.allocations:
            raise UnsupportedError("a descriptor in memory that is not an allocation of this kernel", op)
        register = self.code.define(memory)
        self.code.registers[register] = Place(self.accesses.allocations[memory.defining_op])
        self.act(Act(kind, op, (register,), reads=(register,)))

    def free(self, op: Operation, buffer: Value) -> None:
        """The end of the live range of an allocation. The memory of barriers is not reused before they are invalid."""
        if not self.accesses.roots_of(buffer) & self.accesses.barriers:
            register = self.code.use(buffer)
            self.act(Act("free", op, (register,), reads=(register,)))
