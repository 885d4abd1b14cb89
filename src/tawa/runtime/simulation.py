"""A `Case` in the simulator: its tensors as arrays, one launch on any level of its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tawa.ir import Module
from tawa.sim import Descriptor as HostDescriptor
from tawa.sim import SimulationResult, from_floats, simulate, to_floats

if TYPE_CHECKING:
    from tawa.kernels.case import Case

Arrays = dict[str, Any]


def make_arrays(case: Case, seed: int = 0) -> Arrays:
    """The tensors of a case by name, filled as for a launch: normal numbers, outputs with NaN."""
    import numpy as np

    lot = np.random.default_rng(seed)
    arrays: Arrays = {}
    for name, tensor in case.tensors.items():
        shape = case.shape(name)
        if tensor.fill == "trips":
            arrays[name] = lot.integers(0, 1 + case.size("K") // case.size("BK"), shape).astype(np.int32)
        elif tensor.fill == "values":
            given = np.asarray(tensor.values).reshape(shape)
            arrays[name] = given.astype(np.int32) if tensor.dtype == "i32" else from_floats(given, tensor.dtype)
        elif tensor.dtype == "i32":
            arrays[name] = np.zeros(shape, np.int32)
        else:
            fill = np.full(shape, np.nan) if tensor.fill == "nan" else lot.standard_normal(shape) + tensor.mean
            arrays[name] = from_floats(fill, tensor.dtype)
    return arrays


def floats_of(case: Case, arrays: Arrays) -> Arrays:
    """The tensors of a case as float64; those of integers as they are."""
    return {
        name: array if case.tensors[name].dtype == "i32" else to_floats(array, case.tensors[name].dtype).astype("f8")
        for name, array in arrays.items()
    }


def round_floats(values: Any, dtype: str) -> Any:
    """`values` rounded to an element type, as float64."""
    return to_floats(from_floats(values, dtype), dtype).astype("f8")


def simulate_case(
    case: Case, module: Module, arrays: Arrays, order: Any = "eager", seed: int = 0, **options: Any
) -> SimulationResult:
    """Simulates one launch; outputs are written into `arrays`. options: further ones of `tawa.sim.simulate`."""
    from tawa.kernels.case import Descriptor, Number, Pointer

    arguments: dict[str, Any] = {}
    for name, argument in case.arguments.items():
        match argument:
            case Descriptor(tensor):
                arguments[name] = HostDescriptor(arrays[tensor])
            case Pointer(tensor):
                arguments[name] = arrays[tensor]
            case Number(value):
                arguments[name] = value if isinstance(value, float) else case.size(value)
            case _:
                pass
    return simulate(module, arguments, case.launch_grid(), order, seed, **options)
