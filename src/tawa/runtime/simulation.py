"""A `Case` in the simulator: its tensors as arrays, one launch on any level of its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tawa.dialects.tt import GRID_SIZE
from tawa.ir import Module
from tawa.sim import Addresses, SimulationResult, from_floats, simulate, to_floats
from tawa.sim import Descriptor as HostDescriptor

if TYPE_CHECKING:
    from tawa.runtime.case import Case, Tensor

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
            arrays[name] = given.astype(integers(tensor)) if is_integer(tensor) else from_floats(given, tensor.dtype)
        elif tensor.fill == "integers":
            arrays[name] = lot.integers(*tensor.span, shape).astype(integers(tensor))
        elif is_integer(tensor):
            arrays[name] = np.zeros(shape, integers(tensor))
        else:
            constant = {"nan": np.nan, "zero": 0.0}.get(tensor.fill)
            fill = lot.standard_normal(shape) + tensor.mean if constant is None else np.full(shape, constant)
            arrays[name] = from_floats(fill, tensor.dtype)
    return arrays


def is_integer(tensor: Tensor) -> bool:
    """Whether a tensor holds integers."""
    return tensor.dtype.startswith("i")


def integers(tensor: Tensor) -> str:
    """NumPy's name of an integer type: int32 for i32."""
    return tensor.dtype.replace("i", "int")


def floats_of(case: Case, arrays: Arrays) -> Arrays:
    """The tensors of a case as float64; those of integers as they are."""
    return {
        name: array if is_integer(case.tensors[name]) else to_floats(array, case.tensors[name].dtype).astype("f8")
        for name, array in arrays.items()
    }


def round_floats(values: Any, dtype: str) -> Any:
    """`values` rounded to an element type, as float64."""
    return to_floats(from_floats(values, dtype), dtype).astype("f8")


def simulate_case(
    case: Case, module: Module, arrays: Arrays, order: Any = "eager", seed: int = 0, tiles_on: int | None = None,
    **options: Any,
) -> SimulationResult:  # fmt: skip
    """Simulates one launch; outputs are written into `arrays`. options: further ones of `tawa.sim.simulate`.

    tiles_on: on how many programs a persistent form does the work of the grid; None for a kernel as it is.
    """
    from tawa.runtime.case import Descriptor, Number, Pointer

    arguments: dict[str, Any] = {}
    for name, argument in case.arguments.items():
        match argument:
            case Descriptor(tensor):
                arguments[name] = HostDescriptor(arrays[tensor])
            case Pointer(tensor):
                known = case.tensors[tensor]
                table = known.fill == "addresses"
                places = tuple(int(place) for place in known.values)
                arguments[name] = Addresses(arrays[known.base], places) if table else arrays[tensor]
            case Number(value):
                arguments[name] = value if isinstance(value, float) else case.size(value)
            case _:
                pass
    grid = case.launch_grid()
    if tiles_on is not None:
        arguments |= {f"{GRID_SIZE}{axis}": size for axis, size in enumerate((*grid, 1, 1)[:3])}
        grid = (tiles_on,)
    return simulate(module, arguments, grid, order, seed, **options)
