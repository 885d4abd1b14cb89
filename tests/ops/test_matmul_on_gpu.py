"""Matrix products on a GPU: numbers against float64, gradients, torch.compile, CUDA graphs, streams."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import linear, matmul  # noqa: E402
from tawa.ops.calls.devices import device_of  # noqa: E402
from tawa.ops.calls.plain import KnownCalls  # noqa: E402
from tawa.ops.products import matmul_launch as launching  # noqa: E402
from tawa.ops.products import matmul_op as operators  # noqa: E402
from tawa.ops.products.tiles import choose, tiles  # noqa: E402
from tests.ops.expected_products import check_product  # noqa: E402

pytestmark = pytest.mark.gpu
SHAPES = ((1, 64, 64), (3, 136, 72), (17, 2112, 1000), (64, 576, 7168), (129, 264, 4104), (257, 1032, 520),
          (1000, 392, 1024), (2048, 2048, 2048), (5, 8, 8), (300, 24, 16400))  # fmt: skip
ODD = ((7, 33, 64), (7, 64, 33), (31, 17, 5), (0, 64, 64), (64, 0, 64), (64, 64, 0))


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and buffers are full of NaN before a kernel runs."""

    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    monkeypatch.setattr(launching, "unwritten", unwritten)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the tile of all products."""

    def force(tile: Any) -> None:
        monkeypatch.setattr(launching, "_products", KnownCalls())
        operators._products.clear()
        operators._calls.clear()
        monkeypatch.setattr(launching, "tile_of", lambda a, b, gated: tile)

    yield force
    operators._products.clear()
    operators._calls.clear()


def normal(*shape: int, dtype: Any = torch.float16, seed: int = 0) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


def problem(M: int, N: int, K: int, dtype: Any = torch.float16, gated: bool = False) -> tuple[Any, ...]:
    columns = N // 2 if gated else N
    return (normal(M, K, dtype=dtype), normal(N, K, dtype=dtype, seed=1) / max(K, 1) ** 0.5,
            normal(N, dtype=dtype, seed=2), normal(M, columns, dtype=dtype, seed=3))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, *ODD], ids=str)
def test_products_are_as_precise_as_pytorch(shape: tuple[int, int, int], dtype: Any) -> None:
    x, weight, bias, residual = problem(*shape, dtype)
    check_product(matmul(x, weight.mT), x, weight)
    check_product(linear(x, weight, bias), x, weight, bias)
    check_product(
        linear(x, weight, bias, activation="gelu", residual=residual), x, weight, bias, residual, activation="gelu"
    )


@pytest.mark.parametrize("shape", [(1, 128, 64), (65, 272, 200), (700, 1536, 1024)], ids=str)
@pytest.mark.parametrize("activation", ["silu", "relu", "gelu_tanh", "none"])
def test_gated_layers(shape: tuple[int, int, int], activation: str) -> None:
    x, weight, bias, residual = problem(*shape, torch.bfloat16, gated=True)
    options = {"activation": activation, "gated": True}
    check_product(linear(x, weight, bias, residual=residual, **options), x, weight, bias, residual, **options)


@pytest.mark.parametrize("of_a", ["rows", "columns"])
@pytest.mark.parametrize("of_b", ["rows", "columns"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_all_orders_in_memory(of_a: str, of_b: str, dtype: Any) -> None:
    x, weight, _, _ = problem(264, 328, 456, dtype)
    a = x if of_a == "rows" else x.mT.contiguous().mT
    b = weight.mT if of_b == "columns" else weight.mT.contiguous()
    check_product(matmul(a, b), x, weight)


def sampled() -> list[Any]:
    """A tile of each size and number of shares."""
    found = {}
    for tile in tiles(16, False):
        found.setdefault((tile.swapped, tile.BM, tile.columns, min(tile.split, 4)), tile)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_every_tile_gives_the_right_numbers(number: int, forced: Any) -> None:
    for tile in itertools.islice(sampled(), number, None, 12):
        forced(tile)
        x, weight, bias, residual = problem(150, 328, 1064)
        options = {"activation": "silu"}
        found = [linear(x, weight, bias, residual=residual, **options) for _ in range(3)]
        check_product(found[0], x, weight, bias, residual, **options)
        assert all(torch.equal(found[0], it) for it in found[1:]), tile


@pytest.mark.parametrize("last", [False, True])
def test_shares_may_be_added_by_atomics(last: bool, forced: Any) -> None:
    tile = next(it for it in tiles(16, False) if it.split > 1 and it.last == last and not it.more)
    forced(replace(tile, ordered=False))
    x, weight, bias, residual = problem(1500, 1640, 2120)
    for _ in range(3):
        check_product(linear(x, weight, bias, residual=residual), x, weight, bias, residual)


def test_shares_are_added_in_order_and_semaphores_are_left_at_zero() -> None:
    device = device_of(torch.device("cuda"))
    assert choose(16, 128, 16384, 2, device).split > 1
    x, weight, bias, _ = problem(16, 128, 16384)
    found = [linear(x, weight, bias) for _ in range(20)]
    check_product(found[0], x, weight, bias)
    assert all(torch.equal(found[0], it) for it in found[1:])
    from tawa.ops.calls import semaphores

    assert all(int(it.abs().sum()) == 0 for it in semaphores._known.values())


GRADIENTS = [{}, {"activation": "silu"}, *({"activation": it, "gated": True} for it in ("none", "gelu", "silu"))]


@pytest.mark.parametrize("options", GRADIENTS, ids=str)
def test_gradients(options: dict[str, Any]) -> None:
    x, weight, bias, residual = problem(72, 272, 136, gated="gated" in options)
    inputs = [it.requires_grad_() for it in (x, weight, bias, residual)]
    made = linear(x, weight, bias, residual=residual, **options)
    gradient = normal(*made.shape, seed=9)
    found = torch.autograd.grad(made, inputs, gradient)
    exact = [it.detach().double().requires_grad_() for it in inputs]
    from tests.ops.expected_products import linear_in

    sums = linear_in(torch.float64, *exact, **options)
    wanted = torch.autograd.grad(sums, exact, gradient.double())
    for one, other in zip(found, wanted, strict=True):
        assert (one.double() - other).abs().max() <= 4e-3 * other.abs().max()


def test_operators_pass_the_checks_of_pytorch() -> None:
    x, weight, bias, residual = (it.requires_grad_() for it in problem(40, 64, 48))
    torch.library.opcheck(torch.ops.tawa.mm.default, (x, weight.mT))
    torch.library.opcheck(torch.ops.tawa.linear.default, (x, weight, bias, residual, "silu", False))
    x, weight, bias, residual = (it.requires_grad_() for it in problem(40, 64, 48, gated=True))
    torch.library.opcheck(torch.ops.tawa.linear_kept.default, (x, weight, bias, residual, "silu", True))
    sums = normal(40, 64).requires_grad_()
    torch.library.opcheck(torch.ops.tawa.gated_gradients.default, (residual, sums, "gelu"))


def test_gradients_of_gradients() -> None:
    x, weight, _, _ = (it.requires_grad_() for it in problem(40, 64, 48, gated=True))
    other = [it.detach().double().requires_grad_() for it in (x, weight)]
    from tests.ops.expected_products import linear_in

    found, wanted = [], []
    for made, made_from, into in (
        (linear(x, weight, activation="silu", gated=True), (x, weight), found),
        (linear_in(torch.float64, *other, activation="silu", gated=True), other, wanted),
    ):
        first = torch.autograd.grad((made * made).sum(), made_from, create_graph=True)
        into += torch.autograd.grad((first[0] * first[0]).sum(), made_from)
    for one, exact in zip(found, wanted, strict=True):
        assert (one.double() - exact).abs().max() <= 2e-2 * exact.abs().max()


def test_compiled_without_breaks() -> None:
    x, weight, bias, residual = problem(72, 272, 136)

    def layer(x: Any) -> Any:
        return matmul(linear(x, weight, bias, activation="relu", residual=residual), weight) * 2

    found = torch.compile(layer, fullgraph=True)(x)
    assert torch.allclose(found, layer(x), rtol=1e-2, atol=1e-2)


def test_compiled_with_gradients() -> None:
    """Dynamo traces the operator: what it cannot trace stands behind the question whether it does."""
    tensors = [it.requires_grad_() for it in problem(72, 272, 272)]

    def layer(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        return matmul(linear(x, weight, bias, activation="relu", residual=residual), weight)

    wanted = torch.autograd.grad(layer(*tensors).sum(), tensors)
    found = torch.autograd.grad(torch.compile(layer, fullgraph=True)(*tensors).sum(), tensors)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=1e-2, atol=1e-1)


def test_a_graph_with_shares_is_replayed_on_other_numbers() -> None:
    x, weight, bias, _ = problem(16, 128, 16384)
    linear(x, weight, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = linear(x, weight, bias)
    for seed in range(3):
        x.copy_(normal(16, 16384, seed=seed))
        made.fill_(math.nan)
        graph.replay()
        check_product(made, x, weight, bias)


def test_streams_do_not_share_semaphores() -> None:
    x, weight, bias, _ = problem(16, 128, 16384)
    wanted = linear(x, weight, bias)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    found = []
    for _ in range(25):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(linear(x, weight, bias))
    torch.cuda.synchronize()
    assert all(torch.equal(wanted, it) for it in found)


def test_views_and_odd_addresses() -> None:
    whole = normal(70, 145)
    x = whole[:, 1:137]
    _, weight, bias, _ = problem(70, 272, 136)
    check_product(linear(x, weight, bias[:]), x, weight, bias)
    check_product(matmul(whole[:, 8:144], weight.mT), whole[:, 8:144], weight)
