"""Compiles the protocol skeleton of an aref-level module: lists of instructions over numbered registers.

    scf.for %k = %l to %u step %s (%i = %i0)         MOVE i ← i0
      aref.put %r[%i]                                FOR l, u, s
      %n = aref.advance %i                  →        PUT r, i
      yield %n                                       ADVANCE n ← i
                                                     MOVE i ← n
                                                     NEXT
The skeleton keeps puts, gets, releases, wgmmas and their waits, reads of views, and every scalar that a count, a bound
or a condition depends on. It drops tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.dialects.aref import AccessOp, AdvanceOp, ConsumedOp, CreateOp, FirstOp, GetOp, PutOp, index_depth
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.declare.declaration import by_name, effects_by_name
from tawa.dialects.scalars import scalar_of, width_of
from tawa.dialects.scf import CONTROL, ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Module, Operation, Value
from tawa.verify.credits.live import live_registers, uses_of
from tawa.verify.credits.skeleton import (
    MAIN,
    Code,
    Loop,
    Part,
    Program,
    Ring,
    Term,
    Terms,
    UnsupportedError,
    integer_arguments,
    merge_ranges,
    plain_name,
)
from tawa.verify.credits.sources import PROTOCOL, Sources, find_iteration_dependence, origin_of
from tawa.verify.given_numbers import given_numbers


def compile_skeleton(module: Module) -> Program | None:
    """The skeleton; None if the module has no ring. Raises `UnsupportedError`."""
    functions = [op for op in module.body.ops if FuncOp.matches(op)]
    holders = [op for op in functions if any(CreateOp.of(inner) for inner in op.walk())]
    if not holders:
        return None
    if len(holders) > 1 or len(holders[0].regions[0].blocks) != 1:
        raise UnsupportedError("rings in more than one function, or in a function with several blocks", holders[0])
    return _Compiler(module, holders[0]).compile()


class _Compiler:
    def __init__(self, module: Module, function: Operation) -> None:
        self.function = function
        self.register: dict[Value, int] = {}
        self.registers: list[Any] = []
        self.sources = Sources(function)
        self.given = given_numbers(function.walk())
        self.needed = self.sources.needed
        self.rings: dict[Value, int] = {}
        self.canonical: dict[Value, Any] = {}
        self.program = Program(module, [], [], [], self.registers, {}, Terms(), {}, crossed=self.sources.crossed)
        self.part = Part(MAIN)
        self.groups: list[Operation] = []
        self._control = by_name({ForOp: self._scf_for, IfOp: self._scf_if, WhileOp: self._scf_while})
        self.kinds: dict[int, int] = {}  # per register: the ring of a count, −1 for conditions and views

    def compile(self) -> Program:
        program, body = self.program, self.function.regions[0].block
        for arg, name in integer_arguments(self.function).items():
            term = program.terms(("argument", arg.index), name)
            program.arguments[name] = term
            self.canonical[arg] = term
        for arg in body.args:
            if arg not in self.canonical and not arg.type.startswith("tensor<"):
                self.canonical[arg] = program.terms(("argument", arg.index), plain_name(arg.hint))
        for arg in body.args:
            if arg in self.needed:
                self._define(arg, self.canonical.get(arg))
        self.groups = [group.op for group in find_groups(program.module)]
        program.parts.append(self.part)
        self._block(body, body.ops[:-1])
        self._emit(None, Code.END)
        for part in program.parts:
            part.uses = uses_of(part.code)
            part.live = live_registers(part.uses, self.kinds)
        program.measure = lambda: find_iteration_dependence(program, self.sources, self.canonical)
        return program

    # -- instructions ------------------------------------------------------------------------------------------------

    def _emit(self, op: Operation | None, *instruction: Any) -> int:
        self.part.code.append(instruction)
        self.part.ops.append(op)
        return len(self.part.code) - 1

    def _patch(self, at: int, position: int, target: int) -> None:
        instruction = list(self.part.code[at])
        instruction[position] = target
        self.part.code[at] = tuple(instruction)

    def _define(self, value: Value, preset: Any = None) -> int:
        number = self.register.get(value)
        if number is None:
            number = self.register[value] = len(self.registers)
            self.registers.append(preset)
            if index_depth(value.type) is not None:
                origin = origin_of(value)
                self.kinds[number] = -1 if origin is None else self.rings.get(origin, -1)
            elif value.type == "i1" or width_of(value.type) is None:  # other numbers: see `Program.no_recurrence`
                self.kinds[number] = -1
        return number

    def _use(self, value: Value) -> int:
        number = self.register.get(value)
        return self._define(value) if number is None else number

    def _move(self, sources: list[Value], targets: list[Value]) -> None:
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if t in self.needed]
        if pairs:
            self._emit(None, Code.MOVE, tuple(self._use(s) for s, _ in pairs), tuple(self._define(t) for _, t in pairs))

    def _block(self, block: Block, ops: list[Operation]) -> None:
        for op in ops:
            if op.name in CONTROL:
                if op in self.sources.busy or any(result in self.needed for result in op.results):
                    self._control[op.name](op)
            elif op.name in PROTOCOL:
                self._protocol(op)
            elif op.name == GroupOp.NAME:
                self._group(op)
            elif op.name == CreateOp.NAME:
                create = CreateOp(op)
                self.rings[op.result] = len(self.program.rings)
                self.program.rings.append(Ring(create.name, create.type.depth))
            elif op.name == AssumeOp.NAME:
                self._emit(op, Code.ASSUME, self._use(AssumeOp(op).condition))
                self._take_assumption(op)
            elif any(result in self.needed for result in op.results):
                self._scalar(op)

    def _group(self, op: Operation) -> None:
        """Compiles a partition; at the last one, the surrounding code forks all of them."""
        if self.part is not self.program.parts[0] or op not in self.groups:
            raise UnsupportedError("partitions in more than one place", op)
        main, group = self.part, GroupOp(op)
        self.part = Part(group.partition)
        self.program.parts.append(self.part)
        self._block(group.body, group.body.ops[:-1])
        self._move(group.body.terminator.operands, op.results)
        self._emit(None, Code.END)
        self.part = main
        if op is self.groups[-1]:
            self._emit(op, Code.FORK)

    def _take_assumption(self, op: Operation) -> None:
        """Keeps an assumption at the top level of the kernel or of a partition, ahead of any access to a ring."""
        condition, block = self.canonical.get(AssumeOp(op).condition), op.parent
        if isinstance(condition, Term) and block is not None:
            before = block.ops[: block.index_of(op)]
            if block.parent_op in (self.function, *self.groups) and not any(it in self.sources.busy for it in before):
                self.program.assumed.append((op, condition))

    def _scalar(self, op: Operation) -> None:
        if op.name == FirstOp.NAME:
            self._define(op.result, 0)
        elif op.name == AdvanceOp.NAME:
            self._emit(op, Code.ADVANCE, self._use(AdvanceOp(op).index), self._define(op.result))
        elif op.name in VIEWS:
            self.register[op.result] = self._use(op.operands[0])
        elif op.result.type.startswith("!ttg.memdesc") or op.result.type.startswith("tensor<"):
            self._define(op.result)
        else:
            if op.result in self.sources.crossed.sources:
                load = LocalLoadOp.of(op.operands[0].defining_op)
                assert load is not None
                self._emit(op, Code.RECEIVE, self._use(load.buffer), self._define(op.result))
                return
            function = scalar_of(op)
            if function is not None and not op.operands:
                number = self.canonical[op.result] = function()
                self._define(op.result, number)
                return
            ins = () if op in self.given else tuple(self._use(it) for it in self._inputs(op))
            self._emit(op, Code.SCALAR, function, ins, self._define(op.result), self._signature(op))
            self._find_canonical(op)

    def _inputs(self, op: Operation) -> Sequence[Value]:
        function = self.sources.number_function(op)
        return op.operands if function is None else function.inputs

    def _signature(self, op: Operation) -> tuple[Any, ...]:
        """The key of an operation: equal keys on equal operands give equal results."""
        if function := self.sources.number_function(op):
            return ("function", function.name)
        effects = effects_by_name(op.name)
        opaque = bool(op.regions) or any(effect.kind not in ("read",) for effect in effects)
        unread = any(it.type.startswith("tensor<") for it in op.operands)
        if op in self.sources.crossed.atomics:
            return ("atomic", self.sources.crossed.atomics[op])
        if opaque or unread:
            return ("given", self.given[op]) if op in self.given else ("opaque", op.name, id(op))
        return (op.name, *(item for pair in sorted(op.properties.items()) for item in pair if item != "overflowFlags"))

    def _find_canonical(self, op: Operation) -> None:
        """Finds the term of a loop-invariant result."""
        if op in self.given:
            self.canonical[op.result] = self.program.terms(self._signature(op), plain_name(op.result.hint))
            return
        inputs = [self.canonical.get(it) for it in self._inputs(op)]
        if None in inputs or self._signature(op)[0] in ("opaque", "atomic"):
            return
        function = scalar_of(op)
        if function is not None and all(isinstance(it, int) for it in inputs):
            self.canonical[op.result] = function(*inputs)
            return
        name = plain_name(op.result.hint)
        self.canonical[op.result] = self.program.terms((*self._signature(op), *inputs), name)

    def _protocol(self, op: Operation) -> None:
        match op.name:
            case PutOp.NAME:
                put = PutOp(op)
                ring = self._ring(put)
                self.part.puts += 1
                self._writer(ring)
                if put.fresh:
                    self.program.fresh = max(self.program.fresh, self.program.rings[ring].depth)
                self._emit(op, Code.PUT, ring, self._use(put.index), put.fresh)
                self._block(put.body, put.body.ops[:-1])
                if op in self.sources.crossed.stores:
                    self._emit(op, Code.SEND, ring, self._use(self.sources.crossed.stores[op]))
            case GetOp.NAME:
                get = GetOp(op)
                ring = self._ring(get)
                self.part.gets += 1
                views = tuple(self._define(view) for view in op.results)
                self._emit(op, Code.GET, ring, self._use(get.index), self._reader(ring), views)
            case ConsumedOp.NAME:
                consumed = ConsumedOp(op)
                ring, condition = self._ring(consumed), consumed.condition
                at = -1 if condition is None else self._use(condition)
                self._emit(op, Code.CONSUMED, ring, self._use(consumed.index), at, self._reader(ring))
            case WarpGroupDotOp.NAME:
                dot = WarpGroupDotOp(op)
                views = tuple(self._use(it) for it in (dot.a, dot.b) if it.type.startswith("!ttg.memdesc"))
                self._emit(op, Code.DOT, views, dot.is_async)
            case WarpGroupDotWaitOp.NAME:
                pendings = WarpGroupDotWaitOp(op).pendings
                self.program.pendings = max(self.program.pendings, pendings)
                self._emit(op, Code.WAIT, pendings)
            case _:
                self._emit(op, Code.DOT, (self._use(LocalLoadOp(op).buffer),), False)

    def _ring(self, access: AccessOp) -> int:
        ring = self.rings.get(access.ring)
        if ring is None:
            raise UnsupportedError("the ring is not created in this function before the partitions", access.op)
        return ring

    def _reader(self, ring: int) -> int:
        readers = self.program.rings[ring].readers
        if self.part.name == MAIN and readers:
            return 0  # the code after the partitions continues as the first reader
        if self.part.name not in readers:
            readers.append(self.part.name)
        return readers.index(self.part.name)

    def _writer(self, ring: int) -> None:
        writers = self.program.rings[ring].writers
        if self.part.name not in writers:
            writers.append(self.part.name)

    # -- control -----------------------------------------------------------------------------------------------------

    def _loop(self, op: Operation, constant: bool) -> int:
        self.program.loops.append(Loop(op, constant))
        return len(self.program.loops) - 1

    def _scf_for(self, op: Operation) -> None:
        view = ForOp(op)
        lower, upper, step = (self.canonical.get(it) for it in view.bounds)
        numbers = isinstance(lower, int) and isinstance(step, int)
        loop = self._loop(op, numbers and isinstance(upper, int))
        if isinstance(upper, Term) and lower is not None and isinstance(step, Term):
            self._bound(upper, lower, 1)
        elif isinstance(upper, Term) and lower is not None and isinstance(step, int) and step > 0:
            self._bound(upper, lower, step)
        elif upper is None and isinstance(lower, int) and isinstance(step, int) and step > 0:
            inner = self.program.inner
            self.program.inner = merge_ranges(inner, (lower, step)) if inner else (lower, step)
        induction = self._define(view.induction) if view.induction in self.needed else -1
        self._move(view.inits, view.iter_args)
        bounds = [self._use(it) for it in view.bounds]
        at = self._emit(op, Code.FOR, *bounds, induction, loop, -1)
        first = len(self.part.code)
        self._block(view.body, view.body.ops[:-1])
        self._move(view.yielded, view.iter_args)
        self._emit(op, Code.NEXT, first, induction)
        self._patch(at, 6, len(self.part.code))
        self._move(view.iter_args, op.results)

    def _bound(self, upper: Term, lower: int | Term, step: int) -> None:
        """Records lower bound and step of a loop with this upper bound."""
        program, before = self.program, self.program.bounds.get(upper)
        if before is None or (isinstance(before[0], Term) and (isinstance(lower, int) or before[0].holds(upper))):
            program.bounds[upper] = lower, step
        elif isinstance(before[0], int) and isinstance(lower, int):
            first, common = program.bounds[upper] = merge_ranges((before[0], before[1]), (lower, step))
            last = max(lower + step, before[0] + before[1])
            spread = -((first - last) // common)
            program.spread[upper] = max(program.spread.get(upper, 0), spread)
            program.largest = max(program.largest, spread - 1)

    def _scf_if(self, op: Operation) -> None:
        view = IfOp(op)
        at = self._emit(op, Code.IF, self._use(view.condition), -1)
        then, *others = view.branches
        self._block(then, then.ops[:-1])
        self._move(then.terminator.operands, op.results)
        over = self._emit(None, Code.JUMP, -1)
        self._patch(at, 2, len(self.part.code))
        for other in others:
            self._block(other, other.ops[:-1])
            self._move(other.terminator.operands, op.results)
        self._patch(over, 1, len(self.part.code))

    def _scf_while(self, op: Operation) -> None:
        before, after = WhileOp(op).before, WhileOp(op).after
        loop = self._loop(op, False)
        self._move(op.operands, before.args)
        self._emit(op, Code.WHILE, loop)
        head = len(self.part.code)
        self._block(before, before.ops[:-1])
        condition, *handed = before.terminator.operands
        at = self._emit(op, Code.TEST, self._use(condition), -1, loop)
        self._move(handed, after.args)
        self._block(after, after.ops[:-1])
        self._move(after.terminator.operands, before.args)
        self._emit(None, Code.JUMP, head)
        self._patch(at, 2, len(self.part.code))
        self._move(handed, op.results)
