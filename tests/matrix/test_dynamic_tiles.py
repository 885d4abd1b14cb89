"""Kernels whose programs take their tiles from a counter: proved, without spills, and with the bits of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.dialects.aref import ConsumedOp, CreateOp
from tawa.dialects.warp import GroupOp
from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions
from tawa.plan.thresholds import HARMLESS_BYTES
from tawa.runtime.simulation import new_counter
from tests.cases.arrays import make_arrays, simulate_case
from tests.cases.attention.builders import forward_case
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.gemm.persistent import gemm_counted
from tests.cases.simulated import ORDERS, errors, simulated, unspecialised
from tests.matrix.compiling import report, signature
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import credits_proved, passes

PERSISTENT = Plan(form="persistent", tiles="dynamic")
LONGEST = replace(PERSISTENT, tile_order="longest_first")
WRITTEN = Plan(tiles="dynamic")
THREE = Plan(form="persistent", tiles="dynamic", groups=3, split="programs", loops=(LoopPlan(kept=()),))
CASES: dict[str, tuple[Specimen, Plan]] = {
    "gemm": (find_gemm("tile_fp16_nn"), PERSISTENT),
    "gemm of 8 warps": (find_gemm("tile_8warps_nn"), PERSISTENT),
    "gemm in fp8": (find_gemm("tile_fp8e4nv_nt"), PERSISTENT),
    "gemm with a loop over tiles": (find_gemm("persistent"), WRITTEN),
    "gemm with a loop over tiles, stored in halves": (find_gemm("split_epilogue"), WRITTEN),
    "causal attention": (find_attention("two_loops_fp16_d128_causal"), LONGEST),
    "causal attention, in launch order": (find_attention("two_loops_bf16_d64_causal"), PERSISTENT),
    "causal attention of 256 columns": (find_attention("two_loops_fp16_d256_causal"), LONGEST),
    "causal attention with a loop over tiles": (find_attention("persistent_fp16_d128_causal"), WRITTEN),
    "causal attention in fp8 with a loop over tiles": (find_attention("persistent_fp8e4nv_d128_causal"), WRITTEN),
    "causal attention in fp8, ping-pong": (
        find_attention("two_loops_fp8e4nv_d128_causal"), replace(PERSISTENT, ping_pong=True)
    ),
    "keys and values of causal attention": (find_attention("dkdv_fp16_d64_causal"), LONGEST),
    "three programs in a CTA": (
        forward_case("three", dtype="bf16", causal=True, tile=(64, 128, 4), dim=64, SQ=320, SK=384), THREE
    ),
}  # fmt: skip

TIGHT = ("causal attention of 256 columns", "keys and values of causal attention", "three programs in a CTA")
"""All registers are taken, so that some spill with strided tiles as well, on some releases of ptxas."""
GROUPS = {
    "causal attention": 2,
    "causal attention, in launch order": 2,
    "causal attention of 256 columns": 2,
    "causal attention with a loop over tiles": 2,
    "causal attention in fp8 with a loop over tiles": 2,
    "causal attention in fp8, ping-pong": 2,
    "keys and values of causal attention": 2,
    "three programs in a CTA": 3,
}
"""Consumer groups; the others have one. The atomic is the producer's, so the rows are split as with strided tiles."""


def compiled(case: Specimen, plan: Plan, **options: Any) -> Any:
    request = Request(PlanOptions(enable_warp_specialization=True, **options), plan)
    launched = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    with launched_by_us():
        return compile_kernel(case.kernel, signature(case), request, **launched)


