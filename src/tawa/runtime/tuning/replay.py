"""The arguments of a job, made anew: tensors of PyTorch on a GPU, or arrays for the simulator.

Floats are normal numbers, 8-bit integers are random; other integers are what the job has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.outside import Unfit, shown
from tawa.runtime.tuning.jobs import (
    Argument,
    DescriptorArgument,
    Job,
    Storage,
    TensorArgument,
    TupleArgument,
    ValueArgument,
)


def arguments_on_gpu(job: Job, device: str = "cuda") -> list[Any]:
    """The arguments of the launch, as the user's program passed them."""
    import torch

    lot = torch.Generator(device=device).manual_seed(0)
    memory = [_storage(job, number, device, lot) for number in range(len(job.storages))]
    return [_argument(it, memory) for it in job.arguments]


def _storage(job: Job, number: int, device: str, lot: Any) -> Any:
    """A one-dimensional tensor of bytes."""
    import torch

    about = job.storages[number]
    if about.contents:
        return torch.from_numpy(job.contents[number]).to(device)
    return torch.empty(about.bytes, dtype=torch.uint8, device=device).set_(_random(about, device, lot))


def _random(about: Storage, device: str, lot: Any) -> Any:
    import torch

    dtype = _dtype(about.dtype)
    count = about.bytes // dtype.itemsize
    if dtype is torch.bool:
        values = torch.randint(0, 2, (count,), device=device, generator=lot).to(dtype)
    elif dtype.is_floating_point:
        wide = dtype if dtype.itemsize > 1 else torch.float16
        values = torch.randn(count, device=device, generator=lot, dtype=wide).to(dtype)
    else:
        values = torch.randint(0, 256, (count,), device=device, generator=lot, dtype=torch.uint8).view(dtype)
    return values.untyped_storage()


def _dtype(name: str) -> Any:
    """PyTorch's type of elements of a name; raises Unfit for the name of anything else."""
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise Unfit(f"dtype is {shown(name)}, not a type of elements of PyTorch")
    return found


def _argument(argument: Argument, memory: Sequence[Any]) -> Any:
    match argument:
        case TensorArgument():
            return _tensor(argument, memory)
        case DescriptorArgument(base, shape, strides, block, padding):
            from triton.tools.tensor_descriptor import TensorDescriptor

            more = {} if padding == "zero" else {"padding": padding}
            return TensorDescriptor(_tensor(base, memory), list(shape), list(strides), list(block), **more)
        case TupleArgument(items):
            return tuple(_argument(it, memory) for it in items)
        case ValueArgument(value):
            return value


def _tensor(about: TensorArgument, memory: Sequence[Any]) -> Any:
    import torch

    storage = memory[about.storage].untyped_storage()
    empty = torch.empty(0, dtype=_dtype(about.dtype), device=memory[about.storage].device)
    return empty.set_(storage, about.offset, about.shape, about.strides)
