"""Simulates specimens on NumPy data and compares them: with float64, and bit by bit between the levels.

The tolerance is twice the error of the NumPy reference that rounds where the kernels round, as `tests.cases.check`
allows twice the error of PyTorch. It is at least `ROUNDING` of the largest value, because the kernels sum in float32
and the reference in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tawa.bridge.triton.read_module import read_levels, read_unspecialised
from tawa.ir import Module
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases.arrays import floats_of, make_arrays, round_floats, simulate_case
from tests.cases.attention.numpy_reference import numpy_reference
from tests.cases.case import Specimen

FACTOR, ROUNDING = 2.0, 1e-6
ORDERS = ("eager", "late", "random")


@dataclass(frozen=True, slots=True)
class Errors:
    """The largest error of all outputs, and the largest error divided by the allowed one; more than 1 is wrong."""

    largest: float
    share: float


def unspecialised(case: Specimen, compiled: Any) -> Module:
    """The kernel before specialisation."""
    return read_unspecialised(compiled, num_warps=case.num_warps, num_stages=case.num_stages)


def simulated(
    case: Specimen, module: Module, order: Any = "eager", tiles_on: int | None = None, launch: LaunchSpec | None = None
) -> dict[str, Any]:
    """All tensors after one launch.

    tiles_on: the number of programs of a persistent form. launch: what launches of the kernel need.
    """
    arrays = make_arrays(case)
    simulate_case(case, module, arrays, order, tiles_on=tiles_on, launch=launch)
    return arrays


def orders_with_other_bits(
    case: Specimen,
    compiled: Any,
    wanted: dict[str, Any],
    tiles_on: int | None = None,
    launch: LaunchSpec | None = None,
) -> list[str]:
    """The landing orders in which the specialised kernel gives other bits than `wanted`."""
    module = read_levels(compiled)[1]
    return [
        order
        for order in ORDERS
        for arrays in [simulated(case, module, order, tiles_on, launch)]
        if any(arrays[key].tobytes() != wanted[key].tobytes() for key in wanted)
    ]


def errors(case: Specimen, arrays: dict[str, Any], reference: Any = numpy_reference) -> Errors:
    """The errors of the outputs against float64; infinite if an infinity or NaN is missing or unexpected."""
    floats = floats_of(case, arrays)
    exact, rounded = reference(case, floats), reference(case, floats, round_floats)
    largest = share = 0.0
    for name, wanted in exact.items():
        got, finite = floats[name], np.isfinite(wanted)
        if not (np.array_equal(got[~finite], wanted[~finite]) and np.isfinite(got[finite]).all()):
            return Errors(np.inf, np.inf)
        least = max(ROUNDING * np.abs(wanted[finite]).max(initial=0.0), np.finfo(float).tiny)
        error, peer = (np.abs(it[finite] - wanted[finite]) for it in (got, rounded[name]))
        largest = max(largest, error.max(initial=0.0))
        share = max(share, error.max(initial=0.0) / max(FACTOR * peer.max(initial=0.0), least))
        if error.size:
            share = max(share, np.sqrt((error**2).mean()) / max(FACTOR * np.sqrt((peer**2).mean()), least))
    return Errors(float(largest), float(share))
