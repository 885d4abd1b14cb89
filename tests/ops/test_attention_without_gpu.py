"""The attention operator where there is no GPU: what it refuses, its fake implementation, tracing."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, attention  # noqa: E402
from tawa.ops.attention_ops import checks as checks  # noqa: E402
from tawa.ops.attention_ops import launch as launching  # noqa: E402
from tawa.ops.attention_ops import tiles as tiles  # noqa: E402
from tawa.ops.attention_ops.tensors import for_tma, new_like  # noqa: E402
from tawa.ops.calls import checks as shared_checks  # noqa: E402
from tawa.ops.calls import tensors as shared_tensors  # noqa: E402
from tests.ops.expected import exact_gradients  # noqa: E402

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


NONE = (None, None, None, None)
"""No slopes, and no factors."""


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False, device: str = "meta") -> Any:
    return torch.empty(shape, dtype=dtype, device=device, requires_grad=grad)


def triple(grad: bool = False, dtype: Any = torch.float16) -> tuple[Any, Any, Any]:
    return (
        meta(2, 4, 100, 96, dtype=dtype, grad=grad),
        meta(2, 2, 77, 96, dtype=dtype, grad=grad),
        meta(2, 2, 77, 96, dtype=dtype, grad=grad),
    )


def views(grad: bool = False) -> tuple[Any, ...]:
    """Projections (B, S, H, D), seen as (B, H, S, D)."""
    return tuple(x.transpose(1, 2) for x in meta(2, 50, 3, 4, 64, grad=grad).unbind(2))


# --- what comes out ---


@pytest.mark.parametrize(
    ("dtype", "output"),
    [
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16),
        (torch.float8_e4m3fn, torch.float16),
        (torch.float8_e5m2, torch.float16),
    ],
)
def test_output_has_the_shape_of_the_queries(dtype: Any, output: Any) -> None:
    o, lse = attention(*triple(dtype=dtype), causal=True, return_lse=True)
    assert (o.shape, o.dtype) == ((2, 4, 100, 96), output)
    assert (lse.shape, lse.dtype) == ((2, 4, 100), torch.float32)


@pytest.mark.parametrize("test", TESTS)
def test_forward_with_fewer_columns_of_values_passes_opcheck(test: str) -> None:
    from tawa.ops.attention_ops.op import _forward

    q, k, v = (meta(2, heads, 50, dim, grad=True) for heads, dim in ((4, 192), (2, 192), (2, 128)))
    torch.library.opcheck(_forward, (q, k, v, *NONE, True, 0, 0, 0.1, 0.0, None), test_utils=test)
    assert attention(q, k, v).shape == (2, 4, 50, 128)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("test", TESTS)
def test_forward_passes_opcheck(test: str, grad: bool) -> None:
    from tawa.ops.attention_ops.op import _forward

    torch.library.opcheck(_forward, (*triple(grad), *NONE, True, 0, 0, 0.1, 0.0, None), test_utils=test)


@pytest.mark.parametrize("test", TESTS)
def test_forward_with_every_option_passes_opcheck(test: str) -> None:
    from tawa.ops.attention_ops.op import _forward

    slopes = meta(4, dtype=torch.float32)
    torch.library.opcheck(_forward, (*triple(), slopes, *NONE[1:], True, -23, 16, 0.1, 20.0, None), test_utils=test)


@pytest.mark.parametrize("test", TESTS)
def test_forward_on_views_passes_opcheck(test: str) -> None:
    from tawa.ops.attention_ops.op import _forward

    torch.library.opcheck(_forward, (*views(grad=True), *NONE, True, 0, 0, 0.1, 0.0, None), test_utils=test)


def test_output_lies_as_the_queries_do() -> None:
    o = attention(*views())
    assert o.shape == (2, 4, 50, 64) and o.transpose(1, 2).is_contiguous()
    assert attention(*triple()).is_contiguous()
    assert attention(triple()[0].mT.contiguous().mT, *triple()[1:]).is_contiguous()
    assert attention(meta(2, 1, 100, 96).expand(2, 4, 100, 96), *triple()[1:]).is_contiguous()


@pytest.mark.parametrize("with_lse", [False, True])
@pytest.mark.parametrize("test", TESTS)
def test_backward_passes_opcheck(test: str, with_lse: bool) -> None:
    from tawa.ops.attention_ops.op import _backward

    q, k, v = triple()
    lse = meta(2, 4, 100, dtype=torch.float32)
    arguments = (
        torch.empty_like(q),
        lse if with_lse else None,
        q,
        k,
        v,
        torch.empty_like(q),
        lse.clone(),
        meta(4, dtype=torch.float32),
        True,
        0,
        16,
        0.1,
        5.0,
    )
    torch.library.opcheck(_backward, arguments, test_utils=test)


def test_gradients_have_the_shapes_of_their_tensors() -> None:
    q, k, v = triple(grad=True)
    o, lse = attention(q, k, v, return_lse=True)
    (o.float().sum() + lse.sum()).backward()
    assert [x.grad.shape for x in (q, k, v)] == [q.shape, k.shape, v.shape]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_is_traced_without_a_break(dynamic: bool) -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, causal=True, diagonal=k.shape[2] - q.shape[2]) * 2

    q, k, v = triple(grad=True)
    o = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)(q, k, v)
    o.float().sum().backward()
    assert o.shape == q.shape and k.grad.shape == k.shape


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": (4, 100, 96)}, "q has shape"),
        ({"q": (3, 4, 100, 96)}, "3 batches"),
        ({"q": (2, 4, 100, 64)}, "head dimension 64"),
        ({"q": (2, 3, 100, 96)}, "3 query heads do not share 2"),
        ({"v": (2, 2, 78, 96)}, "the same shape"),
        ({"v": (2, 2, 77, 104)}, "v has head dimension 104, q 96"),
        ({"v": (2, 2, 77, 36)}, "a multiple of 8"),
        ({"q": (2, 2, 9, 260), "k": (2, 2, 9, 260), "v": (2, 2, 9, 260)}, "head dimension 260"),
        ({"q": (2, 2, 9, 100), "k": (2, 2, 9, 100), "v": (2, 2, 9, 100)}, "multiples of 8"),
        ({"k": (2, 2, 2**30, 96), "v": (2, 2, 2**30, 96)}, "split the sequence"),
        ({"q": (1024, 64, 9, 96), "k": (1024, 64, 9, 96), "v": (1024, 64, 9, 96)}, "split the batch"),
    ],
)
def test_a_wrong_shape_is_named(change: dict[str, tuple[int, ...]], text: str) -> None:
    shapes = {"q": (2, 4, 100, 96), "k": (2, 2, 77, 96), "v": (2, 2, 77, 96), **change}
    with pytest.raises(ArgumentError, match=text):
        attention(*(meta(*shape) for shape in shapes.values()))


def test_a_head_dimension_of_fp8_is_a_multiple_of_16() -> None:
    wrong = meta(1, 1, 32, 88, dtype=torch.float8_e4m3fn)
    with pytest.raises(ArgumentError, match="multiples of 16"):
        attention(wrong, wrong, wrong)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scale": 0.0}, "scale=0"),
        ({"scale": -1.0}, "scale=-1"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"scale": float("inf")}, "scale=inf"),
        ({"window": 0, "causal": True}, "window=0"),
        ({"window": 5}, "causal=True"),
        ({"window": 2**30, "causal": True}, "window=1073741824"),
        ({"diagonal": 2**30, "causal": True}, "diagonal=1073741824"),
        ({"diagonal": -(2**30), "causal": True}, "diagonal=-1073741824"),
        ({"softcap": 0.0}, "softcap=0"),
        ({"softcap": float("inf")}, "softcap=inf"),
        ({"alibi": meta(3, dtype=torch.float32)}, "4 query heads"),
        ({"alibi": meta(4)}, "float16"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        attention(*triple(), **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fnuz, torch.int8])
def test_an_element_type_without_kernel_is_named(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match=str(dtype).removeprefix("torch.")):
        attention(*triple(dtype=dtype))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 2), (3, 1), (3, 2)])
def test_factors_are_one_or_by_key_head_or_by_batch_and_key_head(shape: tuple[int, ...]) -> None:
    q, k, v = (meta(3, heads, 50, 64, dtype=torch.float8_e4m3fn) for heads in (4, 2, 2))
    factors = meta(*shape, dtype=torch.float32)
    o = attention(q, k, v, q_descale=factors, k_descale=factors, v_descale=factors, out_dtype=torch.bfloat16)
    assert (o.shape, o.dtype) == ((3, 4, 50, 64), torch.bfloat16)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"q_descale": meta(4, dtype=torch.float32)}, "q_descale has shape .4,.*2 key heads"),
        ({"k_descale": meta(2, 2, 1, dtype=torch.float32)}, "k_descale has shape .2, 2, 1."),
        ({"v_descale": meta(2)}, "v_descale has type float16; cure: v_descale.float"),
        ({"out_dtype": torch.float32}, "out_dtype=float32 for float8_e4m3fn; cure: float16 or bfloat16"),
    ],
)
def test_wrong_factors_and_types_of_the_output_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        attention(*triple(dtype=torch.float8_e4m3fn), **options)


def test_factors_on_another_device_are_refused() -> None:
    with pytest.raises(DeviceError, match="q_descale is on cpu"):
        attention(*triple(dtype=torch.float8_e4m3fn), q_descale=torch.ones(()))


def test_factors_and_other_output_types_are_for_fp8() -> None:
    with pytest.raises(ArgumentError, match="k_descale: factors are for tensors in fp8, q is float16"):
        attention(*triple(), k_descale=meta(2, dtype=torch.float32))
    with pytest.raises(ArgumentError, match="out_dtype=bfloat16 for float16; cure: float16"):
        attention(*triple(), out_dtype=torch.bfloat16)
    assert attention(*triple(), out_dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("test", TESTS)
def test_forward_with_factors_passes_opcheck(test: str) -> None:
    from tawa.ops.attention_ops.op import _forward

    one = meta(dtype=torch.float32)
    given = (*triple(dtype=torch.float8_e5m2), None, one, one, None, True, 0, 0, 0.1, 0.0, torch.bfloat16)
    torch.library.opcheck(_forward, given, test_utils=test)


def test_mixed_element_types_are_named() -> None:
    q, k, v = triple()
    with pytest.raises(ArgumentError, match="v bfloat16"):
        attention(q, k, v.bfloat16())


def test_tensors_on_the_cpu_are_refused() -> None:
    one = meta(1, 1, 1, 64, device="cpu")
    with pytest.raises(DeviceError, match="on cpu"):
        attention(one, one, one)


def test_tensors_on_two_devices_are_refused() -> None:
    q, k, v = triple()
    with pytest.raises(DeviceError, match="v cpu"):
        attention(q, k, torch.empty(v.shape, dtype=v.dtype))


def test_gradients_of_every_option_have_the_shapes_of_their_tensors() -> None:
    for options in ({"window": 5, "causal": True}, {"softcap": 5.0}, {"alibi": meta(4, dtype=torch.float32)}):
        q, k, v = triple(grad=True)
        attention(q, k, v, **options).float().sum().backward()
        assert [x.grad.shape for x in (q, k, v)] == [q.shape, k.shape, v.shape]


@pytest.mark.parametrize("grad", [False, True])
def test_a_gradient_of_the_slopes_is_refused_before_anything_runs(grad: bool) -> None:
    slopes = meta(4, dtype=torch.float32, grad=True)
    with pytest.raises(ArgumentError, match="backward kernels for the slopes of alibi"):
        attention(*triple(grad=grad), alibi=slopes)
    with torch.no_grad():
        attention(*triple(grad=grad), alibi=slopes)


@pytest.mark.parametrize(
    ("capability", "dtype", "refused"),
    [
        ((7, 5), torch.float16, True),
        ((8, 0), torch.bfloat16, False),
        ((8, 6), torch.float8_e4m3fn, True),
        ((8, 9), torch.float8_e4m3fn, False),
        ((9, 0), torch.float8_e4m3fn, False),
    ],
)
def test_a_device_that_is_too_old_is_refused(
    capability: tuple[int, int], dtype: Any, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    there = SimpleNamespace(is_cuda=True, device="cuda:0", dtype=dtype)
    if not refused:
        return shared_checks.check_capability(there)
    with pytest.raises(DeviceError, match=rf"compute capability {capability[0]}\.{capability[1]}"):
        shared_checks.check_capability(there)


# --- tiles ---


@pytest.mark.parametrize(
    ("capability", "table"), [((8, 0), tiles.ELSEWHERE), ((9, 0), tiles.HOPPER), ((10, 0), tiles.ELSEWHERE)]
)
def test_only_hopper_has_the_large_tiles(
    capability: tuple[int, int], table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert launching.tiles_for(torch.device("cuda", 0)) is table


@pytest.mark.parametrize(("head_dim", "box"), [(8, 64), (64, 64), (72, 128), (96, 128), (128, 128), (136, 256)])
def test_a_box_holds_the_head_dimension(head_dim: int, box: int) -> None:
    assert tiles.box_of(head_dim) == box
    for table in (tiles.HOPPER, tiles.ELSEWHERE):
        by_mask = [*table.forward.values(), *table.fp8.values()]
        assert all(box in kind for kind in (*by_mask, table.varlen, table.dkdv, table.dq))


def test_groups_own_dots_for_wide_heads_where_the_registers_suffice() -> None:
    two = tiles.HOPPER.dkdv[256], tiles.HOPPER.dq[256]
    masks: tuple[Any, ...] = ("full", "causal")
    for mask, same_bits in product(masks, (False, True)):
        made, of_queries = tiles.backward_tiles(tiles.HOPPER, 256, same_bits, mask, False, 4096)
        assert made.owned and of_queries is None
        for softcap, queries in ((True, 4096), (False, None)):
            assert tiles.backward_tiles(tiles.HOPPER, 256, same_bits, mask, softcap, queries) == two
        assert tiles.backward_tiles(tiles.HOPPER, 256, same_bits, "window", False, 4096) == two


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_long_programs_of_gradients_exchange_tiles_and_short_ones_do_not(mask: Any) -> None:
    for box, choice in tiles.HOPPER.gradients[mask].items():
        made = [tiles.backward_tiles(tiles.HOPPER, box, False, mask, False, queries) for queries in (1, 1024, 65536)]
        assert all(of_queries is None for _, of_queries in made)
        assert made[0] == made[1] == (choice[0], None) and made[2] == (choice[-1], None)
        if made[0][0].owned:
            continue
        narrow = tiles.HOPPER.gradients["window"][box][0]
        assert tiles.backward_tiles(tiles.HOPPER, box, False, mask, True, 65536) == (narrow, None)
        packed = narrow if mask == "window" else tiles.HOPPER.varlen_gradients[box]  # their programs differ in length
        assert tiles.backward_tiles(tiles.HOPPER, box, False, mask, False, None) == (packed, None)


@pytest.mark.parametrize("box", [64, 128])
def test_the_same_bits_come_from_whole_numbers_where_there_are_many_queries(box: int) -> None:
    def one_kernel(mask: Any, softcap: bool, queries: int | None, table: tiles.Tiles = tiles.HOPPER) -> bool:
        return tiles.backward_tiles(table, box, True, mask, softcap, queries)[1] is None

    for mask in ("full", "causal"):
        assert one_kernel(mask, False, 4096) and not one_kernel(mask, False, 4095)
        assert not one_kernel(mask, True, 4096) and not one_kernel(mask, False, None)
        assert not one_kernel(mask, False, 4096, tiles.ELSEWHERE)
    assert not one_kernel("window", False, 4096)


@pytest.mark.parametrize("loops", [1, 2])
def test_steps_are_loaded_by_pointers_in_every_loop(loops: int) -> None:
    tile = tiles.HOPPER.in_steps["full"][64][0]
    asked, plan = (json.loads(dict(it.options)["plan"]) for it in (tile, tiles.with_steps(tile, loops)))
    steps = [it for it in plan["operands"] if it.get("argument") == "steps_ptr"]
    assert [(it["loop"], it["path"]) for it in steps] == [(loop, "pointers") for loop in range(loops)]
    assert {**plan, "operands": plan["operands"][:-loops]} == asked
    owned = tiles.HOPPER.in_steps["full"][256][0]
    assert tiles.with_steps(owned, loops) == owned


def test_loops_that_are_in_one_over_heads_have_the_next_number() -> None:
    tile = tiles.with_steps(tiles.HOPPER.gradients["causal"][64][-1], 1)
    asked, plan = (json.loads(dict(it.options)["plan"]) for it in (tile, tiles.with_outer_loop(tile)))
    assert plan["loops"] == [{**asked["loops"][0], "loop": 2}] and asked["loops"][0]["loop"] == 1
    assert plan["operands"] == [asked["operands"][0], {**asked["operands"][1], "loop": 1}]
    assert tiles.with_outer_loop(tiles.HOPPER.gradients["window"][64][0]) == tiles.HOPPER.gradients["window"][64][0]


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
@pytest.mark.parametrize("is_fp8", [False, True])
def test_each_length_has_one_tile_and_only_rows_have_one_that_transposes_v(mask: Any, is_fp8: bool) -> None:
    for box, choice in (tiles.HOPPER.fp8 if is_fp8 else tiles.HOPPER.forward)[mask].items():
        assert choice[0].least == 0 and not choice[0].transposes_v
        for keys in (1, 511, 1024, 2047, 8192, 10**6):
            tile, _ = tiles.forward_tile(tiles.HOPPER, box, box, is_fp8, mask, keys)
            assert tile.least == max(it.least for it in choice if it.least <= keys) and not tile.transposes_v
            rows, _ = tiles.forward_tile(tiles.HOPPER, box, box, is_fp8, mask, keys, rows=True)
            assert rows is tile or (rows.transposes_v and rows.least == tile.least)


@pytest.mark.parametrize(
    ("head_dim", "values", "keys", "boxes"),
    [
        (96, 96, 1024, (128, 128, 0, 0)), (96, 96, 8192, (64, 128, 32, 0)), (192, 128, 64, (128, 128, 64, 0)),
        (192, 192, 64, (128, 128, 64, 64)), (200, 200, 64, (256, 256, 0, 0)), (64, 64, 8192, (64, 64, 0, 0)),
    ],
)  # fmt: skip
def test_a_head_dimension_may_have_two_boxes(
    head_dim: int, values: int, keys: int, boxes: tuple[int, int, int, int]
) -> None:
    _, found = tiles.forward_tile(tiles.HOPPER, head_dim, values, False, "causal", keys)
    assert (found.first, found.values, found.second, found.of_v) == boxes


# --- what the tests on a GPU compare with ---


def test_exact_gradients_are_those_of_pytorch() -> None:
    shapes = {"q": (1, 2, 5, 64), "k": (1, 1, 6, 64), "v": (1, 1, 6, 64)}
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes.values()]
    do = torch.randn(shapes["q"], dtype=torch.float64)
    mask = torch.ones(5, 6, dtype=torch.bool).tril(1)
    o = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask, enable_gqa=True)
    wanted = torch.autograd.grad(o, leaves, do)
    found, delta = exact_gradients(*leaves, do, None, causal=True, diagonal=1)
    torch.testing.assert_close(found, wanted)
    assert delta == pytest.approx((o * do).sum(dim=3).abs().max().item())


# --- tensors for TMA ---


def test_a_transposed_view_needs_no_copy() -> None:
    x = torch.empty(2, 50, 4, 64, dtype=torch.float16)
    assert for_tma(x.transpose(1, 2)).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("kind", ["columns", "expanded", "strided", "misaligned"])
def test_what_tma_cannot_see_is_copied(kind: str) -> None:
    x = torch.arange(2 * 3 * 40 * 64).to(torch.float16).reshape(2, 3, 40, 64)
    view = {
        "columns": x.mT,
        "expanded": x[:, :1].expand(2, 3, 40, 64),
        "strided": x[..., ::2],
        "misaligned": x[..., 4:36],
    }[kind]
    copy = for_tma(view)
    if kind == "columns":
        assert shared_tensors.fits_tma(view) is False
    assert shared_tensors.fits_tma(copy)
    assert copy.data_ptr() != view.data_ptr()
    assert torch.equal(copy, view)


def test_a_copy_keeps_the_order_of_heads_and_rows() -> None:
    projections = torch.empty(2, 40, 3, 68, dtype=torch.float16)[..., :64].transpose(1, 2)
    copy = for_tma(projections)
    assert copy is not projections
    assert new_like(copy, copy.dtype).stride() == new_like(projections, copy.dtype).stride() == (7680, 64, 192, 1)


def test_rows_of_a_copy_are_padded_to_16_bytes() -> None:
    copy = for_tma(torch.ones(1, 2, 77, 64, dtype=torch.float16).mT)
    assert copy.shape == (1, 2, 64, 77)
    assert copy.stride() == (2 * 64 * 80, 64 * 80, 80, 1)
