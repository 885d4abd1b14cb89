"""8-bit operands that a converter transposes between two rings, on real kernels: bits, proofs, trips, instructions."""

from __future__ import annotations

import functools
import re
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.bridge.triton.versions import NEWER_IR_FROM, triton_version
from tawa.errors import PlanError
from tawa.plan import LoopPlan, OperandPlan, PartitionPlan, Plan, PlanOptions, RingPlan
from tawa.plan.thresholds import HARMLESS_BYTES
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Proved
from tests.cases.attention.builders import forward_case, resized
from tests.cases.case import Specimen
from tests.cases.gemm.transposed import FLOATS, INTEGERS, ROWS, SMALL
from tests.cases.simulated import errors, orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import report, signature
from tests.support.back_end import without_ptx
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

BY_CONVERTER = Plan(operands=(OperandPlan(transposed="converter"),))
REORDERED = Plan(operands=(OperandPlan(transposed="converter", reordered=True),))


def compiled(case: Specimen, plan: Plan = BY_CONVERTER, **options: Any) -> Any:
    launched = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    with launched_by_us():
        return compile_kernel(case.kernel, signature(case), Request(PlanOptions(**options), plan), **launched)


@functools.cache
def attention(
    dim: int, causal: bool, reordered: bool = True, form: str = "two_loops", ptx: bool = False
) -> tuple[Specimen, Any]:
    case = forward_case("rows", form, dtype="fp8e4nv", dim=dim, causal=causal, rows=True)
    with nullcontext() if ptx else without_ptx():
        return case, compiled(case, REORDERED if reordered else BY_CONVERTER)


def other_bits(case: Specimen, made: Any, tiles_on: int | None = None) -> list[str]:
    return orders_with_other_bits(case, made, simulated(case, unspecialised(case, made)), tiles_on)


def transposed(made: Any) -> dict[str, tuple[str, bool]]:
    operands = made.metadata.tawa["plan"]["operands"]
    return {
        it["argument"]: (it["transposed"], it.get("reordered"))
        for it in operands
        if "transposed" in it and "argument" in it
    }


# -- bits --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("case", sample([FLOATS[0], INTEGERS[0], INTEGERS[1], FLOATS[1]], 3), ids=lambda it: it.name)
def test_a_product_has_the_same_bits_whoever_transposes_its_operand(case: Specimen) -> None:
    made = compiled(case)
    assert set(transposed(made).values()) == {("converter", False)}
    assert passes(made.metadata.tawa["verdict"])
    assert other_bits(case, made) == []


@simulated_once
@pytest.mark.parametrize(("dim", "causal"), sample([(64, True), (256, False), (128, False)], 4))
def test_attention_with_values_as_rows_has_the_same_bits(dim: int, causal: bool) -> None:
    case, made = attention(dim, causal)
    assert transposed(made) == {"v_desc": ("converter", True)}
    assert other_bits(case, made) == []
    assert errors(case, simulated(case, read_levels(made)[1])).share <= 1


@simulated_once
def test_a_persistent_form_with_a_converter_has_the_same_bits() -> None:
    case, made = attention(64, True, form="persistent")
    assert passes(made.metadata.tawa["verdict"])
    assert other_bits(case, made) == []


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_trip_count_around_the_depth_has_the_same_bits(depth: int) -> None:
    case = SMALL
    rings = tuple(RingPlan(name, depth=depth) for name in ("ring0", "ring1", "ring1_transposed"))
    made = compiled(case, replace(BY_CONVERTER, rings=rings), mma_depth=min(depth - 1, 1))
    for trips in sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1}):
        smaller = case.with_sizes(M=64, N=64, K=64 * trips)
        wanted = simulated(smaller, unspecialised(smaller, made))
        assert orders_with_other_bits(smaller, made, wanted) == [], trips


@simulated_once
@pytest.mark.parametrize("keys", sample([128, 256, 640, 384], 4))
def test_two_groups_have_the_same_bits_for_few_and_many_blocks_of_keys(keys: int) -> None:
    case, made = attention(64, True)
    small = resized(replace(case, sizes={**case.sizes, "B": 1}), 128, keys)
    wanted = simulated(small, unspecialised(small, made))
    assert orders_with_other_bits(small, made, wanted) == []


# -- proofs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "causal"), sample([(64, True), (128, False)], 3))
def test_the_chain_of_three_partitions_is_proved_with_full_effort(dim: int, causal: bool) -> None:
    high, low = read_levels(attention(dim, causal)[1])
    credits = check_credits(high, effort="full")
    assert isinstance(credits, Proved)
    assert passes(check_barriers(low, effort="full"))
    assert passes(check_refinement(high, low))


