"""Convolutions under Triton's interpreter, on the CPU: every case below in every form it has, each a line of JSON.

Run by `test_convolution_interpreted.py` with ``TRITON_INTERPRET=1``. Only float16 and float32: the interpreter has no
arithmetic for bfloat16, and computes tf32 as float32.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch

from tawa.ops.convolution import geometry
from tawa.ops.convolution import launch as launching
from tawa.ops.convolution import op as operators
from tawa.ops.convolution.checks import geometry_of
from tawa.ops.convolution.choice import Empty, call_of
from tawa.ops.convolution.geometry import forms_of
from tests.ops.expected_convolution import amid_nan, check_convolution, check_gradients, last, normal
from tests.ops.reported import report

# name: x (N, C, H, W), weight (CO, KH, KW), options
CASES: dict[str, tuple[tuple[int, int, int, int], tuple[int, int, int], dict[str, Any]]] = {
    "three_channels": ((3, 3, 21, 23), (24, 5, 5), {"stride": (2, 2)}),
    "stride_4": ((2, 3, 19, 23), (16, 11, 11), {"stride": (4, 4)}),
    "stride_1": ((2, 3, 12, 13), (8, 3, 3), {}),
    "deep": ((2, 48, 5, 6), (40, 3, 3), {}),
    "padded": ((2, 32, 9, 7), (72, 3, 3), {"padding": (1, 1)}),
    "uneven_padding": ((2, 16, 9, 8), (8, 3, 5), {"padding": (0, 2)}),
    "half": ((2, 32, 12, 10), (16, 3, 3), {"padding": (1, 1), "stride": (2, 2)}),
    "half_of_odd": ((2, 32, 11, 13), (16, 3, 3), {"padding": (1, 1), "stride": (2, 2)}),
    "half_of_five": ((2, 64, 8, 8), (16, 5, 5), {"padding": (2, 2), "stride": (2, 2)}),
    "uneven_stride": ((2, 8, 13, 12), (16, 3, 2), {"stride": (3, 2)}),
    "dilated": ((2, 16, 12, 11), (8, 3, 3), {"dilation": (2, 2), "padding": (2, 2)}),
    "dilated_rows": ((2, 16, 12, 11), (8, 3, 3), {"dilation": (3, 1)}),
    "pointwise": ((2, 24, 5, 6), (16, 1, 1), {}),
    "pointwise_half": ((2, 24, 7, 6), (16, 1, 1), {"stride": (2, 2)}),
    "row": ((2, 16, 5, 9), (16, 1, 5), {"padding": (0, 2)}),
    "column": ((2, 16, 9, 5), (16, 5, 1), {"padding": (2, 0)}),
    "whole": ((3, 8, 4, 4), (16, 4, 4), {}),
    "odd_channels": ((2, 7, 9, 9), (5, 3, 3), {"padding": (1, 1)}),
    "one_filter": ((2, 8, 6, 6), (1, 3, 3), {}),
    "one_image": ((1, 16, 8, 8), (70, 3, 3), {}),
    "one_pixel": ((5, 16, 1, 1), (8, 1, 1), {}),
    "no_image": ((0, 16, 5, 5), (8, 3, 3), {}),
    "no_channel": ((2, 0, 5, 5), (8, 3, 3), {}),
    "no_filter": ((2, 16, 5, 5), (0, 3, 3), {}),
}
NOT_DIRECT = ("three_channels", "stride_4", "stride_1", "half_of_odd", "odd_channels")
IN_TF32 = ("three_channels", "padded", "half")
IN_ALL_LAYOUTS = ("padded", "one_pixel")
KINDS = ("last", "first", "amid_nan")


def kinds_of(name: str) -> tuple[str, ...]:
    """The layouts in which a case runs in float16."""
    return KINDS if name in IN_ALL_LAYOUTS else (KINDS[list(CASES).index(name) % len(KINDS)],)


def laid_out(kind: str, x: Any) -> Any:
    """The input with channels last, first, or last among NaN."""
    return {"last": last, "first": torch.Tensor.contiguous, "amid_nan": amid_nan}[kind](x)


def run(name: str, kind: str, dtype: Any) -> None:
    """One case in all of its forms; raises AssertionError if a result is wrong."""
    shape, (filters, rows, columns), options = CASES[name]
    x = laid_out(kind, normal(*shape, dtype=dtype))
    weight = normal(filters, shape[1], rows, columns, dtype=dtype, seed=1)
    weight = weight if kind == "first" else last(weight)
    bias = normal(filters, dtype=dtype, seed=2) if kind != "amid_nan" else None
    pairs = (options.get(name, (least, least)) for name, least in (("stride", 1), ("padding", 0), ("dilation", 1)))
    of = geometry_of(x, weight, *pairs)
    relu = kind == "last"
    if 0 in (of.N, of.C, of.CO):
        call = call_of(x, weight, of, relu, None)
        assert isinstance(call, Empty)
        check_convolution(call(x, weight, bias), x, weight, bias, relu=relu, **options)
        return
    names = [form.name for form in forms_of(of, launching.layout_of(x, of))]
    channels_are_last = kind != "first" or shape[2:] == (1, 1)
    assert ("direct" in names) == (channels_are_last and name not in NOT_DIRECT)
    for form in (*names, None) if name in IN_ALL_LAYOUTS else names:
        call = call_of(x, weight, of, relu, form)
        found = call(x, weight, bias)
        check_convolution(found, x, weight, bias, relu=relu, **options)


GRADIENTS = ("padded", "uneven_padding", "dilated", "half")


def derive(name: str) -> None:
    """The gradients of one case; raises AssertionError if one is wrong."""
    shape, (filters, rows, columns), options = CASES[name]
    x, weight = last(normal(*shape)), last(normal(filters, shape[1], rows, columns, seed=1))
    bias = normal(filters, seed=2)
    pairs = [options.get(name, (least, least)) for name, least in (("stride", 1), ("padding", 0), ("dilation", 1))]
    output = operators._run(x, weight, bias, *pairs, True, None)
    context = SimpleNamespace(save_for_backward=lambda *saved: setattr(context, "saved_tensors", saved))
    context.needs_input_grad = (True, True, True, *[False] * 5)
    operators._keep(context, (x, weight, bias, *pairs, True, None), output)
    gradient = normal(*output.shape, seed=3)
    check_gradients(operators._derive(context, gradient)[:3], gradient, x, weight, bias, **options)


def main() -> None:
    """Runs every case in every layout, into outputs and copies full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    launching.unwritten = poisoned
    geometry.PART_BYTES = 16 * 1024  # some images at a time
    operators._conv2d = operators._run
    for name in GRADIENTS:
        report(name, "gradients", derive, name)
    for number, name in enumerate(CASES):
        problems = [(kind, torch.float16) for kind in kinds_of(name)]
        if name in IN_TF32:
            problems.append((KINDS[number % 2], torch.float32))
        for kind, dtype in problems:
            report(name, f"{kind} {str(dtype).removeprefix('torch.')}", run, name, kind, dtype)


if __name__ == "__main__":
    main()
