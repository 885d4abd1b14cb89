"""Compiles the protocol skeleton of a module, at either level: lists of instructions over numbered registers.

    scf.for %k = %l to %u step %s (%i = %i0)         MOVE i ← i0
      aref.put %r[%i]                                FOR l, u, s
      %n = aref.advance %i                  →        PUT r, i
      yield %n                                       ADVANCE n ← i
                                                     MOVE i ← n
                                                     NEXT
The skeleton keeps puts, gets, releases, wgmmas and their waits, reads of views, and every scalar that a count, a bound
or a condition depends on. It drops tiles. At the barrier level it keeps what accesses barriers and shared memory
(`skeleton.barrier_code`), and the tiles that a dot may still write.

    %n = scf.while … without accesses      →     QUIET behind, n     a run of unknown numbers goes on behind it
                                                 WHILE …             one of chosen numbers executes it
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects.aref import AcquireOp, ConsumedOp, CreateOp, GetOp, PublishOp, PutOp
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.control_flow import successor_operands
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.memory.lifetimes import freed_behind
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import CONTROL, ForOp, IfOp, WhileOp
from tawa.dialects.tcgen05 import TCGen5MMAOp, TCGen5MMAScaledOp, dot_of
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalLoadOp, WarpSpecializeOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Module, Operation, Region, Value
from tawa.verify.equal_numbers import decided_by
from tawa.verify.not_modelled import not_modelled
from tawa.verify.run.events import Act
from tawa.verify.run.places import NotUnderstood
from tawa.verify.skeleton.allocation_names import allocation_names
from tawa.verify.skeleton.barrier_code import BarrierCode
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.counters import computed_registers, find_counters
from tawa.verify.skeleton.emitter import Emitter
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
from tawa.verify.skeleton.scalars import Scalars
from tawa.verify.skeleton.sources import PROTOCOL, Sources

_QUIET = {
    Code.SCALAR, Code.MOVE, Code.FOR, Code.NEXT, Code.IF, Code.JUMP, Code.WHILE, Code.TEST, Code.ASSUME, Code.QUIET,
}  # fmt: skip
"""What a region without accesses consists of."""
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
        self.sources = Sources(function, accesses)
        self.program = Program(module, [], [], [], {}, Terms(), crossed=self.sources.crossed)
        self.code = Emitter(self.program, self.sources, accesses, name)
        self.scalars = Scalars(self.code, function.walk())
        self.barriers = None if accesses is None else BarrierCode(self.code, accesses)
        self.groups: list[Operation] = []
        self.quiet: list[tuple[Part, int]] = []
        self._control = by_name({ForOp: self._scf_for, IfOp: self._scf_if, WhileOp: self._scf_while})

    def compile(self) -> Program:
        program, body = self.program, self.function.regions[0].blocks[0]
        for arg, name in integer_arguments(self.function).items():
            term = program.terms(("argument", arg.index), name)
            program.arguments[name] = term
            self.code.canonical[arg] = term
        for arg in body.args:
            if arg not in self.code.canonical and not arg.type.startswith("tensor<"):
                self.code.canonical[arg] = program.terms(("argument", arg.index), plain_name(arg.hint))
        for arg in body.args:
            if arg in self.code.needed:
                self.code.define(arg, self.code.canonical.get(arg))
        self.groups = [group.op for group in find_groups(program.module)]
        program.parts.append(self.code.part)
        if self.accesses is not None:
            names = allocation_names(self.accesses)
            program.memories = self.accesses.memories(names)
        self._region(self.function.regions[0], [])
        self.code.emit(None, Code.END)
        self._keep_computed()
        if self.accesses is not None:
            find_counters(program, program.kinds, self.code.widths)
        look_ahead(program, self.accesses)
        return program

    def _region(self, region: Region, results: Sequence[Value]) -> None:
        """Compiles the blocks of a region, along branches that go forward. results: get the operands of its ends."""
        starts: dict[Block, int] = {}
        waiting: list[tuple[int, int, Block]] = []
        ends: list[int] = []

        def jump(block: Block) -> None:
            waiting.append((self.code.emit(None, Code.JUMP, -1), 1, block))

        for block in region.blocks:
            starts[block] = len(self.code.part.code)
            self._block(block, block.ops[:-1])
            end = block.terminator
            edges = successor_operands(end)
            if any(target in starts for target, _ in edges):
                raise UnsupportedError("a branch that goes back", end)
            if len(edges) == 2:
                at = self.code.emit(end, Code.IF, self.code.use(end.operands[0]), -1)
                self.code.move([use.value for use in edges[0][1]], edges[0][0].args)
                jump(edges[0][0])
                self.code.patch(at, 2, len(self.code.part.code))
            if edges:
                self.code.move([use.value for use in edges[-1][1]], edges[-1][0].args)
                jump(edges[-1][0])
                continue
            self.code.move(end.operands[: len(results)], list(results))
            if block is not region.blocks[-1]:
                ends.append(self.code.emit(None, Code.JUMP, -1))
        for at, position, block in waiting:
            self.code.patch(at, position, starts[block])
        for at in ends:
            self.code.patch(at, 1, len(self.code.part.code))

    def _block(self, block: Block, ops: list[Operation]) -> None:
        freed = freed_behind(block) if self.barriers is not None else {}
        for op in ops:
            self._op(op)
            if self.barriers is not None:
                for allocation in freed.get(op, ()):
                    self.barriers.free(allocation, allocation.result)

    def _fork(self, op: Operation) -> None:
        """Compiles the partitions of ``ttg.warp_specialize``; the first runs on beside them and waits for them."""
        main, fork = self.code.part, WarpSpecializeOp(op)
        if main is not self.program.parts[0]:
            raise UnsupportedError("partitions inside a partition", op)
        started: list[int] = []
        for place, region in enumerate(fork.regions[1:]):
            self.code.part = Part(f"partition{place}")
            started.append(len(self.program.parts))
            self.program.parts.append(self.code.part)
            for inner, outer in zip(region.blocks[0].args, fork.captures, strict=True):
                if inner in self.code.needed:
                    self.code.register[inner] = self.code.use(outer)
                    if outer in self.code.canonical:
                        self.code.canonical[inner] = self.code.canonical[outer]
            self._region(region, [])
            self.code.emit(None, Code.END)
        self.code.part = main
        self.code.emit(op, Code.FORK, tuple(started))
        self._region(fork.regions[0], op.results)
        self.code.emit(op, Code.JOIN)

    def _op(self, op: Operation) -> None:
        if op.name in CONTROL:
            if op in self.sources.busy or any(result in self.code.needed for result in op.results):
                self._scf(op)
        elif self.barriers is not None and WarpSpecializeOp.matches(op):
            self._fork(op)
        elif self.barriers is not None and self.barriers.compiled(op):
            return
        elif op.name in PROTOCOL:
            self._protocol(op)
        elif op.name == GroupOp.NAME:
            self._group(op)
        elif op.name == CreateOp.NAME:
            create = CreateOp(op)
            self.code.rings[op.result] = len(self.program.rings)
            self.program.rings.append(Ring(create.name, create.type.depth))
        elif op.name == AssumeOp.NAME:
            self.code.emit(op, Code.ASSUME, self.code.use(AssumeOp(op).condition))
            self._take_assumption(op)
        elif any(result in self.code.needed for result in op.results):
            self.scalars.compile(op)

    def _group(self, op: Operation) -> None:
        """Compiles a partition; at the last one, the surrounding code forks all of them."""
        if self.code.part is not self.program.parts[0] or op not in self.groups:
            raise UnsupportedError("partitions in more than one place", op)
        main, group = self.code.part, GroupOp(op)
        self.code.part = Part(group.partition)
        self.program.parts.append(self.code.part)
        self._block(group.body, group.body.ops[:-1])
        self.code.move(group.body.terminator.operands, op.results)
        self.code.emit(None, Code.END)
        self.code.part = main
        if op is self.groups[-1]:
            self.code.emit(op, Code.FORK, tuple(range(1, len(self.program.parts))))
            self.code.emit(op, Code.JOIN)

    def _take_assumption(self, op: Operation) -> None:
        """Keeps an assumption at the top level of the kernel or of a partition, ahead of any access to a ring."""
        condition, block = self.code.canonical.get(AssumeOp(op).condition), op.parent
        if isinstance(condition, Term) and block is not None:
            before = block.ops[: block.index_of(op)]
            if block.parent_op in (self.function, *self.groups) and not any(it in self.sources.busy for it in before):
                self.program.assumed.append((op, condition))

    def _protocol(self, op: Operation) -> None:
        match op.name:
            case PutOp.NAME:
                put = PutOp(op)
                ring = self.code.ring(put)
                self.code.part.puts += 1
                self.code.writer(ring)
                if put.fresh:
                    self.program.fresh = max(self.program.fresh, self.program.rings[ring].depth)
                views = tuple(self.code.define(view) for view in put.body.args) if self.barriers is not None else ()
                self.code.emit(op, Code.PUT, ring, self.code.use(put.index), put.fresh, views)
                self._block(put.body, put.body.ops[:-1])
                if views and self.barriers is not None:
                    self.barriers.act(Act("filled", op, (views[0],), reads=(views[0],)))
                if op in self.sources.crossed.stores:
                    self.code.emit(op, Code.SEND, ring, self.code.use(self.sources.crossed.stores[op]))
            case GetOp.NAME:
                get = GetOp(op)
                ring = self.code.ring(get)
                self.code.part.gets += 1
                views = tuple(self.code.define(view) for view in op.results)
                self.code.emit(op, Code.GET, ring, self.code.use(get.index), self.code.reader(ring), views)
            case AcquireOp.NAME:
                acquire = AcquireOp(op)
                ring = self.code.ring(acquire)
                self.code.part.puts += 1
                self.code.writer(ring)
                views = tuple(self.code.define(view) for view in op.results)
                self.code.emit(op, Code.ACQUIRE, ring, self.code.use(acquire.index), views)
            case PublishOp.NAME:
                publish = PublishOp(op)
                ring = self.code.ring(publish)
                self.code.emit(op, Code.PUBLISH, ring, self.code.use(publish.index))
            case ConsumedOp.NAME:
                consumed = ConsumedOp(op)
                ring, condition = self.code.ring(consumed), consumed.condition
                at = -1 if condition is None else self.code.use(condition)
                self.code.emit(op, Code.CONSUMED, ring, self.code.use(consumed.index), at, self.code.reader(ring))
            case TCGen5MMAOp.NAME | TCGen5MMAScaledOp.NAME:
                issued = dot_of(op)
                assert issued is not None
                self.code.emit(op, Code.DOT, self._views(issued.a, issued.b, *issued.scales, issued.d), False)
            case WarpGroupDotOp.NAME:
                dot = WarpGroupDotOp(op)
                self.code.emit(op, Code.DOT, self._views(dot.a, dot.b), dot.is_async)
            case WarpGroupDotWaitOp.NAME:
                self.code.emit(op, Code.WAIT, WarpGroupDotWaitOp(op).pendings)
            case _:
                self.code.emit(op, Code.DOT, (self.code.use(LocalLoadOp(op).buffer),), False)

    def _views(self, *values: Value) -> tuple[int, ...]:
        return tuple(self.code.use(it) for it in values if it.type.startswith("!ttg.memdesc"))

    # -- control -----------------------------------------------------------------------------------------------------

    def _scf(self, op: Operation) -> None:
        """Compiles control flow; that without accesses may be left out if numbers are all that it gives."""
        results = [it for it in op.results if it in self.code.needed]
        quiet = op not in self.sources.around and all(self._is_shared(it) for it in results)
        at = self.code.emit(op, Code.QUIET, -1, ()) if quiet else -1
        self._control[op.name](op)
        if quiet:
            self.quiet.append((self.code.part, at))
            code = self.code.part.code
            code[at] = (Code.QUIET, len(code), tuple((self.code.use(it), it) for it in results))

    def _is_shared(self, value: Value) -> bool:
        """Whether a value is a number that partitions share if they compute it alike."""
        return width_of(value.type) is not None and decided_by(value, self.program.crossed) is not None

    def _keep_computed(self) -> None:
        """Takes the regions whose numbers the proof computes as part of every run."""
        computed = computed_registers(self.program) if self.quiet else set[int]()
        for part, at in self.quiet:
            _, behind, results = part.code[at]
            inside = {instruction[0] for instruction in part.code[at:behind]}
            if not inside <= _QUIET or any(register in computed for register, _ in results):
                part.code[at] = (Code.JUMP, at + 1)

    def _scf_for(self, op: Operation) -> None:
        view = ForOp(op)
        induction = self.code.define(view.induction) if view.induction in self.code.needed else -1
        self.code.move(view.inits, view.iter_args)
        bounds = [self.code.use(it) for it in view.bounds]
        at = self.code.emit(op, Code.FOR, *bounds, induction, -1)
        first = len(self.code.part.code)
        self._block(view.body, view.body.ops[:-1])
        self.code.move(view.yielded, view.iter_args)
        self.code.emit(op, Code.NEXT, first, induction)
        self.code.patch(at, 5, len(self.code.part.code))
        self.code.move(view.iter_args, op.results)

    def _scf_if(self, op: Operation) -> None:
        view = IfOp(op)
        at = self.code.emit(op, Code.IF, self.code.use(view.condition), -1)
        then, *others = view.branches
        self._block(then, then.ops[:-1])
        self.code.move(then.terminator.operands, op.results)
        over = self.code.emit(None, Code.JUMP, -1)
        self.code.patch(at, 2, len(self.code.part.code))
        for other in others:
            self._block(other, other.ops[:-1])
            self.code.move(other.terminator.operands, op.results)
        self.code.patch(over, 1, len(self.code.part.code))
        self.program.chosen.update((self.code.register[it], it) for it in op.results if it in self.code.register)

    def _scf_while(self, op: Operation) -> None:
        before, after = WhileOp(op).before, WhileOp(op).after
        self.code.move(op.operands, before.args)
        self.code.emit(op, Code.WHILE)
        head = len(self.code.part.code)
        self._block(before, before.ops[:-1])
        condition, *handed = before.terminator.operands
        at = self.code.emit(op, Code.TEST, self.code.use(condition), -1)
        self.code.move(handed, after.args)
        self._block(after, after.ops[:-1])
        self.code.move(after.terminator.operands, before.args)
        self.code.emit(None, Code.JUMP, head)
        self.code.patch(at, 2, len(self.code.part.code))
        self.code.move(handed, op.results)
