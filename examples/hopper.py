"""What the examples need to run: PyTorch and a Hopper GPU."""

from __future__ import annotations

from typing import Any


def torch_on_hopper(instead: str) -> Any:
    """Returns the torch module; ends the program with one line if PyTorch or a Hopper GPU is missing.

    instead: the sentence that says what works without either.
    """
    needs = "This example needs PyTorch and a Hopper GPU (H100, H200)"
    try:
        import torch
    except ImportError:
        raise SystemExit(f"{needs}; PyTorch is not installed. {instead}") from None
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"{needs}; there is no such GPU here. {instead}")
    return torch
