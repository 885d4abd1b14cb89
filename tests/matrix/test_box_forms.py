"""Forms of addresses and masks that packages use: TMA loads them, and the results keep their bits."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tawa.dialects.ttg import LocalLoadOp, MemDescReshapeOp
from tawa.flow import Outcome
from tawa.ir import parse_module, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases.arrays import make_arrays
from tests.cases.case import Number, Pointer, Specimen
from tests.cases.pointers.cases import find
from tests.cases.pointers.forms.cases import FORMS
from tests.matrix.promoting import Launch, Promoted, addresses, promoted, run
from tests.support.pipeline import specialise

BOXES = {
    "differences": ("64x64",),
    "chunk_states": ("32x64", "32x64"),
    "chunk_states_even": ("32x64", "32x64"),
    "chunk_states_cut": ("32x64", "32x64"),
    "masks_as_numbers": ("64x64", "64x128"),
    "packed_heads": ("16x4x64", "64x64"),
    "packed_heads_3d": ("16x4x64", "64x64"),
    "packed_heads_d128": ("8x8x128", "64x128"),
    "reshaped_places": ("64x32", "32x64"),
    "flipped_rows": ("64x64", "64x64"),
}
STOCK = "chunk_states_cut"
LEFT = "a load stays with pointers: its tensor begins 4 bytes from the pointer, and TMA needs a multiple of 16"
ROW = {"flipped_rows": LEFT}
"""Rows that are no boxes stay with the consumer."""


def launch_of(case: Specimen) -> Launch:
    """The launch of a case, for the simulation of its TTIR."""
    arrays, given = make_arrays(case), dict[str, Any]()
    for name, argument in case.arguments.items():
        match argument:
            case Pointer(tensor):
                given[name] = arrays[tensor]
            case Number(value):
                given[name] = value if isinstance(value, float) else case.size(value)
            case _:
                raise AssertionError(name)
    return Launch(case.kernel, given, case.constants(), case.launch_grid())


@functools.cache
def found(name: str) -> tuple[Launch, Promoted]:
    launch = launch_of(find(name))
    return launch, promoted(launch)


@functools.cache
def specialised(name: str) -> Outcome:
    text = print_module(found(name)[1].ttgir())
    return specialise(text, PlanOptions(enable_warp_specialization=True), Target(4, 3, 227 * 1024, 1))


def test_every_form_is_tested() -> None:
    assert sorted(BOXES) == sorted(case.name for case in FORMS)


@pytest.mark.parametrize("name", BOXES)
def test_every_operand_is_a_box_and_the_remarks_say_so(name: str) -> None:
    launch, it = found(name)
    assert (it.result.promoted, it.result.left) == (len(BOXES[name]), int(name in ROW)), it.reasons()
    reasons = [remark.reason for remark in it.result.remarks if remark.reason != ROW.get(name)]
    assert reasons == [f"a pointer load becomes a TMA load: boxes of {shape}" for shape in BOXES[name]]
    broken = it.result.launch.broken(addresses(it.ttgir(), launch.arguments))
    assert (str(broken) if broken else "") == ("chunk_size % 32 == 0" if name == STOCK else "")


@pytest.mark.parametrize("name", [name for name in BOXES if name != STOCK])
def test_the_specialised_kernel_keeps_the_bits(name: str) -> None:
    launch, it = found(name)
    outcome = specialised(name)
    assert outcome.applied and outcome.plan is not None, outcome.remarks
    assert {ring.fill for ring in outcome.plan.rings} == {"tma"}
    before = run(launch, it.made.whole(), LaunchSpec())
    after = run(launch, parse_module(outcome.barrier), it.result.launch)
    for array, value in before.items():
        assert value.tobytes() == after[array].tobytes(), array


@pytest.mark.parametrize("name", ["packed_heads", "packed_heads_3d", "packed_heads_d128"])
def test_a_reshaped_tile_does_not_leave_its_slot(name: str) -> None:
    ops = [op.name for op in parse_module(specialised(name).aref).walk()]
    assert MemDescReshapeOp.NAME in ops and LocalLoadOp.NAME not in ops
    plan = specialised(name).plan
    assert plan is not None and [loop.mma_depth for loop in plan.loops] == [1]


def test_a_row_that_is_no_box_stays_with_the_consumer_which_loads_it_ahead() -> None:
    outcome = specialised("flipped_rows")
    assert outcome.plan is not None
    gate = next(it for it in outcome.plan.operands if it.argument == "gate_ptr")
    assert (gate.path, gate.ring, gate.prefetched) == ("consumer", None, True)
    assert [part.num_warps for part in outcome.plan.partitions if part.role == "producer"] == [1]


def test_tiles_that_cross_the_end_of_a_chunk_would_be_wrong() -> None:
    """Without the condition of the launch, rows of the next chunk would be read."""
    launch, it = found(STOCK)
    stock = run(launch, it.made.whole(), LaunchSpec())
    wrong = run(launch, it.ttgir(), it.result.launch)
    assert stock["state_ptr"].tobytes() != wrong["state_ptr"].tobytes()
