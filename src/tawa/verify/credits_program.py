"""The protocol skeleton of an aref-level module, compiled once: straight lists of instructions over numbered registers.

    scf.for %k = %l to %u step %s (%i = %i0)         MOVE i ← i0
      aref.put %r[%i]                                FOR l, u, s
      %n = aref.advance %i                  →        PUT r, i
      yield %n                                       ADVANCE n ← i
                                                     MOVE i ← n
                                                     NEXT
Kept: puts, gets, releases, wgmmas and their waits, reads of views, and every scalar that a count, a bound or a
condition depends on. Tiles are gone. A value that is no known number is a `Term`, the tree of operations that makes
it, so that the same expression in two partitions is one unknown.

Longer than most: the instructions, the one walk that makes them, and what is asked of them belong together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, PutOp, index_depth
from tawa.dialects.registry import spec_of
from tawa.dialects.scalars import scalar_of, width_of
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Module, Operation, Value

MAIN = "kernel"


class Code(IntEnum):
    """Instructions; their operands follow in a tuple."""

    SCALAR = 0  # function or None, input registers, result register, signature
    ADVANCE = 1  # input, result
    PUT = 2  # ring, count, fresh
    GET = 3  # ring, count, reader, view registers
    CONSUMED = 4  # ring, count, condition or -1, reader
    DOT = 5  # view registers, asynchronous
    WAIT = 6  # pendings
    MOVE = 7  # sources, targets
    FOR = 8  # lower, upper, step, induction variable or -1, loop, exit
    NEXT = 9  # first instruction of the body, induction variable or -1
    IF = 10  # condition, where to go if it is false
    JUMP = 11  # where to
    WHILE = 12  # loop
    TEST = 13  # condition, exit, loop
    FORK = 14
    ASSUME = 15  # condition
    END = 16


class UnsupportedError(Exception):
    """The module holds what the skeleton cannot say; `op` is the place."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


class Term:
    """A number that is not known: an operation on known and unknown numbers. Equal terms are one object."""

    __slots__ = ("key", "name", "number")

    def __init__(self, key: tuple[Any, ...], number: int, name: str) -> None:
        self.key = key
        self.number = number
        self.name = name

    @property
    def opaque(self) -> bool:
        """Whether an operation went in that two partitions cannot be known to agree on."""
        return self.key[0] == "opaque" or any(part.opaque for part in self.parts)

    @property
    def parts(self) -> list[Term]:
        """The terms it is made of."""
        return [part for part in self.key if isinstance(part, Term)]

    def holds(self, other: Term) -> bool:
        """Whether `other` is part of this term, or is it."""
        return self is other or any(part.holds(other) for part in self.parts)

    def __repr__(self) -> str:
        return self.name


class Terms:
    """All terms of one module."""

    def __init__(self) -> None:
        self._terms: dict[tuple[Any, ...], Term] = {}
        self._parts: set[Term] = set()

    def __call__(self, key: tuple[Any, ...], name: str = "") -> Term:
        """The term of `key`; a name is for messages."""
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = Term(key, len(self._terms), name or f"?{len(self._terms)}")
            self._parts.update(found.parts)
        return found

    def has_part(self, part: Term) -> bool:
        """Whether another term is made of `part`."""
        return part in self._parts


@dataclass(slots=True)
class Ring:
    """One ring: slots, and who reads it."""

    name: str
    depth: int
    readers: list[str] = field(default_factory=list[str])
    writers: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Loop:
    """A loop. `constant`: its bounds are numbers in the text."""

    op: Operation
    constant: bool


@dataclass(slots=True)
class Part:
    """One partition (or the kernel around them): its instructions, and the operation behind each."""

    name: str
    code: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    ops: list[Operation | None] = field(default_factory=list[Operation | None])
    puts: int = 0
    gets: int = 0
    live: list[tuple[tuple[int, int], ...]] = field(default_factory=list[tuple[tuple[int, int], ...]])
    """For each instruction the registers that make up the state in front of it, each with its kind."""


