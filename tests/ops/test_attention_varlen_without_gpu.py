"""Attention over packed sequences where there is no GPU: what it refuses, tracing, and calls without the dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, attention_varlen  # noqa: E402
from tawa.ops.attention_ops import checks  # noqa: E402
from tawa.ops.attention_ops import tensors as tensors  # noqa: E402
from tawa.ops.attention_ops import tiles as tiles  # noqa: E402
from tawa.ops.attention_ops import varlen_backward as varlen_backward  # noqa: E402
from tawa.ops.attention_ops import varlen_launch as launching  # noqa: E402
from tawa.ops.attention_ops import varlen_op as operators  # noqa: E402
from tawa.ops.attention_ops.checks import MOST_ROWS  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402
from tawa.ops.kernels.attention import parts  # noqa: E402
from tests.ops.expected_varlen import check_sequences, offsets, packed, pairs  # noqa: E402

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
NAMES = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False, device: str = "meta") -> Any:
    return torch.empty(shape, dtype=dtype, device=device, requires_grad=grad)


def given(grad: bool = False, dtype: Any = torch.float16) -> dict[str, Any]:
    """Two sequences, 100 queries and 77 keys in all."""
    return {
        "q": meta(100, 4, 96, dtype=dtype, grad=grad),
        "k": meta(77, 2, 96, dtype=dtype, grad=grad),
        "v": meta(77, 2, 96, dtype=dtype, grad=grad),
        "cu_seqlens_q": meta(3, dtype=torch.int32),
        "cu_seqlens_k": meta(3, dtype=torch.int32),
        "max_seqlen_q": 60,
        "max_seqlen_k": 50,
    }


# --- what comes out ---


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_output_has_the_shape_of_the_queries(dtype: Any) -> None:
    o, lse = attention_varlen(**given(dtype=dtype), causal=True, return_lse=True)
    assert (o.shape, o.dtype) == ((100, 4, 96), dtype)
    assert (lse.shape, lse.dtype) == ((4, 100), torch.float32)


def test_output_has_the_columns_of_the_values() -> None:
    now = given() | {"q": meta(100, 4, 192), "k": meta(77, 2, 192), "v": meta(77, 2, 128)}
    assert attention_varlen(**now).shape == (100, 4, 128)


@pytest.mark.parametrize("test", TESTS)
def test_it_passes_opcheck(test: str) -> None:
    now = list(given().values())[:-1]
    torch.library.opcheck(operators._forward, (*now, True, 16, 0.1, 20.0), test_utils=test)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_is_traced_without_a_break(dynamic: bool) -> None:
    def model(**arguments: Any) -> Any:
        return attention_varlen(**arguments, causal=True) * 2

    assert torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)(**given()).shape == (100, 4, 96)


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": meta(1, 4, 100, 96)}, "q has shape"),
        ({"k": meta(77, 2, 64), "v": meta(77, 2, 64)}, "head dimension 96, k 64"),
        ({"q": meta(100, 3, 96)}, "3 query heads do not share 2"),
        ({"v": meta(77, 1, 96)}, "k has 2 heads, v 1"),
        ({"v": meta(77, 2, 104)}, "v has head dimension 104, q 96"),
        ({"v": meta(78, 2, 96)}, "k has 77 rows, v 78"),
        ({"q": meta(9, 2, 100), "k": meta(9, 2, 100), "v": meta(9, 2, 100)}, "multiples of 8"),
        ({"q": meta(2**29, 4, 96)}, "split the sequences"),
        ({"k": meta(2**30 + 1, 2, 96), "v": meta(2**30 + 1, 2, 96)}, "split the sequences"),
        ({"cu_seqlens_q": meta(3, dtype=torch.int64)}, "cu_seqlens_q has shape .* int64"),
        ({"cu_seqlens_k": meta(3, 1, dtype=torch.int32)}, "cu_seqlens_k has shape"),
        ({"cu_seqlens_k": meta(4, dtype=torch.int32)}, "3 offsets, cu_seqlens_k 4"),
        ({name: meta(70000, dtype=torch.int32) for name in NAMES[3:]}, "at most 65535 sequences"),
        ({"max_seqlen_q": -1}, "max_seqlen_q=-1"),
        ({"max_seqlen_k": 2**30}, "max_seqlen_k=1073741824"),
        ({"max_seqlen_q": meta(1, dtype=torch.int32)}, "max_seqlen_q is a tensor"),
        ({"scale": 0.0}, "scale=0"),
        ({"window": 5}, "causal=True"),
        ({"softcap": -1.0}, "softcap=-1"),
    ],
)
def test_a_wrong_argument_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        attention_varlen(**{**given(), **change})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn])
def test_an_element_type_without_kernel_is_named(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match=str(dtype).removeprefix("torch.")):
        attention_varlen(**given(dtype=dtype))


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_on_another_device_is_refused(name: str) -> None:
    now = given()
    now[name] = torch.empty(now[name].shape, dtype=now[name].dtype)
    with pytest.raises(DeviceError):
        attention_varlen(**now)


def test_gradients_have_the_shapes_of_their_tensors() -> None:
    now = given(grad=True)
    o, lse = attention_varlen(**now, causal=True, return_lse=True)
    (o.float().sum() + lse.sum()).backward()
    assert [now[name].grad.shape for name in "qkv"] == [now[name].shape for name in "qkv"]


@pytest.mark.parametrize("test", TESTS)
def test_its_backward_operator_passes_opcheck(test: str) -> None:
    q, k, v, *offsets = list(given().values())[:-2]
    lse = meta(4, 100, dtype=torch.float32)
    arguments = torch.empty_like(q), lse, q, k, v, torch.empty_like(q), lse.clone(), *offsets, True, 16, 0.1, 20.0
    torch.library.opcheck(operators._backward, arguments, test_utils=test)


# --- descriptors ---


def test_the_edge_is_the_same_for_kernel_and_descriptor() -> None:
    assert parts.EDGE.value == tensors.RAGGED_EDGE


def test_a_row_of_a_sequence_is_reached_by_wrapping_around() -> None:
    whole = torch.empty(50, 3, 2, 64, dtype=torch.float16).transpose(1, 2)[..., 1, :]  # rows of K within projections
    box = tensors.ragged_box(whole, 128, 64)
    end, length, n, head = 40, 30, 7, 1
    at = (tensors.RAGGED_EDGE, end, head, tensors.RAGGED_EDGE - length + n, 0)
    assert all(0 <= index < extent for index, extent in zip(at, box.shape, strict=True))
    place = sum(index * stride for index, stride in zip(at, box.strides, strict=True)) * whole.element_size() % 2**64
    assert place == (end - length + n) * whole.stride(0) * 2 + head * whole.stride(1) * 2


def test_rows_that_no_ragged_descriptor_reaches_are_copied() -> None:
    one = torch.empty(1, 2, 64, dtype=torch.float16)
    odd = one.as_strided((1, 2, 64), (129, 64, 1))
    assert tensors.fits_ragged(one) and tensors.fits_tma(odd) and not tensors.fits_ragged(odd)
    for view in (odd, torch.empty(9, 2, 128, dtype=torch.float16)[..., ::2], one.expand(9, 2, 64)):
        copy = tensors.for_ragged(view)
        assert copy.data_ptr() != view.data_ptr() and tensors.fits_ragged(copy) and copy.shape == view.shape


# --- calls without the dispatcher ---


class Kernel:
    """In place of the kernel: what it would write, from its descriptors. runs: the grids of its launches."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, ...]] = []
        self.listed: dict[int, tuple[Any, Any]] = {}

    def run(
        self, q: Any, k: Any, v: Any, o: Any, lse: Any, items: Any, heads: int, total: int, *rest: Any, **options: Any
    ) -> None:
        self.runs.append(options["grid"])
        cu_q, cu_k = self.listed.pop(items.data_ptr())
        assert heads == lse.shape[0]
        assert total == q.base.shape[0]
        for (first, end), (begin, last) in zip(pairs(cu_q), pairs(cu_k), strict=True):
            keys, values = (x.base[begin:last].float().transpose(0, 1) for x in (k, v))
            scores = rest[0] * q.base[first:end].float().transpose(0, 1) @ keys.mT
            o.base[first:end] = (scores.softmax(2) @ values).transpose(0, 1)
            lse[:, first:end] = scores.logsumexp(2) / operators.LN_2


