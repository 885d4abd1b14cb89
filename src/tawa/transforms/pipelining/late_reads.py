"""Late reads: a dot that runs an iteration behind reads a slot through a view of its own, if others do not run behind.

    %x  = get %r[%i]                                 %x  = get %r[%i]
    %dk = dot trans %x, %q, %dk                      %dk = dot trans %x, %q, %dk
    %dq = dot %x, %k               behind      →     %y  = held %r[%i];  %dq = dot %y, %k
    consumed %r[%i]                                  consumed %r[%i]

All that reads one view of a slot is in one stage, and so is the get. What is `held` may be in a later one.

Requires: the Plan says in which loops dots run behind. Ensures: the same dots, on the same slots.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.dependences import find_dependences
from tawa.analysis.rings.channels import slot_readers
from tawa.dialects.aref import GetOp, HeldOp
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import VIEWS, whole_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, Module, Operation, Value, clone_op
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan import Plan
from tawa.plan.behind import only_stored
from tawa.plan.cost.loop_costs import Limits, LoopCosts
from tawa.plan.decide.loops import numbered, staged_loops
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class LateReads:
    """Options: the Plan, whose loops say whether dots run behind."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Gives late dots their own views of slots."""
        loops = [loop for number, loop in numbered(staged_loops(module)) if self.plan.loop(number).behind]
        changed = [_separate(loop) for loop in loops]
        return PassResult(any(changed))


def _separate(loop: ForOp) -> bool:
    graph = find_dependences(loop)
    late = {graph.nodes[number] for number in only_stored(LoopCosts(graph, Limits(WARP_GROUP)))}
    changed = False
    for get in [view for op in loop.body.ops if (view := GetOp.of(op))]:
        readers = {reader for result in get.op.results for reader in slot_readers(result)}
        if readers & late and readers - late:
            held = Builder.after(get.op).create(HeldOp.NAME, get.op.operands, [it.type for it in get.op.results])
            held.loc = get.op.loc
            for dot in (WarpGroupDotOp(op) for op in graph.nodes if op in readers & late):
                for index in (WarpGroupDotOp.a.index, WarpGroupDotOp.b.index):
                    whole = whole_of(dot.op.operands[index])
                    if whole in get.op.results:
                        dot.op.set_operand(index, _through(dot.op, dot.op.operands[index], held.results[whole.index]))
            changed = True
    return changed


def _through(user: Operation, view: Value, buffer: Value) -> Value:
    """The same view of another buffer, right before its user."""
    op = view.defining_op
    if op is None or op.name not in VIEWS:
        return buffer
    return Builder.before(user).insert(clone_op(op, {op.operands[0]: _through(user, op.operands[0], buffer)})).result
