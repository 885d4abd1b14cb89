"""Runs a compiled exhibit in the simulator, without a GPU: compares its bits and records timelines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tawa.bridge.triton.read_module import read_final, read_levels, read_unspecialised
from tawa.runtime.simulation import Descriptor, simulate_launch
from tawa.sim import from_floats

if TYPE_CHECKING:
    from tawa.demo.exhibits import Exhibit, Launch, Tensor
    from tawa.ir import Module
    from tawa.sim.time.timeline import Timeline

ORDERS = ("eager", "late", "random")
_STEPS = 5  # k-steps of the small problem: more than any ring is deep
_TIMED_STEPS = 8


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A small problem: M, N, K, or queries, keys and head dimension of attention.

    equal: by order, whether the outputs have the bits of the unspecialised kernel.
    """

    problem: tuple[int, int, int]
    equal: dict[str, bool]
    seconds: float


def rehearse(exhibit: Exhibit, compiled: Any) -> Rehearsal:
    """Runs the barrier level of a specialised exhibit in every order, and the unspecialised program once."""
    launch = exhibit.small(_STEPS)
    start = time.perf_counter()
    before = read_unspecialised(compiled, num_warps=exhibit.num_warps, num_stages=exhibit.num_stages)
    _, barrier = read_levels(compiled)
    wanted = _written(launch, before)
    equal = {order: _written(launch, barrier, order) == wanted for order in ORDERS}
    return Rehearsal(launch.problem, equal, time.perf_counter() - start)


def timelines(exhibit: Exhibit, compiled: Any, stock: Any) -> Sequence[tuple[str, Timeline]]:
    """One CTA of stock Triton's kernel and of the specialised one, on the simulator's clock."""
    launch = exhibit.small(_TIMED_STEPS)
    modules = {"stock Triton": read_final(stock), "Tawa": read_levels(compiled)[1]}
    return [
        (title, _run(launch, module, _arrays(launch), timing=True, programs=[(0, 0, 0)]).timeline())
        for title, module in modules.items()
    ]


def _written(launch: Launch, module: Module, order: str = "eager") -> dict[str, bytes]:
    """What the tensors hold after a launch."""
    arrays = _arrays(launch)
    _run(launch, module, arrays, order)
    return {name: array.tobytes() for name, array in arrays.items()}


def _run(launch: Launch, module: Module, arrays: dict[str, Any], order: str = "eager", **options: Any) -> Any:
    given = {name: it for name, it in launch.arguments.items() if name not in arrays and it is not None}
    made = {name: it if launch.tensors[name].box is None else Descriptor(it) for name, it in arrays.items()}
    return simulate_launch(module, (), {**given, **made}, launch.grid, order, **options)


def _arrays(launch: Launch) -> dict[str, Any]:
    lot = np.random.default_rng(0)
    return {name: _array(it, lot) for name, it in launch.tensors.items()}


def _array(tensor: Tensor, lot: np.random.Generator) -> Any:
    if tensor.dtype.startswith("i"):
        return np.zeros(tensor.shape, f"int{tensor.dtype[1:]}")
    normal = tensor.fill == "normal"
    return from_floats(lot.standard_normal(tensor.shape) if normal else np.full(tensor.shape, np.nan), tensor.dtype)
