"""Decoding where there is no GPU: shapes, what it refuses, and tracing."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, attention_decode  # noqa: E402
from tawa.ops.attention_ops import decode_op as operators  # noqa: E402
from tawa.ops.attention_ops.decode_launch import block_of  # noqa: E402


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False, device: str = "meta") -> Any:
    return torch.empty(shape, dtype=dtype, device=device, requires_grad=grad)


def numbers(*shape: int) -> Any:
    return meta(*shape, dtype=torch.int32)


def given(grad: bool = False, dtype: Any = torch.float16) -> dict[str, Any]:
    """Three sequences, one query, up to 256 keys."""
    return {
        "q": meta(3, 8, 1, 96, dtype=dtype, grad=grad),
        "k_cache": meta(3, 2, 256, 96, dtype=dtype),
        "v_cache": meta(3, 2, 256, 96, dtype=dtype),
        "cache_seqlens": numbers(3),
    }


def paged() -> dict[str, Any]:
    cache = {name: meta(40, 2, 64, 96) for name in ("k_cache", "v_cache")}
    return {**given(), **cache, "block_table": numbers(3, 5)}


NEW = {"k": meta(3, 2, 1, 96), "v": meta(3, 2, 1, 96)}


@pytest.mark.parametrize(
    "arguments", [given(), paged(), given() | NEW, paged() | NEW, given() | {"cache_seqlens": 100}]
)
@pytest.mark.parametrize("dtype", [torch.float16])
def test_output_has_the_shape_of_the_queries(arguments: dict[str, Any], dtype: Any) -> None:
    o, lse = attention_decode(**arguments, return_lse=True)
    assert (o.shape, o.dtype) == ((3, 8, 1, 96), dtype)
    assert (lse.shape, lse.dtype) == ((3, 8, 1), torch.float32)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("arguments", [given(), paged(), given() | NEW])
def test_a_call_is_traced_without_a_break(arguments: dict[str, Any], dynamic: bool) -> None:
    def model(**inputs: Any) -> Any:
        return attention_decode(**inputs) * 2

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert compiled(**arguments).shape == (3, 8, 1, 96)


@pytest.mark.parametrize("test", ["test_schema", "test_faketensor"])
def test_the_operators_pass_opcheck(test: str) -> None:
    q, k, v, lengths = given().values()
    decode = (q, k, v, lengths, 256, 0, None, True, 0, 0.1, 0.0, 0)
    torch.library.opcheck(operators._decode, decode, test_utils=test)
    append = (*NEW.values(), k, v, lengths, 256, None)
    torch.library.opcheck(operators._append, append, test_utils=test)


def transposed() -> Any:
    """(B, S, HK, D) in memory."""
    return meta(3, 256, 2, 96).transpose(1, 2)


def test_the_cache_of_flash_attention_is_a_view() -> None:
    now = given() | {"k_cache": transposed(), "v_cache": transposed()}
    assert attention_decode(**now).shape == (3, 8, 1, 96)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": meta(3, 8, 96)}, "q has shape"),
        ({"q": meta(3, 8, 1, 64)}, "head dimension 64, k 96"),
        ({"q": meta(3, 7, 1, 96)}, "7 query heads do not share 2"),
        ({"q": meta(2, 8, 1, 96)}, "q has 2 batches, k_cache 3"),
        ({"v_cache": meta(3, 2, 255, 96)}, "v_cache \\(3, 2, 255, 96\\)"),
        ({"v_cache": meta(3, 2, 256, 96, dtype=torch.bfloat16)}, "different element types"),
        ({"k_cache": meta(3, 2, 96, 256).mT}, "k_cache has strides"),
        ({"cache_seqlens": numbers(2)}, "cache_seqlens has shape \\(2,\\)"),
        ({"cache_seqlens": meta(3, dtype=torch.int64)}, "type int64"),
        ({"cache_seqlens": 257}, "the cache holds 256 keys"),
        ({"cache_seqlens": 256, **NEW}, "256 with 1 new keys"),
        ({"cache_seqlens": None, **NEW}, "k and v without cache_seqlens"),
        ({"k": NEW["k"]}, "v is missing"),
        ({**NEW, "v": meta(3, 2, 2, 96)}, "v has shape"),
        ({"block_table": numbers(2, 5)}, "block_table has shape"),
        ({"block_table": numbers(3, 5), "k_cache": meta(9, 2, 24, 96), "v_cache": meta(9, 2, 24, 96)}, "24 keys"),
        ({"splits": 0}, "splits=0"),
        ({"splits": 129}, "splits=129"),
        ({"scale": 0.0}, "scale=0"),
        ({"window": 5, "causal": False}, "causal=True"),
        ({"softcap": -1.0}, "softcap=-1"),
    ],
)
def test_a_wrong_argument_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        attention_decode(**{**given(), **change})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn])
def test_an_element_type_without_kernel_is_named(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match=str(dtype).removeprefix("torch.")):
        attention_decode(**given(dtype=dtype))


def test_a_gradient_is_refused_before_anything_runs() -> None:
    with pytest.raises(ArgumentError, match="no backward kernels"):
        attention_decode(**given(grad=True))
    with torch.no_grad():
        attention_decode(**given(grad=True))


def test_tensors_on_the_cpu_are_refused() -> None:
    now = {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in given().items()}
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        attention_decode(**now)


def test_blocks_divide_pages() -> None:
    assert [block_of(128, page, True) for page in (0, 16, 48, 64, 256)] == [64, 16, 16, 64, 64]
    assert [block_of(dim, 0, True) for dim in (64, 96, 256)] == [128, 64, 32]


class Kernel:
    """In place of a kernel, which is not launched. runs: how often it would have been."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, *arguments: Any, **options: Any) -> None:
        self.runs += 1


def test_arguments_like_those_before_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the CPU are taken for those of an H100, and nothing is launched."""
    from tawa.ops.attention_ops import decode_checks, decode_launch
    from tawa.ops.calls import plain as attention_plain

    checks: list[int] = []
    kernel = Kernel()

    def counted(*arguments: Any) -> None:
        checks.append(1)
        decode_checks.check_cache(*arguments)

    for module, name, value in (
        (decode_checks, "check_devices", lambda named: None),
        (attention_plain, "other_keys", ~attention_plain._keys_of("CPU")),
        (decode_launch, "check_capability", lambda q: None),
        (decode_launch, "attention_decode", kernel),
        (decode_launch, "merge_splits", kernel),
        (operators, "check_cache", counted),
        (operators, "_calls", attention_plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    now = {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in given().items()}
    for _ in range(3):
        attention_decode(**now, splits=2)
    assert (len(checks), kernel.runs) == (1, 6)
    assert attention_decode(**now, splits=2, return_lse=True)[1].shape == now["q"].shape[:3]
    for change in ({"splits": 4}, {"window": 64}, {"q": now["q"].bfloat16(), "k_cache": now["k_cache"].bfloat16(),
                                                   "v_cache": now["v_cache"].bfloat16()}):  # fmt: skip
        before = len(checks)
        attention_decode(**{**now, **change})
        assert len(checks) == before + 1
    for wrong in (
        {"splits": 0},
        {"splits": True},
        {"cache_seqlens": 300},
        {"cache_seqlens": now["cache_seqlens"].long()},
    ):
        for _ in range(2):
            with pytest.raises(ArgumentError):
                attention_decode(**{**now, **wrong})
    attention_decode(**{**now, "cache_seqlens": 200})
