"""`tawa.ops.conv2d`: convolution of images as a PyTorch operator.

As `attention_op`: plain calls launch their kernels without the dispatcher, and what was checked and decided for tensors
of one shape and layout is kept. All others go through the operator ``tawa::conv2d``.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from tawa.ops.calls.autocast import autocast
from tawa.ops.calls.operators import defined, derived
from tawa.ops.calls.plain import KnownCalls, is_plain, wants_gradient
from tawa.ops.calls.tensors import TMA_BYTES
from tawa.ops.convolution.checks import check_form, check_tensors, geometry_of, pair_of
from tawa.ops.convolution.choice import Call, call_of, library, tf32_is_allowed

_SCHEMA = (
    "conv2d(Tensor x, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool relu, "
    "str? form) -> Tensor"
)
Pair = tuple[int, int]
_log = logging.getLogger("tawa")


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    relu: bool = False,
    form: str | None = None,
) -> torch.Tensor:
    """``relu(conv2d(x, weight) + bias)``, as `torch.nn.functional.conv2d`.

    Args:
        x: (N, C, H, W) in float16, bfloat16 or float32. The fast layout has channels last in memory:
            ``x.to(memory_format=torch.channels_last)``. float32 is rounded to tf32 where PyTorch allows that.
        weight: (CO, C / groups, KH, KW) in the type of x; best also with channels last.
        bias: (CO,) in the type of x.
        stride: one number, or (rows, columns).
        padding: zeros at each edge, likewise.
        dilation: likewise.
        groups: for more than one, PyTorch's convolution runs.
        relu: negative results become 0.
        form: how it is computed: "direct" (no copy of the input), "copy" (a copy with padded edges and channels),
            "im2win" (a copy in window order) or "library" (PyTorch's); None for the one that is predicted to be the
            fastest.

    Returns:
        O (N, CO, OH, OW) in the type of x, with channels last in memory.

    Raises:
        ArgumentError: the tensors do not fit one another, or there is no such form for them.
        DeviceError: the tensors are not on one CUDA device.
    """
    x, weight = autocast(x, weight)
    (bias,) = autocast(bias)
    plain = is_plain(x, weight) if bias is None else is_plain(x, weight, bias)
    if plain:
        known = (
            x.shape, x.stride(), weight.shape, weight.stride(), x.dtype, weight.dtype, x.device, weight.device,
            bias if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.device), stride, padding, dilation,
            groups, relu, form, tf32_is_allowed(), x.data_ptr() % TMA_BYTES,
        )  # fmt: skip
        try:
            call = _calls.get(known)
        except TypeError:  # a list
            call, known = None, None
        if call is not None:
            return _call(call, x, weight, bias)
    else:
        known = None
    check_tensors(x, weight, bias, groups)
    check_form(form)
    pairs = pair_of(stride, "stride", 1), pair_of(padding, "padding", 0), pair_of(dilation, "dilation", 1)
    if groups > 1:
        _log.info("conv2d: PyTorch's convolution for %d groups", groups)
        return library(x, weight, bias, *pairs, groups, bool(relu))
    of = geometry_of(x, weight, *pairs)
    if plain:
        call = _Call(call_of(_readable(x), weight, of, bool(relu), form), (*pairs, bool(relu), form))
        if known is not None:
            _calls.keep(known, call)
        return _call(call, x, weight, bias)
    return _conv2d(x, weight, bias, *pairs, bool(relu), form)


class _Call:
    """What calls on tensors of one shape and layout with the same options do. options: those of the operator."""

    __slots__ = ("options", "run")

    def __init__(self, run: Call, options: tuple[Any, ...]) -> None:
        self.run, self.options = run, options

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *options: Any) -> torch.Tensor:
        """The convolution. options: those of the call."""
        return self.run(_readable(x), weight, bias)


_calls: KnownCalls[_Call] = KnownCalls()


def _call(call: _Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if wants_gradient(x, weight) or (bias is not None and wants_gradient(bias)):
        return _derivative.of(call, (x, weight, bias), *call.options)  # type: ignore[no-any-return]
    return call(x, weight, bias)


def _readable(x: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy with channels last if TMA cannot read its address."""
    return x if x.data_ptr() % TMA_BYTES == 0 else x.clone(memory_format=torch.channels_last)


# --- the operator ---


def _run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: list[int], padding: list[int],
    dilation: list[int], relu: bool, form: str | None,
) -> torch.Tensor:  # fmt: skip
    of = geometry_of(x, weight, _two(stride), _two(padding), _two(dilation))
    x = _readable(x)
    return call_of(x, weight, of, relu, form)(x, weight, bias)


def _two(values: list[int]) -> Pair:
    return values[0], values[1]


def _fake(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: list[int], padding: list[int],
    dilation: list[int], relu: bool, form: str | None,
) -> torch.Tensor:  # fmt: skip
    of = geometry_of(x, weight, _two(stride), _two(padding), _two(dilation))
    return x.new_empty((of.N, of.OH, of.OW, of.CO)).permute(0, 3, 1, 2)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Saves what the backward pass needs; the output only for ReLU."""
    x, weight, bias, stride, padding, dilation, relu, _ = inputs
    ctx.save_for_backward(x, weight, output if relu else None)
    ctx.options = _two(stride), _two(padding), _two(dilation)
    ctx.bias_size = None if bias is None else list(bias.shape)


def _derive(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradients: that of x by this operator where `by_convolution` says so, the others by PyTorch."""
    x, weight, output = ctx.saved_tensors
    stride, padding, dilation = ctx.options
    if output is not None:
        gradient = gradient * (output > 0)
    wants = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.bias_size is not None and ctx.needs_input_grad[2]]
    dx = None
    if wants[0] and by_convolution(weight, stride, padding, dilation) and x.numel() and gradient.numel():
        edges = [(size - 1) * step - edge for size, step, edge in zip(weight.shape[2:], dilation, padding, strict=True)]
        flipped = weight.flip(2, 3).transpose(0, 1)
        last = gradient.contiguous(memory_format=torch.channels_last)
        dx = _conv2d(last, flipped, None, [1, 1], edges, list(dilation), False, None)
        wants[0] = False
    dw = db = None
    if any(wants):
        found = torch.ops.aten.convolution_backward.default(
            gradient, x, weight, ctx.bias_size, stride, padding, dilation, False, [0, 0], 1, wants
        )
        dx, dw, db = found[0] if wants[0] else dx, found[1], found[2]
    return dx, dw, db, *[None] * 5


def by_convolution(weight: torch.Tensor, stride: Pair, padding: Pair, dilation: Pair) -> bool:
    """Whether the gradient of x is a convolution with the flipped filters: with stride 1, and not more padding."""
    edges = ((size - 1) * step for size, step in zip(weight.shape[2:], dilation, strict=True))
    return stride == (1, 1) and all(edge >= given for edge, given in zip(edges, padding, strict=True))


_conv2d: Any = defined(_SCHEMA, _run, _fake)
_derivative = derived("conv2d", _derive, _keep)
