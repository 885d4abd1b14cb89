"""The devices that kernels are compiled for, and the error for a launch without one."""

from __future__ import annotations

from tawa.errors import DeviceError

CAPABILITY = 90
"""Hopper's compute capability (H100, H200)."""


def missing_device(error: Exception, kernel: str) -> DeviceError | None:
    """The DeviceError for Triton's "0 active drivers"; None when `error` is about something else."""
    if not isinstance(error, RuntimeError) or "active drivers" not in str(error):
        return None
    return DeviceError(
        f"{kernel}: launched where Triton finds no CUDA device ({error}). Cure: launch on a machine with an H100 or "
        "H200 and PyTorch with CUDA; without one, compile ahead of time: tawa compile FILE.py:KERNEL --sig ..."
    )


def backend_option_names() -> frozenset[str]:
    """Every launch option that Triton's NVIDIA backend knows."""
    from triton.backends.nvidia.compiler import CUDAOptions

    return frozenset(CUDAOptions.__dataclass_fields__)
