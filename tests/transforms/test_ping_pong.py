"""`ping_pong`: where the token goes, that it is proved, that the bits stay, and when groups cannot take turns."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tawa.analysis.channels import find_channels
from tawa.analysis.loads import find_dot_loads
from tawa.dialects import structure_rules
from tawa.dialects.tt import GroupIndexOp
from tawa.errors import PlanError
from tawa.ir import Builder, Module, Operation, parse_module, print_module, replace_op, verify_structure
from tawa.pipeline import Target, aref_passes, barrier_passes, specialise
from tawa.plan import PartitionPlan, Plan, PlanOptions
from tawa.remarks import Remark
from tawa.transforms.ping_pong import PingPong
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.credits import check_credits
from tawa.verify.verdict import Proved, Refuted
from tests.support import programs, staged
from tests.support.filecheck import brief, check
from tests.support.passes import plan_for
from tests.support.programs import op

_STORE = re.compile(r'("tt\.descriptor_store"\(%\w+, %\w+), %(\w+),')
_ROWS = 80  # from one group's rows of the output to those of the next

PROGRAMS: dict[str, Callable[[], str]] = {
    **staged.PROGRAMS,
    "gemm": programs.tile_gemm,
    "persistent gemm": programs.persistent_gemm,
    "two gemm loops": programs.two_loops,
    "branching gemm": programs.branching_gemm,
    "while": programs.while_gemm,
    "nested": programs.nested_loops,
}


def grouped(text: str, groups: int = 2, upper: str = "") -> str:
    """The program with the rows that it stores moved by the group's number. upper: loops to %n go to this instead."""
    asm = 'asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true'
    lines = [
        op("arith.constant", "", "", "%groups", "i32", properties=f"value = {groups} : i32"),
        op("tt.elementwise_inline_asm", "%groups", "i32", "%group", "i32", properties=asm),
        op("arith.constant", "", "", "%rows", "i32", properties=f"value = {_ROWS} : i32"),
        programs.binary("shift", "muli", "group", "rows"),
    ]
    where = '%zeros = "arith.constant"'
    text = text.replace(where, "\n".join((*lines, where)), 1)
    if upper:
        text = text.replace("(%zero, %n, %one", f"(%zero, %{upper}, %one")
    text, count = _STORE.subn(r"\1, %row_\2,", text)
    assert count
    sums = [(f"row_{name}", name) for name in dict.fromkeys(re.findall(r"%row_(\w+),", text))]
    for row, name in sums:
        add = programs.binary(row, "addi", name, "shift")
        text = re.sub(rf'^(?="tt\.descriptor_store"\(%\w+, %\w+, %{row},)', add + "\n", text, count=1, flags=re.M)
    return text


def plan_of(text: str, groups: int = 2, depth: int = 2, *, ping_pong: bool = True) -> Plan:
    plan = plan_for(parse_module(text), depth, min(1, depth - 1))
    consumers = [PartitionPlan(f"consumer{number}", "consumer", 4, 240) for number in range(groups)]
    return replace(plan, partitions=(plan.partitions[0], *consumers), ping_pong=ping_pong)


def made(text: str, plan: Plan) -> tuple[Module, list[Remark]]:
    """The aref level, and the remarks on the way; without what comes behind a pass that declines."""
    module = parse_module(text)
    remarks: list[Remark] = []
    for step in aref_passes(tuple(find_channels(find_dot_loads(module))), plan):
        remarks += step.run(module).remarks
        if any(remark.kind == "declined" for remark in remarks):
            break
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module, remarks


def lowered(aref: Module) -> Module:
    module = parse_module(print_module(aref))
    for step in barrier_passes():
        step.run(module)
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module


@functools.cache
def levels(name: str, groups: int, depth: int) -> tuple[Module, Module]:
    text = grouped(PROGRAMS[name](), groups)
    aref, remarks = made(text, plan_of(text, groups, depth))
    assert not any(remark.kind == "declined" for remark in remarks), remarks
    return aref, lowered(aref)


# -- where the token goes ----------------------------------------------------------------------------------------------


