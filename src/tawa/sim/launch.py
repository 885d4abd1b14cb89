"""Kernel launch: binds arguments by name, runs the CTAs of the grid, and returns the result.

CTAs run one after the other, or are interleaved in seeded random order. The second shows what depends on the order in
which programs change memory, such as a counter from which they take their tiles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tawa.dialects.control_flow import public_functions
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Module, Operation, PointerType, TensorDescType, Value, parse_type
from tawa.machine.hopper import H100, CostModel
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.remarks import SourceLocation
from tawa.sim.errors import ArgumentError, MisalignedDescriptor
from tawa.sim.interpreter import run_region
from tawa.sim.machine.addresses import Addresses, AddressSpace
from tawa.sim.machine.cta import Cta, Event, Order
from tawa.sim.machine.trace import Trace
from tawa.sim.machine.values import Pointer, TensorDescriptor
from tawa.sim.numbers import Array, is_float, round_to, wrap
from tawa.sim.ops.global_memory import block_shape
from tawa.sim.time.clock import time_trace
from tawa.sim.time.cost import model_of
from tawa.sim.time.timeline import Timeline


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """A host tensor descriptor of an array. The shape of its box is in the kernel's parameter type.

    shape, strides: in elements; None means those of the array. dtype: if given, it must be the kernel's element type.
    padding: the value of elements outside the tensor.
    """

    array: Array
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dtype: str | None = None
    padding: Literal["zero", "nan"] = "zero"


Argument = Array | Descriptor | Addresses | int | float


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The record of a run. Outputs are written into the argument arrays.

    events: the protocol steps of all partitions, in execution order.
    programs: the number of CTAs that ran. traces: one per CTA if `timing` was set; see `timeline`. model: the cost
    model of the GPU that the module is compiled for.
    """

    order: Order
    seed: int
    events: tuple[Event, ...]
    programs: int = field(default=1)
    traces: tuple[Trace, ...] = ()
    model: CostModel = H100

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that have events, in the order of their first event."""
        return tuple(dict.fromkeys(event.partition for event in self.events))

    def timeline(self, program: tuple[int, int, int] | None = None, model: CostModel | None = None) -> Timeline:
        """The timeline of one CTA, by default the first that ran. Raises ValueError if the CTA has no trace.

        model: None is the one of the module's target.
        """
        for trace in self.traces:
            if program is None or trace.program == program:
                return time_trace(trace, self.model if model is None else model)
        which = f"program {program} did not run" if self.traces else "the run recorded no trace"
        raise ValueError(f"no timing: {which}; pass timing=True to simulate")


def simulate(
    module: Module,
    arguments: Mapping[str, Argument],
    grid: Sequence[int],
    order: Order = "eager",
    seed: int = 0,
    *,
    programs: Sequence[tuple[int, int, int]] | None = None,
    timing: bool = False,
    together: bool = False,
    copies_visible: bool = False,
    told: Callable[[int], None] | None = None,
) -> SimulationResult:
    """Runs the kernel of `module` (ttgir, aref or barrier level) on a grid; outputs are written into the arrays.

    arguments: by the names of the kernel's parameters. Tensors are C-contiguous arrays with elements of the kernel's
    width: float16 (or uint16 bits) for fp16, float32 for fp32, uint16 bits for bf16, uint8 bits for fp8, and integers
    of their own type; `tawa.sim.from_floats` and `to_floats` convert. A `Descriptor` is a host tensor descriptor;
    `Addresses` is a table of addresses into other arrays.
    grid: the number of CTAs in one to three dimensions. order: when asynchronous work lands (see `machine.cta`).
    seed: of the order `random` and of `together`. programs: the CTAs to run; None runs the whole grid. timing: records
    the traces that `SimulationResult.timeline` needs. together: CTAs are interleaved instead of running one after the
    other. copies_visible: what cp.async wrote is visible to wgmma without a fence, which PTX does not promise and stock
    Triton relies on. told: of each CTA that has run, how many have.

    Raises SimulationError (`tawa.sim.errors`): ArgumentError, UnsupportedOp, Deadlock, or a trap.
    """
    if order not in ("eager", "late", "random"):
        raise ArgumentError(f"unknown order {order!r}: use eager, late or random")
    if not 1 <= len(grid) <= 3 or any(size < 0 for size in grid):
        raise ArgumentError(f"invalid grid {tuple(grid)}: give one to three non-negative sizes")
    function = _kernel(module)
    x_size, y_size, z_size = (*grid, 1, 1)[:3]
    full_grid = (x_size, y_size, z_size)
    memory = AddressSpace()
    values = _bind(module, function.body.args, arguments, memory)
    events: list[Event] = []
    places: dict[Operation, SourceLocation | None] = {}
    ends: dict[Block, dict[Operation, list[Operation]]] = {}
    rng = random.Random(seed)
    all_programs = [(x, y, z) for z in range(z_size) for y in range(y_size) for x in range(x_size)]
    for program in programs or ():
        if program not in all_programs:
            raise ArgumentError(f"program {program} is outside the grid {tuple(grid)}")
    traces: list[Trace] = []

    def started(program: tuple[int, int, int]) -> Cta:
        cta = Cta(module, program, full_grid, order, rng, events, places, ends, memory, timing)
        cta.copies_visible = copies_visible
        main = cta.spawn("main", {})
        main.code = run_region(main, function.op.regions[0], values)
        return cta

    chosen = all_programs if programs is None else programs
    if together:
        ctas = [started(program) for program in chosen]
        _interleaved(ctas, random.Random(seed))
        traces += [cta.trace() for cta in ctas] if timing else []
    for number, program in enumerate(() if together else chosen, 1):
        cta = started(program)
        cta.run()
        traces += [cta.trace()] if timing else []
        if told is not None:
            told(number)
    return SimulationResult(order, seed, tuple(events), len(chosen), tuple(traces), model_of(module))


def _interleaved(ctas: list[Cta], rng: random.Random) -> None:
    """Runs CTAs to their end, each round in a random one."""
    left = [cta.rounds() for cta in ctas]
    while left:
        rounds = rng.choice(left)
        if next(rounds, left) is left:
            left.remove(rounds)


def _kernel(module: Module) -> FuncOp:
    public = public_functions(module)
    if len(public) != 1:
        raise ArgumentError(f"the module has {len(public)} public functions; expected one kernel")
    return public[0]


def _bind(module: Module, args: list[Value], arguments: Mapping[str, Argument], memory: AddressSpace) -> list[Any]:
    """One value per block argument. The shape and strides of a descriptor are arguments of their own that follow it."""
    values: list[Any] = []
    for arg in args:
        name = parameter_name(module, arg)
        if len(values) > arg.index:
            continue
        if name not in arguments:
            raise ArgumentError(f"no argument {name!r} ({arg.type}); given: {', '.join(sorted(arguments))}")
        value, kind = arguments[name], parse_type(arg.type)
        if isinstance(kind, TensorDescType):
            descriptor = _descriptor(name, value, arg.type, kind.block.element, memory)
            values.append(descriptor)
            # Triton up to 3.7 gives them the name of the descriptor; later `name.shape.0`, `name.stride.0`.
            follow = [parameter_name(module, it).split(".")[0] == name for it in args[arg.index + 1 :]]
            if follow[: 2 * len(descriptor.shape)].count(True) == 2 * len(descriptor.shape):
                values += [*descriptor.shape, *descriptor.strides]
        elif isinstance(kind, PointerType):
            if isinstance(value, Addresses) and kind.pointee == "i64":
                values.append(Pointer(memory.table(name, value), 0))
            elif isinstance(value, np.ndarray):
                values.append(Pointer(memory.tensor(name, value, kind.pointee), 0))
            else:
                raise ArgumentError(f"{name} is a pointer: it takes an array, not {type(value).__name__}")
        elif isinstance(value, int | float | np.integer | np.floating):
            values.append(round_to(float(value), arg.type) if is_float(arg.type) else wrap(int(value), arg.type))
        else:
            raise ArgumentError(f"{name} is a number ({arg.type}): it takes no {type(value).__name__}")
    return values


def _descriptor(name: str, value: Argument, type: str, element: str, memory: AddressSpace) -> TensorDescriptor:
    given = value if isinstance(value, Descriptor) else Descriptor(value) if isinstance(value, np.ndarray) else None
    if given is None:
        raise ArgumentError(f"{name} is a tensor descriptor: pass a Descriptor or an array")
    if given.dtype is not None and given.dtype != element:
        raise ArgumentError(f"{name} is described as {given.dtype}, but the kernel's elements are {element}")
    tensor = memory.tensor(name, given.array, element)
    shape = given.shape or given.array.shape
    strides = given.strides or tuple(stride // given.array.itemsize for stride in given.array.strides)
    block = block_shape(type)
    if not len(shape) == len(strides) == len(block):
        raise ArgumentError(f"{name} has {len(shape)} dimensions, but its box {block} has {len(block)}")
    nan = given.padding == "nan"
    if (nan and element not in ("f16", "bf16", "f32", "f64")) or given.padding not in ("zero", "nan"):
        raise ArgumentError(f"{name} pads {element} with {given.padding!r}: use zero, or nan for f16, bf16, f32, f64")
    start = _bytes_into_memory(given.array)
    if start % TMA_CHUNK_BYTES:
        raise MisalignedDescriptor(f"the descriptor {name} begins {start} bytes behind the start of its memory")
    return TensorDescriptor(Pointer(tensor, 0), tuple(shape), tuple(strides), block, nan)


def _bytes_into_memory(array: Array) -> int:
    """Where an array begins in the memory that it is a view of, which begins as an allocation of CUDA does."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return array.ctypes.data - whole.ctypes.data
