"""What is expected of a kernel before layouts is what the planner then makes of it: D and the CTAs that share an SM."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import _Driver
from tawa.bridge.driver.request import Request
from tawa.plan import PlanOptions
from tawa.plan.cost.programs import Program
from tawa.plan.search.space import form_of
from tests.cases.attention.cases import CASES as ATTENTION
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES as GEMM
from tests.cases.pointers.cases import CASES as POINTERS
from tests.matrix.compiling import signature
from tests.support.fronts import front
from tests.support.sample import EVERY_CASE

pytestmark = pytest.mark.slow

FAMILIES = {
    "tile": GEMM, "gate_up": GEMM, "two_loops": GEMM, "persistent": GEMM, "device_desc": GEMM, "batched": GEMM,
    "two_loops_": ATTENTION, "one_loop": ATTENTION, "persistent_": ATTENTION, "biased": ATTENTION, "dkdv": ATTENTION,
    "tutorial": POINTERS, "masked": POINTERS, "block_pointers": POINTERS, "offsets": POINTERS,
}  # fmt: skip
EVERY = [
    (name, it, groups)
    for name, cases in FAMILIES.items()
    for it in cases
    if it.name.startswith(name) and it.expect.verdict == "specialised"
    for groups in ((1, 2) if it.num_warps == 8 else (1,))
]
LAST_OF_EACH = {(name, groups): (name, case, groups) for name, case, groups in EVERY}
"""A case of each family and number of groups."""
CHOSEN = EVERY if EVERY_CASE else list(LAST_OF_EACH.values())


def programs(case: Specimen, groups: int) -> tuple[Program, Program] | None:
    """The expected program and that of the Plan; None if the rows cannot be split."""
    made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
    request = Request(PlanOptions(only_if_faster=False, num_consumer_groups=groups))
    driver = _Driver(made.job(case.name), request)
    found, space = driver.run(), driver.space
    if not isinstance(found, Specialised):
        assert groups == 2, found.remarks
        return None
    plan = found.outcome.plan
    assert plan is not None and space is not None
    return space.program(form_of(space, plan)), Program(plan)


@pytest.mark.parametrize(("case", "groups"), [pytest.param(*it, id=f"{it[0].name}-{it[1]}") for _, *it in CHOSEN])
def test_slots_and_ctas_are_expected_as_they_are_made(case: Specimen, groups: int) -> None:
    found = programs(case, groups)
    if found is not None:
        first, second = ((it.groups, it.num_warps, it.ctas, it.slots) for it in found)
        assert first == second
