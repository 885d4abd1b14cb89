"""Packed weights, and strides not known to be 1 at compile time: loaded by TMA with the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from tawa.analysis.tma.promotions import Make
from tawa.dialects.scf import enclosing_loops
from tawa.ir import Module, Operation, parse_module, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim.errors import MissingFence
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.cases.pointers.weights import gemm_int4, gemm_packed
from tests.matrix.promoting import Launch, addresses, promoted, run, same_bits
from tests.support.pipeline import specialise
from tests.support.verdicts import passes

BLOCKS = {"BM": 64, "BN": 64, "BK": 64, "GROUP_M": 2, "GROUP": 64}


def packed(m: int, n: int, k: int, *, told: bool = True, step: int = 1, **blocks: int) -> Launch:
    """Eight weights per word; A is every `step`-th column of a wider matrix."""
    lot, blocks, groups = np.random.default_rng(m * n * k), {**BLOCKS, **blocks}, -(-k // 64)
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((m, step * k)).astype(np.float16),
        "b_ptr": lot.integers(-(2**31), 2**31, (-(-k // 8), n)).astype(np.int32),
        "scale_ptr": lot.standard_normal((groups, n)).astype(np.float16),
        "zero_ptr": lot.integers(0, 16, (groups, n)).astype(np.float16),
        "c_ptr": np.full((m, n), np.nan, np.float16),
        "M": m, "N": n, "K": k, "stride_am": step * k, "stride_ak": step, "stride_bk": n, "stride_bn": 1,
        "stride_cm": n, "stride_cn": 1, "stride_sg": n, "stride_sn": 1,
    }  # fmt: skip
    tiles = -(-m // blocks["BM"]) * -(-n // blocks["BN"])
    return Launch(gemm_packed, arguments, blocks, (tiles,), told=told)


def two_in_a_byte(m: int, n: int, k: int) -> Launch:
    """Two weights per byte; columns wrap around."""
    lot = np.random.default_rng(k)
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((m, k)).astype(np.float16),
        "b_ptr": lot.integers(-128, 128, (k // 2, n)).astype(np.int8),
        "scale_ptr": lot.standard_normal((-(-k // 64), n)).astype(np.float32),
        "c_ptr": np.full((m, n), np.nan, np.float16),
        "M": m, "N": n, "K": k, "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_cm": n,
        "stride_cn": 1,
    }  # fmt: skip
    tiles = -(-m // 64) * -(-n // 64)
    return Launch(gemm_int4, arguments, BLOCKS, (tiles,))


@pytest.mark.parametrize("make", ["host", "kernel"])
@pytest.mark.parametrize("k", [128, 144, 16])
def test_words_and_scales_are_loaded_by_tma(make: Make, k: int) -> None:
    changed = same_bits(packed(72, 80, k), make, promoted_loads=4)
    assert "boxes of 8x64, each element repeated 8 times in the tile" in changed.reasons()


def test_two_weights_in_a_byte_under_a_mask() -> None:
    changed = same_bits(two_in_a_byte(72, 80, 112), "host", promoted_loads=3)
    assert "boxes of 32x64, each element repeated 2 times in the tile" in changed.reasons()


def test_a_mask_that_cuts_a_word_is_left_to_the_stock_kernel() -> None:
    launch = packed(72, 80, 148)
    rows = {"a_ptr": np.zeros((72, 152), np.float16), "stride_am": 152}
    launch = replace(launch, arguments={**launch.arguments, **rows})
    changed = promoted(launch)
    broken = changed.result.launch.broken(addresses(changed.ttgir(), launch.arguments))
    assert broken is not None and str(broken) == "K % 8 == 0"


@pytest.mark.parametrize("told", [True, False])
def test_a_stride_of_one_need_not_be_known_when_the_kernel_is_compiled(told: bool) -> None:
    changed = same_bits(packed(72, 80, 144, told=told), "host", promoted_loads=4)
    asked = [str(it) for it in changed.result.launch.conditions if it.least == it.most == 1]
    named = ["stride_ak", "stride_bn", "stride_sn", "stride_cn"]
    assert sorted(asked) == ([] if told else sorted(f"{name} == 1" for name in named))


def test_a_stride_that_is_not_one_is_left_to_the_stock_kernel() -> None:
    launch = packed(72, 80, 144, told=False, step=3)
    changed = promoted(launch)
    broken = changed.result.launch.broken(addresses(changed.ttgir(), launch.arguments))
    assert broken is not None and str(broken) == "stride_ak == 1"


def test_an_even_stride_is_not_assumed_to_be_one() -> None:
    """A may be column-major: then its row stride is 1 and its column stride is aligned."""
    launch = packed(64, 80, 64, told=False)
    transposed = replace(launch, arguments={**launch.arguments, "stride_am": 1, "stride_ak": 64})
    conditions = [str(it) for it in promoted(transposed).result.launch.conditions]
    assert "stride_am == 1" in conditions and "stride_ak == 1" not in conditions


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_packed_weights_are_specialised_and_give_the_same_bits(order: str) -> None:
    launch = packed(64, 64, 208, told=False)
    changed = promoted(launch)
    outcome = specialise(print_module(changed.ttgir()), PlanOptions(only_if_faster=False), Target(4, 3))
    assert outcome.applied, outcome.remarks
    before = run(launch, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(launch, parse_module(outcome.barrier), changed.result.launch, order)["c_ptr"]
    assert not np.isnan(after).any() and before.tobytes() == after.tobytes()


def test_boxes_that_do_not_fill_128_bytes_stay_with_pointers() -> None:
    """The slots of a ring are contiguous, and the destination of a TMA copy must be aligned to 128 bytes."""
    changed = promoted(packed(64, 64, 128, BN=32))
    assert "its 64 bytes are not a multiple of the 128 at which TMA writes" in changed.reasons()
    assert changed.result.promoted == 2


def specialised(**options: Any) -> tuple[Launch, LaunchSpec, Module]:
    """Rings of two slots, for four trips."""
    launch, options = packed(64, 64, 208, told=False), {"aref_depth": 2, **options}
    changed = promoted(launch)
    outcome = specialise(print_module(changed.ttgir()), PlanOptions(only_if_faster=False, **options), Target(4, 3))
    assert outcome.applied, outcome.remarks
    return launch, changed.result.launch, parse_module(outcome.barrier)


def loop_fences(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.name == "ttng.fence_async_shared" and enclosing_loops(op)]


def test_generic_proxy_reads_are_fenced_before_a_tma_write() -> None:
    """A thread may arrive before its loads complete; only a proxy fence orders them before the TMA write."""
    launch, spec, module = specialised(mma_depth=0)
    assert passes(check_barriers(module))
    (fence,) = loop_fences(module)
    fence.erase()
    found = check_barriers(module)
    assert isinstance(found, Refuted) and found.witness.kind == "missing fence"
    assert "read it through the generic proxy" in found.witness.message
    with pytest.raises(MissingFence, match="was read through the generic proxy and is written by the async proxy"):
        run(launch, module, spec, "late")


def test_words_scales_and_zeros_share_a_ring_and_the_fence_of_the_computed_operand() -> None:
    _, _, module = specialised(mma_depth=1)
    (fence,) = loop_fences(module)
    assert fence.parent is not None
    names = [op.name for op in fence.parent.ops]
    assert (names.count("ttng.wait_barrier"), names.count("ttng.arrive_barrier")) == (1, 1)
    assert names.index("ttng.fence_async_shared") < names.index("ttng.warp_group_dot")


@triton.jit
def scaled_by_group(a_ptr, b_ptr, s_ptr, c_ptr, K, N, BLOCKS: tl.constexpr, NARROW: tl.constexpr, B: tl.constexpr):
    """The row of scales of a block is computed in floats, as some packages do. NARROW: in wrapping 8-bit integers."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(K // B):
        a = tl.load(a_ptr + rows[:, None] * K + (k * B + ks)[None, :])
        b = tl.load(b_ptr + (k * B + ks)[:, None] * N + rows[None, :])
        if NARROW:
            group = (k * BLOCKS).to(tl.int8).to(tl.int32) + 128
        else:
            group = (k * BLOCKS).to(tl.int32)
        s = tl.load(s_ptr + group * N + rows[None, :])
        acc = tl.dot(a, b * s, acc)
    tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc.to(tl.float16))


