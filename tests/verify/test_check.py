"""All checks of one kernel, combined into one verdict."""

from __future__ import annotations

from tawa.ir import parse_module
from tawa.verify.check import check_levels, combine
from tawa.verify.verdict import Proved, Refuted, Unknown, Witness
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import made, ops

RIGHT, WRONG = Proved("up to 3", ("n > 0",)), Refuted(Witness("order", "wrong", {}, ()), ("n > 1",))
UNCLEAR = Unknown("the budget ended", None, ("n > 0",))


def test_refuted_takes_precedence_over_unknown_and_unknown_over_proved() -> None:
    assert combine({"credits": UNCLEAR, "barriers": WRONG}) == Refuted(WRONG.witness, ("n > 0", "n > 1"))
    assert combine({"credits": RIGHT, "barriers": UNCLEAR}) == Unknown("barriers: the budget ended", None, ("n > 0",))
    assert combine({"credits": RIGHT}) == Proved("credits: up to 3", ("n > 0",))


def test_a_kernel_of_both_levels_is_proved_by_all_three_checks() -> None:
    aref, barrier = map(parse_module, made("tile"))
    verdict = check_levels(aref, barrier, effort="fast")
    assert isinstance(verdict, Proved)
    assert verdict.bound.startswith("credits: all trip counts; ")
    assert "barriers: every interleaving" in verdict.bound and "refinement: the same accesses" in verdict.bound


def test_a_fault_of_one_level_refutes_the_kernel() -> None:
    aref, barrier = map(parse_module, made("tile"))
    assert mutate.drop(ops(barrier, mutate.ARRIVE)[0])
    assert isinstance(check_levels(aref, barrier, effort="fast"), Refuted)
