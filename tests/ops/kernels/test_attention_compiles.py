"""Attention kernels compile for a Hopper GPU, specialised where the list says so, without spills.

A sample: every form, element type, head dimension, number of warps and option once. `bench/attention/proofs.py` takes
every case.
"""

from __future__ import annotations

import re
from typing import Literal

import pytest

from tawa.bridge.triton.versions import NEWER_IR_FROM, triton_version
from tawa.errors import UnsupportedKernel
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.cases import CASES, find
from tests.cases.case import Specimen
from tests.matrix.compiling import compile_and_report, compile_case, pinned
from tests.support.sample import sample

SERIALISED = ("C7510", "C7514", "C7515", "C7517")
FEW_REGISTERS = 64
"""Bytes: a few values, written and read once; which kernels need them differs from one ptxas to the next."""
TIGHT = ("two_loops_tile128x64_4warps",)
"""Sums, scores and weights of 128 rows in four warps are more than their registers hold."""


def traits(case: Specimen) -> frozenset[tuple[str, object]]:
    """What makes the compiler do something else: form, element type, head dimension, warps and options."""
    constants = case.constants()
    options = {(name, bool(constants.get(name))) for name in ("CAUSAL", "WINDOW", "ALIBI", "SOFTCAP", "BRANCH")}
    dtype = case.tensors["q"].dtype if "q" in case.tensors else ""
    form = case.kernel.fn.__name__
    others = {("form", form), ("dtype", dtype), ("dim", case.sizes.get("DIM")), ("warps", case.num_warps)}
    return frozenset(options | others | {("shared heads", constants.get("GROUP", 1) > 1)})


def typical() -> dict[str, list[object]]:
    """By verdict each case that has a trait which none before it has: those that are specialised come first."""
    seen: set[tuple[str, object]] = set()
    found: dict[str, list[object]] = {"specialised": [], "either": [], "declined": []}
    for verdict, picked in found.items():
        for case in CASES:
            if case.expect.verdict == verdict and not traits(case) <= seen:
                seen |= traits(case)
                picked.append(pytest.param(case, id=case.name))
    return found


TYPICAL = typical()


@pytest.mark.parametrize("case", sample(TYPICAL["specialised"], 8))
def test_case_specialises_and_neither_spills_nor_serialises(case: Specimen) -> None:
    compiled, found = compile_and_report(case, pinned(*case.plans[0]))
    record = compiled.metadata.tawa
    assert record["applied"], record["reason"]
    assert {ring["depth"] for ring in record["plan"]["rings"]} == {case.plans[0][0]}
    assert found.ptxas.spill_bytes <= FEW_REGISTERS or case.name in TIGHT
    assert not [note.code for note in found.ptxas.notes if note.code in SERIALISED]


OF_OPERATORS = (
    "persistent_bf16_d128_causal",
    "two_parts_d192_128_full",
    "two_parts_d192_128_causal",
    "two_parts_fp16_d192_causal",
    "two_parts_fp16_d96_causal",
    "reordered_persistent_d128_causal",
    "ragged_bf16_d128_causal",
    "ragged_d192_128_causal",
)


@pytest.mark.parametrize("name", sample(OF_OPERATORS, 6))
def test_no_wgmma_waits_for_the_one_before_it_in_kernels_of_the_operators(name: str) -> None:
    compiled, found = compile_and_report(find(name), PlanOptions(precision="relaxed"))
    record = compiled.metadata.tawa
    assert record["applied"], record["reason"]
    assert found.ptxas.spill_bytes <= FEW_REGISTERS
    assert not [note for note in found.ptxas.notes if note.code.startswith("C75")]


@pytest.mark.parametrize("precision", sample(["relaxed", "exact"], 3))
@pytest.mark.parametrize("form", ["two_loops", "persistent"])
def test_automatic_mode_specialises_attention_with_stages(form: str, precision: Literal["exact", "relaxed"]) -> None:
    if form == "persistent" and triton_version()[:2] >= NEWER_IR_FROM:
        pytest.skip("with the LLVM of newer Triton the persistent kernel spills if its loops have stages")
    compiled = compile_case(find(f"{form}_bf16_d128_causal"), PlanOptions(precision=precision))
    record = compiled.metadata.tawa
    assert record["applied"], record["reason"]
    assert {it.stages for it in Plan.of(record["plan"]).schedules} == {2}


@pytest.mark.usefixtures("without_cubin")
@pytest.mark.parametrize("dim", sample([128, 64, 256], 4))
def test_a_reordered_v_needs_no_exchange_of_registers(dim: int) -> None:
    form = "two_loops" if dim == 64 else "persistent"
    counts = [
        compile_case(find(name), pinned(2, 0)).asm["ptx"].count("prmt")
        for name in (f"reordered_{form}_d{dim}_full", f"two_loops_fp8e4nv_d{dim}_full")
    ]
    assert counts[0] == 0 < counts[1]


@pytest.mark.usefixtures("without_cubin")
@pytest.mark.parametrize("dim", sample([128, 64, 256], 4))
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_8_bit_scores_are_carried_as_fp32_or_not_at_all(dim: int, mask: str) -> None:
    compiled = compile_case(find(f"two_loops_fp8e4nv_d{dim}_{mask}"), pinned(2, 0))
    schedules = [loop["schedule"] for loop in compiled.metadata.tawa["plan"]["loops"]]
    types = [tile["type"] for schedule in schedules for tile in schedule["carried"]]
    assert not [type for type in types if type.endswith("f8E4M3FN")]
    # A permutation for each register of four scores, in both groups, wherever the loops convert them.
    registers = 2 * 128 * (64 if dim == 256 else 128) // (8 * 32 * 4)
    copies = sum(max(op["stage"] for op in schedule["ops"]) + 1 for schedule in schedules)
    assert compiled.asm["ptx"].count("prmt.b32") <= registers * copies


@pytest.mark.usefixtures("without_cubin")
@pytest.mark.parametrize("groups", sample([2, 1], 3))
def test_threads_add_four_neighbours_of_an_accumulator_in_one_instruction(groups: int) -> None:
    case = find("from_registers_d128")
    ptx = compile_case(case, PlanOptions(num_consumer_groups=groups, only_if_faster=False)).asm["ptx"]
    added = re.findall(r"\b(?:atom|red)\.\S*\.add\.\S*f32", ptx)
    assert added and all(it.endswith(".v4.f32") for it in added)
    assert len(added) == groups * case.size("BM*D") // (4 * 32 * case.num_warps)  # each group has its code


@pytest.mark.parametrize("case", sample(TYPICAL["either"], 6))
def test_undecided_case_is_specialised_or_left_with_a_reason(case: Specimen) -> None:
    record = compile_case(case, PlanOptions()).metadata.tawa
    assert record["applied"] or record["reason"]


@pytest.mark.parametrize("case", TYPICAL["declined"])
def test_declined_case_says_why(case: Specimen) -> None:
    with pytest.raises(UnsupportedKernel) as caught:
        compile_case(case, pinned(2, 0))
    assert case.expect.reason.lower() in caught.value.remark.reason.lower()
