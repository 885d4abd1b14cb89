"""The backward slice of the ring operations: the values and operations that the skeleton keeps.

The slice contains every value that a count, a loop bound, or the condition of a branch, loop or release depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tawa.dialects import arith
from tawa.dialects.aref import AdvanceOp, ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, LandedOp, PutOp, index_depth
from tawa.dialects.builtin import AssumeOp, CondBranchOp, ModuleOp
from tawa.dialects.control_flow import deciding, holder_of, incoming, loop_carried
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import CONTROL, ForOp, IfOp
from tawa.dialects.tt import FuncOp, GetProgramIdOp, LoadOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp, WarpSpecializeOp, WarpSpecializePartitionsOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Value
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.given_numbers import Function, function_of
from tawa.verify.skeleton.barrier_level import Accesses, chooses_tile
from tawa.verify.skeleton.program import Program, Term, UnsupportedError

PROTOCOL = op_names(PutOp, GetOp, ConsumedOp, WarpGroupDotOp, WarpGroupDotWaitOp, LocalLoadOp)
# A put completes by itself. Waiting for it takes no credit; a missing wait is found at the barrier level.
_PLAIN_AREF = (CreateOp.NAME, FirstOp.NAME, AdvanceOp.NAME, FilledOp.NAME, LandedOp.NAME)
_FORKS = op_names(GroupOp, WarpSpecializeOp)
_AROUND = _FORKS | op_names(FuncOp, ModuleOp, PutOp, WarpSpecializePartitionsOp)
"""Operations that may enclose an access, besides control flow."""
_TAME = frozenset(
    {
        arith.CmpIOp.NAME,
        arith.AddIOp.NAME,
        arith.SubIOp.NAME,
        arith.SelectOp.NAME,
        arith.AndIOp.NAME,
        arith.OrIOp.NAME,
        arith.XOrIOp.NAME,
        "argument",
    }
)
_SHIFTS = op_names(arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.CmpIOp, arith.SelectOp)
_LINEAR = _TAME | op_names(
    arith.ExtSIOp, arith.ExtUIOp, arith.IndexCastOp, arith.MinSIOp, arith.MaxSIOp, GetProgramIdOp
)
_STARTS = op_names(GetOp, CreateOp, FirstOp)
_ROUNDS = op_names(arith.RemSIOp, arith.RemUIOp)


class Sources:
    """The slice of one function. Raises `UnsupportedError`.

    needed: values in the slice. busy: control flow that contains an access to a ring or defines a needed value.
    """

    def __init__(self, function: Operation, accesses: Accesses | None = None) -> None:
        self.function = function
        self.accesses = accesses
        self._functions: dict[Operation, Function | None] = {}
        self.crossed = crossed_numbers(function.walk())
        self.needed: set[Value] = set()
        self.busy: dict[Operation, None] = {}
        self._find_needed()

    def _find_needed(self) -> None:
        work: list[Value] = []
        accesses = self.accesses
        for op in self.function.walk():
            aref = op.name in PROTOCOL and (accesses is None or op.name.startswith("aref."))
            takes_part = aref or (accesses is not None and accesses.takes_part(op))
            if takes_part or op.name == AssumeOp.NAME:
                if op.name != AssumeOp.NAME:
                    for outer in op.ancestors():
                        if outer in self.busy:
                            break
                        self.busy[outer] = None
                if accesses is not None and takes_part and not aref:
                    work += accesses.needed(op)
                else:
                    work += [it for it in op.operands if not it.type.startswith(("tensor<", "!aref.ring"))]
                work += [self.crossed.stores[op]] if op in self.crossed.stores else []
            elif op.name == CondBranchOp.NAME:
                work.append(op.operands[0])
            elif op.name.startswith("aref.") and op.name not in _PLAIN_AREF:
                raise UnsupportedError(f"{op.name} is not known to the credit check", op)
        for op in self.busy:
            work += [use.value for use in deciding(op)]
            if op.name not in CONTROL and op.name not in _AROUND:
                raise UnsupportedError(f"a ring is used inside {op.name}", op)
        while work:
            value = work.pop()
            if value not in self.needed:
                self.needed.add(value)
                work += self.of(value)

    def of(self, value: Value) -> Sequence[Value]:
        """The values that `value` directly depends on."""
        owner, holder = value.owner, holder_of(value)
        sources = [use.value for use in incoming(value)]
        if holder is not None and holder.name in CONTROL:
            decides = [use.value for use in deciding(holder)]
            if isinstance(owner, Block):
                return [*decides, *sources]
            self.busy[holder] = None  # it defines a needed value
            carried = loop_carried(value)
            return [*decides, *([carried.argument] if carried else sources)]
        if isinstance(owner, Block) or owner.name in _FORKS:
            return sources
        if self.accesses is not None and (value in self.accesses.tiles or value in self.accesses.descriptors):
            through = [it for it in owner.operands if it in self.accesses.tiles or it in self.accesses.descriptors]
            return [*through, *(it for it in owner.operands if it.type == "i1" and chooses_tile(owner))]
        if owner.name in (GetOp.NAME, CreateOp.NAME, FirstOp.NAME) or value.type.startswith("tensor<"):
            return ()
        if value.type.startswith("!ttg.memdesc") and owner.name not in VIEWS:
            return ()
        function = self.number_function(owner)
        return function.inputs if function else [it for it in owner.operands if not it.type.startswith("tensor<")]

    def number_function(self, op: Operation) -> Function | None:
        """The function of integers that `op` computes (`verify.given_numbers`); None if it computes none."""
        if op not in self._functions:
            self._functions[op] = function_of(op)
        return self._functions[op]

    def depends(self, value: Value, on: set[Value], seen: dict[Value, bool]) -> bool:
        """Whether `value` depends on one of the values `on`; `seen` memoizes."""
        if value in on:
            return True
        if value in seen:
            return seen[value]
        seen[value] = False
        found = any(self.depends(source, on, seen) for source in self.of(value))
        seen[value] = found
        return found


def origin_of(count: Value) -> Value | None:
    """The ring whose `aref.first` a count originates from; None if it cannot be determined."""
    for _ in range(1000):
        owner = count.owner
        sources = incoming(count)
        if sources:
            count = sources[0].value
        elif isinstance(owner, Operation) and FirstOp.matches(owner):
            return owner.operands[0]
        elif isinstance(owner, Operation) and AdvanceOp.matches(owner):
            count = owner.operands[0]
        else:
            break
    return None


def find_iteration_dependence(program: Program, sources: Sources, canonical: dict[Value, Any]) -> None:
    """Whether decisions in loops of unknown trip count depend on the iteration number: sets `Program.no_recurrence`."""
    growing: set[Value] = set()
    if program.crossed.sources:
        program.no_recurrence = "a number that comes out of a ring decides control flow"
    for loop in program.loops:
        if ForOp.matches(loop.op) and not isinstance(canonical.get(loop.op.operands[2]), int):
            program.sampled = "the step of a loop is not a constant: few numbers are tried for it"
        if loop.constant:
            continue
        for region in loop.op.regions:
            growing.update(arg for arg in region.block.args if arg.type != "i1" and index_depth(arg.type) is None)
    for op in sources.busy:
        if ForOp.of(op) or IfOp.of(op):
            found = [use.value for use in deciding(op) if sources.depends(use.value, growing, {})]
            if found:
                program.no_recurrence = f"an {op.name} depends on the iteration number of a loop"
                _note_settled(program, sources, canonical, growing, found, op)
    for op in sources.function.walk():
        if op.name == ConsumedOp.NAME and len(op.operands) > 2 and sources.depends(op.operands[2], growing, {}):
            program.no_recurrence = "a release depends on the iteration number of a loop"
            _note_settled(program, sources, canonical, growing, op.operands[2:3], op)
    for op in sources.busy:
        for use in deciding(op) if ForOp.of(op) or IfOp.of(op) else ():
            _measure(program, canonical.get(use.value))


def _note_settled(
    program: Program,
    sources: Sources,
    canonical: dict[Value, Any],
    growing: set[Value],
    values: list[Value],
    op: Operation,
) -> None:
    # A loaded number may be any number, independent of the iteration.
    moves = {it.result: False for it in sources.function.walk() if it.name == LoadOp.NAME}
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
    """The number of trips after which a loop has passed every constant that `value` compares its progress with.

    moves: whether a value depends on the iteration number of a loop.
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
        elif isinstance(owner, Block) and (loop := owner.parent_op) is not None and ForOp.matches(loop):
            step = canonical.get(loop.operands[2]) if value.index == 0 else None
            by = step if isinstance(step, int) and step > 0 else 1
            unit = min(unit or by, by)
            work += [loop.operands[0]] if value.index == 0 else [use.value for use in incoming(value)]
        else:
            if isinstance(owner, Block):
                unit = 1  # of a while
            by = canonical.get(owner.operands[1]) if not isinstance(owner, Block) and owner.name in _ROUNDS else None
            if isinstance(by, int) and by:
                rounds *= abs(by)  # a remainder has taken all of its values after so many trips
            else:
                linear = linear and (isinstance(owner, Block) or bool(owner.regions) or owner.name in _LINEAR)
            loop = loop_carried(value)
            work += [loop.argument] if loop else sources.of(value)
    far = sum(numbers) if linear else math.prod(number + 1 for number in numbers)
    return far // (unit or 1) + (rounds if rounds > 1 else 0) + 1


def _measure(program: Program, term: Any) -> None:
    """Records the constants that an unknown bound is compared with; beyond them, comparisons no longer change."""
    if not isinstance(term, Term) or (term in program.bounds and not term.parts):
        return
    inside = [bound for bound in program.bounds if bound is not term and term.holds(bound)]
    if not inside:
        return
    starts = [program.bounds[bound][0] for bound in inside]
    leaves = [*inside, *(start for start in starts if isinstance(start, Term))]
    parts = [part for part in _tree(term, leaves) if part not in leaves]
    if not all(part.key[0] in _TAME for part in parts):
        program.no_recurrence = f"{term.name} is computed from the bound of a loop"
    step = min(program.bounds[bound][1] for bound in inside)
    for part in parts:
        for number in part.key[1:]:
            if isinstance(number, int) and part.key[0] != "argument":
                program.largest = max(program.largest, -(-abs(number) // step))


def _tree(term: Term, leaves: list[Term]) -> list[Term]:
    if term in leaves:
        return [term]
    return [term, *(inner for part in term.parts for inner in _tree(part, leaves))]
