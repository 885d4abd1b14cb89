"""Checks of arguments that all operators share, and their error.

Only shapes, element types and devices are read, so that the same checks hold for tensors that torch.compile traces.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tawa.errors import DeviceError, TawaError

HALF = (torch.float16, torch.bfloat16)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class ArgumentError(TawaError, ValueError):
    """An operator was called with a tensor or an option for which it has no kernel."""


def check_devices(named: Mapping[str, torch.Tensor]) -> None:
    """Raises DeviceError unless all tensors are on one device, which may be one that kernels run on."""
    devices = {name: str(tensor.device) for name, tensor in named.items()}
    if len(set(devices.values())) > 1:
        raise DeviceError(f"tensors on different devices: {listed(devices)}; cure: move them to one")
    first, tensor = next(iter(named.items()))
    if tensor.device.type not in ("cuda", "meta"):
        raise DeviceError(
            f"{', '.join(named)} are on {devices[first]}; cure: move them to a Hopper GPU, {first}.cuda()"
        )


def check_types(named: Mapping[str, torch.Tensor], known: tuple[torch.dtype, ...]) -> None:
    """Raises ArgumentError unless all tensors have the same element type, one of `known`."""
    types = {name: name_of(tensor.dtype) for name, tensor in named.items()}
    if len(set(types.values())) > 1:
        raise ArgumentError(f"tensors of different element types: {listed(types)}; cure: convert them to one")
    first, tensor = next(iter(named.items()))
    if tensor.dtype not in known:
        kernels = ", ".join(name_of(dtype) for dtype in known)
        raise ArgumentError(f"element type {types[first]}: there are kernels for {kernels}; cure: {first}.half()")


def check_capability(tensor: torch.Tensor) -> None:
    """Raises DeviceError if the tensor's GPU is too old for stock Triton to compile kernels of its type."""
    if not tensor.is_cuda:
        return
    fp8 = tensor.dtype in FP8
    capability, least = torch.cuda.get_device_capability(tensor.device), (8, 9) if fp8 else (8, 0)
    if capability < least:
        raise DeviceError(
            f"{tensor.device} has compute capability {_dotted(capability)}, {name_of(tensor.dtype)} needs "
            f"{_dotted(least)}; cure: move the tensors to a newer GPU" + (", or convert them to float16" if fp8 else "")
        )


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape, as it is written in messages."""
    return tuple(tensor.shape)


def name_of(dtype: torch.dtype) -> str:
    """An element type, as it is written in messages."""
    return str(dtype).removeprefix("torch.")


def listed(values: Mapping[str, str]) -> str:
    """Names and values, as they are written in messages."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(str(part) for part in capability)
