"""Tiles stored in slices keep their bits, leave more memory to the rings, and are proved; a missing wait is refuted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.errors import UnsupportedKernel
from tawa.ir import print_module
from tawa.ir.attributes import int_attr, read_int
from tawa.plan import Plan, PlanOptions, RingPlan, StorePlan
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.cases.attention.builders import forward_case
from tests.cases.case import Specimen, Tensor
from tests.cases.gemm.cases import find
from tests.cases.pointers.builders import gemm_case
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import report, signature
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

WAIT = "ttng.async_tma_store_wait"
WIDE = forward_case("wide", dtype="bf16", dim=256, causal=False, tile=(128, 64, 8), SQ=256, SK=256, B=1)
GEMM = find("persistent_8warps")


def compiled(case: Specimen, **fields: Any) -> Any:
    with launched_by_us():
        request = Request(PlanOptions(), Plan(**fields))
        return compile_kernel(case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=2)


def depths(made: Any) -> list[int]:
    return [ring.slots for ring in Plan.of(made.metadata.tawa["plan"]).rings]


def sliced(slices: int, buffers: int | None = None) -> tuple[StorePlan, ...]:
    return (StorePlan(slices=slices, buffers=buffers),)


@simulated_once
@pytest.mark.parametrize(("slices", "buffers"), sample([(4, 2), (2, 1), (2, 2), (4, 1), (4, 3)], 7))
def test_slices_keep_the_bits_of_a_tile(slices: int, buffers: int) -> None:
    made = compiled(GEMM, stores=sliced(slices, buffers))
    assert passes(made.metadata.tawa["verdict"])
    assert report(made).ptxas.spill_bytes == 0
    assert orders_with_other_bits(GEMM, made, simulated(GEMM, unspecialised(GEMM, made))) == []


@simulated_once
def test_a_persistent_kernel_with_wide_heads_has_two_slots_if_it_stores_in_slices() -> None:
    whole, parts = compiled(WIDE, form="persistent"), compiled(WIDE, form="persistent", stores=sliced(4))
    assert (depths(whole), depths(parts)) == ([1, 1, 1], [1, 2, 2])
    assert passes(parts.metadata.tawa["verdict"])
    assert report(parts).ptxas.spill_bytes == 0
    wanted = simulated(WIDE, unspecialised(WIDE, parts))
    assert orders_with_other_bits(WIDE, parts, wanted, tiles_on=1) == []


def test_slices_move_between_registers_and_shared_memory_as_the_whole_tile_does() -> None:
    """No element goes through another thread, and the descriptor of the whole block has the box of a slice."""
    whole, parts = compiled(GEMM), compiled(GEMM, stores=sliced(4))
    ptx = whole.asm["ptx"], parts.asm["ptx"]
    assert ptx[0].count("stmatrix") == ptx[1].count("stmatrix") > 0
    assert all(ptx[1].count(instruction) <= ptx[0].count(instruction) for instruction in ("shfl", "prmt", "ld.shared"))
    assert parts.metadata.tensordesc_meta == whole.metadata.tensordesc_meta


@pytest.mark.usefixtures("without_ptx")
def test_a_kernel_that_waits_for_too_few_slices_is_refuted() -> None:
    module = read_levels(compiled(GEMM, stores=sliced(4)))[1]
    assert passes(check_barriers(module))
    waits = [op for op in module.walk() if op.name == WAIT]
    assert {read_int(wait.properties["pendings"]) for wait in waits} == {0, 1}
    for wait in waits[:-1]:  # the last one is at the end, where nothing is written any more
        before = wait.properties["pendings"]
        wait.properties["pendings"] = int_attr(read_int(before) + 1)
        verdict = check_barriers(module)
        assert isinstance(verdict, Refuted), print_module(module)
        wait.properties["pendings"] = before


@pytest.mark.usefixtures("without_ptx")
def test_slices_narrower_than_a_box_are_refused() -> None:
    with pytest.raises(UnsupportedKernel, match=r"8 slices of 256 columns have rows of 64 bytes, a box of TMA 128"):
        compiled(GEMM, stores=sliced(8))


@pytest.mark.usefixtures("without_ptx")
def test_the_slices_are_told_to_the_user() -> None:
    told = {it["field"]: it["value"] for it in compiled(GEMM, stores=sliced(4)).metadata.tawa["decisions"]}
    assert any("staged in 4 slices through 2 buffers" in value for field, value in told.items() if "stores" in field)


def in_float32(bm: int, bn: int) -> Specimen:
    """A persistent form's GEMM through pointers, whose result is not rounded."""
    case = gemm_case("float32", tile=(bm, bn, 64), warps=8, sizes={"M": 256, "N": 512, "K": 128})
    return replace(case, tensors={**case.tensors, "c": Tensor(("M", "N"), "fp32", "nan")})


@simulated_once
def test_a_tile_of_float32_is_sliced_so_that_the_rings_keep_three_slots() -> None:
    case = in_float32(128, 256)
    made, whole = compiled(case, form="persistent", groups=1), compiled(
        case, form="persistent", groups=1, stores=sliced(1)
    )  # fmt: skip
    assert (depths(made), depths(whole)) == ([3], [2])
    record = made.metadata.tawa
    assert [(it.slices, it.buffers) for it in Plan.of(record["plan"]).stores] == [(2, 1)]
    assert passes(record["verdict"]) and report(made).ptxas.spill_bytes == 0
    wanted = simulated(case, unspecialised(case, made))
    assert orders_with_other_bits(case, made, wanted, 3, launch_spec(made)) == []


@pytest.mark.usefixtures("without_ptx")
def test_a_tile_that_leaves_enough_to_the_rings_is_stored_whole() -> None:
    found = Plan.of(compiled(in_float32(128, 128), form="persistent", groups=1).metadata.tawa["plan"])
    assert [it.slices for it in found.stores] == [1]


def test_a_pinned_depth_is_kept_and_nothing_is_sliced_for_it() -> None:
    case = in_float32(128, 256)
    found = Plan.of(
        compiled(case, form="persistent", groups=1, rings=(RingPlan(depth=2),)).metadata.tawa["plan"]
    )  # fmt: skip
    assert [it.slices for it in found.stores] == [1] and [it.depth for it in found.rings] == [2]
