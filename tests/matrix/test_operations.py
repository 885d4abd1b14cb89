"""Whole operations: each is specialised, right against float64, and has the bits of the kernel before specialisation.

One case of each form; `bench/pointers/correctness.py` runs every case on a GPU.
"""

from __future__ import annotations

from typing import Any

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.bridge.triton.versions import triton_version
from tawa.plan import PlanOptions
from tests.cases.case import Specimen
from tests.cases.operations.cases import CASES, MLSTM, find
from tests.cases.operations.reference import numpy_reference
from tests.cases.simulated import errors, simulated, unspecialised
from tests.matrix.compiling import attempted
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

LEGAL = PlanOptions(only_if_faster=False)


def one_of_each() -> list[Any]:
    """The first case of each kernel."""
    first = {case.kernel.fn.__name__: case for case in reversed(CASES)}
    skip = pytest.mark.skipif(triton_version()[:2] > (3, 6), reason="later Tritons have no block pointers")
    return [pytest.param(it, id=it.name, marks=skip if it in MLSTM else ()) for it in CASES if it in first.values()]


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="chunk_scan"):
        find("chunk")


@simulated_once
@pytest.mark.parametrize("case", sample(one_of_each(), 4))
def test_an_operation_is_specialised_and_right(case: Specimen) -> None:
    found, levels = attempted(case, LEGAL)
    assert isinstance(found, Specialised), found.remarks
    assert passes(found.outcome.verdict)
    plain = simulated(case, unspecialised(case, levels))
    assert errors(case, plain, numpy_reference).share <= 1
    ours = simulated(case, read_levels(levels)[1], "random")
    assert all(ours[name].tobytes() == plain[name].tobytes() for name in plain)


@simulated_once
def test_rows_of_64_bits_travel_with_a_tile_in_a_slot_that_loops_without_the_mask_fill_in_part() -> None:
    """FlexAttention's gradients under a mask of documents, as launches get them."""
    case = find("flex_gradients_documents")
    with launched_by_us(function=case.kernel):
        found, levels = attempted(case, LEGAL)
    assert isinstance(found, Specialised), found.remarks
    plan = found.outcome.plan
    assert passes(found.outcome.verdict) and plan is not None
    assert {sum("64xi64" in tile for tile in it.payload) for it in plan.rings} == {0, 1}
    by_pointers = [it.path for it in plan.operands if it.argument == "documents_ptr" and it.path == "consumer"]
    assert len(by_pointers) == 2  # of the program's own rows, or keys: no iteration changes them
    plain = simulated(case, unspecialised(case, levels))
    assert errors(case, plain, numpy_reference).share <= 1
    ours = simulated(case, read_levels(levels)[1], "random", launch=found.launch)
    assert all(ours[name].tobytes() == plain[name].tobytes() for name in plain)


@pytest.mark.parametrize("name", sample(["flex_gradients_one_block", "flex_gradients_alibi", "flex_gradients_cap"], 3))
def test_gradients_of_every_form_of_flexattention_are_proved(name: str) -> None:
    """Without a mask, in one block of 2^30 rows and keys; with ALiBi; with a soft cap."""
    found, _ = attempted(find(name), LEGAL)
    assert isinstance(found, Specialised), found.remarks
    assert passes(found.outcome.verdict)
