"""The same matrix for Blackwell: every form is specialised, proved, does not spill, and keeps its bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.report.report import report
from tawa.bridge.triton.read_module import read_levels
from tawa.bridge.triton.versions import triton_version
from tawa.ir import print_module
from tawa.machine.machines import SM_100
from tawa.plan import Plan, PlanOptions
from tawa.plan.thresholds import HARMLESS_BYTES
from tests.cases.attention import cases as attention
from tests.cases.attention.builders import resized
from tests.cases.case import Specimen
from tests.cases.gemm import cases as gemm
from tests.cases.gemm import transposed
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import signature
from tests.support.sample import EVERY_CASE, sample, simulated_once

FEW_REGISTERS = 64
"""Bytes that attention may spill: softmax holds a row of scores in each thread."""
FORMS = (
    "tile_fp16_nn", "tile_fp32_nn", "tile_fp8e4nv_tt", "tile_64x64", "device_desc_8warps", "persistent_flat",
    "persistent_while", "triangular", "gate_up", "two_loops", "if_accumulate_skip2", "epilogue_all",
    "epilogue_pointer_store", "persistent_epilogue", "split_k",
)  # fmt: skip
"""One GEMM of each kind: operands, tiles, loops, structure, epilogue."""
ATTENTION = ("two_loops_fp16_d64_full", "two_loops_fp16_d64_causal", "two_loops_gqa")
SMALL = {"M": 136, "N": 136, "K": 136}
BITS: dict[str, dict[str, int]] = {
    "tile_fp32_tt": SMALL,
    "persistent_while": {**SMALL, "M": 384, "PROGRAMS": 2},
    "gate_up": SMALL,
    "two_loops": {**SMALL, "K2": 200},
    "if_accumulate_skip2": SMALL,
    "epilogue_all_pointers": {**SMALL, "N": 131},
}
DEPTH = 3


def compiled(case: Specimen, depth: int | None = None, plan: Plan | None = None) -> Any:
    """A case for Blackwell, specialised wherever that is legal."""
    options = PlanOptions(only_if_faster=False, aref_depth=depth)
    kernel = compile_kernel(
        case.kernel, signature(case), Request(options, plan), num_warps=case.num_warps, num_stages=case.num_stages,
        target=SM_100,
    )  # fmt: skip
    record = kernel.metadata.tawa
    assert record["applied"], record["reason"]
    return kernel


def by_name(names: Sequence[str], find: Any, every: Sequence[Specimen]) -> list[Any]:
    """The cases of a run: those of these names, or all."""
    return [pytest.param(it, id=it.name) for it in (every if EVERY_CASE else map(find, names))]


@pytest.mark.contract
@pytest.mark.parametrize("case", by_name(sample(FORMS, 3), gemm.find, gemm.SPECIALISED))
def test_a_gemm_is_specialised_and_proved_and_does_not_spill(case: Specimen) -> None:
    kernel = compiled(case)
    assert kernel.metadata.tawa["verdict"]["verdict"] == "proved"
    harmless = HARMLESS_BYTES if triton_version() >= (3, 9) else 0  # its ptxas stores two registers once
    assert report(kernel).ptxas.spill_bytes <= harmless
    assert "tcgen05.mma" in kernel.asm["ptx"]


@pytest.mark.contract
@pytest.mark.parametrize("case", by_name(ATTENTION[:1], attention.find, attention.MATRIX))
def test_attention_is_specialised_and_proved_and_spills_little(case: Specimen) -> None:
    kernel = compiled(case)
    assert kernel.metadata.tawa["verdict"]["verdict"] == "proved"
    assert report(kernel).ptxas.spill_bytes <= FEW_REGISTERS


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("name", sample(("persistent_fp16_d64_causal", "persistent_gqa_window", "ragged_window"), 4))
def test_a_compile_proves_persistent_attention(name: str) -> None:
    """It needs one state for each key: several that lack different facts are merged (`tawa.verify.run.merge`)."""
    assert compiled(attention.find(name)).metadata.tawa["verdict"]["verdict"] == "proved"


def same_bits(case: Specimen, kernel: Any) -> None:
    assert orders_with_other_bits(case, kernel, simulated(case, unspecialised(case, kernel))) == []


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("name", sample(BITS, 4))
def test_a_gemm_keeps_its_bits_in_all_orders(name: str) -> None:
    case = gemm.find(name)
    same_bits(case.with_sizes(**BITS[name]), compiled(case))


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("trips", sample((0, 1, DEPTH - 1, DEPTH, DEPTH + 1, 2 * DEPTH, 2 * DEPTH + 1), 4))
def test_every_trip_count_around_the_depth_gives_the_same_bits(trips: int) -> None:
    case = gemm.find("tile_64x64")
    same_bits(case.with_sizes(M=64, N=64, K=64 * trips), compiled(case, DEPTH))


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("name", ATTENTION if EVERY_CASE else ATTENTION[:1])
def test_attention_keeps_its_bits_in_all_orders(name: str) -> None:
    case = resized(attention.find(name), 136, 200).with_sizes(B=1)
    same_bits(case, compiled(case))


ONE_GROUP = "two_loops_tile64x64_4warps"


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize(("name", "correction"), [(ONE_GROUP, None), (ONE_GROUP, False), (ATTENTION[1], True)])
def test_a_partition_that_rewrites_the_accumulator_keeps_the_bits(name: str, correction: bool | None) -> None:
    case = resized(attention.find(name), 136, 200).with_sizes(B=1)
    kernel = compiled(case, plan=Plan(correction=correction))
    parts = [it["role"] for it in kernel.metadata.tawa["plan"]["partitions"]]
    assert parts.count("correction") == (0 if correction is False else parts.count("consumer"))
    assert kernel.metadata.tawa["verdict"]["verdict"] == "proved"
    same_bits(case, kernel)


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_the_aref_level_keeps_the_bits_where_threads_store_an_operand(order: str) -> None:
    """A left operand of 64 rows goes through shared memory: what publishes it contains the proxy fence."""
    case = resized(attention.find(ONE_GROUP), 64, 200).with_sizes(B=1)
    kernel = compiled(case)
    aref = read_levels(kernel)[0]
    assert aref is not None and '"operand0"' in print_module(aref)
    wanted, found = simulated(case, unspecialised(case, kernel)), simulated(case, aref, order)
    assert all(found[key].tobytes() == wanted[key].tobytes() for key in wanted)


@pytest.mark.contract
@pytest.mark.parametrize("case", [*transposed.INTEGERS, transposed.integers_case(False, True)], ids=lambda it: it.name)
def test_a_dot_of_integers_is_issued_by_one_thread_only_if_triton_chose_tcgen05(case: Specimen) -> None:
    """Triton computes it by tcgen05 from 3.8 on, and by mma.sync before, which needs all warps of the consumer."""
    kernel = compiled(case)
    record = kernel.metadata.tawa
    assert record["verdict"]["verdict"] == "proved"
    one_thread = "tcgen05.mma.cta_group::1.kind::i8" in kernel.asm["ptx"]
    assert one_thread == ("tensor memory" in record["reason"]) == ("mma.sync" not in kernel.asm["ptx"])
    same_bits(case.with_sizes(M=144, N=144, K=144), kernel)
