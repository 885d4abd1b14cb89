"""Group programs: several programs of the grid become the consumer groups of one CTA, on TTIR.

    %m = program_id x                       %group = elementwise_inline_asm "tawa.group"(3)
    q = load Q[%m]                          %own = program_id x · 3 + %group
    for %n { load K[%n]; … }           →    %m = min(%own, %programs - 1)
    store O[%m]                             q = load Q[%m]
                                            for %n { load K[%n]; … }
                                            if %own < %programs { store O[%m] }

The grid is divided by the number of groups along the axis, and rounded up. Its size along the axis is an added
argument (i32). A group behind the end of the grid computes the last program again, and stores nothing. Each group has
its own rows and its own epilogue; tiles that do not depend on the program id along the axis are loaded once for all.

Requires: TTIR without layouts, one structured function.
Ensures: run once per group index, on the divided grid, the kernel has the effects of the whole grid.
Declines when `tawa.analysis.dims.shared_programs` finds no axis along which programs share tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.dims.shared_programs import find_shared
from tawa.dialects.arith import AddIOp, CmpIOp, MinSIOp, MulIOp, Predicate, SubIOp
from tawa.dialects.effects import effects_of
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.parameters import PROGRAMS
from tawa.dialects.scf import IfOp, YieldOp
from tawa.dialects.tt import FuncOp, GetNumProgramsOp, GetProgramIdOp
from tawa.ir import Block, Builder, Module, Operation, Region, Value, source_of
from tawa.ir.attributes import int_attr, read_int
from tawa.plan import Plan
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import Grouped
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_number

_QUERIES = (GetProgramIdOp.NAME, GetNumProgramsOp.NAME)


@dataclass(frozen=True, slots=True)
class GroupedResult(PassResult):
    """grouped: the axis, and the programs of a CTA; None if the kernel was declined."""

    grouped: Grouped | None = None


@dataclass(frozen=True, slots=True)
class GroupPrograms:
    """Options: the number of groups."""

    groups: int

    def run(self, module: Module) -> GroupedResult:
        """Rewrites the program for one group of several, or returns a `declined` remark."""
        found = find_shared(module)
        if isinstance(found, Remark):
            return GroupedResult(False, (found,))
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        _rewrite(function, found.axis, self.groups)
        text = f"{self.groups} programs along axis {found.axis} of the grid share the tiles that all of them load"
        remarks = (Remark("note", text, source_of(module, function.op)),)
        return GroupedResult(True, remarks, Plan(split="programs"), Grouped(found.axis, self.groups))


def _rewrite(function: FuncOp, axis: int, groups: int) -> None:
    queries = [op for op in function.op.walk() if op.name in _QUERIES and read_int(op.properties["axis"]) == axis]
    programs = add_number(function, PROGRAMS)
    top = Builder.at_start(function.body, function.op.loc)
    properties = {"axis": int_attr(axis)}
    cta = top.create(GetProgramIdOp.NAME, (), ("i32",), properties=properties, hints=("cta",)).result
    group = GroupIndexOp.create(top, groups)
    first = MulIOp.create(top, cta, top.constant(groups), "first")
    own = AddIOp.create(top, first, group, "own")
    last = SubIOp.create(top, programs, top.constant(1), "last")
    program = MinSIOp.create(top, own, last, "program")
    is_there = CmpIOp.create(top, Predicate.SLT, own, programs, "is_there")
    for op in queries:
        op.result.replace_all_uses_with(program if GetProgramIdOp.matches(op) else programs)
        op.erase()
    for op in [op for op in function.op.walk() if not op.regions and _writes(op)]:
        _only_if(is_there, op)


def _writes(op: Operation) -> bool:
    return not op.regions and any(effect.kind == "write" for effect in effects_of(op))


def _only_if(condition: Value, op: Operation) -> None:
    """Puts an operation without results into a branch."""
    assert not op.results
    then = Block()
    Builder.before(op).create(IfOp.NAME, (condition,), (), regions=[Region([then]), Region([])])
    then.append(op.detach())
    then.append(Operation(YieldOp.NAME, loc=op.loc))
