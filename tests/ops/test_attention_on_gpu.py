"""The attention operator on a GPU: against float64, PyTorch's own attention, opcheck and torch.compile.

Each test compiles few kernels and launches them on many shapes, since compiling is what takes the time. Every output
and every buffer of the operator is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bench.attention.backward import deterministic  # noqa: E402
from tawa.ops import attention  # noqa: E402
from tawa.ops.attention_ops import backward_launch  # noqa: E402
from tawa.ops.attention_ops import launch as launching  # noqa: E402
from tawa.ops.attention_ops import tensors as attention_tensors  # noqa: E402
from tawa.ops.attention_ops import tiles as attention_tiles  # noqa: E402
from tawa.ops.calls.plain import KnownCalls  # noqa: E402
from tests.cases.arithmetic import SamePrecision  # noqa: E402
from tests.ops.adversarial import CASES as ADVERSARIAL  # noqa: E402
from tests.ops.adversarial import check_adversarial  # noqa: E402
from tests.ops.expected import (  # noqa: E402
    amid_nan,
    check_gradients,
    check_outputs,
    compare,
    expected,
    normal,
    spoiled,
    triple,
)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
HALF = (torch.float16, torch.bfloat16)
FP8 = torch.float8_e4m3fn
DIMS = {64: (64, 16), 128: (128, 96, 80), 256: (256, 192, 160)}
"""Head dimensions by the box that holds them."""
LENGTHS = ((384, 384), (200, 333), (333, 200), (1, 333), (200, 1), (1, 1), (129, 127))
SLOPES = (0.5, 0.25, 0.125, 0.0625)
OPTIONS = {
    "window": {"causal": True, "window": 100},
    "window_of_one": {"causal": True, "window": 1},
    "softcap": {"softcap": 5.0},
    "alibi": {"alibi": SLOPES},
    "causal_alibi": {"causal": True, "alibi": SLOPES},
    "all": {"causal": True, "alibi": SLOPES, "softcap": 5.0, "window": 70, "diagonal": 33, "scale": 0.3},
}


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_tensors, "unwritten", spoiled)
    for module in (launching, backward_launch):
        monkeypatch.setattr(module, "unwritten", spoiled)
    monkeypatch.setattr(launching, "unwritten_copy", lambda tensor: torch.full_like(tensor, math.nan))


def check(q: Any, k: Any, v: Any, *, gradients: bool = False, with_lse: bool = False, **options: Any) -> None:
    """Outputs and gradients against float64, four times, and the same bits again where bits are asked for."""
    if "alibi" in options:
        options["alibi"] = torch.tensor(options["alibi"], device="cuda")
    leaves = tuple(x.detach().requires_grad_(gradients) for x in (q, k, v))
    o, lse = attention(*leaves, return_lse=True, **options)
    check_outputs(o.detach(), lse.detach(), q, k, v, **options)
    assert torch.equal(attention(q, k, v, **options), o), "another result the second time"
    if not gradients:
        return
    do = normal(*o.shape, dtype=o.dtype, seed=4)
    dlse = normal(*lse.shape, dtype=torch.float32, seed=5) if with_lse else None
    outputs, weights = ((o, lse), (do, dlse)) if with_lse else ((o,), (do,))
    for _ in range(4):
        found = torch.autograd.grad(outputs, leaves, weights, retain_graph=True)
        check_gradients(found, q, k, v, do, dlse, **options)
    with deterministic():
        found, again = (torch.autograd.grad(outputs, leaves, weights, retain_graph=True) for _ in range(2))
    check_gradients(found, q, k, v, do, dlse, **options)
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True)), "other gradients the second time"


# --- numbers ---


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("box", DIMS)
@pytest.mark.parametrize("dtype", [*HALF, FP8], ids=str)
def test_outputs_and_gradients_are_right_for_any_lengths(dtype: Any, box: int, causal: bool) -> None:
    gradients = dtype in HALF
    for dim in DIMS[box]:
        check(*triple(dim, 300, 333, dtype=dtype), gradients=gradients, causal=causal)
    for queries, keys in LENGTHS:
        check(*triple(box, queries, keys, dtype=dtype), gradients=gradients, causal=causal)
        if causal and queries != keys:  # with more queries than keys, the first ones see none
            check(*triple(box, queries, keys, dtype=dtype), gradients=gradients, causal=True, diagonal=keys - queries)


@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences_of_many_heads_are_right_and_specialised(causal: bool) -> None:
    check(*triple(128, 2048, 2048, heads=(16, 8)), gradients=True, causal=causal)
    if torch.cuda.get_device_capability() == (9, 0):
        kernel = launching.attention_persistent if causal else launching.attention_two_loops
        record = kernel.last_kernel.metadata.tawa
        assert record["applied"], record["reason"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "length"), [(64, 4096), (128, 4096), (256, 200)])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_sums_in_whole_numbers_bear_any_numbers(dtype: Any, dim: int, length: int, causal: bool) -> None:
    def run(q: Any, k: Any, v: Any, do: Any, causal: bool) -> Any:
        leaves = tuple(x.detach().requires_grad_() for x in (q, k, v))
        with deterministic():
            o = attention(*leaves, causal=causal)
            found, again = (torch.autograd.grad(o, leaves, do, retain_graph=True) for _ in range(2))
        assert all(
            torch.equal(one.view(torch.int16), two.view(torch.int16)) for one, two in zip(found, again, strict=True)
        )
        return found

    for name in ADVERSARIAL:
        check_adversarial(name, run, dim, length, dtype, causal)


@pytest.mark.parametrize("heads", [(4, 4), (3, 1), (8, 2)], ids=["one_each", "mqa", "gqa_of_4"])
def test_shared_key_heads_are_right(heads: tuple[int, int]) -> None:
    check(*triple(128, 300, 333, heads=heads), gradients=True, causal=True)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dim", [64, 128])
def test_every_option_is_right(dim: int, options: dict[str, Any]) -> None:
    for queries, keys in ((300, 333), (384, 384), (129, 1)):
        check(*triple(dim, queries, keys), gradients=True, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "values"), [(192, 128), (192, 136), (160, 72), (128, 64), (64, 8), (256, 128)])
def test_values_may_have_a_smaller_head_dimension(dim: int, values: int, causal: bool) -> None:
    for queries, keys in ((300, 333), (1, 200), (129, 1)):
        q, k, v = triple(dim, queries, keys)
        check(q, k, v[..., :values], gradients=True, causal=causal)
    q, k, v = triple(dim, 130, 140, dtype=FP8)
    check(q, k, v[..., : values // 16 * 16 or 16], causal=causal)


def test_diagonals_and_scales_are_right() -> None:
    for options in ({"diagonal": -50}, {"diagonal": 1000}, {"diagonal": 2**29}, {"scale": 0.3}):
        check(*triple(64, 300, 333), causal=True, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_the_logarithms_have_gradients_too(causal: bool) -> None:
    check(*triple(64, 200, 333), gradients=True, with_lse=True, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_stands_in_for_pytorch(dtype: Any, causal: bool) -> None:
    theirs = torch.nn.functional.scaled_dot_product_attention
    for queries, keys in ((384, 384), (200, 333), (333, 200)):
        q, k, v = triple(64, queries, keys, dtype=dtype)
        exact = theirs(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)
        peer, _ = expected(q, k, v, SamePrecision(), causal=causal)
        allowed = 2 * (peer.to(dtype).double() - exact).abs().max().item()
        compare(f"{queries} x {keys}", attention(q, k, v, causal=causal), exact, allowed)


# --- layouts ---


def test_nothing_outside_of_the_tensors_is_read() -> None:
    for queries, keys in ((300, 333), (1, 1), (128, 129)):
        tensors = triple(64, queries, keys)
        check(*(amid_nan(x) for x in tensors), gradients=True, causal=True)
        check(*(amid_nan(x) for x in tensors), gradients=True)


def test_views_of_projections_give_the_same_bits() -> None:
    whole = normal(2, 300, 3, 4, 64)
    q, k, v = (x.transpose(1, 2) for x in whole.unbind(2))
    o = attention(q, k, v)
    assert torch.equal(o, attention(q.contiguous(), k.contiguous(), v.contiguous()))
    assert o.transpose(1, 2).is_contiguous()
    expanded = k[:1, :1].expand_as(k)
    assert torch.equal(attention(q, expanded, v), attention(q, expanded.contiguous(), v))
    odd = normal(2, 4, 300, 65)[..., 1:]
    assert torch.equal(attention(odd, k, v), attention(odd.contiguous(), k, v))


@pytest.mark.parametrize("dim", [64, 128, 256])
def test_fp8_values_may_be_kept_transposed(dim: int) -> None:
    q, k, v = triple(dim, 300, 333, dtype=FP8)
    kept = torch.nn.functional.pad(v.mT.view(torch.int8), (0, 3)).view(FP8)[..., :333].mT
    for causal in (False, True):
        check(q, k, v, causal=causal)
        check(q, k, kept, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_fp8_values_as_rows_are_transposed_inside_of_the_kernel_if_there_are_few_keys(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "forwards", KnownCalls())
    check(*triple(128, 300, 333, dtype=FP8), causal=causal)
    assert launching.forwards and all(it.reorder is None for it in launching.forwards.values())


def lengths(table: str) -> list[Any]:
    """A problem for each tile of the operator: the fewest keys that it is for, or the fewest queries of gradients."""
    return [
        pytest.param(box, mask, max(tile.least, 333), id=f"{box}-{mask}-{tile.least}")
        for mask, boxes in getattr(attention_tiles.HOPPER, table).items()
        for box, choice in boxes.items()
        for tile in choice
        if not tile.transposes_v
    ]


def options_of(mask: str, keys: int) -> dict[str, Any]:
    """The last of 300 rows sees the last of keys + 7."""
    return {
        "full": {},
        "causal": {"causal": True, "diagonal": keys - 293},
        "window": {"causal": True, "diagonal": keys - 293, "window": 100},
    }[mask]


@pytest.mark.parametrize(("dim", "mask", "keys"), lengths("forward"))
def test_the_tile_for_each_length_is_right(dim: int, mask: str, keys: int) -> None:
    check(*triple(dim, 300, keys + 7), **options_of(mask, keys))


@pytest.mark.parametrize(("dim", "mask", "keys"), lengths("fp8"))
def test_the_tile_for_each_length_in_fp8_is_right(dim: int, mask: str, keys: int) -> None:
    check(*triple(dim, 300, keys + 7, dtype=FP8), **options_of(mask, keys))


@pytest.mark.parametrize(("dim", "mask", "queries"), lengths("gradients"))
def test_the_tile_of_gradients_for_each_number_of_queries_is_right(dim: int, mask: str, queries: int) -> None:
    options = {"full": {}, "causal": {"causal": True}, "window": {"causal": True, "diagonal": -queries, "window": 100}}
    check(*triple(dim, queries + 7, 333), gradients=True, **options[mask])


@pytest.mark.parametrize("causal", [False, True])
def test_a_head_dimension_of_96_is_right_in_two_boxes(causal: bool) -> None:
    check(*triple(96, 300, 4100), causal=causal, diagonal=3800)


@pytest.mark.parametrize("shape", [(), (2,), (2, 1), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_fp8_with_factors_is_right_in_both_types_of_the_output(dim: int, dtype: Any, shape: tuple[int, ...]) -> None:
    q, k, v = triple(dim, 300, 333, dtype=dtype)
    factors = tuple(0.5 + torch.rand(shape, device="cuda") for _ in range(3))
    given = dict(zip(("q_descale", "k_descale", "v_descale"), factors, strict=True))
    for causal, output in ((False, torch.bfloat16), (True, torch.float16)):
        for _ in range(2):  # the second call launches what the first one prepared
            o, lse = attention(q, k, v, causal=causal, out_dtype=output, return_lse=True, **given)
            assert o.dtype == output
            check_outputs(o, lse, q, k, v, causal=causal, factors=factors)


def test_no_keys_give_zeros() -> None:
    q, k, v = (x.requires_grad_() for x in triple(64, 10, 0))
    o, lse = attention(q, k, v, return_lse=True)
    assert not o.any() and (lse == float("-inf")).all()
    assert not torch.autograd.grad(o.sum(), q)[0].any()
    assert attention(*triple(64, 0, 10)).shape == (2, 4, 0, 64)


def test_a_gradient_that_is_a_view_is_copied() -> None:
    q, k, v = triple(64)
    leaves = tuple(x.detach().requires_grad_() for x in (q, k, v))
    attention(*leaves).sum().backward()  # its gradient is one number, expanded
    check_gradients([x.grad for x in leaves], q, k, v, torch.ones_like(q))


# --- PyTorch around it ---


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_it_passes_opcheck(dtype: Any) -> None:
    from tawa.ops.attention_ops.op import _forward

    leaves = tuple(x.requires_grad_() for x in triple(64, 130, 140, dtype=dtype))
    torch.library.opcheck(_forward, (*leaves, None, None, None, None, True, 10, 0, 0.125, 0.0, None))


def test_it_passes_opcheck_with_every_option() -> None:
    from tawa.ops.attention_ops.op import _forward

    slopes = torch.tensor(SLOPES, device="cuda")
    views = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in triple(64, 130, 140))
    torch.library.opcheck(_forward, (*views, slopes, None, None, None, True, 10, 50, 0.125, 20.0, None))


def test_copies_of_what_tma_cannot_read_pass_opcheck() -> None:
    from tawa.ops.attention_ops.op import _backward, _forward

    q, k, v = (torch.nn.functional.pad(x.transpose(1, 2), (0, 4))[..., :-4].transpose(1, 2) for x in triple(64))
    torch.library.opcheck(_forward, (q, k, v, None, None, None, None, True, 0, 0, 0.125, 0.0, None))
    o, lse = _forward(q, k, v, None, None, None, None, True, 0, 0, 0.125, 0.0, None)
    torch.library.opcheck(_backward, (normal(*o.shape), None, q, k, v, o, lse, None, True, 0, 0, 0.125, 0.0))


def test_its_derivative_passes_opcheck() -> None:
    from tawa.ops.attention_ops.op import _backward, _forward

    q, k, v = triple(64, 130, 140)
    o, lse = _forward(q, k, v, None, None, None, None, True, 0, 0, 0.125, 0.0, None)
    do, dlse = normal(*o.shape), normal(*lse.shape, dtype=torch.float32)
    torch.library.opcheck(_backward, (do, None, q, k, v, o, lse, None, True, 0, 0, 0.125, 0.0))
    torch.library.opcheck(_backward, (do, dlse, q, k, v, o, lse, None, True, 0, 0, 0.125, 0.0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_model_gives_the_same_bits(dynamic: bool) -> None:
    def model(x: Any) -> Any:
        q, k, v = (part.transpose(1, 2) for part in x.unbind(2))
        q = q[:, :, :200]
        return attention(q, k, v, causal=True, diagonal=k.shape[2] - q.shape[2])

    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for length in (384, 300):
        ours, plain = (normal(2, length, 3, 4, 64).requires_grad_() for _ in range(2))
        with deterministic():  # PyTorch compiles the backward pass for the setting of the forward pass
            one, two = compiled(ours), model(plain)
            do = normal(*one.shape, seed=4)
            one.backward(do)
            two.backward(do)
        assert torch.equal(one, two)
        assert torch.equal(ours.grad, plain.grad)


def test_a_captured_graph_gives_the_same_bits() -> None:
    q, k, v = triple(64)
    wanted = attention(q, k, v)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attention(q, k, v)
    graph.replay()
    assert torch.equal(o, wanted)