def test_the_dots_of_an_iteration_are_issued_between_taking_the_token_and_giving_it_on() -> None:
    check(
        brief(levels("tile", 2, 2)[0]),
        """
        CHECK:      [[T0:%\\w+]] = "aref.create"() <{name = "turn0", implied_empty = true}>
        CHECK:      [[T1:%\\w+]] = "aref.create"() <{name = "turn1", implied_empty = true}>
        CHECK:      "aref.put"([[T0]], {{.*}}) <{fresh = true}>
        CHECK:      partition = "consumer0"
        CHECK:      "aref.get"([[T0]], [[FIRST:%\\w+]])
        CHECK-NEXT: "ttng.warp_group_dot"
        CHECK:      "aref.put"([[T1]], [[FIRST]])
        CHECK:      "scf.for"
        CHECK:      "aref.get"([[T0]], [[I:%\\w+]])
        CHECK-NEXT: "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK:      "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK-NEXT: "aref.advance"([[I]])
        CHECK-NEXT: "aref.consumed"([[T0]], [[I]])
        CHECK-NEXT: "aref.put"([[T1]], [[I]])
        CHECK:      "ttng.warp_group_dot_wait"
        CHECK-NOT:  aref.put
        CHECK:      async_tma_copy_local_to_global
        CHECK:      "aref.get"([[T0]], [[END:%.*]])
        CHECK-NEXT: "aref.consumed"([[T0]], [[END]])
        CHECK:      "warp.end"
        CHECK:      partition = "consumer1"
        CHECK:      "scf.for"
        CHECK:      "aref.get"([[T1]], [[J:%\\w+]])
        CHECK:      [[NEXT:%\\w+]] = "aref.advance"([[J]])
        CHECK-NEXT: "aref.consumed"([[T1]], [[J]])
        CHECK-NEXT: "aref.put"([[T0]], [[NEXT]])
        CHECK-NOT:  "aref.get"([[T1]]
        CHECK:      tt.return
        """,
    )


def test_a_turn_is_one_wait_and_one_arrival() -> None:
    module = levels("gemm", 2, 2)[1]
    hints = {it.result.hint for it in module.walk() if it.name == "ttg.local_alloc"}
    assert {"turn0_full", "turn1_full"} <= hints and not any(it.startswith("turn") and "empty" in it for it in hints)
    loops = [it for it in programs.ops_named(module, "scf.for") if inside(it, "ttng.warp_group_dot")]
    assert len(loops) == 2
    for loop in loops:  # of each group: the tile, its release a step behind, and the turn
        assert len(inside(loop, "ttng.wait_barrier")) == 2
        assert len(inside(loop, "ttng.arrive_barrier")) == 2


def inside(holder: Operation, name: str) -> list[Operation]:
    return [it for it in holder.walk() if it.name == name]


def test_no_section_holds_a_release_a_wait_or_a_loop() -> None:
    for name in PROGRAMS:
        for group in programs.ops_named(levels(name, 2, 2)[0], "warp.group"):
            holding = ""
            for nested in group.walk():
                ring = nested.operands[0].hint if nested.name.startswith("aref.") and nested.operands else ""
                if nested.name == "aref.get" and ring.startswith("turn"):
                    holding = ring
                elif nested.name == "aref.consumed" and ring == holding:
                    holding = ""
                assert not holding or nested.name not in ("aref.consumed", "ttng.warp_group_dot_wait", "scf.for"), name


# -- proofs and bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_tokens_are_proved_for_every_number_of_trips(name: str, depth: int) -> None:
    aref, barrier = levels(name, 2, depth)
    verdict = check_credits(aref)
    assert isinstance(verdict, Proved)
    if name not in ("branching", "branching gemm"):  # what a branch does there depends on how far the loop is
        assert verdict == Proved("all trip counts")
    assert isinstance(check_barriers(barrier, effort="fast"), Proved)
    assert isinstance(check_refinement(aref, barrier, effort="fast"), Proved)


@pytest.mark.parametrize("name", ["tile", "two_loops", "persistent", "gemm"])
def test_three_groups_pass_the_token_round(name: str) -> None:
    aref, barrier = levels(name, 3, 2)
    assert check_credits(aref) == Proved("all trip counts")
    assert isinstance(check_barriers(barrier, effort="fast"), Proved)
    assert isinstance(check_refinement(aref, barrier, effort="fast"), Proved)


def expected(name: str, groups: int, n: int, m: int) -> np.ndarray:
    """What the program as it was written gives, run once for each group."""
    whole = np.full((256, 64), np.nan, np.float16)
    for group in range(groups):
        module = parse_module(grouped(PROGRAMS[name](), groups))
        for marker in [it for it in module.walk() if GroupIndexOp.of(it)]:
            replace_op(marker, [Builder.before(marker).constant(group)])
        part = np.frombuffer(staged.output(module, n, m), np.float16).reshape(whole.shape)
        whole = np.where(np.isnan(part), whole, part)
    return whole


@pytest.mark.parametrize(("name", "groups"), [(name, 2) for name in PROGRAMS] + [("two_loops", 3)])
def test_the_bits_stay_in_three_orders(name: str, groups: int) -> None:
    aref, barrier = levels(name, groups, 2)
    for n, m in ((0, 0), (0, 2), (1, 1), (2, 1), (3, 2), (5, 0)):
        wanted = expected(name, groups, n, m).tobytes()
        assert staged.output(aref, n, m, "late") == wanted, (n, m)
        for order in ("eager", "late", "random"):
            assert staged.output(barrier, n, m, order, seed=n) == wanted, (n, m, order)


def test_the_groups_issue_their_dots_by_turns() -> None:
    aref, _ = levels("tile", 2, 2)
    verdict = check_credits(aref)
    drop(aref := parse_module(print_module(aref)), "aref.put", "turn1", "consumer0")
    broken = check_credits(aref)
    assert isinstance(verdict, Proved) and isinstance(broken, Refuted)
    waits = [step for step in broken.witness.steps if step.target == "turn1" and step.partition == "consumer1"]
    assert waits and all("put" not in step.action or "wait" in step.action for step in waits)