@pytest.mark.parametrize("name", sample(CASES, 8))
def test_it_is_proved_and_takes_one_ticket_for_each_tile_and_does_not_spill(name: str) -> None:
    made = compiled(*CASES[name])
    record = made.metadata.tawa
    assert credits_proved(record["verdict"])
    found, spec = Plan.of(record["plan"]), launch_spec(made)
    assert found.tiles == "dynamic" and spec.counter and bool(spec.axes) == (found.form == "persistent")
    numbers = [ring for ring in found.rings if not ring.has_tiles]
    assert [(ring.name, ring.depth, ring.copies) for ring in numbers] == [("number0", 2, 1)]
    assert found.consumer_groups == GROUPS.get(name, 1)
    ptx = made.asm["ptx"]
    assert ptx.count("atom.global.gpu.relaxed.add") == 1 and ptx.count("atom.global.gpu.relaxed.exch") == 1
    case, plan = CASES[name]
    strided = report(compiled(case, replace(plan, tiles=None))).ptxas.spill_bytes if name in TIGHT else 0
    assert report(made).ptxas.spill_bytes <= (max(strided, HARMLESS_BYTES) if name in TIGHT else 0)


def run(case: Specimen, made: Any, module: Module, order: Any, programs: int, seed: int) -> tuple[dict[str, Any], int]:
    """All tensors and the counter after one launch, whose programs are interleaved."""
    spec, arrays, counter = launch_spec(made), make_arrays(case), new_counter()
    on = programs if spec.axes else None
    simulate_case(case, module, arrays, order, seed, on, spec, counter, together=True)
    return arrays, int(counter[0])


SMALL: dict[str, tuple[Specimen, Plan]] = {
    "gemm": (find_gemm("tile_64x64").with_sizes(M=256, N=192, K=128), PERSISTENT),
    "gemm without trips": (find_gemm("tile_64x64").with_sizes(M=256, N=64, K=0), PERSISTENT),
    "causal attention": (find_attention("two_loops_causal_200x333"), LONGEST),
    "attention, more tiles than programs": (find_attention("two_loops_causal_333x200"), PERSISTENT),
    "ping-pong": (find_attention("two_loops_causal_200x333"), replace(PERSISTENT, ping_pong=True)),
    "with a loop over tiles": (find_attention("persistent_200x333"), WRITTEN),
}


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize(("name", "order"), sample([(name, order) for name in SMALL for order in ORDERS], 10))
def test_any_order_of_tickets_gives_the_same_bits_and_leaves_the_counter_at_zero(name: str, order: str) -> None:
    case, plan = SMALL[name]
    made = compiled(case, plan)
    module, wanted = read_levels(made)[1], simulated(case, unspecialised(case, made))
    for programs, seed in ((1, 0), (3, 1), (3, 2), (7, 3)):
        arrays, counter = run(case, made, module, order, programs, seed)
        assert counter == 0
        assert [it for it in wanted if arrays[it].tobytes() != wanted[it].tobytes()] == []


@pytest.mark.usefixtures("without_ptx")
def test_a_whole_plan_that_is_passed_back_gives_the_same_kernel() -> None:
    case, plan = CASES["causal attention"]
    made = compiled(case, plan)
    again = compiled(case, Plan.of(made.metadata.tawa["plan"]))
    assert again.asm["barrier"] == made.asm["barrier"]


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize("name", ["dkdv_fp16_d64_causal", "two_loops_window100"])
def test_releases_that_change_places_and_loops_over_two_ranges_are_proved_in_a_compile(name: str) -> None:
    """K and V are released behind a store, in another order than at the aref level; a window has two masked edges."""
    made = compiled(find_attention(name), replace(PERSISTENT, tiles="strided"))
    assert credits_proved(made.metadata.tawa["verdict"])


@pytest.mark.usefixtures("without_ptx")
def test_the_depth_of_a_ring_of_numbers_can_be_pinned() -> None:
    case, plan = CASES["gemm"]
    assert plan == PERSISTENT
    rings = Plan.of(compiled(case, with_ring("depth", 3)).metadata.tawa["plan"]).rings
    assert {ring.name: ring.depth for ring in rings}["number0"] == 3


def with_ring(field: str, value: object) -> Plan:
    """A Plan that pins a field of the ring of numbers."""
    return replace(PERSISTENT, rings=Plan.of({"rings": [{"name": "number0", field: value}]}).rings)


