"""`tawa.ops.conv2d` on a GPU: every form against float64, gradients, under torch.compile, captured.

Every output and every copy is full of NaN before its kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import ArgumentError, conv2d  # noqa: E402
from tawa.ops.convolution import geometry, launch  # noqa: E402
from tawa.ops.convolution import op as operators  # noqa: E402
from tests.ops.expected_convolution import (  # noqa: E402
    amid_nan,
    check_convolution,
    check_gradients,
    last,
    normal,
)
from tests.ops.interpreted_convolution import CASES, GRADIENTS, laid_out  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
TYPES = (torch.float16, torch.bfloat16, torch.float32)
FORMS = ("direct", "copy", "im2win", "library", None)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    monkeypatch.setattr(launch, "unwritten", unwritten)
    monkeypatch.setattr(operators, "_calls", type(operators._calls)())


def check(x: Any, weight: Any, bias: Any, relu: bool, **options: Any) -> None:
    """All forms that there are, twice: the second call is a kept one."""
    ran = 0
    for form in FORMS:
        if form == "library" and 0 in (*x.shape, *weight.shape):
            continue
        try:
            found = conv2d(x, weight, bias, relu=relu, form=form, **options)
        except ArgumentError:
            assert form in ("direct", "copy", "im2win")
            continue
        ran += 1
        check_convolution(found, x, weight, bias, relu=relu, library=form in (None, "library"), **options)
        assert form in (None, "library") or torch.equal(conv2d(x, weight, bias, relu=relu, form=form, **options), found)
    assert ran >= 2 or not x.numel()


@pytest.mark.parametrize("kind", ["last", "first", "amid_nan"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_form_is_right(name: str, dtype: Any, kind: str) -> None:
    shape, (filters, rows, columns), options = CASES[name]
    x = laid_out(kind, normal(*shape, dtype=dtype))
    weight = normal(filters, shape[1], rows, columns, dtype=dtype, seed=1)
    weight = weight if kind == "first" else last(weight)
    bias = normal(filters, dtype=dtype, seed=2) if kind != "amid_nan" else None
    check(x, weight, bias, kind == "last", **options)


# x (N, C, H, W), weight (CO, KH, KW), options: layers, and sizes around tiles
LARGE: tuple[tuple[tuple[int, int, int, int], tuple[int, int, int], dict[str, Any]], ...] = (
    ((9, 3, 227, 227), (96, 11, 11), {"stride": (4, 4)}),
    ((7, 3, 224, 224), (64, 7, 7), {"stride": (2, 2), "padding": (3, 3)}),
    ((5, 3, 113, 99), (64, 3, 3), {}),
    ((16, 64, 56, 56), (64, 3, 3), {"padding": (1, 1)}),
    ((17, 128, 28, 30), (128, 3, 3), {"padding": (1, 1), "stride": (2, 2)}),
    ((33, 256, 14, 14), (257, 3, 3), {"padding": (1, 1)}),
    ((127, 512, 7, 7), (512, 3, 3), {}),
    ((13, 96, 24, 23), (256, 5, 5), {}),
    ((3, 72, 31, 33), (200, 3, 3), {"dilation": (2, 2), "padding": (2, 2)}),
)


@pytest.mark.parametrize("parts", [False, True], ids=["one part", "many parts"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("number", range(len(LARGE)))
def test_layers_are_right(number: int, dtype: Any, parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "PART_BYTES", 2**20 if parts else 2**40)
    shape, (filters, rows, columns), options = LARGE[number]
    x = (amid_nan if number % 2 else last)(normal(*shape, dtype=dtype))
    weight = last(normal(filters, shape[1], rows, columns, dtype=dtype, seed=1))
    check(x, weight, normal(filters, dtype=dtype, seed=2), bool(number % 2), **options)


def test_nan_of_a_neighbour_stays_there() -> None:
    """A NaN of the input reaches the outputs whose windows have it, and no others."""
    x = last(normal(2, 64, 12, 12))
    x[1, 5, 6, 7] = math.nan
    weight = last(normal(64, 64, 3, 3, seed=1))
    wanted = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1).isnan()
    for form in ("direct", "copy", "im2win"):
        assert torch.equal(conv2d(x, weight, padding=1, form=form).isnan(), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("by", ["plain", "compiled"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_right(name: str, by: str, dtype: Any) -> None:
    shape, (filters, rows, columns), options = CASES[name]
    x, weight = last(normal(*shape, dtype=dtype)), normal(filters, shape[1], rows, columns, dtype=dtype, seed=1)
    tensors = [it.requires_grad_() for it in (x, weight, normal(filters, dtype=dtype, seed=2))]

    def model(*given: Any) -> Any:
        return conv2d(*given, relu=True, **options)

    function = torch.compile(model, fullgraph=True) if by == "compiled" else model
    output = function(*tensors)
    gradient = normal(*output.shape, dtype=dtype, seed=3)
    found = torch.autograd.grad(output, tensors, gradient)
    check_gradients(found, gradient, *tensors, **options)


def test_the_operator_passes_opcheck() -> None:
    given = [it.requires_grad_() for it in (last(normal(2, 16, 9, 9)), last(normal(8, 16, 3, 3)), normal(8))]
    torch.library.opcheck(operators._conv2d, (*given, [1, 1], [1, 1], [1, 1], False, "direct"))


def test_it_is_captured() -> None:
    x, weight, bias = last(normal(8, 3, 64, 64)), last(normal(64, 3, 7, 7, seed=1)), normal(64)
    wanted = conv2d(x, weight, bias, stride=2, form="im2win")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = conv2d(x, weight, bias, stride=2, form="im2win")
    graph.replay()
    assert torch.equal(found, wanted)


def test_the_direct_form_takes_no_memory() -> None:
    x, weight = last(normal(16, 64, 56, 56)), last(normal(64, 64, 3, 3, seed=1))
    conv2d(x, weight, padding=1, form="direct")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = conv2d(x, weight, padding=1, form="direct")
    assert torch.cuda.max_memory_allocated() - before <= found.numel() * 2 + 4096
