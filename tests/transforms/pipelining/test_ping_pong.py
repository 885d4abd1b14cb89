"""`ping_pong`: where the token goes; the protocol is proved and results stay bitwise equal."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import LOOPS
from tawa.ir import Builder, Module, Operation, parse_module, print_module, replace_op
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Proved, Refuted
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ping_pong import grouped, inside, lowered, made, plan_of
from tests.cases.programs.ttgir import op
from tests.support.filecheck import brief, check
from tests.support.sample import sample
from tests.support.verdicts import passes

PROGRAMS: dict[str, Callable[[], str]] = {
    **staged.PROGRAMS,
    "gemm": programs.tile_gemm,
    "persistent gemm": programs.persistent_gemm,
    "two gemm loops": programs.two_loops,
    "branching gemm": programs.branching_gemm,
    "while": programs.while_gemm,
    "nested": programs.nested_loops,
}


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
        CHECK:      [[T0:%\\w+]] = "aref.create"() <{name = "token0", implied_empty = true}>
        CHECK:      [[T1:%\\w+]] = "aref.create"() <{name = "token1", implied_empty = true}>
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


def test_a_section_costs_one_wait_and_one_arrival() -> None:
    module = levels("gemm", 2, 2)[1]
    hints = {it.result.hint for it in module.walk() if it.name == "ttg.local_alloc"}
    assert {"token0_full", "token1_full"} <= hints and not any(it.startswith("token") and "empty" in it for it in hints)
    loops = [it for it in programs.ops_named(module, "scf.for") if inside(it, "ttng.warp_group_dot")]
    assert len(loops) == 2
    for loop in loops:  # of each group: the tile, its release a step behind, and the token
        assert len(inside(loop, "ttng.wait_barrier")) == 2
        assert len(inside(loop, "ttng.arrive_barrier")) == 2


def test_no_section_holds_a_release_a_wait_or_a_loop() -> None:
    for name in PROGRAMS:
        for group in programs.ops_named(levels(name, 2, 2)[0], "warp.group"):
            holding = ""
            for nested in group.walk():
                ring = nested.operands[0].hint if nested.name.startswith("aref.") and nested.operands else ""
                if nested.name == "aref.get" and ring.startswith("token"):
                    holding = ring
                elif nested.name == "aref.consumed" and ring == holding:
                    holding = ""
                assert not holding or nested.name not in ("aref.consumed", "ttng.warp_group_dot_wait", "scf.for"), name


def test_in_a_loop_only_the_group_that_has_the_token_issues_dots() -> None:
    for name in PROGRAMS:
        for number, group in enumerate(programs.ops_named(levels(name, 2, 2)[0], "warp.group")[1:]):
            loops = [it for it in group.walk() if it.name in LOOPS and inside(it, "ttng.warp_group_dot")]
            innermost = [it for it in loops if not any(it.is_ancestor_of(other) for other in loops)]
            assert innermost
            for dot in (it for loop in innermost for it in inside(loop, "ttng.warp_group_dot")):
                assert dot.parent is not None
                around = dot.parent.ops
                before, behind = around[: around.index(dot)], around[around.index(dot) + 1 :]
                taken = [it.name for it in before if is_token(it, number)]
                assert taken and taken[-1] == "aref.get", name
                assert next(it.name for it in behind if is_token(it, number)) == "aref.consumed", name
                assert any(it.name == "aref.put" and is_token(it, 1 - number) for it in behind), name


def is_token(it: Operation, number: int) -> bool:
    return it.name in ("aref.get", "aref.consumed", "aref.put") and it.operands[0].hint == f"token{number}"


def two_chains(between: str) -> str:
    """A loop with two dots of their own sums, and arithmetic on a carried tile between their issues."""
    lines = (
        programs.load("a", "a_desc"),
        programs.alloc("x", "a"),
        programs.dot("first_next", "x", "x", "first"),
        between,
        programs.dot("second_next", "x", "x", "second"),
    )
    carried = {name: ("zeros", f"{name}_next", programs.ACC) for name in ("first", "tile", "second")}
    loop = programs.for_loop("\n".join(lines), carried=carried, results="%acc:3")
    some = programs.binary("some", "addf", "acc#0", "acc#1", programs.ACC)
    done = programs.binary("done", "addf", "some", "acc#2", programs.ACC)
    return grouped(programs.kernel("\n".join((loop, some, done, programs.store("done")))))


_SHORT = programs.binary("tile_next", "mulf", "tile", "tile", programs.ACC)
_LONG = op("math.exp2", "%tile", programs.ACC, "%tile_next", programs.ACC)


@pytest.mark.parametrize(("between", "sections"), [(_SHORT, 1), (_LONG, 2)], ids=["short", "long"])
def test_a_group_keeps_the_token_only_as_long_as_its_dots_keep_the_tensor_cores_busy(
    between: str, sections: int
) -> None:
    text = two_chains(between)
    module, remarks = made(text, plan_of(text))
    (loop, _) = [it for it in programs.ops_named(module, "scf.for") if inside(it, "ttng.warp_group_dot")]
    assert len([it for it in inside(loop, "aref.get") if it.operands[0].hint == "token0"]) == sections
    (note,) = [remark.reason for remark in remarks if "ping-pong" in remark.reason]
    assert note.endswith("at one place of their program" if sections == 1 else "at 2 places of their program")
    assert check_credits(module) == Proved()
    for n in (0, 1, 3):
        assert staged.output(lowered(module), n, 0, "late") == staged.output(module, n, 0)


# -- proofs and bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", sample([2, 1, 3, 4], 3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_tokens_are_proved_for_every_number_of_trips(name: str, depth: int) -> None:
    aref, barrier = levels(name, 2, depth)
    verdict = check_credits(aref)
    assert passes(verdict)
    if name not in ("branching", "branching gemm"):  # what a branch does there depends on how far the loop is
        assert verdict == Proved()
    assert passes(check_barriers(barrier, effort="fast"))
    assert passes(check_refinement(aref, barrier))


@pytest.mark.parametrize("name", ["tile", "two_loops", "persistent", "gemm"])
def test_three_groups_pass_the_token_round(name: str) -> None:
    aref, barrier = levels(name, 3, 2)
    assert check_credits(aref) == Proved()
    assert passes(check_barriers(barrier, effort="fast"))
    assert passes(check_refinement(aref, barrier))


def expected(name: str, groups: int, n: int, m: int) -> np.ndarray:
    """The result of the original program, run once per group."""
    whole = np.full((256, 64), np.nan, np.float16)
    for group in range(groups):
        module = parse_module(grouped(PROGRAMS[name](), groups))
        for marker in [it for it in module.walk() if GroupIndexOp.of(it)]:
            replace_op(marker, [Builder.before(marker).constant(group)])
        part = np.frombuffer(staged.output(module, n, m), np.float16).reshape(whole.shape)
        whole = np.where(np.isnan(part), whole, part)
    return whole


@pytest.mark.parametrize(("name", "groups"), [(name, 2) for name in PROGRAMS] + [("two_loops", 3), ("persistent", 3)])
def test_the_bits_stay_in_three_orders(name: str, groups: int) -> None:
    aref, barrier = levels(name, groups, 2)
    for n, m in ((0, 0), (0, 2), (1, 1), (2, 1), (3, 2), (5, 0)):
        wanted = expected(name, groups, n, m).tobytes()
        assert staged.output(aref, n, m, "late") == wanted, (n, m)
        for order in ("eager", "late", "random"):
            assert staged.output(barrier, n, m, order, seed=n) == wanted, (n, m, order)


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
    for ring, partition in (("token0", "consumer1"), ("token1", "consumer0")):
        module = parse_module(print_module(levels("tile", 2, 2)[0]))
        drop(module, "aref.put", ring, partition)
        verdict = check_credits(module)
        assert isinstance(verdict, Refuted)
        assert verdict.witness.kind == "deadlock", verdict.witness.message


def test_a_token_that_is_not_there_at_the_beginning_is_a_deadlock() -> None:
    module = parse_module(print_module(levels("tile", 2, 2)[0]))
    drop(module, "aref.put", "token0", which=0)
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted)


def test_the_last_token_has_to_be_taken() -> None:
    module = parse_module(print_module(levels("tile", 2, 2)[0]))
    drop(module, "aref.consumed", "token0")
    drop(module, "aref.get", "token0")
    verdict = check_credits(module)
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "leftover credit"


@pytest.mark.parametrize(("ring", "partition"), [("token0", "consumer1"), ("token1", "consumer0")])
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
