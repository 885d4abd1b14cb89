"""Explanations: the same facts as a value, a table and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import triton

import tawa
from tawa.bridge.triton.signature import Signature
from tests.bridge import fakes, kernels

TILE = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
WANTED = {
    "applied", "reason", "location", "partitions", "rings", "mma_depth", "shared_bytes", "registers", "spill_bytes",
    "wgmma_waits", "compile_ms", "tawa_ms", "stage_ms", "remarks", "kernel", "versions",
}  # fmt: skip


def test_an_applied_kernel_is_explained_ahead_of_time(pipeline_is: Any) -> None:
    pipeline_is(fakes.untouched)
    seen = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, aref_depth=3)
    data = json.loads(seen.to_json())
    assert set(data) >= WANTED
    assert data["applied"] and data["kernel"] == "gemm_descriptors" and data["location"] == "kernel.py:7"
    assert data["partitions"][0] == {"name": "producer", "role": "producer", "warps": 1, "registers": 24}
    assert data["rings"] == [{"name": "r0", "payload": ["64x64xf16"], "depth": 3, "bytes": 49152}]
    assert data["registers"] > 0 and data["spill_bytes"] == 0 and data["shared_bytes"] > 0
    assert data["wgmma_waits"] and data["compile_ms"] > data["tawa_ms"] > 0
    assert set(data["versions"]) == {"tawa", "triton"}
    assert (seen.rings[0].depth, seen.mma_depth) == (3, 0)


@pytest.mark.usefixtures("all_pay")
def test_a_declined_kernel_says_why_where_and_how_to_cure_it(pipeline_is: Any) -> None:
    pipeline_is(fakes.declines)
    seen = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS)
    assert (seen.applied, seen.reason, seen.location, seen.cure) == (
        False,
        "a store in the way",
        "kernel.py:9",
        "move it",
    )
    assert seen.partitions == seen.rings == seen.decisions == () and seen.mma_depth is seen.plan is None


def test_the_table_shows_the_decision_and_the_rings(pipeline_is: Any) -> None:
    pipeline_is(fakes.untouched)
    text = str(tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, aref_depth=3))
    for piece in (
        "gemm_descriptors: specialised",
        "rings.r0",
        "D = 3 of (64x64xf16), 48 KiB",
        "partitions.producer",
        "user",
        "aref_depth=3",
    ):
        assert piece in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_plan_and_who_decided_are_data(pipeline_is: Any) -> None:
    pipeline_is(fakes.untouched)
    seen = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, aref_depth=3)
    data = json.loads(seen.to_json())
    assert tawa.Plan.of(data["plan"]) == seen.plan
    assert [tuple(it.values()) for it in data["decisions"]] == [
        (it.field, it.value, it.by, it.reason) for it in seen.decisions
    ]
    assert "by" not in json.dumps(data["plan"]).split('"')


def test_the_plan_of_an_explanation_is_one_to_pin(pipeline_is: Any) -> None:
    """Whole, or edited in its JSON."""
    first = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, only_if_faster=False)
    again = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, plan=first.plan)
    assert again.plan == first.plan and again.mode == "pinned"
    assert {it.by for it in again.decisions if it.field != "launches"} == {"user"}
    other = first.plan.to_dict() if first.plan is not None else {}
    other["rings"][0]["depth"] = 2
    assert tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, plan=other).rings[0].depth == 2


def test_a_kernel_launched_before_is_explained_by_its_last_compile(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.untouched)
    kernel = tawa.jit(kernels.gemm_pointers)
    tensors = [kernels.half_tensor() for _ in range(3)]
    with pytest.raises(ValueError, match="has not been compiled yet"):
        tawa.explain(kernel)
    for depth in (3, 4):
        compiled = kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS, aref_depth=depth)
        assert tawa.explain(kernel).rings[0].depth == depth
        assert tawa.explain(compiled) == tawa.explain(kernel)


def test_an_explanation_survives_the_cache_on_disk(pipeline_is: Any, gemm_signature: Signature) -> None:
    pipeline_is(fakes.untouched)
    first = tawa.explain(kernels.gemm_descriptors, gemm_signature, aref_depth=3)
    pipeline_is(fakes.broken)
    assert tawa.explain(kernels.gemm_descriptors, gemm_signature, aref_depth=3) == first


def test_a_stock_kernel_is_explained_too(driver: None) -> None:
    kernel = triton.jit(kernels.gemm_pointers.fn)
    kernel.warmup(*[kernels.half_tensor() for _ in range(3)], 64, grid=(1,), **BLOCKS)
    seen = tawa.explain(kernel)
    assert not seen.applied and "Tawa was not asked" in seen.reason
    assert seen.compile_ms is None and seen.tawa_ms is None
    assert ": declined" in str(seen)


def test_an_explanation_is_a_value(pipeline_is: Any) -> None:
    pipeline_is(fakes.untouched)
    seen = tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS)
    with pytest.raises(AttributeError):
        seen.applied = False  # type: ignore[misc]
    assert isinstance(hash(seen.plan), int)


def test_something_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(TypeError, match="not a Triton kernel"):
        tawa.explain(3)


def test_an_unknown_option_of_a_compile_is_told_with_the_right_one() -> None:
    with pytest.raises(tawa.PlanError, match=r"unknown option 'num_warp' of a compile: did you mean 'num_warps'\?"):
        tawa.explain(kernels.softmax_rows, "x_ptr=*fp32, y_ptr=*fp32, columns=i32", {"BLOCK": 64}, num_warp=8)


@pytest.mark.parametrize("text, meant", [("x_ptr=*float32", r"x_ptr=\*fp32"), ("x_ptr=*f32", r"x_ptr=\*fp32")])
def test_a_type_that_triton_does_not_know_is_told_with_its_name(text: str, meant: str) -> None:
    with pytest.raises(tawa.PlanError, match=f"cure: {meant}"):
        tawa.explain(kernels.softmax_rows, f"{text}, y_ptr=*fp32, columns=i32", {"BLOCK": 64})


def test_a_form_that_the_launcher_chose_is_not_what_the_user_asked_for() -> None:
    from tests.cases.pointers.gemm import gemm_masked

    types = ", ".join(f"{name}=*fp16:16" for name in ("a_ptr", "b_ptr", "c_ptr"))
    strides = "stride_am=i32:16, stride_ak=1, stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
    sizes = dict.fromkeys(("M", "N", "K", "stride_am", "stride_bk", "stride_cm"), 4096)
    tile = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8}
    text = f"{types}, M=i32:16, N=i32:16, K=i32:16, {strides}"
    found = tawa.explain(gemm_masked, text, tile, num_warps=8, arguments=sizes, grid=(512,))
    assert found.plan is not None and found.plan.form == "persistent"
    assert {it.by for it in found.decisions} == {"planner"}
