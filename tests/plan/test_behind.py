"""`plan.behind`: where dots that run one iteration behind stand, and what becomes of their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import pytest

pytest.importorskip("triton")

from tawa.analysis.loops.dependences import find_dependences
from tawa.bridge.driver.data import Specialised
from tawa.dialects.aref import PutOp
from tawa.dialects.arith import MulFOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import ACQ_REL, RELAXED, AtomicRMWOp, FuncOp
from tawa.dialects.ttng import AsyncTMAReduceOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import find_groups
from tawa.ir import Builder, Operation, Value, parse_module, shape_of
from tawa.ir.attributes import int_attr
from tawa.plan import Plan, PlanOptions
from tawa.plan.behind import only_stored
from tawa.plan.cost.loop_costs import Limits, LoopCosts
from tests.cases.attention.cases import find
from tests.matrix.compiling import attempted

OPTIONS = PlanOptions(num_consumer_groups=2, only_if_faster=False)


PLAN = {"exchange": True, "loops": [{"behind": True}]}
STORES: dict[str, list[dict[str, object]]] = {
    "a warp of its own": [{"argument": "dq_desc", "loop": 0, "store_warp": True}],
    "TMA": [{"argument": "dq_desc", "loop": 0, "store_warp": False}],
    "atomics": [],
}
"""What adds the results of the late dots up, and the stores of a Plan for it."""


def compiled(by: str, plan: Mapping[str, object] = PLAN) -> ForOp:
    """The first group's loop with dots."""
    case = find("from_registers_d128" if by == "atomics" else "added_fp16_d64_full")
    asked = Plan.of({**plan, "stores": STORES[by]})
    module = parse_module(attempted(case, OPTIONS, asked)[1].asm["aref"])
    group = next(it for it in find_groups(module) if it.role == "consumer")
    loops = [found for op in group.op.walk() if (found := ForOp.of(op))]
    return next(it for it in loops if any(map(WarpGroupDotOp.matches, it.body.ops)))


@functools.cache
def loop(by: str = "a warp of its own") -> list[Operation]:
    """The operations of the first group's loop, whose last dots run behind."""
    return compiled(by).body.ops


@pytest.mark.parametrize("by", STORES)
def test_what_the_late_dots_computed_is_stored_while_the_last_dot_runs(by: str) -> None:
    ops = loop(by)
    waits = [WarpGroupDotWaitOp(op) for op in ops if WarpGroupDotWaitOp.matches(op)]
    store = [op for op in ops if PutOp.matches(op)][-1] if by == "a warp of its own" else the_reduction(ops)
    before = [it for it in waits if ops.index(it.op) < ops.index(store)]
    assert before[-1].pendings == 1 and waits[-1].pendings == 0 and len(waits) == len(before) + 1


def test_groups_that_divide_rows_wait_for_what_they_store_while_another_dot_runs() -> None:
    """What the others put comes at the same time as what this one puts, so nothing is gained by a late read of it."""
    ops = compiled("a warp of its own", {"exchange": True}).body.ops
    waits = [WarpGroupDotWaitOp(op) for op in ops if WarpGroupDotWaitOp.matches(op)]
    store = [op for op in ops if PutOp.matches(op)][-1]
    assert [it.pendings for it in waits if ops.index(it.op) < ops.index(store)][-1] == 1 and waits[-1].pendings == 0


def the_reduction(ops: list[Operation]) -> Operation:
    return next(op for op in ops if op.name in (AsyncTMAReduceOp.NAME, AtomicRMWOp.NAME))


def test_no_pointer_of_what_is_stored_late_is_carried_from_one_iteration_to_the_next() -> None:
    assert not [value for value in compiled("atomics").iter_args if shape_of(value) and "!tt.ptr" in value.type]


def late_dots(change: Callable[[Operation, dict[str, Value]], None]) -> int:
    """How many dots may run behind in the loop of one group, once it is changed.

    change: gets the addition to memory, and the kernel's arguments by name.
    """
    found = compiled("atomics", {"exchange": True, "loops": [{"stages": 0}]})
    added = the_reduction(found.body.ops)
    function = next(view for op in found.op.ancestors() if (view := FuncOp.of(op)))
    change(added, {arg.hint: arg for arg in function.body.args})
    return len(only_stored(LoopCosts(find_dependences(found), Limits(num_warps=4))))


def test_dots_run_behind_only_if_relaxed_atomics_add_up_their_results() -> None:
    def set_order(sem: int) -> Callable[[Operation, dict[str, Value]], None]:
        return lambda added, args: added.properties.update(sem=int_attr(sem))

    assert late_dots(set_order(RELAXED)) == 2  # one for each group's part of the sum
    assert late_dots(set_order(ACQ_REL)) == 0


def test_dots_do_not_run_behind_where_the_loop_loads_what_it_adds_up() -> None:
    assert late_dots(lambda added, args: args["lse_ptr"].replace_all_uses_with(args["sums_ptr"])) == 0


@pytest.mark.parametrize(("sem", "late"), [(RELAXED, 2), (ACQ_REL, 0)])
def test_dots_do_not_run_behind_a_release_of_their_iteration(sem: int, late: int) -> None:
    def tell(added: Operation, args: dict[str, Value]) -> None:
        """Others may learn from %lse_ptr that the addition is done."""
        properties = {**added.properties, "sem": int_attr(sem)}
        Builder.after(added).create(AtomicRMWOp.NAME, (args["lse_ptr"], args["scale"]), ("f32",), properties=properties)

    assert late_dots(tell) == late


def test_dots_of_what_groups_exchange_run_behind_only_where_a_plan_says_so() -> None:
    """For one iteration more, the exchanged tiles would need a third slot."""
    found = attempted(find("from_registers_d64"), PlanOptions(only_if_faster=False))[0]
    assert isinstance(found, Specialised) and found.outcome.plan is not None and found.outcome.plan.exchange
    assert [it.stages for it in found.outcome.plan.loops] == [1]


def test_a_dot_that_is_ready_does_not_wait_for_arithmetic_that_it_does_not_need() -> None:
    """Moving it later would free registers, but the tiles fit as they are."""
    ops = loop()
    dv = next(at for at, op in enumerate(ops) if WarpGroupDotOp.matches(op) and op.result.hint == "dv")
    product = next(at for at, op in enumerate(ops) if MulFOp.matches(op) and op.result.hint == "ds")
    assert dv < product
