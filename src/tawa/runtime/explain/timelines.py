"""Timelines for an explanation: one program of the kernel and of stock Triton's, by the simulator's cost model.

A program of a persistent form works on several tiles. Beside it stand the programs of stock Triton's kernel that work
on as many tiles, one after the other, as one SM runs them.

What is not known of the launch is guessed as the model of time guesses it (`usual_launches`): every number is the same,
and every tensor is as large in each dimension. In the guess an iteration of a loop costs what it costs in any launch;
only the number of iterations is arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.launch.added_arguments import compiled_by_stock, launch_spec
from tawa.bridge.report.record import KEY
from tawa.bridge.triton.read_module import kernel_of, read_final, read_levels
from tawa.dialects.parameters import parameter_name
from tawa.ir import Module, PointerType, TensorDescType, parse_type
from tawa.machine.machines import SM_90
from tawa.plan.defaults import USUAL_SIZES, USUAL_WAVES
from tawa.runtime.simulation import Descriptor, Panels, Timeline, beside_stock, new_counter, simulate_launch
from tawa.sim import SimulationError
from tawa.sim.time.timeline import one_after_the_other
from tawa.symbolic.host.launch_spec import LaunchSpec

USUAL_SIZE = USUAL_SIZES[0]
"""A number, and a dimension of a tensor, that is not known."""
USUAL_GRID = (USUAL_WAVES * SM_90.processors,)
_ONES = 2
"""Elements of a dimension along which the box of a descriptor has one."""
_MOST_SIZE = 8192
_MOST_TILES = 4
"""Tiles of a persistent program that are simulated."""
_FIRST = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """The launch to simulate. numbers: by name. make: fresh arrays and descriptors by name, of those that are known.

    grid: of its programs; None if unknown. stock: compiles stock Triton's kernel; None for `compiled_by_stock`.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    make: Callable[[Module], dict[str, Any]] = lambda module: {}
    grid: Sequence[int] | None = None
    stock: Callable[[], Any] | None = None

    @property
    def size(self) -> int:
        """What is guessed where a number, or a dimension of a tensor, is not known."""
        whole = [it for it in self.numbers.values() if isinstance(it, int)]
        return min(_MOST_SIZE, max([USUAL_SIZE, *whole]))

    def arguments(self, module: Module, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The arguments of a program by name, and the names of those that are guessed. names: of the kernel's own."""
        known = {**self.numbers, **self.make(module)}
        guessed: dict[str, Any] = {}
        for arg in kernel_of(module).body.args:
            name = parameter_name(module, arg)
            if name in names and name not in known and name not in guessed:
                guessed[name] = _guess(arg.type, self.size)
        return {**guessed, **known}, list(guessed)


def timelines_of(compiled: Any, launch: SimulatedLaunch, module: Module | None = None) -> tuple[Panels, str]:
    """The timelines of stock Triton's kernel and of a compiled one, and a note on guessed and missing facts.

    compiled: Triton's `CompiledKernel`. module: its program, if it is known; a kernel in Gluon has no other one.
    """
    applied = bool((getattr(compiled.metadata, KEY, None) or {}).get("applied"))
    names, spec = argument_names(compiled), launch_spec(compiled)
    grid = tuple(launch.grid or USUAL_GRID)
    grid = _smaller(grid) if spec.axes else grid
    share = share_of_a_program(grid, spec)
    own = module or (read_levels(compiled)[1] if applied else read_final(compiled))
    guessed: list[str] = []

    def stock() -> Module:
        return read_final(launch.stock() if launch.stock is not None else compiled_by_stock(compiled, attached))

    def timed(program: Module, **options: Any) -> Timeline:
        arguments, guessed[:] = launch.arguments(program, names)
        if program is own and applied:
            return timeline_of_ours(own, names, arguments, grid, spec)
        found = simulate_launch(program, names, arguments, grid, programs=share, timing=True, **options)
        return one_after_the_other([found.timeline(it) for it in share])

    stocks = not applied and module is None  # it is stock Triton's program
    title = "Tawa" if applied else "stock Triton" if stocks else "the kernel"
    try:
        panels, missing = beside_stock(title, own, stock if applied else None, timed, stocks)
    except (SimulationError, ValueError) as error:
        reason = error.reason if isinstance(error, SimulationError) else str(error)
        about = _about(guessed, launch, grid)
        return (), f"no timeline: the simulator cannot run the program{f' ({about})' * bool(about)}: {reason}"
    if len(share) > 1:
        whose = {"stock Triton": f"{len(share)} programs in a row", "Tawa": f"persistent, {len(share)} tiles"}
        panels = tuple((f"{name}, {whose[name]}", timeline) for name, timeline in panels)
    return panels, "; ".join(filter(None, [_about(guessed, launch, grid), missing]))


def argument_names(compiled: Any) -> list[str]:
    """The parameters of a `CompiledKernel` for which a launch passes an argument, in order: constants are left out."""
    return [name for name, kind in compiled.src.signature.items() if kind != "constexpr"]


def timeline_of_ours(
    own: Module, names: Sequence[str], arguments: dict[str, Any], grid: tuple[int, ...], spec: LaunchSpec
) -> Timeline:
    """The timeline of the first program of a specialised kernel.

    Alone, the program would take all tiles from a counter; so the counter begins where its share is left.
    """
    counter = new_counter() if spec.counter else None
    if counter is not None:
        share = len(share_of_a_program(grid, spec))
        counter[0] = max(0, prod(grid) - spec.programs(grid, SM_90.processors) - (share - 1))
    return simulate_launch(
        own, names, arguments, grid, programs=[_FIRST], timing=True, launch=spec, counter=counter
    ).timeline()


def _smaller(grid: tuple[int, ...]) -> tuple[int, ...]:
    """A grid of which an SM gets few tiles, cut along its first axes."""
    most, found = _MOST_TILES * SM_90.processors, list(grid)
    for axis, size in enumerate(grid):
        others = prod(found) // size
        found[axis] = min(size, max(1, most // others))
    return tuple(found)


def share_of_a_program(grid: Sequence[int], spec: LaunchSpec) -> list[tuple[int, int, int]]:
    """The programs that do what the first one of a specialised kernel does: several if that is persistent."""
    if not spec.axes:
        return [_FIRST]
    x, y, _ = (*grid, 1, 1)[:3]
    numbers = range(0, prod(grid), spec.programs(grid, SM_90.processors))
    return [(it % x, it // x % y, it // (x * y)) for it in numbers]


def _about(guessed: Sequence[str], launch: SimulatedLaunch, grid: Sequence[int]) -> str:
    """What was guessed, in words. grid: the one that was simulated."""
    whole = prod(launch.grid or USUAL_GRID)
    facts = [f"{launch.size} for each size and number that is not given ({', '.join(guessed)})"] if guessed else []
    facts += [] if launch.grid is not None else [f"{whole} programs"]
    told = [f"guessed: {', '.join(facts)}"] if facts else []
    if prod(grid) != whole:
        told.append(f"the timeline is that of a grid of {prod(grid)} programs, not {whole}")
    return "; ".join(told)


def _guess(kind: str, size: int) -> Any:
    """An argument of a type."""
    import numpy as np

    parsed = parse_type(kind)
    if isinstance(parsed, TensorDescType):
        shape = tuple(_ONES if box == 1 else max(box, size) for box in parsed.block.shape)
        return Descriptor(np.zeros(shape, _numpy(parsed.block.element)))
    if isinstance(parsed, PointerType):
        return np.zeros(size * size, _numpy(parsed.pointee))
    return size if kind.startswith("i") and kind != "i1" else 1


def _numpy(element: str) -> str:
    """The type of NumPy that the simulator takes for elements of a type."""
    import numpy as np

    from tawa.sim import from_floats

    if element.startswith(("i", "ui")):
        return f"int{max(8, int(element.lstrip('ui')))}"
    return str(from_floats(np.zeros(1), element).dtype)
