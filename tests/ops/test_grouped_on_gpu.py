"""Grouped products and mixtures of experts on a GPU: against float64, traced, captured, with gradients.

Every output is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import grouped_mm, moe  # noqa: E402
from tawa.ops.grouped import launch, moe_launch, moe_op, op  # noqa: E402
from tests.ops.captured import check_traced_and_captured  # noqa: E402
from tests.ops.expected import normal  # noqa: E402
from tests.ops.expected_grouped import check, ends_of, of_groups, of_moe, random_choices  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
SIZES = {
    "even": ((64,) * 8, 0),
    "tiny_and_empty": ((1, 0, 3, 130, 0, 17, 1, 300), 0),
    "rows_left": ((10, 0, 75), 190),
    "one_group": ((520,), 0),
    "many": ((0, 5, 2) * 100, 7),
}


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        value = math.nan if dtype.is_floating_point else -1
        return torch.full(shape, value, dtype=dtype, device=like.device)

    for module in (launch, moe_launch):
        monkeypatch.setattr(module, "unwritten", unwritten)


def tolerance(dtype: Any) -> float:
    return 1e-3 if dtype == torch.float16 else 8e-3


@pytest.mark.parametrize("kind", ["rows", "columns", "sums"])
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_products_and_gradients_are_right(dtype: Any, name: str, kind: str) -> None:
    sizes, left = SIZES[name]
    T, G, ends = sum(sizes) + left, len(sizes), ends_of(sizes, "cuda")
    for N, K, transposed in ((136, 72, (False, True)), (129, 131, (True, False)), (512, 320, (False, False))):
        shapes = {"rows": ((T, K), (G, K, N)), "columns": ((G, N, K), (K, T)), "sums": ((K, T), (T, N))}[kind]
        a, b = (
            normal(*shape[:-2], *(shape[-2:][::-1] if flip else shape[-2:]), dtype=dtype, seed=seed)
            for seed, (shape, flip) in enumerate(zip(shapes, transposed, strict=True))
        )
        a, b = ((x.mT if flip else x).detach().requires_grad_() for x, flip in zip((a, b), transposed, strict=True))
        c = grouped_mm(a, b, ends)
        check(c, of_groups(a.detach(), b.detach(), ends), tolerance(dtype))
        wide = [it.detach().double().requires_grad_() for it in (a, b)]
        dc = normal(*c.shape, dtype=dtype, seed=7)
        exact = torch.autograd.grad(of_groups(*wide, ends), wide, dc.double())
        for found, wanted in zip(torch.autograd.grad(c, (a, b), dc), exact, strict=True):
            check(found, wanted, tolerance(dtype))
        with torch.no_grad():
            assert torch.equal(grouped_mm(a, b, ends), c), "another result the second time"


def test_every_tile_of_the_tables_is_right() -> None:
    sizes = (1, 0, 3, 130, 0, 17, 1, 300)
    T, ends = sum(sizes), ends_of(sizes, "cuda")
    a, b = normal(T, 512, seed=1), normal(len(sizes), 512, 384, seed=2)
    for tile in launch.tables.GROUPED:
        check(launch.Rows(a, b, tile)(a, b, ends), of_groups(a, b, ends), 1e-3)
    dc = normal(T, 384, seed=3)
    for tile in launch.tables.OUTER:
        check(launch.Outer(a.mT, dc, len(sizes), tile)(a.mT, dc, ends), of_groups(a.mT, dc, ends), 1e-3)


def layer(E: int, H: int, wide: int, dtype: Any) -> tuple[Any, Any]:
    gate_up = normal(E, 2 * wide, H, dtype=torch.float32, seed=2) * H**-0.5
    return gate_up.to(dtype), (normal(E, H, wide, dtype=torch.float32, seed=3) * wide**-0.5).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("outside", [False, True])
def test_mixtures_and_their_gradients_are_right(dtype: Any, outside: bool) -> None:
    for tokens, choices, E, H, wide in ((1, 8, 16, 256, 128), (33, 3, 7, 75, 37), (700, 4, 60, 512, 320)):
        gate_up, down = layer(E, H, wide, dtype)
        x = normal(tokens, H, dtype=dtype, seed=1)
        weights, experts = random_choices(tokens, choices, E, "cuda", outside=outside, skew=1.0)
        exact = of_moe(x, gate_up, down, weights, experts)
        found = moe(x, gate_up, down, weights, experts)
        check(found, exact, 3 * tolerance(dtype))
        assert torch.equal(moe(x, gate_up, down, weights, experts.long()), found), "not the same bits"
        tensors = [it.detach().requires_grad_() for it in (x, gate_up, down, weights)]
        out = moe(*tensors, experts)
        check(out, exact, 3 * tolerance(dtype))
        wider = [it.detach().double().requires_grad_() for it in tensors]
        dout = normal(tokens, H, dtype=dtype, seed=5)
        wanted = torch.autograd.grad(of_moe(*wider, experts), wider, dout.double())
        for gradient, right in zip(torch.autograd.grad(out, tensors, dout), wanted, strict=True):
            check(gradient, right, 4 * tolerance(dtype))


def calls() -> dict[str, Any]:
    a, b, ends = normal(300, 256, seed=1), normal(5, 256, 128, seed=2), ends_of((64, 0, 100, 1, 130), "cuda")
    gate_up, down = layer(8, 256, 128, torch.float16)
    weights, experts = random_choices(200, 2, 8, "cuda")
    return {
        "rows": (grouped_mm, (a, b, ends)),
        "sums": (grouped_mm, (a.mT, normal(300, 128, seed=3), ends)),
        "moe": (moe, (normal(200, 256, seed=4), gate_up, down, weights, experts)),
    }


@pytest.mark.parametrize("name", ["rows", "sums", "moe"])
def test_it_is_traced_and_captured(name: str) -> None:
    check_traced_and_captured(*calls()[name])


@pytest.mark.parametrize("name", ["rows", "sums", "moe"])
def test_the_operators_pass_opcheck(name: str) -> None:
    _, arguments = calls()[name]
    if name == "moe":
        torch.library.opcheck(moe_op._moe, arguments)
        torch.library.opcheck(moe_op._moe_sort, (arguments[4], 8))
    else:
        torch.library.opcheck(op._grouped_mm, tuple(it.requires_grad_() for it in arguments[:2]) + arguments[2:])
