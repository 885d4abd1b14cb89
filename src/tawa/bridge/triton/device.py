"""The devices that kernels are compiled for, as Triton names them, and the error for a launch without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.errors import DeviceError
from tawa.machine.machines import KNOWN, SM_90, Machine, machine_for
from tawa.machine.nvidia import WARP


def gpu_target(target: Machine) -> Any:
    """Triton's value for a target."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", target.capability, WARP)


def capability_of(compiled: Any) -> int:
    """The compute capability that a `CompiledKernel` was made for."""
    return getattr(getattr(getattr(compiled, "metadata", None), "target", None), "arch", SM_90.capability)


def why_left(capability: int | None, asked: bool = True) -> str:
    """Why a kernel for this compute capability is left to stock Triton; empty if it may be specialised.

    asked: whether the user asks for that machine, or for the specialisation of this kernel.
    """
    machine = machine_for(capability)
    if machine is None:
        return f"made for compute capability {capability}; Tawa specialises for {KNOWN}"
    if machine is SM_90 or asked:
        return ""
    return f"made for {machine}, where specialised kernels have not been timed; TAWA_ARCH={machine.name} asks for them"


def refuse_elsewhere(pinned: bool, capability: int | None) -> None:
    """Raises DeviceError if specialisation is demanded for a GPU that Tawa does not specialise for."""
    if pinned and why_left(capability):
        raise DeviceError(
            f"warp specialisation was demanded on compute capability {capability}; Tawa specialises for {KNOWN}. "
            "Cure: take that GPU, or leave out what demands it (enable_warp_specialization, a Plan, a mapping)"
        )


def missing_device(error: Exception, kernel: str) -> DeviceError | None:
    """The DeviceError for Triton's "0 active drivers"; None when `error` is about something else."""
    if not isinstance(error, RuntimeError) or "active drivers" not in str(error):
        return None
    return DeviceError(
        f"{kernel}: launched where Triton finds no CUDA device ({error}). Cure: launch on a machine with an H100 or "
        "H200 and PyTorch with CUDA; without one, compile ahead of time: tawa compile FILE.py:KERNEL --sig ..."
    )


def whole_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a compile that Tawa makes by itself, with Triton's default of FP fusion.

    Where it is left out, Triton 3.9 warns of the default of 3.10; a launch of the user's still does.
    """
    from triton import knobs

    return {"enable_fp_fusion": knobs.language.default_fp_fusion, **options}


def backend_option_names() -> frozenset[str]:
    """Every launch option that Triton's NVIDIA backend knows."""
    from triton.backends.nvidia.compiler import CUDAOptions

    return frozenset(CUDAOptions.__dataclass_fields__)
