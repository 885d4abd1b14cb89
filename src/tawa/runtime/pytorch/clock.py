"""PyTorch's part in measurements: GPU time of launches, the name of the GPU, whether launches are being captured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Launch = Callable[[], None]


def gpu_ms(launch: Launch, count: int) -> float:
    """GPU time of `count` launches in a row, in milliseconds."""
    import torch

    cuda: Any = torch.cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def gpu_seen() -> str:
    """The name of the GPU that PyTorch would use, which is imported for that; empty if it sees none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def built_for_cuda() -> str:
    """The version of CUDA that PyTorch is built for; empty if it is built without CUDA."""
    import torch

    return str(torch.version.cuda or "")


def gpu_name() -> str:
    """The name of the GPU in use; empty if PyTorch is not loaded or has none."""
    torch: Any = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else ""


def capturing() -> bool:
    """Whether PyTorch is capturing launches into a CUDA graph; False if PyTorch is not loaded."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