class Lister:
    """In place of the kernel that lists the tiles: it tells the other one whose they are."""

    def __init__(self, reader: Kernel) -> None:
        self.reader = reader

    def run(self, cu_q: Any, cu_k: Any, items: Any, sequences: int, most: int, **options: Any) -> None:
        tiles = [-(-(end - first) // options["BM"]) for first, end in pairs(cu_q)]
        assert len(tiles) == sequences and sum(tiles) <= most and items.numel() == 8 * (1 + most)
        self.reader.listed[items.data_ptr()] = cu_q, cu_k


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Tensors of the CPU are taken for those of an H100."""
    made = Kernel()
    for module, name, value in (
        (checks, "check_devices", lambda named: None),
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (launching, "tiles_for", lambda device: tiles.HOPPER),
        (launching, "attention_varlen", made),
        (launching, "list_shares", Lister(made)),
        (operators, "_calls", plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    library = torch.library.Library("tawa", "IMPL")
    library.impl("attention_varlen", launching.run_varlen, "CPU")
    yield made
    library._destroy()


class Seen(TorchDispatchMode):
    """The operators that the dispatcher ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_call_without_the_dispatcher_computes_the_same(kernel: Kernel) -> None:
    for heads in ((2, 2), (4, 4)):
        now = packed((5, 130, 1), (7, 20, 3), heads=heads)
        with Seen() as seen:
            wanted = attention_varlen(*now, 130, 20, return_lse=True)
        assert "tawa.attention_varlen.default" in seen.names
        for _ in range(2):
            found = attention_varlen(*now, 130, 20, return_lse=True)
            assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
        check_sequences(*found, now)
    assert kernel.runs[-1] == (4 * 4,)


def test_a_batch_of_other_lengths_is_not_checked_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    attention_varlen(*packed((5, 130, 1), (7, 20, 3)), 130, 20)
    monkeypatch.setattr(operators, "check_packed", lambda *_: 1 / 0)
    monkeypatch.setattr(launching, "Varlen", None)
    for queries, keys in (((5, 300, 1), (40, 2, 3)), ((1, 1, 1), (1, 1, 1))):
        now = packed(queries, keys)
        check_sequences(*attention_varlen(*now, max(queries), max(keys), return_lse=True), now)
    assert kernel.runs == [(4 * 2,), (5 * 2,), (3 * 2,)]
    with pytest.raises(ZeroDivisionError):
        attention_varlen(*packed((5, 1), (7, 3)), 5, 7)
    with pytest.raises(ArgumentError, match="max_seqlen_k=-1"):
        attention_varlen(*now, 5, -1)


def test_a_tensor_at_another_alignment_is_copied(kernel: Kernel) -> None:
    now = packed((5, 130), (7, 20), heads=(2, 2))
    wanted = attention_varlen(*now, 130, 20)
    for number in range(5):
        moved = torch.empty(now[number].numel() + 1, dtype=now[number].dtype)[1:].view(now[number].shape)
        moved.copy_(now[number])
        assert torch.equal(attention_varlen(*now[:number], moved, *now[number + 1 :], 130, 20), wanted)


def test_without_queries_keys_or_sequences_nothing_is_launched(kernel: Kernel) -> None:
    for queries, keys in (((0, 0), (3, 4)), ((3, 4), (0, 0)), ((), ())):
        for _ in range(2):
            now = packed(queries, keys)
            o, lse = attention_varlen(*now, max(queries, default=0), max(keys, default=0), return_lse=True)
            assert o.shape == now[0].shape and lse.shape == (2, sum(queries))
            assert not o.any() and (lse == float("-inf")).all()
    attention_varlen(*packed((3, 4), (3, 4)), 4, 4)
    attention_varlen(*packed((3, 4), (0, 0)), 4, 0)
    assert len(kernel.runs) == 1


def test_gradients_of_too_many_sequences_are_refused() -> None:
    sequences = MOST_ROWS // (2 * varlen_backward.PADDED)  # with two heads
    varlen_backward.check_workspace(meta(1, 2, 64), sequences)
    with pytest.raises(ArgumentError, match=f"gradients of {sequences + 1} sequences .* cure: split the sequences"):
        varlen_backward.check_workspace(meta(1, 2, 64), sequences + 1)


def test_gradients_are_those_of_the_operator(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def backward(do: Any, dlse: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *rest: Any) -> tuple[Any, ...]:
        seen.append((do, dlse, o.detach(), lse.detach(), rest))
        return torch.ones_like(q), 2 * torch.ones_like(k), 3 * torch.ones_like(v)

    monkeypatch.setattr(operators, "run_varlen_backward", backward)
    library = torch.library.Library("tawa", "IMPL")
    library.impl("attention_varlen_backward", lambda *given: operators.run_varlen_backward(*given), "CPU")
    try:
        for mode in (Seen, torch.enable_grad):
            q, k, v, *offsets_ = packed((5, 9), (7, 3))
            leaves = [x.requires_grad_() for x in (q, k, v)]
            with mode():
                o, lse = attention_varlen(*leaves, *offsets_, 9, 7, causal=True, return_lse=True)
            (o.float().sum() + lse.sum()).backward()
            assert [x.grad.unique().tolist() for x in leaves] == [[1], [2], [3]]
    finally:
        library._destroy()
    assert len(seen) == 2 and str(seen[0]) == str(seen[1])
    assert offsets((5,)).tolist() == [0, 5]
