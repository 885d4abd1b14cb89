"""Operators in a region of ``torch.autocast("cuda")``; without a GPU on tensors that have no data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tawa.ops as operators  # noqa: E402
from tawa.ops import (  # noqa: E402
    attention,
    attention_decode,
    attention_varlen,
    batched_mm,
    conv2d,
    grouped_mm,
    linear,
    matmul,
    moe,
    weight_only_mm,
)

SINGLE = torch.float32


def meta(*shape: int, dtype: Any = SINGLE) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.fixture(params=[torch.float16, torch.bfloat16], ids=str)
def region(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The element type of a region, also where PyTorch has no GPU to open one for."""
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", request.param)
    yield request.param
    torch.set_autocast_enabled("cuda", False)
    torch.set_autocast_dtype("cuda", before)


def heads(dtype: Any = SINGLE) -> Any:
    return meta(1, 2, 64, 64, dtype=dtype)


CALLS: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda dtype: matmul(meta(32, 64), meta(64, 32, dtype=torch.float16)),
    "matmul of a vector": lambda dtype: matmul(meta(64), meta(64, 32)),
    "linear": lambda dtype: linear(meta(2, 32, 64), meta(32, 64), meta(32), residual=meta(2, 32, 32)),
    "batched_mm": lambda dtype: batched_mm(meta(3, 32, 64), meta(3, 64, 32)),
    "conv2d": lambda dtype: conv2d(meta(1, 8, 8, 8), meta(8, 8, 3, 3), meta(8)),
    "grouped_mm": lambda dtype: grouped_mm(meta(32, 64), meta(2, 64, 32), meta(2, dtype=torch.int32)),
    "moe": lambda dtype: moe(
        meta(16, 64), meta(4, 128, 64), meta(4, 64, 64), meta(16, 2), meta(16, 2, dtype=torch.int32)
    ),
    "weight_only_mm": lambda dtype: weight_only_mm(
        meta(16, 64), meta(64, 32, dtype=torch.int32), meta(1, 64, dtype=torch.float16)
    ),
    "attention": lambda dtype: attention(heads(), heads(), heads(torch.float16), causal=True),
    "attention_varlen": lambda dtype: attention_varlen(
        *(meta(64, 2, 64) for _ in "qkv"), *(meta(2, dtype=torch.int32) for _ in "qk"), 64, 64
    ),
    "attention_decode": lambda dtype: attention_decode(
        meta(1, 2, 1, 64), *(meta(1, 2, 64, 64, dtype=dtype) for _ in "kv")
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_tensors_are_cast_to_the_type_of_the_region(name: str, region: Any) -> None:
    assert CALLS[name](region).dtype == region


def test_parameters_keep_the_type_of_their_gradients(region: Any) -> None:
    x, weight = (meta(32, 32).requires_grad_() for _ in "xw")
    for made in (matmul(x, weight), linear(x, weight), batched_mm(x[None], weight[None])):
        gradients = torch.autograd.grad(made.sum(), (x, weight))
        assert made.dtype == region and {it.dtype for it in gradients} == {SINGLE}


def test_float8_is_not_cast(region: Any) -> None:
    q = heads(torch.float8_e4m3fn)
    assert attention(q, q, q, out_dtype=torch.float16).dtype == torch.float16


def test_a_cache_is_not_cast(region: Any) -> None:
    with pytest.raises(operators.ArgumentError):
        attention_decode(meta(1, 2, 1, 64), *(meta(1, 2, 64, 64) for _ in "kv"))


def test_nothing_is_cast_outside_of_a_region() -> None:
    assert matmul(meta(32, 64), meta(64, 32)).dtype == SINGLE
    with pytest.raises(operators.ArgumentError, match="float32"):
        attention(heads(), heads(), heads())


def test_a_region_is_traced(region: Any) -> None:
    """`torch.compile` sees the casts and one node, without a break of the graph."""
    nodes: list[str] = []

    def keep(graph: Any, inputs: Any) -> Any:
        nodes.extend(str(node.target) for node in graph.graph.nodes if node.op in ("call_function", "call_method"))
        return graph.forward

    made = torch.compile(lambda x, w: linear(x, w), backend=keep, fullgraph=True)(meta(32, 64), meta(32, 64))
    assert made.dtype == region
    assert sum("linear" in it for it in nodes) == 1 and "to" in nodes


def test_the_operators_are_listed() -> None:
    assert dir(operators) == sorted(operators.__all__)


@pytest.mark.parametrize("name", [it for it in operators.__all__ if it != "ArgumentError"])
def test_an_operator_documents_its_keywords(name: str) -> None:
    operator = getattr(operators, name)
    documented = inspect.getdoc(operator).split("Args:")[1].split("\nReturns:")[0]
    assert re.findall(r"^    (\w+): ", documented, re.M) == list(inspect.signature(operator).parameters)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_results_and_gradients_are_those_of_pytorch(dtype: Any) -> None:
    torch.manual_seed(5)
    x, weight = (torch.randn(256, 256, device="cuda", requires_grad=True) for _ in "xw")
    q, k, v = (torch.randn(2, 4, 256, 64, device="cuda", requires_grad=True) for _ in "qkv")
    with torch.autocast("cuda", dtype=dtype):
        ours = linear(x, weight), attention(q, k, v, causal=True)
        theirs = (
            torch.nn.functional.linear(x, weight),
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        )
    for (a, b), inputs in zip(zip(ours, theirs, strict=True), ((x, weight), (q, k, v)), strict=True):
        assert a.dtype == b.dtype == dtype
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
        upstream = torch.randn_like(a)
        for found, wanted in zip(
            torch.autograd.grad(a, inputs, upstream), torch.autograd.grad(b, inputs, upstream), strict=True
        ):
            assert found.dtype == wanted.dtype == SINGLE
            torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2 * float(wanted.abs().max()))
