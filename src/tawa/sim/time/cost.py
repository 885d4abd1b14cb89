"""The cost model: cycles of an operation on an SM. A simple model that shows where time goes.

Four units work in parallel: the tensor cores, the CUDA cores, the SM's memory port (shared by TMA, cp.async, loads and
stores) and the instruction streams of the warps. An operation keeps its unit busy for ``work / rate``; its result is
available ``latency`` later. Not modelled: the clock reduction under load, bank conflicts, other CTAs on the same SM,
instruction scheduling within a warp. The rates and latencies are those of `tawa.machine.hopper.CostModel`: of an H100
or H200 (SXM), or of a B200, by the module's target.

Accuracy, on Hopper (nothing was measured on a B200): for the latency-bound 8-warp GEMMs of
``bench/results/ablation.json`` the model is within 12% (two parameters are fitted to two of these GEMMs, and 1.83 GHz
is the clock of the data sheet, not a measured one). For GEMMs that keep the tensor cores busy it is 3% to 38% too fast;
the shares of the chip's power limit and of effects missing in the model were not separated. Compare the shapes of
timelines and the causes of waits, not TFLOP/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tawa.dialects import tcgen05, tt, ttg
from tawa.dialects.aref import PutOp
from tawa.dialects.scf import LOOPS, YieldOp
from tawa.dialects.warp import GroupOp
from tawa.ir import MemDescType, Module, Operation, TensorType, Value, is_scalar, parse_type
from tawa.machine import classes
from tawa.machine.blackwell import B200
from tawa.machine.distribution import renames
from tawa.machine.hopper import H100, CostModel
from tawa.machine.machines import TCGEN05
from tawa.machine.nvidia import (
    CONVERSIONS_PER_CYCLE,
    LANES_PER_CYCLE,
    SHUFFLES_PER_CYCLE,
    SPECIAL_PER_CYCLE,
    WARP_GROUP,
)
from tawa.machine.work import bytes_of, dot_counts, elements_of, exchanged_registers, repacking_slots, work_of

Unit = Literal["tensor cores", "memory", "cuda cores"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one operation.

    issue_cycles: time of the partition's own instruction stream. unit, busy_cycles: the unit and how long it is busy.
    latency_cycles: from the end of the unit's work to the result. The partition waits for the result unless the
    operation is asynchronous (`Step.action`).
    """

    issue_cycles: int = 0
    unit: Unit | None = None
    busy_cycles: int = 0
    latency_cycles: int = 0


NOTHING = Cost()
_DELIVERED_LATER = frozenset(name for name in classes.LOADS | classes.STORES if name.startswith("tt."))
_SPECIAL = LANES_PER_CYCLE // SPECIAL_PER_CYCLE
_CONVERSION = _INTEGER = LANES_PER_CYCLE // CONVERSIONS_PER_CYCLE
"""fp32 lane slots of a special function, a conversion, and an integer operation [G]."""


def model_of(module: Module) -> CostModel:
    """The model of the GPU that a module is compiled for (``ttg.target``)."""
    return B200 if ttg.target_of(module.op).startswith(_BLACKWELL) else H100


_BLACKWELL = "cuda:10"
"""The targets with tensor memory: compute capabilities 10.0 to 10.3."""


def delivered_later(op: Operation) -> bool:
    """Whether the warps continue after `op` until a result is used; operations of ``ttg`` and ``ttng`` have waits.

    Triton hands the result of a scalar atomic to all threads through shared memory at once, and so waits for it.
    """
    if op.name in tt.ATOMICS and op.result.uses and is_scalar(op.result.type):
        return False
    return op.name in _DELIVERED_LATER


def cycles(op: Operation, model: CostModel = H100) -> Cost:
    """The cost of one execution of `op`, from the shapes of its types."""
    name = op.name
    if name in classes.FREE:
        return NOTHING
    if name == PutOp.NAME:
        return _put(op, model)
    if name in classes.BARRIERS:
        return Cost(model.barrier_cycles)
    if name in classes.FENCES:
        return Cost(model.fence_cycles)
    if name in classes.FORKS:
        return Cost(model.fork_cycles)
    if name in classes.DOTS:
        return _dot(op, model)
    if name in tcgen05.DOTS:
        return _mma(op, model)
    if name == tcgen05.TMEMCopyOp.NAME:
        busy = _up(bytes_of(op.operands[0].type), model.shared_bytes_per_cycle)
        return Cost(model.scalar_cycles, "tensor cores", busy, model.wgmma_latency_cycles)
    if name in classes.TENSOR_COPIES:
        return _tensor_copy(op, model)
    if name in classes.LOADS or name in classes.STORES:
        return _transfer(op, model)
    if name in classes.COPIES:
        return _shared(op, model)
    if name == ttg.ConvertLayoutOp.NAME:
        return _convert_layout(op, model)
    if name == YieldOp.NAME:
        return _yield(op, model)
    return _arithmetic(op, model)


def _up(work: float, rate: float) -> int:
    return math.ceil(work / rate)


def _put(op: Operation, model: CostModel) -> Cost:
    """The loads of a put as one transfer; a put without payload costs an arrival, one of a number a store as well."""
    payload = op.regions[0].block.terminator.operands
    if not payload:
        return Cost(model.barrier_cycles)
    if all(_is_number(value) for value in payload):
        return Cost(model.barrier_cycles + len(payload) * model.shared_latency_cycles)
    bytes = sum(bytes_of(value.type) for value in payload)
    issue = model.barrier_cycles + len(payload) * model.tma_issue_cycles
    return Cost(issue, "memory", _up(bytes, model.memory_bytes_per_cycle), model.memory_latency_cycles)


