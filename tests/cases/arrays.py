"""The arrays of a `Case`, and its launches in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.ir import Module
from tawa.runtime.simulation import simulate_launch
from tawa.sim import Addresses, Descriptor, SimulationResult, from_floats, to_floats
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases import case as kinds
from tests.cases.case import Case, Tensor

Arrays = dict[str, Any]


def make_arrays(case: Case, seed: int = 0) -> Arrays:
    """The tensors of a case by name, filled as for a launch: normal numbers, outputs with NaN."""
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
    return tensor.dtype.startswith(("i", "u"))


def integers(tensor: Tensor) -> str:
    """NumPy's name of an integer type: int32 for i32, uint8 for u8."""
    return f"{tensor.dtype[:1].removesuffix('i')}int{tensor.dtype[1:]}"


def floats_of(case: Case, arrays: Arrays) -> Arrays:
    """The tensors of a case as float64; integer tensors unchanged."""
    return {
        name: array if is_integer(case.tensors[name]) else to_floats(array, case.tensors[name].dtype).astype("f8")
        for name, array in arrays.items()
    }


def round_floats(values: Any, dtype: str) -> Any:
    """`values` rounded to an element type, as float64."""
    if dtype.startswith("i"):
        return np.rint(values)
    return to_floats(from_floats(values, dtype), dtype).astype("f8")


def simulate_case(
    case: Case, module: Module, arrays: Arrays, order: Any = "eager", seed: int = 0, tiles_on: int | None = None,
    launch: LaunchSpec | None = None, counter: Any = None, **options: Any,
) -> SimulationResult:  # fmt: skip
    """Simulates one launch of a case; outputs are written into `arrays`. options: further ones of `simulate`.

    tiles_on: how many programs of a persistent form do the work of the grid; None for a kernel that is not persistent.
    launch: what launches of the kernel need; its conditions hold. counter: of tiles (`new_counter`), for a kernel whose
    programs take their tiles from one.
    """
    return simulate_launch(
        module, case.kernel.arg_names, _arguments(case, arrays), case.launch_grid(), order, seed, tiles_on, launch,
        counter, **options,
    )  # fmt: skip


def _arguments(case: Case, arrays: Arrays) -> Arrays:
    """The arguments of the kernel by name, except constants."""
    arguments: dict[str, Any] = {}
    for name, argument in case.arguments.items():
        match argument:
            case kinds.Descriptor(tensor, _, shape, strides):
                shape, strides = (None if it is None else tuple(map(case.size, it)) for it in (shape, strides))
                arguments[name] = Descriptor(arrays[tensor], shape, strides)
            case kinds.Pointer(tensor):
                known = case.tensors[tensor]
                table = known.fill == "addresses"
                places = tuple(int(place) for place in known.values)
                arguments[name] = Addresses(arrays[known.base], places) if table else arrays[tensor]
            case kinds.Number(value):
                arguments[name] = value if isinstance(value, float) else case.size(value)
            case _:
                pass
    return arguments
