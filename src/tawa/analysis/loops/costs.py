"""Costs: how long an operation occupies its partition or the tensor cores, in cycles of one SM. For the scheduler.

A partition is one instruction stream; an operation occupies it for `stream_cycles`. The partition only issues a dot;
the dot occupies the tensor cores for `tensor_cycles`, and its result is available `LATENCY_CYCLES` later. A scheduler
needs relative costs only: the clock of the simulator (`tawa.sim.time.cost`) has the finer model, with memory and
several partitions. Rates and latencies are those of `tawa.machine`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tawa.dialects import arith, tt
from tawa.dialects.aref import AdvanceOp, PutOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import LOOPS, IfOp, YieldOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import MemDescType, Operation, TensorType, Value, is_scalar, parse_type
from tawa.ir.encodings import aliases_at, fields_of
from tawa.machine import classes
from tawa.machine.distribution import distribution_at, renames
from tawa.machine.machines import SM_90
from tawa.machine.nvidia import (
    BARRIER_CYCLES,
    CONVERSIONS_PER_CYCLE,
    GLOBAL_CYCLES,
    LANES_PER_CYCLE,
    SHARED_BYTES_PER_CYCLE,
    SHARED_LATENCY_CYCLES,
    SHUFFLE_CYCLES,
    SHUFFLES_PER_CYCLE,
    SPECIAL_PER_CYCLE,
    WARP_GROUP,
)
from tawa.machine.work import (
    bytes_of,
    dot_counts,
    elements_of,
    exchanged_registers,
    is_carried_singly,
    repacking_slots,
    work_of,
)

Unit = Literal["tensor cores", "cuda cores", "special functions", "shared memory", "issue"]
UNITS: tuple[Unit, ...] = ("tensor cores", "cuda cores", "special functions", "shared memory", "issue")

INNER_TRIPS = 8
"""The assumed trip count of an inner loop with unknown bounds."""
_ISSUE_CYCLES = 2
_ACCUMULATOR = "#mma"  # how Triton's text names layouts of dots

REPEATS = op_names(tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.MakeRangeOp, arith.ConstantOp)
"""Operations that repeat a value, or number the elements of a tile: their results take no registers."""
RENAMES = op_names(tt.ReshapeOp, tt.TransOp)
"""Operations that give the same registers other names: their results are live in the registers of their operands."""
_SOURCES = op_names(tt.MakeRangeOp, arith.ConstantOp)
_FREE = classes.FREE | op_names(AdvanceOp, YieldOp)
_STOPS = classes.BARRIERS | classes.FENCES | op_names(PutOp)
_LOADS = op_names(tt.LoadOp, tt.DescriptorLoadOp, tt.AtomicRMWOp, tt.AtomicCASOp)
_COPIES = classes.COPIES | tt.ATOMICS | op_names(tt.StoreOp, tt.DescriptorStoreOp)
_ROUND = 5
"""Shuffles in which 32 threads reduce their values."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """stream_cycles: of the partition. tensor_cycles: of the tensor cores. unit: the functional unit that is busy."""

    stream_cycles: int = 0
    tensor_cycles: int = 0
    unit: Unit = "issue"


def is_free(op: Operation) -> bool:
    """Whether an operation compiles to no instruction."""
    return cost_of(op, 1).stream_cycles == 0


def cost_of(op: Operation, num_warps: int) -> OpCost:
    """The cost of one execution of `op` by a partition of `num_warps`, estimated from shapes."""
    if op.name in _FREE:
        return OpCost()
    if WarpGroupDotOp.of(op):
        return OpCost(2, _products(WarpGroupDotOp(op)), "tensor cores")
    if op.name in _STOPS:
        return OpCost(BARRIER_CYCLES)
    if op.name in LOOPS or IfOp.of(op):
        return OpCost(_nested(op, num_warps))
    if op.name in _LOADS and any(result.uses for result in op.results):
        return OpCost(_ISSUE_CYCLES) if _is_for_next_iteration(op) else OpCost(GLOBAL_CYCLES, 0, "shared memory")
    if op.name in _COPIES:
        return OpCost(_through_memory(op), 0, "shared memory")
    if ConvertLayoutOp.matches(op):
        return _convert_layout(op)
    return _arithmetic(op, num_warps)


def registers_of(type: str, num_warps: int) -> int:
    """Registers that a thread needs for a value of this type: its share of a tile, 1 for a scalar, 0 for a memdesc."""
    kind = parse_type(type)
    if isinstance(kind, TensorType):
        spread = 1
        if "slice<" in kind.encoding:
            spread = 4  # the four threads that share a row of an accumulator all hold the value of that row
        return max(1, kind.bytes * spread // (4 * 32 * num_warps))
    return 0 if isinstance(kind, MemDescType) else 1


def registers_at(op: Operation, type: str, num_warps: int) -> int:
    """The same for a value that an operation makes, whose layout is looked up if it is a slice of another one."""
    kind = parse_type(type)
    found = distribution_at(op, type) if isinstance(kind, TensorType) and "slice<" in kind.encoding else None
    if found is None or not isinstance(kind, TensorType):
        return registers_of(type, num_warps)
    return max(1, math.ceil(2 ** len(found.registers) * kind.bytes / math.prod(kind.shape) / 4))


def is_of_numbers(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a value is computed from scalars and ranges alone, so that it is computed again where it is used.

    known: what is known of other values; it is extended.
    """
    if value not in known:
        maker, known[value] = value.defining_op, is_scalar(value.type)
        if maker is not None and not known[value] and not maker.regions and is_pure(maker):
            inputs = all(is_of_numbers(it, known) for it in maker.operands)
            known[value] = inputs and (bool(maker.operands) or maker.name in _SOURCES)
    return known[value]


