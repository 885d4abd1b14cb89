"""The stand-in for a GPU: Plans are compiled as ever, and timed by the simulator's clock.

It shows how tuning works on a machine without a GPU, and serves tests. Its times are those of a simple model of one CTA
(`tawa.sim.time.cost`): the first and the last program run, and their mean counts once for each wave. Entries get a GPU
name of their own, which no launch looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.launch.added_arguments import compiled_by_plan, compiled_by_stock, known_without, launch_spec
from tawa.bridge.launch.instead import plan_instead
from tawa.dialects.parameters import GRID_SIZE, PROGRAMS, TILE_COUNTER
from tawa.machine.machines import SM_90
from tawa.plan import Plan
from tawa.runtime.tuning.jobs import (
    Argument,
    DescriptorArgument,
    Job,
    TensorArgument,
    TupleArgument,
    ValueArgument,
    flat,
)
from tawa.runtime.tuning.table import one_line
from tawa.sim import Timeline

GPU = "simulated H100"
_APART = 1 << 40
"""Between the addresses of two storages."""


class SimulatedLaunch:
    """A launch that takes no time, and knows how long it would take."""

    def __init__(self, ms: float) -> None:
        self.ms = ms

    def __call__(self) -> None:
        """Does nothing."""


def simulated_ms(launch: Callable[[], None], count: int) -> float:
    """The timer for such launches."""
    assert isinstance(launch, SimulatedLaunch)
    return launch.ms * count


def prepare_simulated(kernel: Any, job: Job) -> Callable[[Plan], SimulatedLaunch | str]:
    """As the launcher's `prepare`: compiles the kernel by a Plan, and simulates a program of it."""

    def prepare(plan: Plan) -> SimulatedLaunch | str:
        from tawa.sim import SimulationError

        try:
            stock = plan.form == "stock"
            made = compiled_by_stock(kernel, attached) if stock else compiled_by_plan(kernel, plan, attached)
            return SimulatedLaunch(simulated_us(made, job) / 1000)
        except SimulationError as error:
            return one_line(f"the simulator cannot run it: {error}")
        except Exception as error:
            return one_line(f"{type(error).__name__}: {error}")

    return prepare


def simulated_us(compiled: Any, job: Job) -> float:
    """Microseconds of a launch, by the simulator's clock."""
    from tawa.runtime.simulation import new_counter, simulate

    spec, arguments = launch_spec(compiled), _Arrays(job)
    values, given = arguments.values, dict(arguments.given)
    instead = plan_instead(spec, known_without(compiled), values)
    if instead is not None:
        return simulated_us(compiled_by_plan(compiled, instead, attached), job)
    refused = spec.broken(values)
    if refused is not None:
        raise ValueError(f"the arguments do not fit: {refused.reason}")
    for number, it in enumerate(spec.descriptors):
        given[f"tawa_desc_{number}"] = arguments.descriptor(*it.evaluate(values), it.element_bytes)
    grid = job.grid
    if spec.grouped is not None:
        given[PROGRAMS], grid = spec.grouped.size(grid), spec.grouped.ctas(grid)
    waves = -(-prod(grid) // SM_90.processors)
    if spec.axes:
        given |= {f"{GRID_SIZE}{axis}": size for axis, size in enumerate(grid)}
        grid, waves = (spec.programs(grid, SM_90.processors), 1, 1), spec.on_one
    if spec.counter:
        given[TILE_COUNTER] = new_counter()
    ends = sorted({(0, 0, 0), (grid[0] - 1, grid[1] - 1, grid[2] - 1)})
    found = simulate(compiled, given, grid, programs=ends, timing=True)
    return waves * sum(map(_us, map(found.timeline, ends))) / len(ends)


def _us(timeline: Timeline) -> float:
    return timeline.cycles / (timeline.clock_ghz * 1000)


class _Arrays:
    """The arguments of a job for the simulator. values: of the kernel's function, addresses for pointers."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.memory = [self._storage(number) for number in range(len(job.storages))]
        self.given: dict[str, Any] = {}
        self.values: list[Any] = []
        for (name, kind), argument in zip(job.signature.items(), job.arguments, strict=True):
            self._add(name, kind, argument)

    def _storage(self, number: int) -> Any:
        import numpy as np

        about = self.job.storages[number]
        return self.job.contents[number] if about.contents else np.zeros(about.bytes, np.uint8)

    def _add(self, name: str, kind: Any, argument: Argument) -> None:
        from tawa.sim import Descriptor

        match argument:
            case TensorArgument(storage, dtype, _, _, offset):
                self.given[name] = self._flat(argument)
                self.values.append(_APART * (1 + storage) + offset * _width(dtype))
            case DescriptorArgument(base, shape, strides, _, padding):
                filled = "nan" if padding == "nan" else "zero"
                self.given[name] = Descriptor(self._flat(base), shape, strides, padding=filled)
                address = _APART * (1 + base.storage) + base.offset * _width(base.dtype)
                self.values += [address * (filled == "zero"), *shape, *strides]
            case TupleArgument(items):
                for at, (inner, it) in enumerate(zip(kind, items, strict=True)):
                    self._add(f"{name}.{at}", inner, it)
            case ValueArgument(value):
                if kind != "constexpr":
                    self.given[name] = value
                    self.values.append(value)

    def _flat(self, about: TensorArgument) -> Any:
        """The memory from the tensor's first element to the end of its storage."""
        width = _width(about.dtype)
        return self.memory[about.storage][about.offset * width :].view(_numpy(about.dtype))

    def descriptor(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> Any:
        """A descriptor that the launcher makes."""
        from tawa.sim import Descriptor

        storage, place = divmod(address, _APART)
        dtype = next(it.dtype for it in _tensors(self.job.arguments) if it.storage == storage - 1)
        rest = self.memory[storage - 1][place:]
        return Descriptor(rest[: len(rest) // width * width].view(_numpy(dtype)), shape, strides)


def _tensors(arguments: tuple[Argument, ...]) -> list[TensorArgument]:
    found = [it.base if isinstance(it, DescriptorArgument) else it for it in flat(arguments)]
    return [it for it in found if isinstance(it, TensorArgument)]


_BITS: Mapping[str, str] = {
    "float16": "float16", "bfloat16": "uint16", "float32": "float32", "float64": "float64",
    "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "bool": "bool",
}  # fmt: skip


def _numpy(dtype: str) -> str:
    """The type of NumPy that the simulator takes for elements of a type of PyTorch."""
    return _BITS.get(dtype, dtype)


def _width(dtype: str) -> int:
    import numpy as np

    return np.dtype(_numpy(dtype)).itemsize
