"""Which form a convolution takes on tensors: chosen by the predicted times, or asked for by name."""

from __future__ import annotations

import logging

import torch

from tawa.ops.calls.checks import ArgumentError
from tawa.ops.calls.devices import is_hopper, multiprocessors
from tawa.ops.convolution.geometry import Geometry, forms_of
from tawa.ops.convolution.launch import Convolution, layout_of
from tawa.ops.convolution.tiles import Choice, choices

_log = logging.getLogger("tawa")


def library(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: tuple[int, int],
    padding: tuple[int, int], dilation: tuple[int, int], groups: int, relu: bool,
) -> torch.Tensor:  # fmt: skip
    """PyTorch's convolution (cuDNN on a GPU), with channels last in memory."""
    found = torch.ops.aten.convolution.default(x, weight, bias, stride, padding, dilation, False, [0, 0], groups)
    found = found.relu_() if relu else found
    return found.contiguous(memory_format=torch.channels_last)


class Library:
    """PyTorch's convolution as a call like `Convolution`."""

    extra_bytes = 0

    def __init__(self, of: Geometry, relu: bool) -> None:
        self.of, self.relu = of, relu

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """O (N, CO, OH, OW) with channels last in memory."""
        of = self.of
        x = x.contiguous(memory_format=torch.channels_last)
        return library(x, weight, bias, of.stride, of.padding, of.dilation, 1, self.relu)


class Empty:
    """A convolution without input or output: nothing is summed."""

    extra_bytes = 0

    def __init__(self, of: Geometry, relu: bool) -> None:
        self.of, self.relu = of, relu

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """O (N, CO, OH, OW) with channels last in memory."""
        of = self.of
        found = torch.zeros((of.N, of.OH, of.OW, of.CO), dtype=x.dtype, device=x.device)
        if bias is not None:
            found += bias
        return (found.relu_() if self.relu else found).permute(0, 3, 1, 2)


Call = Convolution | Library | Empty


def tf32_is_allowed() -> bool:
    """Whether PyTorch's convolutions of float32 may round to tf32."""
    return bool(torch.backends.cudnn.allow_tf32)


def why_library(x: torch.Tensor) -> str:
    """Why no kernel of this package convolves such tensors; empty if one does."""
    if x.dtype == torch.float32 and not tf32_is_allowed():
        return "tf32 is switched off, torch.backends.cudnn.allow_tf32"
    if x.device.type == "cuda" and not is_hopper(x.device):
        return f"{x.device} is not a Hopper GPU"
    return ""


def choose(x: torch.Tensor, of: Geometry, form: str | None) -> Choice:
    """The form of a convolution that is not empty. form: the name of the one that is wanted; None for the fastest.

    Raises ArgumentError if the form that is wanted does not exist for these tensors.
    """
    lacking = why_library(x)
    if lacking and form not in (None, "library"):
        raise ArgumentError(f"form={form!r}: {lacking}; cure: form=None")
    if lacking or form == "library":
        return Choice(None, None, 0.0)
    at = layout_of(x, of)
    found = choices(of, forms_of(of, at), multiprocessors(x.device), at is not None)
    if form is None:
        return found[0]
    for choice in found:
        if choice.form is not None and choice.form.name == form:
            return choice
    why = "channels are not last in memory, or not a multiple of 16 bytes" if form == "direct" else "dilated columns"
    raise ArgumentError(f"form={form!r}: there is none for {of} ({why}); cure: form=None")


def call_of(x: torch.Tensor, weight: torch.Tensor, of: Geometry, relu: bool, form: str | None) -> Call:
    """The call for tensors like these. A remark is logged where PyTorch's convolution is taken."""
    if not all((of.N, of.C, of.CO)):
        return Empty(of, relu)
    choice = choose(x, of, form)
    if choice.form is None or choice.tile is None:
        if form is None:
            why = why_library(x) or "it is predicted to be faster"
            _log.info("conv2d: PyTorch's convolution for %s: %s", of, why)
        return Library(of, relu)
    return Convolution(x, weight, of, choice.form, choice.tile, relu)
