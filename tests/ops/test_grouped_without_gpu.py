"""Grouped products and mixtures where there is no GPU: shapes, what is refused, tracing, derivatives, tiles."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, grouped_mm, moe  # noqa: E402
from tawa.ops.grouped import moe_op, op, tiles  # noqa: E402
from tawa.plan.cost.tile_time import Device  # noqa: E402

T, G, N, K = 40, 3, 56, 72
SHAPES = {
    "rows": ((T, K), (G, K, N), (T, N)),
    "columns": ((G, N, K), (K, T), (N, T)),
    "sums": ((N, T), (T, K), (G, N, K)),
}
E, C, H, WIDE = 5, 2, 64, 48


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def ends(groups: int = G) -> Any:
    return meta(groups, dtype=torch.int32)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_and_gradients_have_the_right_shapes(kind: str, transposed: bool) -> None:
    of_a, of_b, of_c = SHAPES[kind]
    of_b = (*of_b[:-2], of_b[-1], of_b[-2]) if transposed else of_b
    a, b = meta(*of_a, grad=True), meta(*of_b, grad=True)
    c = grouped_mm(a, b.mT if transposed else b, ends())
    assert (c.shape, c.dtype) == (of_c, a.dtype)
    da, db = torch.autograd.grad(c.sum(), (a, b))
    assert (da.shape, db.shape) == (a.shape, b.shape)
    if kind == "rows":  # as the weights are, so that a sum of gradients needs no copy
        assert db.stride() == b.stride()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"a": meta(G, T, K)}, r"or batched_mm"),
        ({"a": meta(K)}, r"of two dimensions"),
        ({"a": meta(T, K + 1)}, "do not share K"),
        ({"offs": ends(G + 1)}, r"4 groups, the matrices 3"),
        ({"offs": meta(G, dtype=torch.int64)}, r"int64; cure: a contiguous vector in int32"),
        ({"a": meta(T, K, dtype=torch.bfloat16)}, "different element types"),
        ({"a": meta(T, K, dtype=torch.float32), "b": meta(G, K, N, dtype=torch.float32)}, "element type float32"),
        ({"b": meta(1024, K, N), "offs": ends(1024)}, "1024 groups"),
    ],
)
def test_a_wrong_argument_is_named(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        grouped_mm(**{"a": meta(T, K), "b": meta(G, K, N), "offs": ends(), **changed})


def mixture(grad: bool = False, **changed: Any) -> dict[str, Any]:
    return {
        "x": meta(T, H, grad=grad), "gate_up": meta(E, 2 * WIDE, H, grad=grad), "down": meta(E, H, WIDE, grad=grad),
        "weights": meta(T, C, dtype=torch.float32, grad=grad), "experts": meta(T, C, dtype=torch.int32), **changed,
    }  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
def test_mixtures_have_the_shape_of_x(grad: bool) -> None:
    given = mixture(grad)
    out = moe(**given)
    assert (out.shape, out.dtype) == ((T, H), torch.float16)
    if grad:
        wanted = [it for it in given.values() if it.requires_grad]
        assert [it.shape for it in torch.autograd.grad(out.sum(), wanted)] == [it.shape for it in wanted]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"x": meta(1, T, H)}, r"cure: \(T, H\), \(E, 2 I, H\) and \(E, H, I\)"),
        ({"down": meta(E, H, WIDE + 1)}, "do not fit"),
        ({"gate_up": meta(E, 2 * WIDE + 1, H)}, "do not fit"),
        ({"experts": meta(T, C + 1, dtype=torch.int32)}, r"cure: \(T, C\) of both"),
        ({"experts": meta(T, C, dtype=torch.float32)}, r"experts.int\(\)"),
        ({"weights": meta(T, C, dtype=torch.float64)}, r"weights.float\(\)"),
    ],
)
def test_a_wrong_argument_of_a_mixture_is_named(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        moe(**mixture(**changed))


def test_tensors_on_the_cpu_are_refused() -> None:
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        grouped_mm(torch.zeros(T, K).half(), torch.zeros(G, K, N).half(), torch.zeros(G, dtype=torch.int32))
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        moe(**{name: torch.zeros(it.shape, dtype=it.dtype) for name, it in mixture().items()})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_calls_are_traced_without_a_break(grad: bool, dynamic: bool) -> None:
    def layer(**inputs: Any) -> Any:
        return moe(**inputs) * 2

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert compiled(**mixture(grad)).shape == (T, H)
    product = torch.compile(grouped_mm, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert product(meta(T, K, grad=grad), meta(G, K, N, grad=grad), ends()).shape == (T, N)


H100 = Device(132, 3.35e6)


@pytest.mark.parametrize("test", ["test_schema", "test_faketensor"])
def test_the_operators_pass_opcheck(test: str) -> None:
    torch.library.opcheck(moe_op._moe, tuple(mixture().values()), test_utils=test)
    torch.library.opcheck(moe_op._moe_sort, (mixture()["experts"], E), test_utils=test)
    for of_a, of_b, _ in SHAPES.values():
        torch.library.opcheck(op._grouped_mm, (meta(*of_a), meta(*of_b), ends()), test_utils=test)


def test_few_rows_in_each_group_take_small_tiles_and_many_take_large_ones() -> None:
    few, many = (tiles.grouped_tile(tiles.GROUPED, tiles.Sizes(rows, 64, 1536, 2048), H100) for rows in (256, 16384))
    assert (few.BM, few.BN) == (64, 128)
    assert (many.BM, many.BN) == (128, 256)


def test_rows_are_moved_only_where_the_product_gains_more() -> None:
    """Moving costs as much for each row; what the product gains grows with its columns."""
    narrow, wide = (
        tiles.pair(tiles.GATED, tiles.GROUPED, tiles.Sizes(1 << 16, 8, N, 4096), H100) for N in (1024, 1 << 15)
    )
    assert (narrow.moved, wide.moved) == (False, True)


def test_memory_that_is_faster_lets_larger_products_be_bound_by_the_tensor_cores() -> None:
    tile, sizes = tiles.GROUPED[0], tiles.Sizes(256, 64, 4096, 7168)
    slow, fast = (tiles.grouped_us(tile, sizes, Device(132, dram)) for dram in (3.35e6, 4.8e6))
    assert slow / fast == pytest.approx(4.8 / 3.35)
