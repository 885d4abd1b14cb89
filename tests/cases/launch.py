"""Launches a `Case` on a GPU: its tensors, its arguments, scratch memory that some need. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.cases.case import Absent, Case, Descriptor, Number, One, Pointer

DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
}


def make_tensors(case: Case, seed: int, device: str = "cuda") -> dict[str, torch.Tensor]:
    """Fresh tensors of a case: random normal inputs from `seed`, outputs full of NaN."""
    generator = torch.Generator(device=device).manual_seed(seed)
    tensors = {name: _make_tensor(case, name, generator, device) for name in case.tensors}
    for name, tensor in case.tensors.items():
        if tensor.fill == "addresses":
            base = tensors[tensor.base]
            addresses = [base.data_ptr() + int(index) * base.element_size() for index in tensor.values]
            tensors[name].copy_(torch.tensor(addresses, dtype=torch.int64).reshape(tensors[name].shape))
    return tensors


def outputs(case: Case) -> list[str]:
    """Names of the tensors that the kernel writes, including sums that start at zero, but not counters."""
    return [
        name
        for name, tensor in case.tensors.items()
        if tensor.fill == "nan" or (tensor.fill == "zero" and tensor.dtype.startswith(("fp", "bf")))
    ]


def poison(case: Case, tensors: Mapping[str, torch.Tensor]) -> None:
    """Fills the outputs with NaN again, and counters with zero."""
    for name, tensor in case.tensors.items():
        if tensor.fill == "nan":
            tensors[name].fill_(float("nan"))
        elif tensor.fill == "zero":
            tensors[name].zero_()


def bind(case: Case, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Every argument of the kernel by name, constexprs included."""
    bound: dict[str, Any] = {}
    for name, argument in case.arguments.items():
        match argument:
            case Descriptor(tensor, block, shape, strides):
                base = tensors[tensor]
                bound[name] = TensorDescriptor(
                    base,
                    list(base.shape if shape is None else map(case.size, shape)),
                    list(base.stride() if strides is None else map(case.size, strides)),
                    [case.size(dim) for dim in block],
                )
            case Pointer(tensor):
                bound[name] = tensors[tensor]
            case Number(value):
                bound[name] = value if isinstance(value, float) else case.size(value)
            case Absent():
                bound[name] = None
            case One():
                bound[name] = 1
    return {**bound, **case.constexprs}


def launch(case: Case, kernel: Any, tensors: Mapping[str, torch.Tensor], **options: Any) -> Any:
    """Runs `kernel` (the case's own, or one wrapped around it) once; returns what the launch returns."""
    return kernel[case.launch_grid()](**bind(case, tensors), **case.options(), **options)


def _make_tensor(case: Case, name: str, generator: torch.Generator, device: str) -> torch.Tensor:
    tensor, shape = case.tensors[name], case.shape(name)
    dtype = DTYPES[tensor.dtype]
    match tensor.fill:
        case "normal":
            normal = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
            return (normal + tensor.mean).to(dtype)
        case "nan":
            return torch.full(shape, float("nan"), device=device, dtype=dtype)
        case "zero" | "addresses":
            return torch.zeros(shape, device=device, dtype=dtype)
        case "trips":
            most = case.size("K") // case.size("BK")
            return (torch.arange(shape[0], device=device) * 5 % (most + 1)).to(dtype)
        case "integers":
            return torch.randint(*tensor.span, shape, generator=generator, device=device, dtype=dtype)
        case "values":
            return torch.tensor(tensor.values, device=device).reshape(shape).to(dtype)


def allow_device_descriptors() -> None:
    """Gives Triton the scratch memory that descriptors made in a kernel need."""
    import triton

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
