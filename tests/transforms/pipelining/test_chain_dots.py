"""`chain_dots`: the order in a chain; results stay equal, the protocol is proved, and what is moved is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.errors import PlanError
from tawa.flow import run
from tawa.ir import Module, parse_module, print_module
from tawa.ir.attributes import int_attr
from tawa.pipeline import BARRIERS
from tawa.plan import LoopPlan, Plan
from tawa.transforms.pipelining.chain_dots import ChainDots
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Proved
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, ops_named
from tests.support.filecheck import brief, check
from tests.support.passes import checked, flow_behind, flow_of, plan_for, to_arefs, unchecked
from tests.support.sample import sample

_PAIR = f"{ACC}, {ACC}"
LENGTHS = [2, 3, 4]


def scaled(tag: str = "", acc: str = "sum", scale: str = "half") -> str:
    """One iteration: the product of two tiles, scaled and added."""
    return "\n".join(
        (
            programs.load(f"a{tag}", "a_desc", line=10),
            programs.alloc(f"x{tag}", f"a{tag}"),
            programs.dot(f"s{tag}", f"x{tag}", f"x{tag}", "zeros", line=11),
            programs.op("arith.mulf", f"%s{tag}, %{scale}", _PAIR, f"%t{tag}", ACC, line=12),
            programs.op("arith.addf", f"%{acc}, %t{tag}", _PAIR, f"%next{tag}", ACC, line=12),
        )
    )


def sums(body: str = "", upper: str = "n") -> str:
    return programs.for_loop(
        body or scaled(), upper=upper, carried={"sum": ("zeros", "next", ACC)}, results="%acc", line=9
    )


def tile() -> str:
    return staged.kernel(f"{sums()}\n{programs.store()}")


def persistent() -> str:
    """A loop over %m tiles around the loop of %n trips."""
    body = f"{sums()}\n{programs.store(at='%tile, %zero')}"
    return staged.kernel(programs.for_loop(body, induction="tile", upper="m"))


def chained_plan(text: str, length: int, depth: int, number: int | None = None) -> Plan:
    plan = plan_for(parse_module(text), depth, 0)
    return replace(plan, loops=(LoopPlan(number, 0, stages=0, kept=(), chain=length), *plan.loops[number is None :]))


def levels(text: str, length: int, depth: int) -> tuple[Module, Module]:
    """Aref and barrier level."""
    flow = flow_of(text, chained_plan(text, length, depth))
    assert run(flow, to_arefs()) is None
    aref = parse_module(print_module(checked(flow.module)))
    assert run(flow, unchecked(BARRIERS)) is None
    return aref, checked(flow.module)


def test_each_dot_is_issued_before_the_result_of_the_one_before_it_is_used() -> None:
    flow = flow_of(tile(), chained_plan(tile(), 2, 3))
    assert run(flow, unchecked(to_arefs()), until=ChainDots.__name__) is None
    check(
        brief(checked(flow.module)),
        """
        CHECK:      partition = "producer"
        CHECK:      [[P:%\\w+]]:{{[0-9]+}} = "scf.for"
        CHECK-COUNT-2: "aref.put"
        CHECK:      "scf.for"([[P]]#
        CHECK:      partition = "consumer"
        CHECK:      [[C:%\\w+]]:{{[0-9]+}} = "scf.for"
        CHECK:      [[S:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK:      [[T:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK-NOT:  "arith.mulf"
        CHECK:      [[W:%\\w+]] = "ttng.warp_group_dot_wait"([[S]]) <{pendings = 1 : i32}>
        CHECK:      "arith.mulf"([[W]],
        CHECK:      [[A:%\\w+]] = "arith.addf"
        CHECK:      [[X:%\\w+]]:2 = "ttng.warp_group_dot_wait"([[T]], [[A]]) <{pendings = 0 : i32}>
        CHECK:      "arith.mulf"([[X]]#0,
        CHECK:      "arith.addf"([[X]]#1,
        CHECK:      "scf.for"([[C]]#
        CHECK:      "ttng.warp_group_dot"({{.*}}isAsync = false
        """,
    )


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("program", [tile, persistent])
def test_the_protocol_is_proved_at_both_levels(program: object, depth: int, length: int) -> None:
    aref, barrier = levels((tile if program is tile else persistent)(), length, depth)
    assert isinstance(check_credits(aref), Proved)
    assert isinstance(check_barriers(barrier), Proved)


@pytest.mark.parametrize("order", ["eager", "late", "random"])
@pytest.mark.parametrize("length", LENGTHS)
def test_results_are_those_of_the_original_loop_for_any_number_of_trips(length: int, order: str) -> None:
    made = {name: levels(text, length, 2)[1] for name, text in (("tile", tile()), ("persistent", persistent()))}
    kind = "late" if order == "late" else "random" if order == "random" else "eager"
    for n in range(2 * length + 2):
        assert staged.output(made["tile"], n, 1, kind) == staged.expected(tile(), n, 1)
    for m in (2, 3):
        for n in sample(list(range(2 * length + 2)), 3):
            assert staged.output(made["persistent"], n, m, kind) == staged.expected(persistent(), n, m)


def test_a_wait_that_leaves_its_dot_in_flight_is_refuted() -> None:
    _, barrier = levels(tile(), 3, 3)
    for wait in ops_named(barrier, "ttng.warp_group_dot_wait"):
        if wait.properties["pendings"] == int_attr(1):
            wait.properties["pendings"] = int_attr(2)
    assert not isinstance(check_barriers(barrier), Proved)


def test_a_slot_that_is_released_before_the_wait_is_refuted() -> None:
    _, barrier = levels(tile(), 3, 3)
    first = next(it for it in ops_named(barrier, "ttng.warp_group_dot_wait"))
    arrival = next(op for op in first.parent.ops[first.parent.index_of(first) :] if op.name == "ttng.arrive_barrier")  # type: ignore[union-attr]
    view = arrival.operands[0].defining_op
    for op in (view, arrival):
        assert op is not None and first.parent is not None
        op.detach()
        first.parent.insert(first.parent.index_of(first), op)
    assert not isinstance(check_barriers(barrier), Proved)


def refusal(text: str, depth: int = 2, number: int | None = None) -> list[str]:
    flow = flow_of(text, chained_plan(text, 2, depth, number))
    flow.pins = Plan() if number is None else flow.plan
    assert run(flow, unchecked(to_arefs()), until=ChainDots.__name__) is None
    assert flow.plan.loop(0).chain == 1
    return [it.reason for it in flow.remarks if "chained" in it.reason]


def test_dots_that_depend_on_each_other_and_shallow_rings_are_not_chained() -> None:
    assert refusal(staged.attention()) == ["no iterations are chained: an operand is in registers"]
    assert "one slot" in refusal(tile(), depth=1)[0]
    recurrent = tile().replace("%x, %x, %zeros", "%x, %x, %sum")
    assert refusal(recurrent) == [
        "no iterations are chained: an iteration starts with what the one before it computes from its dots"
    ]


def test_a_plan_for_a_loop_that_cannot_be_chained_is_refused() -> None:
    with pytest.raises(PlanError, match="an operand is in registers; cure: chain=1"):
        refusal(staged.attention(), number=0)


def test_without_a_chain_nothing_changes() -> None:
    assert brief(flow_behind(ChainDots, tile(), mma_depth=0).module).count('"ttng.warp_group_dot"') == 1
