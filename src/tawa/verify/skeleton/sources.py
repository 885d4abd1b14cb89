"""The backward slice of the ring operations: the values and operations that the skeleton keeps.

The slice contains every value that a count, a loop bound, or the condition of a branch, loop or release depends on.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects.aref import (
    AcquireOp,
    AdvanceOp,
    ConsumedOp,
    CreateOp,
    FilledOp,
    FirstOp,
    GetOp,
    LandedOp,
    PublishOp,
    PutOp,
)
from tawa.dialects.builtin import AssumeOp, CondBranchOp, ModuleOp
from tawa.dialects.control_flow import deciding, holder_of, incoming, loop_carried
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import CONTROL
from tawa.dialects.tcgen05 import DOTS
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp, WarpSpecializeOp, WarpSpecializePartitionsOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Value
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.given_numbers import Function, function_of
from tawa.verify.skeleton.barrier_level import Accesses, chooses_tile
from tawa.verify.skeleton.program import UnsupportedError

PROTOCOL = DOTS | op_names(
    PutOp, AcquireOp, PublishOp, GetOp, ConsumedOp, WarpGroupDotOp, WarpGroupDotWaitOp, LocalLoadOp
)
# A put completes by itself. Waiting for it takes no credit; a missing wait is found at the barrier level.
_PLAIN_AREF = (CreateOp.NAME, FirstOp.NAME, AdvanceOp.NAME, FilledOp.NAME, LandedOp.NAME)
_STARTS = op_names(GetOp, AcquireOp, CreateOp, FirstOp)
_FORKS = op_names(GroupOp, WarpSpecializeOp)
_AROUND = _FORKS | op_names(FuncOp, ModuleOp, PutOp, WarpSpecializePartitionsOp)
"""Operations that may enclose an access, besides control flow."""


class Sources:
    """The slice of one function. Raises `UnsupportedError`.

    needed: values in the slice. busy: control flow that contains an access to a ring or defines a needed value. around:
    control flow that contains an access.
    """

    def __init__(self, function: Operation, accesses: Accesses | None = None) -> None:
        self.function = function
        self.accesses = accesses
        self._functions: dict[Operation, Function | None] = {}
        self.crossed = crossed_numbers(function.walk())
        self.needed: set[Value] = set()
        self.busy: dict[Operation, None] = {}
        self.around: frozenset[Operation] = frozenset()
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
        self.around = frozenset(self.busy)
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
        if owner.name in _STARTS or value.type.startswith("tensor<"):
            return ()
        if value.type.startswith("!ttg.memdesc") and owner.name not in VIEWS:
            return ()
        function = self.number_function(owner)
        return function.inputs if function else [it for it in owner.operands if not it.type.startswith("tensor<")]

    def number_function(self, op: Operation) -> Function | None:
        """The function of integers that `op` computes (`verify.given_numbers`); None if it computes none."""
        if op not in self._functions:
            self._functions[op] = function_of(op, self.crossed.atomics)
        return self._functions[op]


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