def _is_number(tile: Value) -> bool:
    return tile.defining_op is not None and tt.SplatOp.matches(tile.defining_op)


def _dot(op: Operation, model: CostModel) -> Cost:
    """The larger of the time of the products and the time of reading shared memory (small N)."""
    counts = dot_counts(op)
    if counts is None:
        return NOTHING
    busy = counts.cycles(model.fma_per_cycle(counts.element), model.shared_bytes_per_cycle)
    return Cost(model.scalar_cycles, "tensor cores", busy, model.wgmma_latency_cycles)


def _mma(op: Operation, model: CostModel) -> Cost:
    """As `_dot`; B is read from shared memory once for each 128 rows, and A unless it is in tensor memory."""
    view = tcgen05.dot_of(op)
    assert view is not None
    a, b = parse_type(view.a.type), parse_type(view.b.type)
    if not isinstance(a, MemDescType) or not isinstance(b, MemDescType):
        return NOTHING
    blocks = max(1, a.shape[-2] // TCGEN05.rows)
    products = max(a.shape[-2], TCGEN05.rows) * a.shape[-1] * b.shape[-1]
    read = b.bytes * blocks + (0 if a.in_tensor_memory else a.bytes)
    busy = max(_up(products, model.fma_per_cycle(a.element)), _up(read, model.shared_bytes_per_cycle))
    return Cost(model.scalar_cycles, "tensor cores", busy, model.wgmma_latency_cycles)


def _tensor_copy(op: Operation, model: CostModel) -> Cost:
    """Copies between registers and tensor memory, which the warps wait for; the latency is that of shared memory."""
    tile = next((it for it in (*op.results, *op.operands) if isinstance(parse_type(it.type), TensorType)), None)
    if tile is None:
        return Cost(model.fence_cycles)
    return Cost(_up(bytes_of(tile.type), model.tensor_bytes_per_cycle) + model.shared_latency_cycles)


def _transfer(op: Operation, model: CostModel) -> Cost:
    """Global memory: the bytes occupy the memory port, the issue occupies the warps."""
    bytes = max((bytes_of(it.type) for it in (*op.results, *op.operands) if "!tt.ptr" not in it.type), default=0)
    busy = _up(bytes, model.memory_bytes_per_cycle)
    latency = model.memory_latency_cycles
    if op.name in classes.TILE_STORES:
        issue = _up(bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles + model.tma_issue_cycles
        return Cost(issue, "memory", busy, latency)
    if op.name in classes.TMA_LOADS or op.name in classes.TMA_STORES:
        return Cost(model.tma_issue_cycles, "memory", busy, latency)
    return Cost(max(model.scalar_cycles, _up(bytes, model.shared_bytes_per_cycle)), "memory", busy, latency)


def _shared(op: Operation, model: CostModel) -> Cost:
    """Copies between registers and shared memory. A tile loaded by TMA is free: TMA writes the buffer directly."""
    if ttg.LocalAllocOp.matches(op):
        tile = ttg.LocalAllocOp(op).source
        source = tile.defining_op if tile else None
        if tile is None or (source and source.name in classes.TMA_LOADS):
            return NOTHING
    bytes = bytes_of((op.results or op.operands)[0].type)
    return Cost(_up(bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles)


def _convert_layout(op: Operation, model: CostModel) -> Cost:
    """A round trip through shared memory, unless registers are renamed.

    An accumulator that becomes a wgmma operand stays in registers; threads exchange those of an 8-bit operand.
    """
    source, target = parse_type(ttg.ConvertLayoutOp(op).source.type), parse_type(op.result.type)
    if not isinstance(source, TensorType) or not isinstance(target, TensorType) or renames(op):
        return NOTHING
    if "dot_op" in target.encoding and f"parent = {source.encoding}" in target.encoding:
        exchanged = exchanged_registers(str(source))
        lanes = exchanged * (model.lanes_per_cycle / SHUFFLES_PER_CYCLE + 2 * _INTEGER)
        return Cost(0, "cuda cores", _up(lanes, model.lanes_per_cycle)) if exchanged else NOTHING
    return Cost(2 * (_up(source.bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles))


def _yield(op: Operation, model: CostModel) -> Cost:
    """The end of an iteration: free, but for the tiles of narrow elements that the loop carries."""
    if op.parent_op is None or op.parent_op.name not in LOOPS:
        return NOTHING
    slots = sum(repacking_slots(value.type) for value in op.operands if value.defining_op is not None)
    return Cost(0, "cuda cores", _up(slots, model.lanes_per_cycle)) if slots else NOTHING


def _arithmetic(op: Operation, model: CostModel) -> Cost:
    """Elementwise work on the CUDA cores; scalars cost only their issue. Reductions and scans add shuffles."""
    types = [value.type for value in (*op.operands, *op.results)]
    if max((elements_of(type) for type in types), default=1) == 1:
        return Cost(model.scalar_cycles)
    work = work_of(op)
    lanes = work.slots + _INTEGER * work.integers + _SPECIAL * work.special
    lanes += _CONVERSION * (work.conversions + work.narrow)
    busy = _up(lanes, model.lanes_per_cycle)
    latency = int(work.shuffles) * model.shuffle_cycles * 5 + busy * (_share(op) - 1)
    return Cost(0, "cuda cores", busy, latency)


def _share(op: Operation) -> int:
    """How many partitions as small as that of an operation would use all lanes: a warp has a quarter of them."""
    group = next((view for outer in op.ancestors() if (view := GroupOp.of(outer))), None)
    inside = group is not None or any(ttg.WarpSpecializePartitionsOp.matches(outer) for outer in op.ancestors())
    warps = group.num_warps if group else ttg.warps_of(op) if inside else WARP_GROUP
    return max(1, WARP_GROUP // warps)
