"""Checks of the arguments of `tawa.ops.conv2d`. Only shapes, element types and devices are read."""

from __future__ import annotations

from typing import Any

import torch

from tawa.ops.calls.checks import HALF, ArgumentError, check_devices, check_types, shape_of
from tawa.ops.convolution.geometry import Geometry

FORMS = ("direct", "copy", "im2win", "library")
TYPES = (*HALF, torch.float32)


def pair_of(value: Any, name: str, least: int) -> tuple[int, int]:
    """A number for rows and columns, or one for each."""
    both = (value, value) if isinstance(value, int) else tuple(value)
    if len(both) != 2 or not all(isinstance(it, int) and it >= least for it in both):
        raise ArgumentError(f"{name}={value!r}; cure: one number of at least {least}, or two")
    return both[0], both[1]


def check_tensors(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, groups: int) -> None:
    """Raises ArgumentError or DeviceError unless input, filters and bias fit one another."""
    named = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    for name, tensor, rank in (("x", x, 4), ("weight", weight, 4), ("bias", bias, 1)):
        if tensor is not None and tensor.dim() != rank:
            wanted = {"x": "(N, C, H, W)", "weight": "(CO, C, KH, KW)", "bias": "(CO,)"}[name]
            raise ArgumentError(f"{name} has shape {shape_of(tensor)}; cure: {wanted}")
    if groups < 1 or weight.shape[0] % groups:
        raise ArgumentError(f"groups={groups}, but there are {weight.shape[0]} filters; cure: a divisor of them")
    if x.shape[1] != weight.shape[1] * groups:
        raise ArgumentError(
            f"x has {x.shape[1]} channels, weight {weight.shape[1]} with groups={groups}; cure: equal numbers"
        )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise ArgumentError(f"bias has {bias.shape[0]} elements, weight {weight.shape[0]} filters; cure: equal numbers")
    check_types(named, TYPES)
    check_devices(named)


def geometry_of(
    x: torch.Tensor, weight: torch.Tensor, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> Geometry:
    """The sizes of a convolution. Raises ArgumentError if the filter is larger than the padded input."""
    (images, channels, height, width), (filters, _, rows, columns) = x.shape, weight.shape
    found = Geometry(
        images, channels, height, width, filters, rows, columns, stride, padding, dilation, x.element_size()
    )  # fmt: skip
    if found.OH < 1 or found.OW < 1 or rows < 1 or columns < 1:
        raise ArgumentError(
            f"filters of {rows} x {columns} with dilation {dilation} on an input of {height} x {width} with padding "
            f"{padding}: there is no output; cure: smaller filters, or more padding"
        )
    return found


def check_form(form: str | None) -> None:
    """Raises ArgumentError unless the form is None or has a known name."""
    if form is not None and form not in FORMS:
        raise ArgumentError(f"form={form!r}; cure: None, or one of {', '.join(FORMS)}")
