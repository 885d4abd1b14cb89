"""Rings in tensor memory in the Plan of a kernel for Blackwell."""

from __future__ import annotations

import json
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.errors import PlanError
from tawa.plan import Plan
from tawa.plan.fields import RingPlan
from tawa.plan.option_conflicts import contradictions
from tawa.plan.options import PlanOptions
from tawa.transforms.tensor_memory.tensor_rings import IN_TURN, NO_ROOM, ONCE, TWO_SLOTS

pytestmark = pytest.mark.usefixtures("without_ptx")


@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        m, n = tile // tiles_n * BM, tile % tiles_n * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def gated(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        m, n = tile // tiles_n * BM, tile % tiles_n * BN
        gate = tl.zeros((BM, BN), dtype=tl.float32)
        up = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rows = a.load([m, k])
            gate = tl.dot(rows, b.load([k, n]), gate)
            up = tl.dot(rows, b.load([k, N + n]), up)
        c.store([m, n], (gate * up).to(tl.float16))


@triton.jit
def attend(q, k, v, o, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * BM
    m_i = tl.full([BM], -1e30, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    queries = q.load([row, 0])
    for n in range(0, N, BN):
        s = tl.dot(queries, k.load([n, 0]).T)
        m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - m_new[:, None])
        acc = acc * tl.exp2(m_i - m_new)[:, None]
        acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc)
        m_i = m_new
    o.store([row, 0], acc.to(tl.float16))


KERNELS: dict[str, tuple[Any, int]] = {
    "gemm": (gemm, 256), "persistent": (persistent, 128), "wide": (persistent, 256), "gated": (gated, 256),
}  # fmt: skip


def explained(name: str, **options: Any) -> Any:
    options = {"arch": "sm_100", "enable_warp_specialization": True, **options}
    if name == "attend":
        tile, whole = "tensordesc<fp16[128,64]>", "tensordesc<fp16[256,64]>"
        types = f"q={whole}, k={tile}, v={tile}, o={whole}, N=i32:16, scale=fp32"
        return tawa.explain(attend, types, {"BM": 256, "BN": 128, "D": 64}, num_warps=8, **options)
    kernel, bn = KERNELS[name]
    sizes = "K=i32:16" if kernel is gemm else "M=i32:16, N=i32:16, K=i32:16"
    types = f"a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,{bn}]>, c=tensordesc<fp16[128,{bn}]>, {sizes}"
    return tawa.explain(kernel, types, {"BM": 128, "BN": bn, "BK": 64}, **options)


@pytest.mark.parametrize(
    ("name", "slots", "why"),
    [
        ("persistent", 2, f"{TWO_SLOTS}; 256 of 512 columns"),
        ("wide", 2, f"{TWO_SLOTS}; 512 of 512 columns"),
        ("gemm", 1, f"{ONCE}; 256 of 512 columns"),
        ("gated", 1, f"{NO_ROOM}; 256 of 512 columns"),
    ],
)
def test_a_ring_in_tensor_memory_is_in_the_plan_with_its_reason(name: str, slots: int, why: str) -> None:
    found = explained(name)
    ring = found.plan.ring("tensor0")
    assert (ring.depth, ring.slot_bytes, ring.copies, ring.fill) == (slots, 0, 1, "commit")
    said = {it.field: it for it in found.decisions}
    assert said["rings.tensor0"].value in [f"D = {slots} of (128x{bn}xf32), tensor memory" for bn in (128, 256)]
    assert (said["rings.tensor0"].by, said["rings.tensor0"].reason) == ("planner", why)
    assert said["partitions.mma"].reason == "one thread issues the dots"
    assert "mma, whose one thread issues the dots, through ring0" in found.reason
    assert f"take turns with tensor0 with D = {slots}" in found.reason
    assert "wgmma" not in str(found) and "P = 0" not in str(found)
    assert "tensor0" in json.dumps(found.to_dict()["rings"])


def test_each_group_has_its_copy_of_a_ring_in_tensor_memory() -> None:
    found = explained("attend")
    rings = [it for it in found.plan.rings if it.is_exchanged]
    assert [(it.depth, it.copies) for it in rings] == [(1, 2), (1, 2), (1, 2)]
    assert {it.fill for it in rings} == {"commit", "threads"}
    why = [it.reason for it in found.decisions if it.field.startswith("rings.tensor")]
    columns = [f"{IN_TURN.format('consumer')}; 128 of 512 columns"] * 2
    assert sorted(why) == [f"{NO_ROOM}; 256 of 512 columns", *columns]


def test_the_printed_plan_and_mapping_give_the_same_plan() -> None:
    found = explained("persistent")
    assert explained("persistent", plan=found.plan.to_dict()).plan == found.plan
    assert explained("persistent", mapping=found.mapping).plan == found.plan
    assert "[partitions.mma]" in found.mapping and "mma, loop k: reads the ring ring0" in found.mapping


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_a_pinned_depth_is_respected(depth: int) -> None:
    found = explained("persistent", plan=Plan(rings=(RingPlan("tensor0", depth=depth),)))
    assert found.plan.ring("tensor0").depth == depth
    assert next(it.by for it in found.decisions if it.field == "rings.tensor0") == "user"


@pytest.mark.parametrize(
    ("name", "ring", "error", "cure"),
    [
        ("persistent", RingPlan("tensor0", depth=0), "D = 0 in tensor0: a ring has a slot", "D = 1"),
        ("persistent", RingPlan("tensor0", depth=5), "640 columns of tensor memory, which has 512", "D = 4 or less"),
        ("gemm", RingPlan("tensor0", depth=2), f"D = 2 in tensor0: {ONCE}", "D = 1"),
        ("attend", RingPlan("tensor1", depth=2), f"D = 2 in tensor1: {IN_TURN.format('consumer')}", "D = 1"),
        ("gemm", RingPlan("tensor1", depth=1), "the kernel does not have: tensor1", "tensor0"),
        ("gemm", RingPlan("tensor0", fill="threads"), "the Plan has fill='threads' in tensor0", "fill='commit'"),
        ("gemm", RingPlan("tensor0", copies=2), "the Plan has copies=2 in tensor0", "copies=1"),
    ],
)
def test_a_pinned_ring_that_cannot_be_is_refused(name: str, ring: RingPlan, error: str, cure: str) -> None:
    with pytest.raises(PlanError) as refused:
        explained(name, plan=Plan(rings=(ring,)))
    assert error in str(refused.value) and f"cure: {cure}" in str(refused.value)


def test_hopper_has_no_ring_in_tensor_memory() -> None:
    with pytest.raises(PlanError, match="the kernel has"):
        explained("gemm", arch="sm_90", plan=Plan(rings=(RingPlan("tensor0", depth=1),)))


def test_aref_depth_does_not_hold_for_rings_in_tensor_memory() -> None:
    plan = Plan(rings=(RingPlan("ring0", depth=3), RingPlan("tensor0", depth=2)))
    assert not contradictions(PlanOptions(aref_depth=3), plan)
    assert contradictions(PlanOptions(aref_depth=2), plan) == {"aref_depth": "D = [3]"}
    assert explained("persistent", aref_depth=3).plan.ring("tensor0").depth == 2