WRONG: dict[str, tuple[Specimen, Plan, str]] = {
    "no loop over tiles": (find_gemm("tile_fp16_nn"), Plan(tiles="dynamic"), "no loop, outside of all others"),
    "no longest tile": (find_gemm("tile_fp16_nn"), replace(PERSISTENT, tile_order="longest_first"), "no longest tile"),
    "no order of its own": (
        find_attention("persistent_fp16_d128_causal"), replace(WRITTEN, tile_order="longest_first"), "orders its tiles"
    ),
    "atomics": (find_gemm("atomic_row"), PERSISTENT, "may give programs an order"),
    "a number of one slot less": (
        find_gemm("tile_fp16_nn"), with_ring("depth", 0),
        "D = 0 in number0",
    ),
    "a number by TMA": (
        find_gemm("tile_fp16_nn"), with_ring("fill", "tma"),
        "fill='tma' in number0; cure: fill='number'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_plan_that_cannot_be_carried_out_says_why(name: str) -> None:
    case, plan, reason = WRONG[name]
    with pytest.raises(PlanError, match=reason):
        compiled(case, plan)


def test_a_kernel_that_no_launcher_of_ours_starts_has_no_counter() -> None:
    case, plan = CASES["gemm with a loop over tiles"]
    with pytest.raises(PlanError, match="leave tiles='dynamic' out"):
        compile_kernel(case.kernel, signature(case), Request(PlanOptions(), plan), num_warps=case.num_warps)


def counted(**sizes: int) -> Specimen:
    """A kernel that takes its tiles from a counter of its own."""
    case = replace(find_gemm("dynamic_tiles"), name="counted", kernel=gemm_counted, num_warps=4)
    return case.with_sizes(**sizes) if sizes else case


def test_a_kernel_with_a_counter_of_its_own_is_proved_and_its_producer_takes_the_tickets() -> None:
    case = counted()
    made = compile_kernel(
        case.kernel, signature(case), Request(PlanOptions(enable_warp_specialization=True)), num_warps=4
    )
    record = made.metadata.tawa
    assert credits_proved(record["verdict"])
    rings = Plan.of(record["plan"]).rings
    assert [ring.name for ring in rings if not ring.has_tiles] == ["number0", "number1"]  # before the loop, and in it
    assert made.asm["ptx"].count("atom.global.gpu.relaxed.add") == 2


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("together", [False, True])
def test_a_kernel_with_a_counter_of_its_own_gives_the_same_bits(together: bool) -> None:
    case = counted(M=256, N=256, K=128, PROGRAMS=3)
    made = compile_kernel(
        case.kernel, signature(case), Request(PlanOptions(enable_warp_specialization=True)), num_warps=4
    )
    wanted = simulated(case, unspecialised(case, made))["c"]
    for order in ORDERS:
        arrays = make_arrays(case)
        simulate_case(case, read_levels(made)[1], arrays, order, seed=1, together=together)
        assert arrays["c"].tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_a_converter_gets_the_tiles_as_the_consumers_do() -> None:
    """Its loops depend on the tile, whose number it reads from the ring and releases."""
    case = forward_case("rows", dtype="fp8e4nv", dim=64, tile=(128, 128, 8), SQ=256, SK=256, B=1, rows=True)
    plan = Plan(form="persistent", tiles="dynamic", operands=(OperandPlan(transposed="converter"),))
    made = compiled(case, plan, precision="relaxed")
    assert passes(made.metadata.tawa["verdict"])
    groups = [view for op in read_levels(made)[0].walk() if (view := GroupOp.of(op)) and view.role == "converter"]
    released = [view for op in groups[0].op.walk() if (view := ConsumedOp.of(op))]
    assert "number" in {CreateOp(view.ring.defining_op).fill for view in released}  # type: ignore[arg-type]
    arrays, counter = run(case, made, read_levels(made)[1], "late", 3, 1)
    assert counter == 0 and errors(case, arrays).share <= 1