def carried_registers_of(type: str, num_warps: int) -> int:
    """Registers that a thread needs for a value from one iteration to the next: one for each narrow element."""
    if not is_carried_singly(type):
        return registers_of(type, num_warps)
    return max(1, registers_of(type, num_warps) * 4 * elements_of(type) // bytes_of(type))


def repacking_cycles(type: str, num_warps: int) -> int:
    """Cycles of a partition, in every iteration, to take a value of narrow elements apart and put it together again."""
    return math.ceil(repacking_slots(type) / (LANES_PER_CYCLE * _share(num_warps)))


def stays_in_registers(convert: Operation) -> bool:
    """Whether a layout conversion needs no shared memory: it renames registers, or an accumulator becomes operand A.

    The names of the two mma layouts need not be equal: wgmmas with different numbers of columns have different layouts,
    which distribute the rows in the same way. Warps side by side share the rows of the operand, but not of the result.
    """
    if renames(convert):
        return True
    source, target = parse_type(ConvertLayoutOp(convert).source.type), parse_type(convert.result.type)
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return False
    if not source.encoding.startswith(_ACCUMULATOR) or f"parent = {_ACCUMULATOR}" not in target.encoding:
        return False
    warps = fields_of(aliases_at(convert), source.encoding).get("warpsPerCTA", "[1, 1]")
    return warps.strip("[]").split(", ")[-1] == "1"


def _products(dot: WarpGroupDotOp) -> int:
    """Cycles of the tensor cores."""
    counts = dot_counts(dot.op)
    return counts.cycles(SM_90.costs.fma_per_cycle(counts.element), SHARED_BYTES_PER_CYCLE) if counts is not None else 0


def _is_for_next_iteration(load: Operation) -> bool:
    """Whether no operation of this iteration waits for a load: its result is only yielded."""
    users = [use.op for value in load.results for use in value.uses]
    return bool(users) and all(YieldOp.of(user) and user.parent is load.parent for user in users)


def _nested(op: Operation, num_warps: int) -> int:
    """The cost of a loop for an assumed trip count, or of the longer side of a branch; nested dots are synchronous."""
    sides: list[int] = []
    for region in op.regions:
        for block in region.blocks:
            costs = [cost_of(inner, num_warps) for inner in block.ops]
            sides.append(sum(cost.stream_cycles + cost.tensor_cycles for cost in costs))
    return INNER_TRIPS * sum(sides) if op.name in LOOPS else max(sides, default=0)


def _through_memory(op: Operation) -> int:
    bytes = max((bytes_of(value.type) for value in (*op.operands, *op.results)), default=0)
    return math.ceil(bytes / SHARED_BYTES_PER_CYCLE) + SHARED_LATENCY_CYCLES


def _convert_layout(op: Operation) -> OpCost:
    """A round trip through shared memory, unless the tile stays in registers, which threads may have to exchange."""
    source = ConvertLayoutOp(op).source.type
    if not isinstance(parse_type(source), TensorType) or renames(op):
        return OpCost()
    if not stays_in_registers(op):
        cycles = 2 * (math.ceil(bytes_of(source) / SHARED_BYTES_PER_CYCLE) + SHARED_LATENCY_CYCLES)
        return OpCost(cycles, 0, "shared memory")
    cycles = exchange_cycles(source)
    return OpCost(cycles, 0, "cuda cores") if cycles else OpCost()


def exchange_cycles(type: str) -> int:
    """Cycles in which threads exchange registers where an accumulator of this type becomes operand A of a wgmma."""
    count = exchanged_registers(type)
    return math.ceil(count / SHUFFLES_PER_CYCLE + 2 * count / CONVERSIONS_PER_CYCLE)


def _arithmetic(op: Operation, num_warps: int) -> OpCost:
    """Elementwise work; a scalar operation costs its issue. A reduction executes its combiner, then shuffles."""
    if max((elements_of(value.type) for value in (*op.operands, *op.results)), default=1) == 1:
        return OpCost(2)
    work, share = work_of(op), _share(num_warps)
    special = math.ceil(work.special / (SPECIAL_PER_CYCLE * share))
    lanes = work.slots + work.integers + (work.conversions + work.narrow) * LANES_PER_CYCLE / CONVERSIONS_PER_CYCLE
    shuffles = math.ceil(work.shuffles * _ROUND * SHUFFLE_CYCLES)
    if special:
        return OpCost(special + shuffles, 0, "special functions")
    return OpCost(math.ceil(lanes / (LANES_PER_CYCLE * share)) + shuffles, 0, "cuda cores")


def _share(num_warps: int) -> float:
    """The part of an SM's lanes that a partition can use."""
    return min(num_warps, WARP_GROUP) / WARP_GROUP