# -- mutations ---------------------------------------------------------------------------------------------------------


def drop(module: Module, name: str, ring: str, partition: str = "", which: int = -1) -> None:
    found = [
        it
        for it in programs.ops_named(module, name)
        if it.operands[0].hint == ring
        and (not partition or any(partition in outer.properties.get("partition", "") for outer in it.ancestors()))
    ]
    found[which].erase()


def test_a_token_that_is_never_given_is_a_deadlock() -> None:
    for ring, partition in (("turn0", "consumer1"), ("turn1", "consumer0")):
        module = parse_module(print_module(levels("tile", 2, 2)[0]))
        drop(module, "aref.put", ring, partition)
        verdict = check_credits(module)
        assert isinstance(verdict, Refuted)
        assert verdict.witness.kind == "deadlock", verdict.witness.message


def test_a_token_that_is_not_there_at_the_beginning_is_a_deadlock() -> None:
    module = parse_module(print_module(levels("tile", 2, 2)[0]))
    drop(module, "aref.put", "turn0", which=0)
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted)


def test_the_last_token_has_to_be_taken() -> None:
    module = parse_module(print_module(levels("tile", 2, 2)[0]))
    drop(module, "aref.consumed", "turn0")
    drop(module, "aref.get", "turn0")
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "leftover credit"


@pytest.mark.parametrize(("ring", "partition"), [("turn0", "consumer1"), ("turn1", "consumer0")])
def test_a_barrier_of_a_token_that_nobody_arrives_at_is_a_deadlock(ring: str, partition: str) -> None:
    aref = parse_module(print_module(levels("tile", 2, 2)[0]))
    drop(aref, "aref.put", ring, partition)
    verdict = check_barriers(lowered(aref), effort="fast")
    assert isinstance(verdict, Refuted) and verdict.witness.message.startswith("deadlock")


def test_a_ring_whose_slots_are_not_known_to_be_empty_needs_its_barriers() -> None:
    aref = parse_module(print_module(levels("tile", 2, 2)[0]))
    ring = next(it for it in programs.ops_named(aref, "aref.create") if it.result.hint == "ring0")
    ring.properties["implied_empty"] = "true"
    assert isinstance(check_barriers(lowered(aref), effort="fast"), Refuted)


# -- when it is left, refused or declined ------------------------------------------------------------------------------


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
def test_groups_that_compute_the_same_trips_take_turns(name: str) -> None:
    where = '%zeros = "arith.constant"'
    text = grouped(staged.attention(), upper="bound").replace(where, f"{TRIPS[name]}\n{where}", 1)
    module, remarks = made(text, plan_of(text))
    assert not any(remark.kind == "declined" for remark in remarks)
    assert check_credits(module) == Proved("all trip counts")


ATOMIC = op(
    "tt.atomic_rmw", "%slots, %one, %flag", "!tt.ptr<i32>, i32, i1", "%order", "i32",
    properties="atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 4 : i32",
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
    """A loop whose dot is in a branch: `condition` makes %it, and where that is 0 the dot takes place."""
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


def test_a_dot_in_a_branch_that_all_groups_take_alike_takes_a_turn() -> None:
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


def test_one_group_has_nobody_to_take_turns_with() -> None:
    text = staged.attention()
    assert "one consumer group" in reason(text, 1).reason
    with pytest.raises(PlanError, match=r"this kernel has one group; cure: num_consumer_groups=2"):
        specialise(text, PlanOptions(ping_pong=True), Target(4, 2))
    plan = replace(plan_for(parse_module(text), 2, 1), ping_pong=True)
    with pytest.raises(PlanError, match=r"the Plan has ping_pong: .* one group"):
        specialise(text, PlanOptions(), Target(4, 2), plan)
    with pytest.raises(PlanError, match="ping_pong=True, num_consumer_groups=1"):
        PlanOptions(ping_pong=True, num_consumer_groups=1)


def test_the_planner_leaves_it_off_unless_it_is_asked_for() -> None:
    text = grouped(staged.attention())
    options = PlanOptions(enable_warp_specialization=True, aref_depth=2)
    for asked in (None, False, True):
        found = specialise(text, replace(options, ping_pong=asked), Target(4, 2, groups=2))
        assert found.plan is not None and found.plan.ping_pong is (asked is True)
        assert ("turn0" in found.aref) is (asked is True)
        assert Plan.from_json(found.plan.to_json()) == found.plan


@pytest.mark.parametrize("value", [1, "yes"])
def test_ping_pong_is_true_or_false(value: object) -> None:
    with pytest.raises(PlanError, match=r"ping_pong=.*: True, False or None"):
        PlanOptions.from_mapping({"ping_pong": value})
    text = plan_of(staged.attention()).to_json().replace('"ping_pong": true', f'"ping_pong": {json.dumps(value)}')
    with pytest.raises(PlanError, match=r"ping_pong=.* in a Plan"):
        Plan.from_json(text)