# -- instructions ------------------------------------------------------------------------------------------------------


def converter_of(made: Any) -> str:
    """The machine code of PTX between the first `ldmatrix` and the last `stmatrix`: that of the converter."""
    text = made.asm["ptx"]
    return text[text.index("ldmatrix") : text.rindex("stmatrix")]


@pytest.mark.parametrize("dim", sample([128, 64, 256], 4))
def test_bytes_are_permuted_between_matrices_and_none_is_loaded_or_stored_alone(dim: int) -> None:
    made = attention(dim, False, ptx=True)[1]
    text = converter_of(made)
    pieces = made.metadata.tawa["plan"]["operands"]
    assert pieces and len(re.findall(r"ldmatrix\S*x4\.trans", text)) == dim * (64 if dim == 256 else 128) // 1024
    assert not re.search(r"(ld|st)\.shared\S*\.[bsu]8", text)
    assert text.count("prmt") == 4 * len(re.findall(r"ldmatrix", text))
    assert "setmaxnreg.inc.sync.aligned.u32 \t240" in made.asm["ptx"]


@pytest.mark.parametrize("causal", sample([True, False], 3))
def test_a_converter_with_24_registers_does_not_spill_or_hardly(causal: bool) -> None:
    newer = triton_version()[:2] >= NEWER_IR_FROM  # its ptxas keeps the addresses of the pieces of both loops
    few = (256 if newer else HARMLESS_BYTES) if causal else 0
    assert report(attention(128, causal, ptx=True)[1]).ptxas.spill_bytes <= few


def test_a_reordered_operand_needs_no_exchange_of_registers() -> None:
    counts = [
        attention(128, False, reordered, ptx=True)[1].asm["ptx"].count("shfl.sync") for reordered in (False, True)
    ]
    assert counts[0] - counts[1] == 64  # registers of 64 x 128 elements of 8 bits, of 128 threads and two groups


@pytest.mark.usefixtures("without_ptx")
def test_threads_with_40_registers_transpose_larger_pieces() -> None:
    parts = (
        PartitionPlan("producer", "producer", 1, 40),
        PartitionPlan("converter", "converter", 2, 40),
        PartitionPlan("consumer", "consumer", 4),
    )
    made = [
        compiled(ROWS, it).asm["ttgir"].count("local_store")
        for it in (BY_CONVERTER, replace(BY_CONVERTER, partitions=parts))
    ]
    assert made == [16, 8]


