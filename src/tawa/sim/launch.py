"""Launching a kernel: arguments by name, a grid of CTAs one after the other, and what is left of the run."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Module, Operation, PointerType, TensorDescType, Value, parse_type
from tawa.machine.hopper import H100, CostModel
from tawa.remarks import SourceLocation
from tawa.sim.errors import ArgumentError
from tawa.sim.interpreter import run_region
from tawa.sim.machine.addresses import Addresses, AddressSpace
from tawa.sim.machine.cta import Cta, Event, Order
from tawa.sim.machine.trace import Trace
from tawa.sim.machine.values import Pointer, TensorDescriptor
from tawa.sim.numbers import Array, is_float, round_to, wrap
from tawa.sim.ops.global_memory import block_shape
from tawa.sim.time.clock import time_trace
from tawa.sim.time.timeline import Timeline

_SIGN = re.compile(r"^[su]i(?=\d)")


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """A host tensor descriptor: the array it describes; its box is in the kernel's type.

    shape, strides: in elements; None takes the array's. dtype: checked against the kernel's element type where given.
    padding: what the kernel reads outside the tensor.
    """

    array: Array
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dtype: str | None = None
    padding: Literal["zero", "nan"] = "zero"


Argument = Array | Descriptor | Addresses | int | float


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What is known after a run; the outputs are in the arrays that were given.

    events: everything that partitions did, in order; `events_of` gives them by partition.
    programs: how many CTAs ran. traces: one a CTA where timing was asked for; see `timeline`.
    """

    order: Order
    seed: int
    events: tuple[Event, ...]
    programs: int = field(default=1)
    traces: tuple[Trace, ...] = ()

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that did something, in the order of their first event."""
        return tuple(dict.fromkeys(event.partition for event in self.events))

    def timeline(self, program: tuple[int, int, int] | None = None, model: CostModel = H100) -> Timeline:
        """Times of one CTA, by default the first that ran. Raises ValueError where its trace was not taken."""
        for trace in self.traces:
            if program is None or trace.program == program:
                return time_trace(trace, model)
        which = f"program {program} did not run" if self.traces else "the run was not asked for it"
        raise ValueError(f"no timing: {which}; give simulate(..., timing=True)")

    def events_of(self, partition: str, program: tuple[int, int, int] | None = None) -> tuple[Event, ...]:
        """The events of one partition, of one CTA or of all."""
        return tuple(
            event
            for event in self.events
            if event.partition == partition and (program is None or event.program == program)
        )


def simulate(
    module: Module,
    arguments: Mapping[str, Argument],
    grid: Sequence[int],
    order: Order = "eager",
    seed: int = 0,
    *,
    programs: Sequence[tuple[int, int, int]] | None = None,
    timing: bool = False,
) -> SimulationResult:
    """Runs the kernel of `module` (ttgir, aref or barrier level) on a grid; outputs are written into the arrays.

    arguments: by the names of the kernel's parameters. Tensors are C-contiguous arrays whose elements have the width of
    the kernel's: fp16 float16 (or uint16 bits), fp32 float32, bf16 uint16 bits, fp8 uint8 bits, integers their own
    type; `tawa.sim.from_floats` and `to_floats` convert. A host descriptor is a `Descriptor`, a table of the addresses
    of other arrays is `Addresses`.
    grid: one to three numbers of CTAs. order: when asynchronous work lands (see `machine`); seed: of random.
    programs: which CTAs run; None runs all of the grid. timing: keeps what `SimulationResult.timeline` needs.

    Raises SimulationError (`tawa.sim.errors`): ArgumentError, UnsupportedOp, Deadlock, or a trap.
    """
    if order not in ("eager", "late", "random"):
        raise ArgumentError(f"the order {order!r}: it is eager, late or random")
    if not 1 <= len(grid) <= 3 or any(size < 0 for size in grid):
        raise ArgumentError(f"the grid {tuple(grid)}: it has one to three sizes")
    function = _kernel(module)
    whole = (*grid, *(1,) * (3 - len(grid)))
    memory = AddressSpace()
    values = _bind(module, function.body.args, arguments, memory)
    events: list[Event] = []
    places: dict[Operation, SourceLocation | None] = {}
    ends: dict[Block, dict[Operation, list[Operation]]] = {}
    lot = random.Random(seed)
    everything = [(x, y, z) for z in range(whole[2]) for y in range(whole[1]) for x in range(whole[0])]
    for program in programs or ():
        if program not in everything:
            raise ArgumentError(f"program {program} is outside the grid {tuple(grid)}")
    traces: list[Trace] = []
    for program in everything if programs is None else programs:
        cta = Cta(module, program, (whole[0], whole[1], whole[2]), order, lot, events, places, ends, memory, timing)
        main = cta.spawn("main", {})
        main.code = run_region(main, function.op.regions[0], values)
        cta.run()
        if timing:
            traces.append(cta.trace())
    count = len(everything if programs is None else programs)
    return SimulationResult(order, seed, tuple(events), count, tuple(traces))


def _kernel(module: Module) -> FuncOp:
    functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
    public = [view for view in functions if "private" not in view.op.properties.get("sym_visibility", "")]
    if len(public) != 1:
        raise ArgumentError(f"the module has {len(public)} public functions, not one kernel")
    return public[0]


def _bind(module: Module, args: list[Value], arguments: Mapping[str, Argument], memory: AddressSpace) -> list[Any]:
    """One value a block argument. A descriptor is followed by its shape and its strides."""
    values: list[Any] = []
    for arg in args:
        name = parameter_name(module, arg)
        if len(values) > arg.index:
            continue
        if name not in arguments:
            raise ArgumentError(f"no argument {name!r} ({arg.type}); given: {', '.join(sorted(arguments))}")
        value, kind = arguments[name], parse_type(arg.type)
        if isinstance(kind, TensorDescType):
            descriptor = _descriptor(name, value, arg.type, _SIGN.sub("i", kind.block.element), memory)
            values.append(descriptor)
            # Triton 3.6 names them as the descriptor, 3.9 `name.shape.0`, `name.stride.0`.
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
            raise ArgumentError(f"{name} is a number ({arg.type}), not {type(value).__name__}")
    return values


def _descriptor(name: str, value: Argument, type: str, element: str, memory: AddressSpace) -> TensorDescriptor:
    given = value if isinstance(value, Descriptor) else Descriptor(value) if isinstance(value, np.ndarray) else None
    if given is None:
        raise ArgumentError(f"{name} is a tensor descriptor: give a Descriptor")
    if given.dtype is not None and given.dtype != element:
        raise ArgumentError(f"{name} is described as {given.dtype}, the kernel's elements are {element}")
    tensor = memory.tensor(name, given.array, element)
    shape = given.shape or given.array.shape
    strides = given.strides or tuple(stride // given.array.itemsize for stride in given.array.strides)
    block = block_shape(type)
    if not len(shape) == len(strides) == len(block):
        raise ArgumentError(f"{name} has {len(shape)} dimensions, its box {block} has {len(block)}")
    nan = given.padding == "nan"
    if (nan and element not in ("f16", "bf16", "f32", "f64")) or given.padding not in ("zero", "nan"):
        raise ArgumentError(f"{name} pads {element} with {given.padding!r}: zero, or nan for f16, bf16, f32 and f64")
    return TensorDescriptor(Pointer(tensor, 0), tuple(shape), tuple(strides), block, nan)