@dataclass(slots=True)
class Program:
    """The skeleton. parts[0] is the kernel around the partitions."""

    module: Module
    parts: list[Part]
    rings: list[Ring]
    loops: list[Loop]
    registers: list[Any]  # constants and arguments are preset
    arguments: dict[str, Term]
    terms: Terms
    bounds: dict[Term, tuple[int | Term, int]]  # upper bounds outside all loops, with lower bound and step
    wild: str = ""  # why runs beyond the bound may differ from those within; empty where they cannot
    largest: int = 0  # the largest number that an unknown is compared with, in trips
    fresh: int = 0  # D of the deepest ring with a put that does not wait: such a put is right for the first D counts
    pendings: int = 0  # the most wgmmas that a wait leaves in flight


def compile_skeleton(module: Module) -> Program | None:
    """The skeleton; None where the module has no ring. Raises `UnsupportedError`."""
    functions = [op for op in module.body.ops if op.name == "tt.func"]
    holders = [op for op in functions if any(CreateOp.of(inner) for inner in op.walk())]
    if not holders:
        return None
    if len(holders) > 1 or len(holders[0].regions[0].blocks) != 1:
        raise UnsupportedError("more than one function, or one with jumps, holds rings", holders[0])
    return _Compiler(module, holders[0]).compile()


_PROTOCOL = frozenset(
    {PutOp.NAME, GetOp.NAME, ConsumedOp.NAME, WarpGroupDotOp.NAME, WarpGroupDotWaitOp.NAME, "ttg.local_load"}
)
_CONTROL = frozenset({"scf.for", "scf.if", "scf.while"})


