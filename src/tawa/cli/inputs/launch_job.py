"""A launch that the command line describes, as a job for `tawa tune`: a kernel, its arguments, and a grid."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tawa.cli.failures import UsageError
from tawa.cli.inputs.arguments import Argument, TensorArgument, bits_of, is_integer, make_array
from tawa.cli.inputs.job import read_job
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.cli.inputs.launch_arguments import whole_signature, with_defaults

if TYPE_CHECKING:
    from tawa.runtime.tuning.jobs import Job

_TORCH = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2", **{f"{sign}i{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""PyTorch's names of element types, by MLIR's."""
_NARROW = 8
"""Whole numbers of more bits may be indices, and keep their values; others are random."""


def launch_job(
    target: str,
    arguments: Mapping[str, Argument],
    grid: tuple[int, ...],
    sig: str,
    const: str,
    num_warps: int,
    num_stages: int,
    options: list[str] | None,
    processors: int,
) -> Job:
    """The job of one launch. Raises UsageError, and what a compile raises. processors: SMs of the GPU."""
    from tawa.bridge.launch.argument_paths import argument_paths, values_at
    from tawa.bridge.report.record import KEY
    from tawa.runtime.tuning.collect import described_job
    from tawa.runtime.tuning.jobs import DescriptorArgument, Storage, ValueArgument
    from tawa.runtime.tuning.shape_class import shape_class

    kernel = load_kernel(target)
    arguments = with_defaults(kernel, arguments)
    sig = whole_signature(kernel, sig, const, arguments)
    compiled = read_job(target, sig, const, num_warps, num_stages, options, legal=False).compile(launched=True)
    facts = (getattr(compiled.metadata, KEY, None) or {}).get("tuning")
    if facts is None:
        raise UsageError(f"{kernel.__name__} has no tl.dot: there is nothing to choose", "tune a kernel that has one")
    storages: list[Storage] = []
    contents: dict[int, Any] = {}
    described: list[Any] = []
    for name, kind in compiled.src.signature.items():
        given = arguments.get(name)
        if kind == "constexpr" or given is None:
            described.append(ValueArgument(None))
        elif isinstance(given, TensorArgument):
            described.append(_tensor(given, len(storages)))
            numbers = is_integer(given.element) and bits_of(given.element) > _NARROW
            array = make_array(given, seed=0) if numbers else None
            if array is not None:
                import numpy as np

                contents[len(storages)] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            storages.append(_storage(given, array is not None))
        else:
            described.append(ValueArgument(given.value))
    types = tuple(compiled.src.signature.values())
    plain = [_fields(it) if isinstance(it, DescriptorArgument) else getattr(it, "value", 0) for it in described]
    values = values_at(argument_paths(types), plain)
    sizes = [(index, name) for index, name in facts["sizes"]]
    return described_job(
        compiled, shape_class(sizes, values, grid, processors), grid, tuple(described), tuple(storages), contents
    )


def _fields(descriptor: Any) -> Any:
    """A descriptor as a launch passes it, at no address."""
    base = SimpleNamespace(data_ptr=lambda: 0)
    return SimpleNamespace(base=base, shape=descriptor.shape, strides=descriptor.strides, padding=descriptor.padding)


def _shape(argument: TensorArgument) -> tuple[int, ...]:
    if argument.shape is None:
        raise UsageError(
            f"--arg {argument.text}: a file's shape is not read here", f"{argument.name}=randn:256x512:f16 in its place"
        )
    return argument.shape


def _tensor(argument: TensorArgument, storage: int) -> Any:
    from tawa.runtime.tuning import jobs

    shape = _shape(argument)
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    tensor = jobs.TensorArgument(storage, _TORCH[argument.element], shape, strides)
    return tensor if argument.box is None else jobs.DescriptorArgument(tensor, shape, strides, argument.box)


def _storage(argument: TensorArgument, contents: bool) -> Any:
    from tawa.runtime.tuning.jobs import Storage

    width = bits_of(argument.element) // 8
    return Storage(prod(_shape(argument)) * width, _TORCH[argument.element], contents)
