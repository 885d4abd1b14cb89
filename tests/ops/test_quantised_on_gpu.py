"""Scaled, batched and weight-only products on a GPU: against float64, under torch.compile, captured, on two streams.

Every output is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import batched_mm, repack, scaled_mm, weight_only_mm  # noqa: E402
from tawa.ops.calls import semaphores  # noqa: E402
from tawa.ops.products import batched_launch, matmul_launch, scaled_launch, weight_only_launch  # noqa: E402
from tests.ops.captured import check_traced_and_captured  # noqa: E402
from tests.ops.expected import normal  # noqa: E402
from tests.ops.expected_quantised import WEIGHTS, check, of_scaled, random_scale, random_weights  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
SHAPES = [(1, 129, 130), (100, 200, 300), (256, 384, 1024), (333, 520, 2048), (1024, 1024, 512)]


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    for module in (scaled_launch, batched_launch, weight_only_launch, matmul_launch):
        monkeypatch.setattr(module, "unwritten", unwritten)


# --- scaled ---


def fp8(rows: int, K: int, dtype: Any, seed: int) -> Any:
    return normal(rows, K, dtype=torch.float32, seed=seed).to(dtype)


def scaled_problem(shape: tuple[int, int, int], kinds: tuple[int, int], types: tuple[Any, Any]) -> tuple[Any, ...]:
    M, N, K = shape
    scale_b = random_scale(kinds[1], N, K, "cuda")
    scale_b = scale_b.t() if scale_b.dim() == 2 else scale_b
    return fp8(M, K, types[0], 1), fp8(N, K, types[1], 2).t(), random_scale(kinds[0], M, K, "cuda"), scale_b


@pytest.mark.parametrize("kinds", [(2, 3), (2, 2), (3, 3), (3, 2), (1, 1), (0, 0), (1, 3), (2, 0)], ids=str)
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3), (E5M2, E5M2)], ids=str)
def test_scaled_products_are_right(types: tuple[Any, Any], kinds: tuple[int, int]) -> None:
    for number, shape in enumerate(SHAPES):
        problem = scaled_problem(shape, kinds, types)
        bias = normal(shape[1], dtype=torch.bfloat16, seed=3) if number % 2 else None
        out = (torch.float32, torch.bfloat16, torch.float16)[number % 3]
        c = scaled_mm(*problem, bias, out)
        # The tensor cores add up 128 products of 8 bits with 14 bits or so of a mantissa.
        check(c, of_scaled(*problem, bias), 1e-3 if out == torch.float32 else 4e-3)
        assert torch.equal(scaled_mm(*problem, bias, out), c), "another result the second time"


@pytest.mark.parametrize("kinds", [(1, 1), (0, 0), (0, 1)], ids=str)
def test_fast_sums_are_as_near_as_those_of_pytorch(kinds: tuple[int, int]) -> None:
    for shape in SHAPES:
        problem = scaled_problem(shape, kinds, (E4M3, E4M3))
        check(scaled_mm(*problem, use_fast_accum=True), of_scaled(*problem, None), 1e-2)


def test_row_scales_agree_with_those_of_pytorch() -> None:
    problem = scaled_problem((256, 384, 1024), (1, 1), (E4M3, E4M3))
    a, b, scale_a, scale_b = problem
    wanted = torch._scaled_mm(a, b, scale_a, scale_b.contiguous(), out_dtype=torch.bfloat16)
    exact = of_scaled(*problem, None)
    peer = float((wanted.double() - exact).abs().max() / exact.abs().max())
    check(scaled_mm(*problem), exact, 2 * peer)


def test_operands_in_any_layout_are_right() -> None:
    a, b, scale_a, scale_b = scaled_problem((100, 200, 304), (2, 3), (E4M3, E4M3))
    exact = of_scaled(a, b, scale_a, scale_b, None)
    whole = torch.zeros(100 * 304 + 1, device="cuda", dtype=torch.uint8).view(E4M3)
    odd = whole[1:].view(100, 304).copy_(a)
    for now in (a, a.t().contiguous().t(), odd):
        for other in (b, b.contiguous()):
            for scale in (scale_a, scale_a.t().contiguous().t()):
                check(scaled_mm(now, other, scale, scale_b), exact, 4e-3)


# --- batched ---


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_batched_products_and_gradients_are_right(dtype: Any, transposed: tuple[bool, bool]) -> None:
    for batches, M, N, K in ((3, 100, 200, 72), (2, 1, 129, 131), (5, 256, 512, 264), (64, 128, 128, 128)):
        shapes = [(K, M) if transposed[0] else (M, K), (N, K) if transposed[1] else (K, N)]
        a, b = (normal(batches, *shape, dtype=dtype, seed=at) for at, shape in enumerate(shapes))
        a, b = (
            x.mT.detach().requires_grad_() if flip else x.requires_grad_()
            for x, flip in zip((a, b), transposed, strict=True)
        )
        c, exact = batched_mm(a, b), a.double() @ b.double()
        tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-3}[dtype]  # roundings; tf32
        check(c, exact, tolerance)
        dc = normal(batches, M, N, dtype=dtype, seed=7)
        da, db = torch.autograd.grad(c, (a, b), dc)
        check(da, dc.double() @ b.double().mT, tolerance)
        check(db, a.double().mT @ dc.double(), tolerance)
        with torch.no_grad():
            assert torch.equal(batched_mm(a, b), c), "another result the second time"


def test_a_matrix_of_all_batches_is_right() -> None:
    a, b = normal(7, 100, 136, seed=1).requires_grad_(), normal(1, 136, 72, seed=2).requires_grad_()
    c = batched_mm(a, b)
    check(c, a.double() @ b.double(), 1e-3)
    da, db = torch.autograd.grad(c, (a, b), normal(7, 100, 72, seed=3))
    assert (da.shape, db.shape) == (a.shape, b.shape)
    check(db, (a.double().mT @ normal(7, 100, 72, seed=3).double()).sum(0, keepdim=True), 2e-3)


# --- weights in few bits ---


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("format", WEIGHTS)
def test_weights_in_few_bits_are_right(format: str, dtype: Any) -> None:
    has_zeros = not format.startswith("fp8")
    for N, K, size in ((520, 1032, 128), (72, 304, 0), (1024, 4096, 64), (136, 576, 32)):
        weights = random_weights(format, N, K, size, has_zeros, dtype, "cuda")
        for tokens in (1, 17, 64, 100, 300):
            x, bias = normal(tokens, K, dtype=dtype, seed=1), normal(N, dtype=dtype, seed=2) if tokens % 2 else None
            call = weights.qweight, weights.scales, weights.zeros, bias
            y = weight_only_mm(x, *call, group_size=size or None, format=format)
            weights.check(y, x, bias)
            assert torch.equal(weight_only_mm(x, *call, group_size=size or None, format=format), y), "not the same bits"


@pytest.mark.parametrize("splits", [1, 2, 3, 8])
def test_any_number_of_splits_is_right_and_leaves_semaphores_at_zero(splits: int) -> None:
    weights = random_weights("int4", 520, 4096, 128, True, torch.bfloat16, "cuda")
    x = normal(20, 4096, dtype=torch.bfloat16, seed=1)
    call = weights.qweight, weights.scales, weights.zeros, None
    launch = weight_only_launch.WeightOnly(x, *call, 128, "int4", splits=splits)
    for _ in range(20):
        weights.check(launch(x, *call), x, None)
    torch.cuda.synchronize()
    assert not any(it.any() for it in semaphores._known.values())


def test_repacked_weights_give_the_same_product() -> None:
    for format in ("gptq", "awq"):
        weights = random_weights(format, 256, 1024, 128, True, torch.float16, "cuda")
        x = normal(33, 1024, seed=1)
        qweight, scales, zeros = repack(weights.qweight, weights.scales, weights.zeros, format=format)
        weights.check(weight_only_mm(x, qweight, scales, zeros, group_size=128), x, None)


# --- all ---


def calls() -> dict[str, Any]:
    weights = random_weights("int4", 512, 4096, 128, True, torch.float16, "cuda")
    x = normal(16, 4096, seed=1)
    scaled = scaled_problem((256, 384, 1024), (2, 3), (E4M3, E4M3))
    a, b = normal(4, 128, 256, seed=1), normal(4, 256, 128, seed=2)
    return {
        "scaled": (scaled_mm, scaled),
        "batched": (batched_mm, (a, b)),
        "weights": (
            lambda *it: weight_only_mm(*it, group_size=128),
            (x, weights.qweight, weights.scales, weights.zeros),
        ),
    }


@pytest.mark.parametrize("name", ["scaled", "batched", "weights"])
def test_it_is_traced_and_captured(name: str) -> None:
    check_traced_and_captured(*calls()[name])


def test_split_products_on_two_streams_do_not_meet() -> None:
    call, arguments = calls()["weights"]
    wanted, streams = call(*arguments), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found: list[Any] = []
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(call(*arguments))
    torch.cuda.synchronize()
    assert all(torch.equal(it, wanted) for it in found)