class _Compiler:
    def __init__(self, module: Module, function: Operation) -> None:
        self.function = function
        self.register: dict[Value, int] = {}
        self.registers: list[Any] = []
        self.needed: set[Value] = set()
        self.busy: set[Operation] = set()
        self.rings: dict[Value, int] = {}
        self.canonical: dict[Value, Any] = {}
        self.program = Program(module, [], [], [], self.registers, {}, Terms(), {})
        self.part = Part(MAIN)
        self.kinds: dict[int, int] = {}  # the ring of a running count, −1 for conditions and views

    def compile(self) -> Program:
        program, body = self.program, self.function.regions[0].block
        for index, arg in enumerate(body.args):
            if width_of(arg.type) is not None:
                term = program.terms(("argument", index), _plain(arg.hint) or f"argument {index}")
                program.arguments[term.name] = term
                self.canonical[arg] = term
        self._find_needed()
        for arg in body.args:
            if arg in self.needed:
                self._define(arg, self.canonical.get(arg))
        groups = [op for op in body.ops if GroupOp.of(op)]
        last = groups[-1] if groups else None
        main = self.part
        program.parts.append(main)
        for op in body.ops[:-1]:
            if op in groups:
                self.part = Part(GroupOp(op).partition)
                program.parts.append(self.part)
                self._block(GroupOp(op).body, GroupOp(op).body.ops[:-1])
                handed = GroupOp(op).body.terminator.operands
                self._move(handed, op.results)
                self._emit(None, Code.END)
                self.part = main
                if op is last:
                    self._emit(op, Code.FORK)
            else:
                self._block(body, [op])
        self._emit(None, Code.END)
        for part in program.parts:
            part.live = _live(part.code, self.kinds)
        self._find_wild()
        return program

    # -- what is needed ----------------------------------------------------------------------------------------------

    def _find_needed(self) -> None:
        work: list[Value] = []
        for op in self.function.walk():
            if op.name in _PROTOCOL or op.name == "llvm.intr.assume":
                if op.name != "llvm.intr.assume":
                    for outer in op.ancestors():
                        if outer in self.busy:
                            break
                        self.busy.add(outer)
                work += [it for it in op.operands if not it.type.startswith(("tensor<", "!aref.ring"))]
            elif op.name.startswith("aref.") and op.name not in (
                "aref.create", "aref.first", "aref.advance", "aref.filled"
            ):  # fmt: skip
                raise UnsupportedError(f"{op.name} is not known to the credit check", op)
        for op in self.busy:
            match op.name:
                case "scf.for":
                    work += op.operands[:3]
                case "scf.if":
                    work.append(op.operands[0])
                case "scf.while":
                    work.append(op.regions[0].block.terminator.operands[0])
                case "warp.group" | "tt.func" | "builtin.module" | "aref.put":
                    pass
                case _:
                    raise UnsupportedError(f"a ring is used inside {op.name}", op)
        while work:
            value = work.pop()
            if value not in self.needed:
                self.needed.add(value)
                work += self._sources(value)

    def _sources(self, value: Value) -> Iterable[Value]:
        owner = value.owner
        if isinstance(owner, Block):
            return self._argument_sources(owner, value)
        if owner.name in _CONTROL or owner.name == "warp.group":
            if owner.name != "warp.group":
                self.busy.add(owner)  # it decides a number
            yields = [region.block.terminator for region in owner.regions if region.blocks and region.blocks[0].ops]
            match owner.name:
                case "scf.for":
                    arg = owner.regions[0].block.args[1 + value.index]
                    return [*owner.operands[:3], arg]
                case "scf.while":
                    test = yields[0]
                    return [test.operands[0], test.operands[1 + value.index]]
                case "scf.if":
                    return [owner.operands[0], *(end.operands[value.index] for end in yields)]
                case _:
                    return [end.operands[value.index] for end in yields]
        if owner.name in (GetOp.NAME, CreateOp.NAME, "aref.first") or value.type.startswith("tensor<"):
            return ()
        if value.type.startswith("!ttg.memdesc") and owner.name not in VIEWS:
            return ()
        return [it for it in owner.operands if not it.type.startswith("tensor<")]

    def _argument_sources(self, block: Block, value: Value) -> Iterable[Value]:
        op = block.parent_op
        assert op is not None
        match op.name:
            case "scf.for":
                if value.index == 0:
                    return op.operands[:3]
                return [*op.operands[:3], op.operands[2 + value.index], block.terminator.operands[value.index - 1]]
            case "scf.while":
                before, after = op.regions[0].block, op.regions[1].block
                test = before.terminator.operands
                if block is before:
                    return [test[0], op.operands[value.index], after.terminator.operands[value.index]]
                return [test[0], test[1 + value.index]]
            case _:
                return ()

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
                self.kinds[number] = self._ring_of(value)
            elif value.type == "i1" or width_of(value.type) is None:  # what depends on any other number is `wild`
                self.kinds[number] = -1
        return number

    def _use(self, value: Value) -> int:
        number = self.register.get(value)
        return self._define(value) if number is None else number

    def _move(self, sources: list[Value], targets: list[Value]) -> None:
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if t in self.needed]
        if pairs:
            self._emit(None, Code.MOVE, tuple(self._use(s) for s, _ in pairs), tuple(self._define(t) for _, t in pairs))

    def _ring_of(self, count: Value) -> int:
        """The ring that a running count began with."""
        for _ in range(1000):
            owner = count.owner
            if isinstance(owner, Block):
                loop = owner.parent_op
                if loop is None or loop.name not in ("scf.for", "scf.while"):
                    break
                if loop.name == "scf.for":
                    count = loop.operands[2 + count.index]
                elif owner is loop.regions[0].block:
                    count = loop.operands[count.index]
                else:
                    count = loop.regions[0].block.terminator.operands[1 + count.index]
            elif owner.name == "aref.first":
                return self.rings.get(owner.operands[0], -1)
            elif owner.name == "aref.advance":
                count = owner.operands[0]
            elif owner.name == "scf.for":
                count = owner.operands[3 + count.index]
            elif owner.name == "scf.while":
                count = owner.regions[0].block.terminator.operands[1 + count.index]
            elif owner.regions:
                count = owner.regions[0].block.terminator.operands[count.index]
            else:
                break
        return -1

    def _block(self, block: Block, ops: list[Operation]) -> None:
        for op in ops:
            if op.name in _CONTROL:
                if op in self.busy or any(result in self.needed for result in op.results):
                    getattr(self, "_" + op.name.replace(".", "_"))(op)
            elif op.name in _PROTOCOL:
                self._protocol(op)
            elif op.name == CreateOp.NAME:
                create = CreateOp(op)
                self.rings[op.result] = len(self.program.rings)
                self.program.rings.append(Ring(create.name, create.type.depth))
            elif op.name == "llvm.intr.assume":
                self._emit(op, Code.ASSUME, self._use(op.operands[0]))
            elif any(result in self.needed for result in op.results):
                self._scalar(op)

    def _scalar(self, op: Operation) -> None:
        if op.name == "aref.first":
            self._define(op.result, 0)
        elif op.name == "aref.advance":
            self._emit(op, Code.ADVANCE, self._use(op.operands[0]), self._define(op.result))
        elif op.name in VIEWS:
            self.register[op.result] = self._use(op.operands[0])
        elif op.result.type.startswith("!ttg.memdesc") or op.result.type.startswith("tensor<"):
            self._define(op.result)
        else:
            function = scalar_of(op)
            if function is not None and not op.operands:
                number = self.canonical[op.result] = function()
                self._define(op.result, number)
                return
            ins = tuple(self._use(it) for it in op.operands)
            self._emit(op, Code.SCALAR, function, ins, self._define(op.result), self._signature(op))
            self._find_canonical(op)

    def _signature(self, op: Operation) -> tuple[Any, ...]:
        """What makes two operations on the same numbers the same number."""
        effects = spec_of(op.name).effects
        opaque = bool(op.regions) or any(effect.kind not in ("read",) for effect in effects)
        unread = any(it.type.startswith("tensor<") for it in op.operands)
        if opaque or unread:
            return ("opaque", op.name, id(op))
        return (op.name, *(item for pair in sorted(op.properties.items()) for item in pair if item != "overflowFlags"))

    def _find_canonical(self, op: Operation) -> None:
        """The term of a result that depends on nothing inside loops."""
        inputs = [self.canonical.get(it) for it in op.operands]
        if None in inputs or self._signature(op)[0] == "opaque":
            return
        function = scalar_of(op)
        if function is not None and all(isinstance(it, int) for it in inputs):
            self.canonical[op.result] = function(*inputs)
            return
        name = _plain(op.result.hint)
        self.canonical[op.result] = self.program.terms((*self._signature(op), *inputs), name)

    def _protocol(self, op: Operation) -> None:
        match op.name:
            case PutOp.NAME:
                ring = self._ring(op)
                self.part.puts += 1
                self._writer(ring)
                if PutOp(op).fresh:
                    self.program.fresh = max(self.program.fresh, self.program.rings[ring].depth)
                self._emit(op, Code.PUT, ring, self._use(op.operands[1]), PutOp(op).fresh)
                self._block(PutOp(op).body, PutOp(op).body.ops[:-1])
            case GetOp.NAME:
                ring = self._ring(op)
                self.part.gets += 1
                views = tuple(self._define(view) for view in op.results)
                self._emit(op, Code.GET, ring, self._use(op.operands[1]), self._reader(ring), views)
            case ConsumedOp.NAME:
                ring, condition = self._ring(op), ConsumedOp(op).condition
                at = -1 if condition is None else self._use(condition)
                self._emit(op, Code.CONSUMED, ring, self._use(op.operands[1]), at, self._reader(ring))
            case WarpGroupDotOp.NAME:
                dot = WarpGroupDotOp(op)
                views = tuple(self._use(it) for it in (dot.a, dot.b) if it.type.startswith("!ttg.memdesc"))
                self._emit(op, Code.DOT, views, dot.is_async)
            case WarpGroupDotWaitOp.NAME:
                pendings = WarpGroupDotWaitOp(op).pendings
                self.program.pendings = max(self.program.pendings, pendings)
                self._emit(op, Code.WAIT, pendings)
            case _:
                self._emit(op, Code.DOT, (self._use(op.operands[0]),), False)

    def _ring(self, op: Operation) -> int:
        ring = self.rings.get(op.operands[0])
        if ring is None:
            raise UnsupportedError("the ring is not made in this function, before the partitions", op)
        return ring

    def _reader(self, ring: int) -> int:
        readers = self.program.rings[ring].readers
        if self.part.name == MAIN and readers:
            return 0  # behind the partitions, for the one that read before
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
        body = op.regions[0].block
        lower, upper, step = (self.canonical.get(it) for it in op.operands[:3])
        numbers = isinstance(lower, int) and isinstance(step, int)
        loop = self._loop(op, numbers and isinstance(upper, int))
        if isinstance(upper, Term) and lower is not None and isinstance(step, int) and step > 0:
            before = self.program.bounds.get(upper)
            if before is None or (isinstance(before[0], Term) and before[0].holds(upper)):
                self.program.bounds[upper] = lower, step
        induction = self._define(body.args[0]) if body.args[0] in self.needed else -1
        self._move(op.operands[3:], body.args[1:])
        bounds = [self._use(it) for it in op.operands[:3]]
        at = self._emit(op, Code.FOR, *bounds, induction, loop, -1)
        first = len(self.part.code)
        self._block(body, body.ops[:-1])
        self._move(body.terminator.operands, body.args[1:])
        self._emit(op, Code.NEXT, first, induction)
        self._patch(at, 6, len(self.part.code))
        self._move(body.args[1:], op.results)

    def _scf_if(self, op: Operation) -> None:
        at = self._emit(op, Code.IF, self._use(op.operands[0]), -1)
        then, other = op.regions[0].block, op.regions[1]
        self._block(then, then.ops[:-1])
        self._move(then.terminator.operands, op.results)
        over = self._emit(None, Code.JUMP, -1)
        self._patch(at, 2, len(self.part.code))
        if other.blocks and other.blocks[0].ops:
            self._block(other.block, other.block.ops[:-1])
            self._move(other.block.terminator.operands, op.results)
        self._patch(over, 1, len(self.part.code))

    def _scf_while(self, op: Operation) -> None:
        before, after = op.regions[0].block, op.regions[1].block
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

    # -- what is known of the whole ----------------------------------------------------------------------------------

    def _find_wild(self) -> None:
        """Whether what is decided inside loops of unknown length depends on how far they are."""
        growing: set[Value] = set()
        for loop in self.program.loops:
            if loop.constant:
                continue
            for region in loop.op.regions:
                growing.update(arg for arg in region.block.args if arg.type != "i1" and index_depth(arg.type) is None)
        program = self.program
        for op in self.busy:
            if op.name in ("scf.for", "scf.if"):
                decisive = op.operands[:3] if op.name == "scf.for" else op.operands[:1]
                if any(self._depends(value, growing, {}) for value in decisive):
                    program.wild = f"what {op.name} does depends on how far a loop is"
        for op in self.function.walk():
            if op.name == ConsumedOp.NAME and len(op.operands) > 2 and self._depends(op.operands[2], growing, {}):
                program.wild = "a release depends on how far a loop is"
        for op in self.busy:
            values = op.operands[:3] if op.name == "scf.for" else op.operands[:1] if op.name == "scf.if" else ()
            for value in values:
                self._measure(self.canonical.get(value))

    def _depends(self, value: Value, on: set[Value], seen: dict[Value, bool]) -> bool:
        if value in on:
            return True
        if value in seen:
            return seen[value]
        seen[value] = False
        found = any(self._depends(source, on, seen) for source in self._sources(value))
        seen[value] = found
        return found

    def _measure(self, term: Any) -> None:
        """Takes note of what an unknown bound is compared with; beyond that, comparisons have settled."""
        if not isinstance(term, Term) or (term in self.program.bounds and not term.parts):
            return
        inside = [bound for bound in self.program.bounds if bound is not term and term.holds(bound)]
        if not inside:
            return
        starts = [self.program.bounds[bound][0] for bound in inside]
        leaves = [*inside, *(start for start in starts if isinstance(start, Term))]
        parts = [part for part in _tree(term, leaves) if part not in leaves]
        if not all(part.key[0] in _TAME for part in parts):
            self.program.wild = f"{term.name} is computed from the bound of a loop"
        step = min(self.program.bounds[bound][1] for bound in inside)
        for part in parts:
            for number in part.key[1:]:
                if isinstance(number, int) and part.key[0] != "argument":
                    self.program.largest = max(self.program.largest, -(-abs(number) // step))


def _live(code: list[tuple[Any, ...]], kinds: dict[int, int]) -> list[tuple[tuple[int, int], ...]]:
    """Which registers are still read behind each point, as sets in the bits of numbers until they settle."""
    before = [0] * (len(code) + 1)
    effects = [_uses(instruction) for instruction in code]
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            reads, writes, goes_on, jump = effects[at]
            after = (before[at + 1] if goes_on else 0) | (before[jump] if jump >= 0 else 0)
            now = reads | (after & ~writes)
            if now != before[at]:
                before[at] = now
                changed = True
    return [tuple((number, kind) for number, kind in kinds.items() if bits >> number & 1) for bits in before]


def _uses(instruction: tuple[Any, ...]) -> tuple[int, int, bool, int]:
    """Registers read and written, whether the next instruction can follow, and where it can jump to (or −1)."""
    match instruction:
        case (Code.SCALAR, _, ins, out, _):
            return _bits(ins), 1 << out, True, -1
        case (Code.ADVANCE, one, out):
            return 1 << one, 1 << out, True, -1
        case (Code.PUT, _, count, _):
            return 1 << count, 0, True, -1
        case (Code.GET, _, count, _, views):
            return 1 << count, _bits(views), True, -1
        case (Code.CONSUMED, _, count, condition, _):
            return 1 << count | _bits((condition,)), 0, True, -1
        case (Code.DOT, views, _):
            return _bits(views), 0, True, -1
        case (Code.MOVE, sources, targets):
            return _bits(sources), _bits(targets), True, -1
        case (Code.FOR, lower, upper, step, induction, _, target):
            return _bits((lower, upper, step)), _bits((induction,)), True, target
        case (Code.NEXT, first, induction):
            return 0, _bits((induction,)), True, first
        case (Code.IF, condition, target):
            return 1 << condition, 0, True, target
        case (Code.JUMP, target):
            return 0, 0, False, target
        case (Code.TEST, condition, target, _):
            return 1 << condition, 0, True, target
        case (Code.ASSUME, condition):
            return 1 << condition, 0, True, -1
        case (Code.END, *_):
            return 0, 0, False, -1
        case _:
            return 0, 0, True, -1


def _bits(registers: Iterable[int]) -> int:
    bits = 0
    for number in registers:
        if number >= 0:
            bits |= 1 << number
    return bits


_TAME = frozenset(
    {"arith.cmpi", "arith.addi", "arith.subi", "arith.select", "arith.andi", "arith.ori", "arith.xori", "argument"}
)


def _tree(term: Term, leaves: list[Term]) -> list[Term]:
    if term in leaves:
        return [term]
    return [term, *(inner for part in term.parts for inner in _tree(part, leaves))]


def _plain(hint: str) -> str:
    """A value's name without the number that the printer adds."""
    head, _, tail = hint.rpartition("_")
    return head if head and tail.isdigit() else hint
