"""`torch.autocast`: operators take tensors as PyTorch's own `matmul`, `linear` and attention take them there."""

from __future__ import annotations

from typing import TypeVar

import torch

Given = TypeVar("Given", bound=torch.Tensor | None)
_CASTS = frozenset((torch.float16, torch.bfloat16, torch.float32))
"""Element types that autocast casts. PyTorch leaves float64 as it is; tensors in 8 bits have factors of their own."""


def autocast(*tensors: Given) -> tuple[Given, ...]:
    """The tensors in the element type of the surrounding ``torch.autocast("cuda")``; as they are without one.

    The casts have gradients: that of a float32 parameter is float32. They are not kept from call to call.
    """
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    dtype = torch.get_autocast_dtype("cuda")
    return tuple(it if it is None or it.dtype not in _CASTS else it.to(dtype) for it in tensors)  # type: ignore[misc]