def product_of(k: int, n: int = 64) -> dict[str, Any]:
    """Arguments of a product of 64 rows; B has rows that are not read, and there are 300 rows of scales."""
    lot = np.random.default_rng(0)
    return {
        "a_ptr": lot.standard_normal((64, k)).astype(np.float16),
        "b_ptr": lot.standard_normal((4 * k, n)).astype(np.float16),
        "s_ptr": lot.standard_normal((300, n)).astype(np.float16),
        "c_ptr": np.full((64, n), np.nan, np.float16),
        "K": k, "N": n,
    }  # fmt: skip


def grouped(blocks: float, narrow: bool = False) -> Launch:
    return Launch(scaled_by_group, product_of(256), {"BLOCKS": blocks, "NARROW": narrow, "B": 64}, (1,))


@pytest.mark.parametrize("blocks", [0.5, 0.25])
def test_a_group_that_is_counted_in_floats_is_a_row(blocks: float) -> None:
    same_bits(grouped(blocks), "host", promoted_loads=3)


@triton.jit
def cancelled(a_ptr, b_ptr, c_ptr, K, N, MASK: tl.constexpr, B: tl.constexpr):
    """Terms that cancel: the dividend is negative in the first program or iteration, where // rounds towards zero."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    pid = tl.program_id(0)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(K // B):
        a = tl.load(a_ptr + rows[:, None] * K + (k * B + ks)[None, :])
        if MASK:
            some = (8 * (k - 1) + ks) // 8 < ks // 8
            b = tl.load(b_ptr + (ks + k * B)[:, None] * N + rows[None, :], mask=some[:, None], other=0.0)
        else:
            moved = (8 * (pid - 1) + ks) // 8 - ks // 8 + 1 + ks
            b = tl.load(b_ptr + (moved + k * B)[:, None] * N + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc.to(tl.float16))


@pytest.mark.parametrize("mask", [False, True])
def test_terms_that_cancel_are_not_dropped(mask: bool) -> None:
    arguments = {name: value for name, value in product_of(256).items() if name != "s_ptr"}
    same_bits(Launch(cancelled, arguments, {"MASK": mask, "B": 64}, (1,)), "host", promoted_loads=1)


def test_a_float_in_eight_bits_may_be_negative() -> None:
    same_bits(grouped(50.0, narrow=True), "host", promoted_loads=2)


def test_a_group_that_is_counted_down_in_floats_may_lie_before_the_tensor() -> None:
    changed = promoted(grouped(-0.5))
    assert changed.result.promoted == 2 and "may be negative" in changed.reasons()
