"""All checks of one kernel, combined into one verdict."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.remarks import SourceLocation
from tawa.verify.check import check_levels, combine, trusted
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict, Witness
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import made, ops

RIGHT, WRONG = Proved(("n > 0",)), Refuted(Witness("order", "wrong", {}, ()), ("n > 1",))
UNCLEAR = Unknown("the budget ended", None, ("n > 0",))
PLACE = SourceLocation("kernel.py", 7)
TRIED = Checked("up to 3 trips", "a loop that ends in its body", PLACE, ("n > 2",))
COMPARED = Checked("4 choices", "other choices")


def test_refuted_takes_precedence_over_unknown_and_unknown_over_checked_and_checked_over_proved() -> None:
    assert combine({"credits": TRIED, "barriers": WRONG}) == Refuted(WRONG.witness, ("n > 2", "n > 1"))
    assert combine({"credits": TRIED, "barriers": UNCLEAR}) == Unknown(
        "barriers: the budget ended", None, ("n > 2", "n > 0")
    )
    assert combine({"credits": RIGHT, "barriers": TRIED}) == Checked(
        "barriers: up to 3 trips", TRIED.left, PLACE, ("n > 0", "n > 2")
    )
    assert combine({"credits": UNCLEAR, "barriers": WRONG}) == Refuted(WRONG.witness, ("n > 0", "n > 1"))
    assert combine({"credits": RIGHT, "barriers": UNCLEAR}) == Unknown("barriers: the budget ended", None, ("n > 0",))
    assert combine({"credits": RIGHT}) == Proved(("n > 0",))


def test_a_combined_check_joins_the_bounds_and_keeps_what_the_first_left() -> None:
    found = combine({"credits": RIGHT, "barriers": TRIED, "refinement": COMPARED})
    assert found == Checked("barriers: up to 3 trips; refinement: 4 choices", TRIED.left, PLACE, ("n > 0", "n > 2"))


@pytest.mark.parametrize("barriers", [RIGHT, TRIED, UNCLEAR, WRONG])
@pytest.mark.parametrize("credits", [RIGHT, TRIED, UNCLEAR, WRONG])
@pytest.mark.parametrize("refinement", [None, RIGHT, COMPARED, UNCLEAR, WRONG])
def test_only_a_compared_lowering_of_a_proved_aref_level_is_trusted_without_a_proof(
    credits: Verdict, barriers: Verdict, refinement: Verdict | None
) -> None:
    found = {"credits": credits, "barriers": barriers, **({"refinement": refinement} if refinement else {})}
    passes = isinstance(barriers, Proved | Checked) and isinstance(refinement, Proved | Checked)
    proved = credits == barriers == RIGHT and refinement in (None, RIGHT)
    assert trusted(found) == (proved or (credits == RIGHT and passes))


def test_a_kernel_of_both_levels_is_proved_by_all_three_checks() -> None:
    aref, barrier = map(parse_module, made("tile"))
    assert check_levels(aref, barrier, effort="fast") == Proved()


def test_a_fault_of_one_level_refutes_the_kernel() -> None:
    aref, barrier = map(parse_module, made("tile"))
    assert mutate.drop(ops(barrier, mutate.ARRIVE)[0])
    assert isinstance(check_levels(aref, barrier, effort="fast"), Refuted)
