"""`ping_pong`: when groups alternate, when they cannot, and the remarks that say why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tawa.errors import PlanError
from tawa.ir import parse_module, print_module
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tawa.transforms.pipelining.ping_pong import PingPong
from tawa.transforms.pipelining.pipeline_stages import PipelineStages
from tawa.verify.arefs import check_credits
from tawa.verify.verdict import Proved
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ping_pong import grouped, lowered, made, plan_of
from tests.cases.programs.ttgir import op
from tests.support.passes import after, plan_for
from tests.support.pipeline import specialise


def test_without_ping_pong_there_is_no_token() -> None:
    text = grouped(staged.attention())
    module, _ = made(text, plan_of(text, ping_pong=False))
    assert "x ()" not in print_module(module)


def reason(text: str, groups: int = 2) -> Remark:
    _, remarks = made(text, plan_of(text, groups))
    (declined,) = [remark for remark in remarks if remark.kind == "declined"]
    assert "ping_pong=False" in declined.cure
    return declined


COUNT = op("tt.load", "%out", "!tt.ptr<f16>", "%count", "f16", properties="cache = 1 : i32, evict = 1 : i32")
TRIPS = {
    "a product": programs.binary("bound", "muli", "n", "two"),
    "a number in memory": f"{COUNT}\n{op('arith.fptosi', '%count', 'f16', '%bound', 'i32')}",
}


@pytest.mark.parametrize("name", TRIPS)
def test_groups_that_compute_the_same_trips_alternate(name: str) -> None:
    where = '%zeros = "arith.constant"'
    text = grouped(staged.attention(), upper="bound").replace(where, f"{TRIPS[name]}\n{where}", 1)
    module, remarks = made(text, plan_of(text))
    assert not any(remark.kind == "declined" for remark in remarks)
    assert check_credits(module) == Proved()


ATOMIC = op(
    "tt.atomic_rmw", "%slots, %one, %flag", "!tt.ptr<i32>, i32, i1", "%order", "i32",
    properties="atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 1 : i32",
)  # fmt: skip
CONDITIONS = {
    "the trip": programs.binary("it", "remsi", "k", "two"),
    "the group": programs.binary("it", "addi", "group", "zero"),
    "the group, in the end not": programs.binary("it", "subi", "group", "group"),
    "who came first": f"{op('tt.bitcast', '%out', '!tt.ptr<f16>', '%slots', '!tt.ptr<i32>')}\n{ATOMIC}\n"
    + programs.binary("it", "remsi", "order", "two"),
    "a carried number of the group": programs.binary("it", "addi", "part", "zero"),
}


def skipping(condition: str) -> str:
    """A loop whose dot is in a branch: `condition` defines %it, and the dot is executed if it is 0."""
    then = programs.dot("next_then", "x", "x", "sum")
    other = op("arith.mulf", "%sum, %sum", f"{programs.ACC}, {programs.ACC}", "%next_else", programs.ACC)
    lines = (
        programs.load("a", "a_desc"),
        programs.alloc("x", "a"),
        condition,
        programs.compare("here", "it", "zero", 0),
        programs.branch(then, other, condition="here", result="next", type=programs.ACC),
        programs.binary("part_next", "addi", "part", "one"),
    )
    carried = {"sum": ("zeros", "next", programs.ACC), "part": ("group", "part_next", "i32")}
    loop = programs.for_loop("\n".join(lines), carried=carried, results="%acc:2")
    use = op("arith.mulf", "%acc#0, %acc#0", f"{programs.ACC}, {programs.ACC}", "%done", programs.ACC)
    return grouped(programs.kernel(f"{loop}\n{use}\n{programs.store('done')}"))


def test_a_dot_in_a_branch_that_all_groups_take_alike_is_a_section() -> None:
    text = skipping(CONDITIONS["the trip"])
    module, remarks = made(text, plan_of(text))
    assert not any(remark.kind == "declined" for remark in remarks)
    assert isinstance(check_credits(module), Proved)
    for n in range(5):
        assert staged.output(lowered(module), n, 0, "late") == staged.output(module, n, 0)


@pytest.mark.parametrize("name", list(CONDITIONS)[1:])
def test_a_branch_that_may_go_another_way_in_another_group_is_declined(name: str) -> None:
    assert "may differ from group to group" in reason(skipping(CONDITIONS[name])).reason


def test_groups_without_a_loop_of_dots_are_declined() -> None:
    dot = programs.dot("acc", "x", "x", "zeros")
    tile = f"{programs.load('a', 'a_desc', '%zero, %zero')}\n{programs.alloc('x', 'a')}\n{dot}"
    group = '"warp.group"() <{{partition = "consumer{}", role = "consumer", num_warps = 4 : i32}}> ({{\n{}\n' + (
        '"warp.end"() : () -> ()\n}}) : () -> ()'
    )
    module = parse_module(programs.kernel("\n".join(group.format(number, tile) for number in range(2))))
    (remark,) = PingPong(plan_of(staged.attention())).run(module).remarks
    assert remark.kind == "declined" and "no loop has dots" in remark.reason


def test_one_group_has_nobody_to_alternate_with() -> None:
    text = staged.attention()
    (remark,) = PingPong(plan_of(text, 1)).run(after(PipelineStages, text)[0]).remarks
    assert "at least two consumer groups" in remark.reason and "ping_pong=False" in remark.cure
    with pytest.raises(PlanError, match=r"this kernel has one; cure: num_consumer_groups=2"):
        specialise(text, PlanOptions(ping_pong=True), Target(4, 2))
    plan = replace(plan_for(parse_module(text), 2, 1), ping_pong=True)
    with pytest.raises(PlanError, match=r"the Plan has ping_pong: .* this kernel has one;"):
        specialise(text, PlanOptions(), Target(4, 2), plan)
    with pytest.raises(PlanError, match="ping_pong=True, num_consumer_groups=1"):
        PlanOptions(ping_pong=True, num_consumer_groups=1)


def test_the_planner_leaves_it_off_unless_it_is_asked_for() -> None:
    text = grouped(staged.attention())
    options = PlanOptions(enable_warp_specialization=True, aref_depth=2)
    for asked in (None, False, True):
        found = specialise(text, replace(options, ping_pong=asked), Target(4, 2, groups=2))
        assert found.plan is not None and found.plan.ping_pong is (asked is True)
        assert ("token0" in found.aref) is (asked is True)
        assert Plan.from_json(found.plan.to_json()) == found.plan


@pytest.mark.parametrize("value", [1, "yes"])
def test_ping_pong_is_true_or_false(value: object) -> None:
    with pytest.raises(PlanError, match=r"ping_pong=.*: True, False or None"):
        PlanOptions.from_mapping({"ping_pong": value})
    text = plan_of(staged.attention()).to_json().replace('"ping_pong": true', f'"ping_pong": {json.dumps(value)}')
    with pytest.raises(PlanError, match=r"ping_pong is .*, not true or false"):
        Plan.from_json(text)
