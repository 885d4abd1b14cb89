"""Which operations and values decide what the partitions do with their rings, and where values come from.

Kept by the skeleton: all that a count, a bound or a condition of a loop, branch or release depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, LandedOp, PutOp, index_depth
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Block, Operation, Value
from tawa.verify.credits.skeleton import Program, Term, UnsupportedError

PROTOCOL = frozenset(
    {PutOp.NAME, GetOp.NAME, ConsumedOp.NAME, WarpGroupDotOp.NAME, WarpGroupDotWaitOp.NAME, "ttg.local_load"}
)
CONTROL = frozenset({"scf.for", "scf.if", "scf.while"})
# What is put lands by itself: waiting for it takes no credit, and whether it is waited for shows at the barrier level.
_PLAIN_AREF = ("aref.create", "aref.first", "aref.advance", "aref.filled", LandedOp.NAME)
_TAME = frozenset(
    {"arith.cmpi", "arith.addi", "arith.subi", "arith.select", "arith.andi", "arith.ori", "arith.xori", "argument"}
)
_SHIFTS = frozenset({"arith.addi", "arith.subi", "arith.muli", "arith.cmpi", "arith.select"})
_LINEAR = _TAME | {"arith.extsi", "arith.extui", "arith.index_cast", "arith.minsi", "arith.maxsi", "tt.get_program_id"}
_ROUNDS = frozenset({"arith.remsi", "arith.remui"})


class Sources:
    """What is needed of one function. Raises `UnsupportedError`.

    needed: values that decide something. busy: operations that hold an access, or make a needed value.
    """

    def __init__(self, function: Operation) -> None:
        self.function = function
        self.needed: set[Value] = set()
        self.busy: dict[Operation, None] = {}
        self._find_needed()

    def _find_needed(self) -> None:
        work: list[Value] = []
        for op in self.function.walk():
            if op.name in PROTOCOL or op.name == "llvm.intr.assume":
                if op.name != "llvm.intr.assume":
                    for outer in op.ancestors():
                        if outer in self.busy:
                            break
                        self.busy[outer] = None
                work += [it for it in op.operands if not it.type.startswith(("tensor<", "!aref.ring"))]
            elif op.name.startswith("aref.") and op.name not in _PLAIN_AREF:
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
                work += self.of(value)

    def of(self, value: Value) -> Sequence[Value]:
        """The values that `value` depends on at first hand."""
        owner = value.owner
        if isinstance(owner, Block):
            return self._argument_sources(owner, value)
        if owner.name in CONTROL or owner.name == "warp.group":
            if owner.name != "warp.group":
                self.busy[owner] = None  # it decides a number
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

    def _argument_sources(self, block: Block, value: Value) -> Sequence[Value]:
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

    def depends(self, value: Value, on: set[Value], seen: dict[Value, bool]) -> bool:
        """Whether `value` depends on one of the values `on`; `seen` keeps answers."""
        if value in on:
            return True
        if value in seen:
            return seen[value]
        seen[value] = False
        found = any(self.depends(source, on, seen) for source in self.of(value))
        seen[value] = found
        return found


def origin_of(count: Value) -> Value | None:
    """The ring that a running count began with; None where it cannot be told."""
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
            return owner.operands[0]
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
    return None


def find_wild(program: Program, sources: Sources, canonical: dict[Value, Any]) -> None:
    """Whether what is decided inside loops of unknown length depends on how far they are."""
    growing: set[Value] = set()
    for loop in program.loops:
        if loop.op.name == "scf.for" and not isinstance(canonical.get(loop.op.operands[2]), int):
            program.few = "the step of a loop is no constant: few numbers are tried for it"
        if loop.constant:
            continue
        for region in loop.op.regions:
            growing.update(arg for arg in region.block.args if arg.type != "i1" and index_depth(arg.type) is None)
    for op in sources.busy:
        if op.name in ("scf.for", "scf.if"):
            decisive = op.operands[:3] if op.name == "scf.for" else op.operands[:1]
            found = [value for value in decisive if sources.depends(value, growing, {})]
            if found:
                program.wild = f"what {op.name} does depends on how far a loop is"
                _note_settled(program, sources, canonical, growing, found, op)
    for op in sources.function.walk():
        if op.name == ConsumedOp.NAME and len(op.operands) > 2 and sources.depends(op.operands[2], growing, {}):
            program.wild = "a release depends on how far a loop is"
            _note_settled(program, sources, canonical, growing, op.operands[2:3], op)
    for op in sources.busy:
        values = op.operands[:3] if op.name == "scf.for" else op.operands[:1] if op.name == "scf.if" else ()
        for value in values:
            _measure(program, canonical.get(value))


def _note_settled(
    program: Program,
    sources: Sources,
    canonical: dict[Value, Any],
    growing: set[Value],
    values: list[Value],
    op: Operation,
) -> None:
    # A number in memory is any number, wherever it is read.
    moves = {it.result: False for it in sources.function.walk() if it.name == "tt.load"}
    for value in values:
        trips = _settled(program, sources, canonical, value, lambda it: sources.depends(it, growing, moves))
        if trips > program.settled:
            program.settled, program.decides = trips, op


def _settled(
    program: Program,
    sources: Sources,
    canonical: dict[Value, Any],
    value: Value,
    moves: Callable[[Value], bool],
) -> int:
    """After how many trips of a loop all constants have had their turn that `value` compares how far it is with.

    moves: whether a value depends on how far a loop is.
    """
    seen, work, numbers, unit, linear, rounds = set[Value](), [value], list[int](), 0, True, 1
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        known, owner = canonical.get(value), value.owner
        if isinstance(known, int):
            numbers.append(abs(known))
        elif isinstance(known, Term):
            parts = [] if known in program.bounds else [part for part in known.walk() if part.key[0] in _SHIFTS]
            numbers += [abs(it) for part in parts for it in part.key[1:] if isinstance(it, int)]
        elif not moves(value):
            continue
        elif isinstance(owner, Block) and (loop := owner.parent_op) is not None and loop.name == "scf.for":
            step = canonical.get(loop.operands[2]) if value.index == 0 else None
            by = step if isinstance(step, int) and step > 0 else 1
            unit = min(unit or by, by)
            work += [loop.operands[0]] if value.index == 0 else sources.of(value)[3:]
        else:
            if isinstance(owner, Block):
                unit = 1  # of a `while`
            by = canonical.get(owner.operands[1]) if not isinstance(owner, Block) and owner.name in _ROUNDS else None
            if isinstance(by, int) and by:
                rounds *= abs(by)  # a remainder has had all its values after so many trips
            else:
                linear = linear and (isinstance(owner, Block) or bool(owner.regions) or owner.name in _LINEAR)
            work += sources.of(value)[3 if not isinstance(owner, Block) and owner.name == "scf.for" else 0 :]
    far = sum(numbers) if linear else math.prod(number + 1 for number in numbers)
    return far // (unit or 1) + (rounds if rounds > 1 else 0) + 1


def _measure(program: Program, term: Any) -> None:
    """Takes note of what an unknown bound is compared with; beyond that, comparisons have settled."""
    if not isinstance(term, Term) or (term in program.bounds and not term.parts):
        return
    inside = [bound for bound in program.bounds if bound is not term and term.holds(bound)]
    if not inside:
        return
    starts = [program.bounds[bound][0] for bound in inside]
    leaves = [*inside, *(start for start in starts if isinstance(start, Term))]
    parts = [part for part in _tree(term, leaves) if part not in leaves]
    if not all(part.key[0] in _TAME for part in parts):
        program.wild = f"{term.name} is computed from the bound of a loop"
    step = min(program.bounds[bound][1] for bound in inside)
    for part in parts:
        for number in part.key[1:]:
            if isinstance(number, int) and part.key[0] != "argument":
                program.largest = max(program.largest, -(-abs(number) // step))


def _tree(term: Term, leaves: list[Term]) -> list[Term]:
    if term in leaves:
        return [term]
    return [term, *(inner for part in term.parts for inner in _tree(part, leaves))]
