"""The operators of matrix products: arguments, shapes, and the choice of tiles, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, linear, matmul  # noqa: E402
from tawa.ops.products import matmul_checks as checks  # noqa: E402
from tawa.ops.products import matmul_op as operators  # noqa: E402
from tawa.ops.products.tiles import LARGEST, RING_BYTES, Tile, choose, options_of, predicted, tiles  # noqa: E402
from tawa.plan.cost.tile_time import Device  # noqa: E402

H100 = Device(132, 3.274e6)


def meta(*shape: int, dtype: Any = torch.float16) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        (meta(5, 16), meta(16, 24), (5, 24)),
        (meta(2, 3, 16), meta(16, 24), (2, 3, 24)),
        (meta(16), meta(16, 24), (24,)),
        (meta(5, 16), meta(16), (5,)),
        (meta(16), meta(16), ()),
        (meta(0, 16), meta(16, 24), (0, 24)),
    ],
    ids=str,
)
def test_a_product_has_the_shape_that_pytorch_gives_it(a: Any, b: Any, shape: tuple[int, ...]) -> None:
    assert matmul(a, b).shape == shape


def test_a_gated_layer_has_half_as_many_columns() -> None:
    assert linear(meta(2, 3, 16), meta(24, 16), gated=True).shape == (2, 3, 12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(meta(5, 16), meta(8, 24)), "16 columns meet 8 rows"),
        (lambda: matmul(meta(5, 16), meta(16, 24, dtype=torch.bfloat16)), "tensors of different element types"),
        (lambda: matmul(meta(5, 16, dtype=torch.int8), meta(16, 24, dtype=torch.int8)), "element type int8"),
        (lambda: linear(meta(5, 16), meta(24, 8)), "x has 16 features, weight takes 8"),
        (lambda: linear(meta(5, 16), meta(24, 16), activation="tanh"), "activation='tanh'"),
        (lambda: linear(meta(5, 16), meta(25, 16), gated=True), "weight has 25 rows"),
        (lambda: linear(meta(5, 16), meta(24, 16), meta(5)), r"bias has shape \(5,\)"),
        (lambda: linear(meta(5, 16), meta(24, 16), residual=meta(5, 16)), r"cure: that of the result, \(5, 24\)"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_arguments_that_do_not_fit_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_tensors_on_the_cpu_are_refused() -> None:
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        matmul(torch.zeros(8, 8), torch.zeros(8, 8))


@pytest.mark.parametrize(
    ("a", "b", "columns", "reason"),
    [
        (meta(5, 16), meta(16, 24), 24, ""),
        (meta(5, 16), meta(24, 16).mT, 24, ""),
        (meta(16, 8).mT, meta(16, 24), 24, ""),
        (meta(5, 16), meta(16, 20), 20, "no multiple of 16 bytes"),
        (meta(5, 17), meta(17, 24), 24, "the left factor has strides"),
        (meta(16, 5).mT, meta(16, 24), 24, "the left factor has strides"),
        (meta(5, 16, dtype=torch.float32), meta(16, 24, dtype=torch.float32), 24, "the right factor in float32"),
        (meta(0, 16), meta(16, 24), 24, "a size is 0"),
    ],
    ids=str,
)
def test_what_the_kernels_cannot_compute_has_a_reason(a: Any, b: Any, columns: int, reason: str) -> None:
    found = checks.why_not(a, b, columns)
    assert reason in found and bool(found) == bool(reason)


def test_a_fallback_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    from tawa.ops.calls import fallback

    fallback._said.clear()
    a, b = torch.zeros(5, 17, dtype=torch.float16), torch.zeros(17, 24, dtype=torch.float16)
    with caplog.at_level("INFO", logger="tawa"):
        assert torch.equal(operators._run_mm(a, b), torch.mm(a, b))
        operators._run_mm(a, b)
    assert [it.message for it in caplog.records] == [
        "tawa.ops.matmul is left to PyTorch: the left factor has strides (17, 1) that TMA cannot read"
    ]


def test_copies_have_strides_that_the_kernels_read() -> None:
    odd = torch.randn(6, 17, dtype=torch.float32)[:, :16]
    assert checks.stored_along(odd) is None
    copy = operators._for_wgmma(odd, 1)
    assert checks.stored_along(copy) == 1 and torch.equal(copy, odd)
    factor = torch.randn(16, 24)
    copy = operators._for_wgmma(factor, 0)
    assert checks.stored_along(copy) == 0 and torch.equal(copy, factor)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bits", [16, 32])
def test_all_tiles_fit_an_sm(bits: int, gated: bool) -> None:
    made = list(tiles(bits, gated))
    assert len(made) > 10
    for tile in made:
        slot = (tile.BM + tile.columns) * tile.BK * bits // 8
        assert slot * tile.num_stages <= RING_BYTES and tile.BM * tile.columns <= LARGEST
        assert tile.num_stages >= 3 and (tile.split == 1 or not tile.more)


@pytest.mark.parametrize("rows", [1, 16, 64, 128, 256, 1024, 8192])
def test_the_chosen_tile_is_the_fastest_of_those_that_make_sense(rows: int) -> None:
    chosen = choose(rows, 4096, 4096, 2, H100)
    least = predicted(chosen, rows, 4096, 4096, 2, H100)
    for tile in tiles(16, False):
        if tile.split == 1 and tile.columns <= 2 * rows:
            assert least <= predicted(tile, rows, 4096, 4096, 2, H100) * 1.0001 or rows < tile.BM


def test_few_columns_of_a_long_sum_are_split() -> None:
    """Two tiles would keep 130 of 132 SMs idle."""
    assert choose(16, 128, 16384, 2, H100).split > 1
    assert choose(16, 128, 16384, 2, H100, exact=True).split == 1
    assert choose(8192, 8192, 8192, 2, H100).split == 1


@pytest.mark.parametrize(
    ("M", "K", "size", "slices"),
    [
        (8192, 384, 2, 4),
        (8192, 512, 2, 2),
        (1024, 4096, 2, 2),
        (8192, 8192, 2, 0),
        (8192, 8192, 1, 2),
        (128, 512, 2, 0),
    ],
)
def test_the_end_of_large_tiles_runs_beside_the_sums_of_others_unless_sums_are_long(
    M: int, K: int, size: int, slices: int
) -> None:
    tile = Tile(False, 128, 256, 0, 64, 8, 4)
    options = dict(options_of(tile, M, 8192, K, size, H100, False))
    assert options.get("plan", "").count(f'"slices": {slices}') == (slices > 0) == bool(options)
    assert not options_of(replace(tile, swapped=True), M, 8192, K, size, H100, False)
