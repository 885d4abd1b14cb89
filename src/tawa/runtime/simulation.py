"""`tawa.simulate`: one launch of a kernel in NumPy, without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tawa.dialects.parameters import GRID_SIZE, PROGRAMS, SEMAPHORES, TILE_COUNTER, WORKSPACE
from tawa.errors import TawaError
from tawa.ir import Module, parse_module
from tawa.machine.machines import SM_90
from tawa.runtime.progress import progress
from tawa.sim import Descriptor as HostDescriptor
from tawa.sim import SimulationError, SimulationResult, Timeline
from tawa.sim import simulate as simulate_module
from tawa.sim.errors import MissingFence
from tawa.symbolic.host.launch_spec import LaunchSpec, Shared

Descriptor = HostDescriptor
Arrays = dict[str, Any]


def simulate(
    program: Any,
    arguments: Mapping[str, Any],
    grid: Sequence[int] = (1,),
    order: Any = "eager",
    seed: int = 0,
    *,
    programs: Sequence[tuple[int, int, int]] | None = None,
    timing: bool = False,
) -> SimulationResult:
    """Simulates one launch of a kernel; outputs are written into the arrays.

    program: a compiled kernel, as a launch, `warmup` or `compile_kernel` returns it: its barrier level if it is
    specialised, else its TTGIR; or the text of a level, as ``tawa compile --emit`` prints it; or a `tawa.ir.Module`.
    arguments: arrays, `Descriptor`, `Addresses` and numbers by parameter name. grid: one to three sizes. order: when
    asynchronous work lands: "eager", "late" or "random". seed: of the random order. programs: the CTAs that run; None
    for all. timing: keeps what `SimulationResult.timeline` needs.

    Raises SimulationError for a trap, a deadlock, an unsupported operation, or arguments that do not fit.
    """
    module = program if isinstance(program, Module) else _read(program)
    with progress("simulating", prod(grid) if programs is None else len(programs)) as tell:
        return simulate_module(
            module, arguments, grid, order, seed, programs=programs, timing=timing, told=lambda it: tell(it, None, "")
        )


def _read(program: Any) -> Module:
    if isinstance(program, str):
        return parse_module(program)
    from tawa.bridge.report.record import KEY
    from tawa.bridge.triton.read_module import read_final, read_levels

    record = getattr(program.metadata, KEY, None) or {}
    return read_levels(program)[1] if record.get("applied") else read_final(program)


def new_counter() -> Any:
    """A counter of tiles, as a launch gets it."""
    import numpy as np

    return np.zeros(1, np.int32)


def new_shared(shared: Shared, grid: Sequence[int]) -> Arrays:
    """The workspace, full of NaN, and the semaphores of a launch whose programs share tiles."""
    import numpy as np

    floats = shared.workspace_bytes(grid) // np.dtype(np.float32).itemsize
    semaphores = np.zeros(max(1, int(np.prod(grid))), np.int32)
    return {WORKSPACE: np.full(max(1, floats), np.nan, np.float32), SEMAPHORES: semaphores}


def simulate_launch(
    module: Module, names: Sequence[str], arguments: Arrays, grid: tuple[int, ...], order: Any = "eager", seed: int = 0,
    tiles_on: int | None = None, launch: LaunchSpec | None = None, counter: Any = None, **options: Any,
) -> SimulationResult:  # fmt: skip
    """Simulates one launch, with what the launcher adds to it; outputs are written into the arrays.

    names: of the parameters of the kernel's function, in order, without constants. arguments: by name. tiles_on: None
    for as many as an H100 gets. Raises ValueError if the arguments do not satisfy the conditions of the launch.
    """
    launch = launch or LaunchSpec()
    if tiles_on is None and launch.axes:
        tiles_on = launch.programs(grid, SM_90.processors)
    arguments = {**arguments, **_added_descriptors(names, arguments, launch)}
    if launch.grouped is not None:
        arguments[PROGRAMS], grid = launch.grouped.size(grid), launch.grouped.ctas(grid)
    if tiles_on is not None:
        arguments |= {f"{GRID_SIZE}{axis}": size for axis, size in enumerate((*grid, 1, 1)[:3])}
        grid = (tiles_on,)
    if launch.shared is not None:
        arguments |= new_shared(launch.shared, grid)
        grid = launch.shared.programs(grid)
    if launch.counter or counter is not None:
        arguments[TILE_COUNTER] = new_counter() if counter is None else counter
    return simulate_module(module, arguments, grid, order, seed, **options)


Panels = tuple[tuple[str, Timeline], ...]
"""Titles and timelines, for one picture."""


def beside_stock(
    title: str, module: Module, stock: Callable[[], Module] | None, timed: Callable[..., Timeline],
    stocks: bool = False,
) -> tuple[Panels, str]:  # fmt: skip
    """The timelines of stock Triton's program and of another one.

    stocks: whether that is stock Triton's own, of a declined kernel.

    stock: makes stock Triton's program; None to leave it out. timed: times a program, with further options of
    `simulate`. The text says what stock Triton's timeline assumes, or why it is missing; empty if it does not.
    Raises SimulationError for the other program.
    """
    panels: Panels = ()
    note = ""
    if stocks:
        timeline, note = _of_stock(module, timed)
        return ((title, timeline),), note
    try:
        if stock is not None:
            timeline, note = _of_stock(stock(), timed)
            panels = (("stock Triton", timeline),)
    except SimulationError as error:
        note = f"the timeline lacks stock Triton, whose program the simulator cannot run: {error.reason}"
    except TawaError as error:
        note = f"the timeline lacks stock Triton, which does not compile the kernel: {error}"
    return (*panels, (title, timed(module))), note


def _of_stock(program: Module, timed: Callable[..., Timeline]) -> tuple[Timeline, str]:
    """The timeline of stock Triton's program, and what it assumes."""
    try:
        return timed(program), ""
    except MissingFence:
        assumed = "stock Triton's timeline assumes that wgmma sees what cp.async wrote without a fence, as Triton does"
        return timed(program, copies_visible=True), assumed


_APART_BITS = 40
"""No two tensors are in the same 2 ** 40 bytes."""


def _added_descriptors(names: Sequence[str], arguments: Arrays, launch: LaunchSpec) -> Arrays:
    """The descriptors that the launcher makes, from the arguments of the kernel's function."""
    values: list[int] = []
    tensors: list[Any] = []
    for name in names:
        argument = arguments.get(name)
        if isinstance(argument, HostDescriptor):
            tensors.append(argument.array)
            steps = (step // argument.array.itemsize for step in argument.array.strides)
            shape, strides = argument.shape or argument.array.shape, argument.strides or tuple(steps)
            values += [len(tensors) << _APART_BITS, *shape, *strides]
        elif hasattr(argument, "itemsize"):
            tensors.append(argument)
            values.append(len(tensors) << _APART_BITS)
        elif argument is not None:
            values.append(argument if isinstance(argument, int) else 0)
    broken = launch.broken(values)
    if broken is not None:
        raise ValueError(f"the launch does not satisfy {broken}: {broken.reason}")
    found: Arrays = {}
    for number, spec in enumerate(launch.descriptors):
        address, shape, strides = spec.evaluate(values)
        tensor = tensors[(address >> _APART_BITS) - 1].reshape(-1)
        start = (address & ((1 << _APART_BITS) - 1)) // spec.element_bytes
        found[f"tawa_desc_{number}"] = HostDescriptor(tensor[start:], shape, strides)
    return found
