"""Block-scaled dots for Blackwell: specialised, proved, without spills, with the bits of the unspecialised program.

That these bits are right is compared with float64: products are exact, sums are in float32, C is rounded to float16.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.report.report import report
from tawa.bridge.triton.read_module import read_levels
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tcgen05 import TCGen5MMAScaledOp
from tawa.dialects.warp import find_groups
from tawa.errors import PlanError
from tawa.ir import print_module
from tawa.machine.machines import SM_100
from tawa.plan import Plan, PlanOptions
from tawa.plan.fields import OperandPlan, RingPlan
from tawa.verify.run.memory import MMAS_IN_ORDER
from tests.cases.arrays import floats_of
from tests.cases.case import Specimen
from tests.cases.compiled import compile_case
from tests.cases.scaled import FORMATS, reference, scaled, scaled_attention
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import signature
from tests.support.sample import sample, simulated_once

ROUNDING = 2.0**-11
"""Of float16, in units of the largest value of C; twice that covers sums in float32."""
INSTRUCTIONS = {"mxfp8": "mxf8f6f4", "mxfp4": "mxf4", "nvfp4": "mxf4nvf4", "mxfp8 x mxfp4": "mxf8f6f4"}
FORMS = [*((form, "tma") for form in FORMATS), *((form, "pointers") for form in FORMATS if " x " not in form)]
DEPTH = 2


def compiled(case: Specimen, **options: Any) -> Any:
    kernel = compile_case(case, only_if_faster=False, target=SM_100, **options)
    record = kernel.metadata.tawa
    assert record["applied"], record["reason"]
    assert record["verdict"]["verdict"] == "proved"
    copied = "tcgen05.cp" in kernel.asm["ptx"]  # a copy overwrites the scales of the dot before it
    assert (MMAS_IN_ORDER in record["verdict"]["assumptions"]) is copied
    return kernel


def right_bits(case: Specimen, kernel: Any) -> None:
    """The simulator's bits are those of the unspecialised program in all orders, and the right ones."""
    wanted = simulated(case, unspecialised(case, kernel))
    exact, found = reference(case, floats_of(case, wanted)), floats_of(case, wanted)["c"]
    assert np.abs(found - exact).max(initial=0) <= 2 * ROUNDING * np.abs(exact).max(initial=0)
    assert orders_with_other_bits(case, kernel, wanted) == []


@pytest.mark.contract
@pytest.mark.parametrize(("form", "way"), [("mxfp8", "tma"), ("nvfp4", "tma"), ("mxfp8", "pointers")])
def test_scales_by_tma_travel_with_the_tiles_and_others_in_a_ring_of_their_own(form: str, way: str) -> None:
    """Triton writes the layout of such scales as that of the descriptor, and from 3.8 on by its offsets."""
    kernel = compiled(scaled(form, way, 136, 136, 288))
    assert f"kind::{INSTRUCTIONS[form]}.block_scale" in kernel.asm["ptx"] and "tcgen05.cp" in kernel.asm["ptx"]
    rings = {it.name: it.fill for it in Plan.of(kernel.metadata.tawa["plan"]).rings}
    assert rings["ring0"] == "tma" and rings.get("ring1") == (None if way == "tma" else "registers")


@simulated_once
@pytest.mark.parametrize(("form", "way"), sample(FORMS, 3))
def test_a_block_scaled_gemm_does_not_spill_and_keeps_its_bits(form: str, way: str) -> None:
    case = scaled(form, way, 136, 136, 288)
    kernel = compiled(case)
    assert report(kernel).ptxas.spill_bytes == 0
    right_bits(case, kernel)


@simulated_once
@pytest.mark.parametrize("way", ["tma", "pointers"])
@pytest.mark.parametrize("trips", sample((0, 1, DEPTH, DEPTH + 1, 2 * DEPTH + 1), 3))
def test_every_trip_count_around_the_depth_gives_the_same_bits(trips: int, way: str) -> None:
    case = scaled("mxfp8", way, 128, 128, 128 * trips)
    right_bits(case, compiled(case, aref_depth=DEPTH))


@simulated_once
@pytest.mark.parametrize(("rows", "columns", "slots"), [(128, 128, 2), (128, 256, 1), (256, 128, 1)])
def test_scales_take_columns_beside_the_accumulators_of_a_persistent_kernel(
    rows: int, columns: int, slots: int
) -> None:
    """Of 512 columns, two accumulators of 128 x 256 would leave none."""
    case = scaled("mxfp8", "persistent", 384, 272, 256, rows, columns, num_warps=8)
    kernel = compiled(case)
    assert Plan.of(kernel.metadata.tawa["plan"]).ring("tensor0").depth == slots
    copies = columns_of_copies(kernel.asm["ptx"])
    assert copies and min(copies) >= slots * rows // 128 * columns
    if slots == 2:
        right_bits(case, kernel)


def columns_of_copies(ptx: str) -> list[int]:
    """The first columns that scales are copied to."""
    registers = set(re.findall(r"tcgen05\.cp\S* \[ (%r\d+)", ptx))
    return [int(it) for one in registers for it in re.findall(rf"add\.s32\s+{one}, %r\d+, (\d+);", ptx)]


