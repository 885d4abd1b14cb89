"""Compiles the protocol skeleton of a module, at either level: lists of instructions over numbered registers.

    scf.for %k = %l to %u step %s (%i = %i0)         MOVE i ← i0
      aref.put %r[%i]                                FOR l, u, s
      %n = aref.advance %i                  →        PUT r, i
      yield %n                                       ADVANCE n ← i
                                                     MOVE i ← n
                                                     NEXT
The skeleton keeps puts, gets, releases, wgmmas and their waits, reads of views, and every scalar that a count, a bound
or a condition depends on. It drops tiles. At the barrier level it keeps what accesses barriers and shared memory
(`skeleton.barrier_level`), and the tiles that a dot may still write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.dialects.aref import AccessOp, AdvanceOp, ConsumedOp, CreateOp, FirstOp, GetOp, LandedOp, PutOp, index_depth
from tawa.dialects.arith import CmpIOp, SelectOp
from tawa.dialects.builtin import AssumeOp, CastOp
from tawa.dialects.control_flow import successor_operands
from tawa.dialects.declare.declaration import by_name, effects_by_name
from tawa.dialects.inline.effects import acts
from tawa.dialects.lifetimes import freed_behind
from tawa.dialects.scalars import scalar_of, width_of
from tawa.dialects.scf import CONTROL, ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp, MemDescIndexOp, WarpSpecializeOp
from tawa.dialects.ttng import ReinterpretTensorDescOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Module, Operation, Region, Value
from tawa.verify.given_numbers import given_numbers
from tawa.verify.not_modelled import not_modelled
from tawa.verify.run.events import Act
from tawa.verify.run.places import NotUnderstood, Place
from tawa.verify.skeleton.allocation_names import allocation_names
from tawa.verify.skeleton.barrier_level import (
    DESCRIBING,
    Accesses,
    assembly,
    barrier_events,
    chooses_tile,
    in_loop,
)
from tawa.verify.skeleton.counters import find_counters
from tawa.verify.skeleton.lookahead import look_ahead
from tawa.verify.skeleton.program import (
    MAIN,
    Code,
    Part,
    Program,
    Ring,
    Term,
    Terms,
    UnsupportedError,
    integer_arguments,
    plain_name,
)
from tawa.verify.skeleton.sources import PROTOCOL, Sources, origin_of

DEFAULT = "default"
"""The name of the first partition at the barrier level, which is also the code around the others."""


def compile_skeleton(module: Module) -> Program | None:
    """The skeleton; None if the module has no ring. Raises `UnsupportedError`."""
    functions = [op for op in module.body.ops if FuncOp.matches(op)]
    holders = [op for op in functions if any(CreateOp.of(inner) for inner in op.walk())]
    if not holders:
        return None
    if len(holders) > 1 or len(holders[0].regions[0].blocks) != 1:
        raise UnsupportedError("rings in more than one function, or in a function with several blocks", holders[0])
    return _Compiler(module, holders[0]).compile()


def compile_accesses(module: Module) -> Program:
    """The skeleton of the aref level with all accesses to memory, for a comparison with the barrier level."""
    function = next(op for op in module.body.ops if FuncOp.matches(op))
    return _Compiler(module, function, Accesses(function)).compile()


def compile_barriers(module: Module) -> Program:
    """The skeleton of the barrier level. Raises `NotUnderstood` or `UnsupportedError`."""
    functions = [op for op in module.body.ops if FuncOp.matches(op)]
    if len(functions) != 1:
        raise NotUnderstood(f"the module has {len(functions)} functions, not one", module.op)
    if (stop := not_modelled(module, barriers=True)) is not None:
        raise NotUnderstood(stop.reason, stop.op)
    accesses = Accesses(functions[0])
    accesses.require_known()
    return _Compiler(module, functions[0], accesses, DEFAULT).compile()


class _Compiler:
    def __init__(self, module: Module, function: Operation, accesses: Accesses | None = None, name: str = MAIN) -> None:
        self.function = function
        self.accesses = accesses
        self.register: dict[Value, int] = {}
        self.registers: list[Any] = []
        self.sources = Sources(function, accesses)
        self.given = given_numbers(function.walk())
        self.needed = self.sources.needed
        self.rings: dict[Value, int] = {}
        self.canonical: dict[Value, Any] = {}
        self.program = Program(module, [], [], self.registers, {}, Terms(), crossed=self.sources.crossed)
        self.part = Part(name)
        self.groups: list[Operation] = []
        self._control = by_name({ForOp: self._scf_for, IfOp: self._scf_if, WhileOp: self._scf_while})
        self.widths: dict[int, int | None] = {}
        self.kinds: dict[int, int] = {}  # per register: the ring of a count, −1 for conditions and views

    def compile(self) -> Program:
        program, body = self.program, self.function.regions[0].blocks[0]
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
        if self.accesses is not None:
            names = allocation_names(self.accesses)
            program.memories = self.accesses.memories(names)
        self._region(self.function.regions[0], [])
        self._emit(None, Code.END)
        program.kinds = self.kinds
        if self.accesses is not None:
            find_counters(program, self.kinds, self.widths)
        look_ahead(program, self.accesses)
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
            self.widths[number] = width_of(value.type)
            if index_depth(value.type) is not None:
                origin = origin_of(value)
                self.kinds[number] = -1 if origin is None else self.rings.get(origin, -1)
            elif self.accesses is not None:
                if value.type.startswith(("!", "tensor<")) and not value.type.startswith("!tt.ptr"):
                    self.kinds[number] = -1  # places, descriptors, tiles; of numbers: see `skeleton.counters`
            elif value.type == "i1" or width_of(value.type) is None:  # other numbers are not part of the state
                self.kinds[number] = -1
        return number

    def _use(self, value: Value) -> int:
        number = self.register.get(value)
        return self._define(value) if number is None else number

    def _move(self, sources: list[Value], targets: list[Value]) -> None:
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if t in self.needed]
        if pairs:
            self._emit(None, Code.MOVE, tuple(self._use(s) for s, _ in pairs), tuple(self._define(t) for _, t in pairs))

    def _region(self, region: Region, results: Sequence[Value]) -> None:
        """Compiles the blocks of a region, along branches that go forward. results: get the operands of its ends."""
        starts: dict[Block, int] = {}
        waiting: list[tuple[int, int, Block]] = []
        ends: list[int] = []

        def jump(block: Block) -> None:
            waiting.append((self._emit(None, Code.JUMP, -1), 1, block))

        for block in region.blocks:
            starts[block] = len(self.part.code)
            self._block(block, block.ops[:-1])
            end = block.terminator
            edges = successor_operands(end)
            if any(target in starts for target, _ in edges):
                raise UnsupportedError("a branch that goes back", end)
            if len(edges) == 2:
                at = self._emit(end, Code.IF, self._use(end.operands[0]), -1)
                self._move([use.value for use in edges[0][1]], edges[0][0].args)
                jump(edges[0][0])
                self._patch(at, 2, len(self.part.code))
            if edges:
                self._move([use.value for use in edges[-1][1]], edges[-1][0].args)
                jump(edges[-1][0])
                continue
            self._move(end.operands[: len(results)], list(results))
            if block is not region.blocks[-1]:
                ends.append(self._emit(None, Code.JUMP, -1))
        for at, position, block in waiting:
            self._patch(at, position, starts[block])
        for at in ends:
            self._patch(at, 1, len(self.part.code))

    def _block(self, block: Block, ops: list[Operation]) -> None:
        freed = freed_behind(block) if self.accesses is not None else {}
        for op in ops:
            self._op(op)
            for allocation in freed.get(op, ()):
                self.free(allocation, allocation.result)

    def _op(self, op: Operation) -> None:
        if self.accesses is not None and self._of_barriers(self.accesses, op):
            return
        self._of_both(op)

    def _of_barriers(self, accesses: Accesses, op: Operation) -> bool:
        """Compiles an operation that only the barrier level has; returns whether it is one."""
        if op.name in CONTROL:
            return False
        if landed := LandedOp.of(op):
            count = self._use(landed.index)
            self.act(Act("landed", op, amount=self._ring(landed), reads=(count,)))
            return True
        if acts(op):
            assembly(self, op, accesses.forks)
            return True
        if WarpSpecializeOp.matches(op):
            self._fork(op)
            return True
        if chooses_tile(op):
            if op.result in self.needed:
                self._emit(op, Code.PICK, *(self._use(it) for it in op.operands), self._define(op.result))
            return True
        if accesses.uses_tile(op) and not WarpGroupDotWaitOp.matches(op):
            tiles = [it for it in op.operands if it in accesses.tiles]
            if dot := WarpGroupDotOp.of(op):
                tiles = [it for it in tiles if it is not dot.accumulator]
            if tiles:
                self.act(Act("use", op, uses=tuple(self._use(it) for it in tiles)))
        make = barrier_events().get(op.name)
        if make is not None and (op.name not in DESCRIBING or in_loop(op)):
            make(self, op)
            return True
        if op in accesses.allocations and op.result in self.needed:
            self.registers[self._define(op.result)] = Place(accesses.allocations[op])
            return True
        if op.name in (CastOp.NAME, ReinterpretTensorDescOp.NAME) and op.result in self.needed:
            self.register[op.result] = self._use(op.operands[0])
            return True
        if op.name in VIEWS:
            if op.result in self.needed:
                slot = self._use(MemDescIndexOp(op).index) if op.name == MemDescIndexOp.NAME else -1
                self._emit(op, Code.VIEW, self._use(op.operands[0]), slot, self._define(op.result))
            return True
        return False

    # -- what the templates of the barrier level use -------------------------------------------------------------------

    def use(self, value: Value) -> int:
        """The register of a value."""
        return self._use(value)

    def define(self, value: Value) -> int:
        """The register of a value that an operation makes; -1 if nothing needs it."""
        return self._define(value) if value in self.needed else -1

    def constant(self, number: Any) -> int:
        """A register with this content."""
        self.registers.append(number)
        return len(self.registers) - 1

    def act(self, act: Act, condition: Value | None = None) -> None:
        """Emits an event, under a condition."""
        holds = 1 if condition is None else self.canonical.get(condition)
        if isinstance(holds, int) and not holds:
            return
        at = -1
        if not isinstance(holds, int):
            assert condition is not None
            at = self._emit(act.op, Code.IF, self._use(condition), -1)
        number = self.sources.crossed.stores.get(act.op) if act.kind == "write" else None
        if number is not None:
            act.number = self._use(number)
        if act.kind == "read" and (number := self.sources.crossed.loads.get(act.op)) in self.needed:
            assert number is not None
            act.number, act.takes = self._define(number), True
        self.part.puts += act.kind in ("copy in", "cp.async")
        self._emit(act.op, Code.ACT, act)
        if at >= 0:
            self._patch(at, 2, len(self.part.code))

    def allocate(self, op: Operation) -> None:
        """An allocation, which is also a write if it has an initial value."""
        assert self.accesses is not None
        register = self._define(op.result)
        self.registers[register] = Place(self.accesses.allocations[op])
        if op.operands:
            self.act(Act("write", op, (register,), reads=(register,)))

    def describe(self, op: Operation, memory: Value, kind: str) -> None:
        """The creation of a descriptor in a loop."""
        assert self.accesses is not None
        while memory not in self.accesses.described and memory.defining_op is not None:
            memory = memory.defining_op.operands[0]
        if memory.defining_op not in self.accesses.allocations:
            raise UnsupportedError("a descriptor in memory that is not an allocation of this kernel", op)
        register = self._define(memory)
        self.registers[register] = Place(self.accesses.allocations[memory.defining_op])
        self.act(Act(kind, op, (register,), reads=(register,)))

    def free(self, op: Operation, buffer: Value) -> None:
        """The end of the live range of an allocation. The memory of barriers is not reused before they are invalid."""
        assert self.accesses is not None
        if not self.accesses.roots_of(buffer) & self.accesses.barriers:
            register = self._use(buffer)
            self.act(Act("free", op, (register,), reads=(register,)))

    def _fork(self, op: Operation) -> None:
        """Compiles the partitions of ``ttg.warp_specialize``; the first runs on beside them and waits for them."""
        main, fork = self.part, WarpSpecializeOp(op)
        if main is not self.program.parts[0]:
            raise UnsupportedError("partitions inside a partition", op)
        started: list[int] = []
        for place, region in enumerate(fork.regions[1:]):
            self.part = Part(f"partition{place}")
            started.append(len(self.program.parts))
            self.program.parts.append(self.part)
            for inner, outer in zip(region.blocks[0].args, fork.captures, strict=True):
                if inner in self.needed:
                    self.register[inner] = self._use(outer)
                    if outer in self.canonical:
                        self.canonical[inner] = self.canonical[outer]
            self._region(region, [])
            self._emit(None, Code.END)
        self.part = main
        self._emit(op, Code.FORK, tuple(started))
        self._region(fork.regions[0], op.results)
        self._emit(op, Code.JOIN)

    def _of_both(self, op: Operation) -> None:
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
            self._emit(op, Code.FORK, tuple(range(1, len(self.program.parts))))
            self._emit(op, Code.JOIN)

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
            if op.result in self.sources.crossed.sources and self.accesses is not None:
                return  # the load has taken it out of memory
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
            if LoadOp.matches(op) and len(op.operands) > 1:
                self._masked_load(op)
                return
            ins = () if op in self.given else tuple(self._use(it) for it in self._inputs(op))
            signature = self._signature(op)
            if function is not None:
                self.program.terms.functions[signature] = function
            self._emit(op, Code.SCALAR, function, ins, self._define(op.result), signature)
            self._find_canonical(op)

    def _masked_load(self, op: Operation) -> None:
        """A load with a mask is a choice between what is in memory and the default, if there is one."""
        load, terms = LoadOp(op), self.program.terms
        pointer, mask, other = (None if it is None else self._use(it) for it in (load.pointers, load.mask, load.other))
        assert pointer is not None
        loaded = self.constant(None)
        self._emit(op, Code.SCALAR, None, (pointer,), loaded, (LoadOp.NAME,))
        rest = self.constant(terms(("undefined",), "an undefined number")) if other is None else other
        where = self.canonical.get(load.pointers)
        address = None if where is None else terms((LoadOp.NAME, where))
        if mask is None:
            self._emit(op, Code.MOVE, (loaded,), (self._define(op.result),))
            made = address
        else:
            self._emit(op, Code.SCALAR, _select, (mask, loaded, rest), self._define(op.result), (SelectOp.NAME,))
            assert load.mask is not None
            parts = [self.canonical.get(load.mask), address, self.registers[rest] if other is None else None]
            parts[2] = parts[2] if load.other is None else self.canonical.get(load.other)
            made = None if None in parts else terms((SelectOp.NAME, *parts))
        if made is not None:
            self.canonical[op.result] = made

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
        if LoadOp.matches(op):
            return (LoadOp.NAME,)
        properties = sorted((name, text) for name, text in op.properties.items() if name != "overflowFlags")
        if CmpIOp.matches(op) and op.operands[0].type == "i1":
            properties.append(("of", "flags"))  # no order of numbers
        return (op.name, *(item for pair in properties for item in pair))

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
                views = tuple(self._define(view) for view in put.body.args) if self.accesses is not None else ()
                self._emit(op, Code.PUT, ring, self._use(put.index), put.fresh, views)
                self._block(put.body, put.body.ops[:-1])
                if views:
                    self.act(Act("filled", op, (views[0],), reads=(views[0],)))
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
                self._emit(op, Code.WAIT, WarpGroupDotWaitOp(op).pendings)
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

    def _scf_for(self, op: Operation) -> None:
        view = ForOp(op)
        induction = self._define(view.induction) if view.induction in self.needed else -1
        self._move(view.inits, view.iter_args)
        bounds = [self._use(it) for it in view.bounds]
        at = self._emit(op, Code.FOR, *bounds, induction, -1)
        first = len(self.part.code)
        self._block(view.body, view.body.ops[:-1])
        self._move(view.yielded, view.iter_args)
        self._emit(op, Code.NEXT, first, induction)
        self._patch(at, 5, len(self.part.code))
        self._move(view.iter_args, op.results)

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
        self.program.chosen.update((self.register[it], it) for it in op.results if it in self.register)

    def _scf_while(self, op: Operation) -> None:
        before, after = WhileOp(op).before, WhileOp(op).after
        self._move(op.operands, before.args)
        self._emit(op, Code.WHILE)
        head = len(self.part.code)
        self._block(before, before.ops[:-1])
        condition, *handed = before.terminator.operands
        at = self._emit(op, Code.TEST, self._use(condition), -1)
        self._move(handed, after.args)
        self._block(after, after.ops[:-1])
        self._move(after.terminator.operands, before.args)
        self._emit(None, Code.JUMP, head)
        self._patch(at, 2, len(self.part.code))
        self._move(handed, op.results)


def _select(condition: int, one: Any, other: Any) -> Any:
    return one if condition else other
