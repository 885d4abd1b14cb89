"""What `tawa.ops.conv2d` must return: float64, and tolerances with their source. Inputs are made on DEVICE.

Outputs may be off by twice the error of the same convolution with float32 sums, rounded at the end; for float32, of the
convolution whose inputs are cut off to the 10 bits of mantissa that tf32 has.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tests.ops.expected import DEVICE, compare


def cut_off(tensor: Any) -> Any:
    """A tensor of float32 as the tensor cores read it: without the last 13 bits."""
    return (tensor.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def allowed_error(x: Any, weight: Any, exact: Any, convolved: Any) -> float:
    """Twice the largest error of the convolution in the same precision. convolved: computes it of two tensors."""
    if x.dtype == torch.float32:
        peer = convolved(cut_off(x).double(), cut_off(weight).double())
    else:
        with torch.backends.cudnn.flags(enabled=False):
            peer = convolved(x.float(), weight.float()).to(x.dtype)
    return 2 * (peer.double() - exact).abs().max().item()


def normal(*shape: int, dtype: Any = torch.float16, seed: int = 0) -> Any:
    """Random numbers that depend on the seed and the shape only."""
    generator = torch.Generator(device="cpu").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(DEVICE).to(dtype)


def last(tensor: Any) -> Any:
    """The same tensor with channels last in memory."""
    return tensor.contiguous(memory_format=torch.channels_last)


def amid_nan(tensor: Any) -> Any:
    """A view with the same elements and channels last, among rows of NaN of a larger tensor."""
    images, channels, height, width = tensor.shape
    whole = torch.full((images, height + 2, width, channels), math.nan, device=tensor.device).to(tensor.dtype)
    view = whole[:, 1:-1].permute(0, 3, 1, 2)
    return view.copy_(tensor)


def check_convolution(found: Any, x: Any, weight: Any, bias: Any, *, relu: bool = False, library: bool = False,
                      **options: Any) -> None:  # fmt: skip
    """Raises AssertionError unless all elements are close to those of float64, and channels are last in memory.

    library: cuDNN may round before the bias is added, too.
    """
    function = torch.nn.functional.conv2d

    def reference(dtype: Any) -> Any:
        if 0 in weight.shape:  # PyTorch refuses no filters
            one = x.new_zeros((1, 1, *x.shape[2:])), weight.new_zeros((1, 1, *weight.shape[2:]))
            sizes = function(*one, **options).shape
            made = torch.zeros((len(x), len(weight), *sizes[2:]), dtype=dtype, device=x.device)
            made = made if bias is None else made + bias.to(dtype)[:, None, None]
            return made.relu() if relu else made
        made = function(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype), **options)
        return made.relu() if relu else made

    exact = reference(torch.float64)
    assert found.shape == exact.shape and found.dtype == x.dtype
    assert found.permute(0, 2, 3, 1).is_contiguous()
    if not found.numel():
        return

    def convolved(x: Any, weight: Any) -> Any:
        made = function(x, weight, None if bias is None else bias.to(x.dtype), **options)
        return made.relu() if relu else made

    if 0 in weight.shape:  # the bias, rounded
        allowed = 2.0**-7 * exact.abs().max().item()
    else:
        allowed = allowed_error(x, weight, exact, convolved) * (2 if library else 1)
    compare("O", found, exact, allowed)


def check_gradients(found: Any, gradient: Any, x: Any, weight: Any, bias: Any, **options: Any) -> None:
    """Raises AssertionError unless the gradients of ``relu(conv2d(x, weight) + bias)`` are close to those of float64.

    They may be off by four roundings of their largest element.
    """
    exact = [it.detach().double().requires_grad_() for it in (x, weight, bias)]
    output = torch.nn.functional.conv2d(*exact, **options).relu()
    output.backward(gradient.double())
    rounding = 2.0**-8 if x.dtype == torch.bfloat16 else 2.0**-11
    for name, made, wanted in zip(("dx", "dweight", "dbias"), found, exact, strict=True):
        assert made.shape == wanted.shape and wanted.grad is not None
        compare(name, made, wanted.grad, 4 * rounding * wanted.grad.abs().max().item())