@pytest.mark.skipif(triton_version()[:2] < NEWER_IR_FROM, reason="older Triton does not tell how buffers are laid out")
@pytest.mark.parametrize("shape", [(32, 32), (64, 64), (128, 128), (64, 256)])
@pytest.mark.parametrize("bits", [16, 32])
def test_the_bytes_of_a_buffer_stay_where_they_are_if_it_is_seen_as_wider_elements(
    shape: tuple[int, int], bits: int
) -> None:
    from triton._C.libtriton import gluon_ir, ir  # pyright: ignore[reportMissingModuleSource]
    from triton.experimental.gluon import language as gluon

    context: Any = ir.context()
    ir.load_dialects(context)
    builder: Any = gluon_ir.GluonOpBuilder(context)

    def bases(width: int) -> list[list[int]]:
        layout = gluon.NVMMASharedLayout(min(shape[1], 128), width, 2)
        found = builder.to_linear_layout(layout._to_ir(builder), [shape[0], shape[1] * 8 // width])
        return [[row, column * width // 8] for row, column in found.offset_bases]

    assert bases(bits) == bases(8)[bits.bit_length() - 4 :]


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_ptx")
def test_automatic_mode_leaves_the_transposition_to_the_consumers_and_says_so() -> None:
    made = compile_kernel(ROWS.kernel, signature(ROWS), Request(PlanOptions(only_if_faster=False)), num_warps=4)
    assert transposed(made) == {"b_desc": ("registers", None)}
    told = {it["field"]: it["value"] for it in made.metadata.tawa["decisions"]}
    assert "transposed in registers of the consumers" in told["operands.b_desc, loop 0"]


@pytest.mark.usefixtures("without_ptx")
def test_a_converter_is_told_to_the_user() -> None:
    made = compiled(ROWS)
    told = {it["field"]: (it["value"], it["by"]) for it in made.metadata.tawa["decisions"]}
    assert "transposed by a converter" in told["operands.b_desc, loop 0"][0]
    assert told["partitions.converter"] == ("2 warps, 24 registers per thread", "planner")
    assert told["rings.ring1_transposed"][0].startswith("D = 2 of (128x128xf8E4M3FN)")
    assert "ring1_transposed with D = 2 (by a converter)" in made.metadata.tawa["reason"]


@pytest.mark.usefixtures("without_ptx")
def test_a_plan_with_a_converter_that_is_given_back_gives_the_same_kernel() -> None:
    case, made = attention(64, True)
    again = compiled(case, Plan.of(made.metadata.tawa["plan"]))
    assert again.asm["ptx"] == made.asm["ptx"]


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize("precision", ["exact", "relaxed"])
def test_the_order_of_sums_changes_only_where_that_is_allowed(precision: str) -> None:
    """By default, other rows of K make the exchange unnecessary, and the converter keeps the order."""
    case = forward_case("rows", dtype="fp8e4nv", dim=64, causal=False, rows=True)
    in_order = Plan(operands=(OperandPlan(transposed="converter", rows="in_order"),))
    assert transposed(compiled(case, in_order, precision=precision)) == {
        "v_desc": ("converter", precision == "relaxed")
    }


REFUSED = {
    "its dots read it as it is stored": ("a_desc", {}),
    "only a converter does that": ("b_desc", {"transposed": "registers", "reordered": True}),
    "do not take their left operands from the result of another dot": ("b_desc", {"reordered": True}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_a_converter_cannot_do_is_refused_with_the_operand_and_a_cure(why: str) -> None:
    argument, asked = REFUSED[why]
    entry = OperandPlan(argument, 0, **{"transposed": "converter", **asked})
    with pytest.raises(PlanError, match=rf"{argument}.*{why}.*; cure: "):
        compiled(ROWS, Plan(operands=(entry,)))


def test_a_plan_without_the_partition_of_its_converter_is_refused() -> None:
    parts = (PartitionPlan("producer", "producer", 1), PartitionPlan("consumer", "consumer", 4))
    with pytest.raises(PlanError, match="cure: one producer, one converter and one consumer"):
        compiled(ROWS, replace(BY_CONVERTER, partitions=parts))


def test_programs_that_share_a_cta_have_no_converter() -> None:
    case = forward_case("rows", dtype="fp8e4nv", dim=64, causal=False, rows=True, tile=(64, 128, 4))
    with pytest.raises(PlanError, match="splits the grid"):
        compiled(case, replace(BY_CONVERTER, groups=2, split="programs", loops=(LoopPlan(kept=()),)))


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def pinned(case: Specimen, registers: int) -> Plan:
    names = ["consumer0", "consumer1"] if case.reference == "attention" else ["consumer"]
    parts = (
        PartitionPlan("producer", "producer", 1, registers),
        PartitionPlan("converter", "converter", 2, registers),
        *(PartitionPlan(name, "consumer", 4) for name in names),
    )
    return replace(BY_CONVERTER, groups=len(names), partitions=parts)


def runs(case: Specimen, registers: int, tensors: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of three launches, each into poisoned tensors."""
    import tawa
    from tests.cases import launch

    kernel, found = tawa.jit(case.kernel), list[dict[str, Any]]()
    written = [name for name, tensor in case.tensors.items() if tensor.fill in ("nan", "zero")]
    for _ in range(3):
        launch.poison(case, tensors)
        launch.launch(case, kernel, tensors, plan=pinned(case, registers))
        found.append({name: tensors[name].clone() for name in written})
    return found


ATTENTION = [
    forward_case(f"rows_{form}_d{dim}_{causal}", form, dtype="fp8e4nv", dim=dim, causal=causal, rows=True)
    for form in ("two_loops", "persistent")
    for dim in (64, 128, 256)
    for causal in (False, True)
]


@pytest.mark.gpu
@pytest.mark.timeout(180)
@pytest.mark.parametrize("registers", [24, 40])
@pytest.mark.parametrize("case", [*FLOATS, *ATTENTION], ids=lambda it: it.name)
def test_a_converter_is_right_on_a_gpu_and_repeats_bit_for_bit(case: Specimen, registers: int) -> None:
    from tests.cases import launch
    from tests.cases.check import judge_all

    tensors = launch.make_tensors(case, seed=0)
    assert judge_all(case, tensors, runs(case, registers, tensors)).faults == ()


@pytest.mark.gpu
@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", INTEGERS, ids=lambda it: it.name)
def test_a_product_of_integers_is_exact_on_a_gpu(case: Specimen) -> None:
    from tests.cases import launch

    tensors = launch.make_tensors(case, seed=0)
    a, b = (tensors[name].double() for name in "ab")
    exact = (a.T if case.constexprs["A_T"] else a) @ (b.T if case.constexprs["B_T"] else b)
    assert all((run["c"].double() == exact).all() for run in runs(case, 24, tensors))