@simulated_once
def test_scales_in_aligned_rows_go_into_slots_by_cp_async() -> None:
    case = scaled("mxfp8", "pointers", 128, 128, 512)
    kernel = compiled(case)
    assert Plan.of(kernel.metadata.tawa["plan"]).ring("ring1").fill == "cp.async"
    right_bits(case, kernel)


@simulated_once
def test_scales_that_stay_with_the_consumer_go_through_shared_memory() -> None:
    case = scaled("mxfp8", "pointers", 136, 136, 384)
    plan = Plan(operands=tuple(OperandPlan(it, 0, 0, path="consumer") for it in ("scales_a", "scales_b")))
    kernel = compiled(case, plan=plan)
    rings = Plan.of(kernel.metadata.tawa["plan"]).rings
    assert [(it.name, it.fill) for it in rings if it.is_exchanged and not it.name.startswith("tensor")] == [
        ("operand0", "threads"), ("operand1", "threads"),
    ]  # fmt: skip
    right_bits(case, kernel)


@simulated_once
@pytest.mark.parametrize("form", ["mxfp8", "nvfp4"])
def test_each_of_two_groups_has_its_own_scales(form: str) -> None:
    """The copies for both groups go to the same columns, each right before the dot of its group."""
    case = scaled(form, "pointers", 392, 136, 288, BM=256, num_warps=8)
    kernel = compiled(case, num_consumer_groups=2)
    right_bits(case, kernel)


@simulated_once
@pytest.mark.parametrize("trips", sample((0, 1, 2, 3, 5), 4))
def test_scaled_scores_of_two_groups_are_issued_ahead_of_the_weights(trips: int) -> None:
    case = scaled_attention(128 * trips)
    kernel = compiled(case)
    assert Plan.of(kernel.metadata.tawa["plan"]).consumer_groups == 2
    assert report(kernel).ptxas.spill_bytes == 0
    aref, _ = read_levels(kernel)
    assert aref is not None
    mma = next(group.op for group in find_groups(aref) if group.role == "mma")
    scores = [len(enclosing_loops(op)) for op in mma.walk() if TCGen5MMAScaledOp.matches(op)]
    assert scores == [0, 0, 1, 1]
    assert orders_with_other_bits(case, kernel, simulated(case, unspecialised(case, kernel))) == []


NO_BLOCKS = [
    ("mxfp8", 72, 288, 64, 4, 0), ("mxfp8", 136, 288, 128, 4, 64), ("mxfp8", 40, 288, 32, 4, 32),
    ("mxfp4", 72, 544, 64, 4, 0), ("nvfp4", 72, 288, 64, 4, 64), ("mxfp8", 136, 288, 128, 8, 64),
]  # fmt: skip
"""Kind, N, K, BN, warps, BK (0: the usual): 64 x 4, 128 x 2, 32 x 1, 64 x 8, 64 x 4 and 128 x 2 scales of B."""


@pytest.mark.contract
@pytest.mark.parametrize(("form", "n", "k", "bn", "warps", "bk"), sample(NO_BLOCKS, 3))
def test_scales_that_are_no_whole_blocks_are_stored_by_the_consumer(
    form: str, n: int, k: int, bn: int, warps: int, bk: int
) -> None:
    """They go through a ring of one slot in tensor memory, without a copy by the dots' thread."""
    case = scaled(form, "pointers", 136, n, k, 128, bn, warps, bk)
    kernel = compiled(case)
    aref, _ = read_levels(kernel)
    assert aref is not None
    made = re.findall(r"!aref.ring<1 x \(!ttg.memdesc<(\w+)x\w+, #ttng.tensor_memory_scales", print_module(aref))
    assert f"{bn}x{case.size('BK') // case.size('VEC')}" in made
    right_bits(case, kernel)


@simulated_once
@pytest.mark.parametrize("trips", sample((0, 1, DEPTH, 2 * DEPTH + 1), 3))
def test_each_of_two_groups_stores_its_own_scales(trips: int) -> None:
    case = scaled("mxfp8", "pointers", 392, 136, 64 * trips, 256, 64, 8, 64)
    kernel = compiled(case, num_consumer_groups=2)
    assert Plan.of(kernel.metadata.tawa["plan"]).consumer_groups == 2
    right_bits(case, kernel)


def test_a_depth_of_scales_in_tensor_memory_cannot_be_pinned() -> None:
    """Triton has no slots of them."""
    case = scaled("mxfp8", "pointers", 128, 64, 256, 128, 64)
    for number in (0, 1):
        ring = RingPlan(f"tensor{number}", depth=2)
        request = Request(PlanOptions(only_if_faster=False), Plan(rings=(ring,)))
        with pytest.raises(PlanError, match=f"D = 2 in tensor{number}: .*; cure: D = 1"):
            compile_kernel(case.kernel, signature(case), request, num_warps=4, target=SM_100)
