"""How long operations take on an SM of an H100 or H200 (SXM): a simple model, meant to show where time goes.

Four units work side by side: the tensor cores, the CUDA cores, the SM's port to memory (TMA, cp.async, loads and
stores share it) and the warps' own instruction streams. An operation keeps its unit busy for ``work / rate``; its
result is available ``latency`` later. Not modelled: the clock going down under load, bank conflicts, other CTAs on the
same SM, instruction scheduling inside a warp. The rates and latencies are those of `tawa.machine.hopper.CostModel`.

Accuracy: the 8-warp GEMMs of ``bench/results/ablation.json`` that are bound by latency come out within 12% (two of them
gave two of the numbers, and 1.83 GHz is the data sheet's clock, not a measured one). Those that keep the tensor cores
busy come out 3% to 38% too fast; how much of that is the chip's power limit, and how much is missing here, was not
separated. So compare shapes and causes of waiting, not TFLOP/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tawa.ir import MemDescType, Operation, TensorDescType, TensorType, parse_type
from tawa.machine.hopper import H100, WGMMA_ROWS, CostModel

Unit = Literal["tensor cores", "memory", "cuda cores"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operation takes.

    issue_cycles: of the partition itself. unit, busy_cycles: how long it keeps a unit; latency_cycles: from there to
    its result. The partition waits for the result unless the operation is asynchronous (`Step.action`).
    """

    issue_cycles: int = 0
    unit: Unit | None = None
    busy_cycles: int = 0
    latency_cycles: int = 0


FREE = Cost()
_FREE = frozenset(
    {
        *("arith.constant", "ub.poison", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.make_range"),
        *("tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.cat", "tt.bitcast", "arith.bitcast", "tt.assert"),
        *("ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_trans", "ttg.memdesc_reshape"),
        *("ttg.memdesc_reinterpret", "ttg.local_dealloc", "llvm.intr.assume", "tt.print", "aref.create", "aref.first"),
        *("ttg.async_commit_group", "ttg.async_wait", "ttng.warp_group_dot_wait", "ttng.async_tma_store_wait"),
        *("ttng.reinterpret_tensor_descriptor", "ttg.global_scratch_alloc"),
        *("scf.yield", "scf.condition", "tt.return", "ttg.warp_yield", "ttg.warp_return", "warp.end", "aref.filled"),
    }
)
_BARRIER = frozenset(
    {
        *("ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier", "ttng.inval_barrier"),
        *("ttng.async_copy_mbarrier_arrive", "aref.get", "aref.consumed", "aref.landed", "gpu.barrier"),
        "ttg.barrier",
    }
)
_FENCES = frozenset({"ttng.fence_async_shared", "ttng.tensormap_create", "ttng.tensormap_fenceproxy_acquire"})
_FORKS = frozenset({"ttg.warp_specialize", "warp.group"})
TMA_LOADS = frozenset(
    {"ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "tt.descriptor_load", "tt.descriptor_gather"}
)
"""Loads that TMA does. At the aref level, what ``aref.put`` holds says who loads."""
TMA_STORES = frozenset(
    {
        *("ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter"),
        *("tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter"),
    }
)
LOADS = frozenset({"tt.load", "ttg.async_copy_global_to_local", *TMA_LOADS})
STORES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas", *TMA_STORES})
DELIVERED_LATER = frozenset(name for name in LOADS | STORES if name.startswith("tt."))
"""The warps go on behind these until a result is used. Those of ``ttg`` and ``ttng`` have waits of their own."""
DOTS = frozenset({"ttng.warp_group_dot", "tt.dot"})
_SHARED = frozenset({"ttg.local_alloc", "ttg.local_store", "ttg.local_load"})

_SLOTS = {
    **dict.fromkeys(("arith.divf", "tt.precise_divf", "arith.remf"), 10),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"), 40),
    **dict.fromkeys(("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.fptosi"), 2),
    **dict.fromkeys(("arith.uitofp", "arith.fptoui"), 2),
    **dict.fromkeys(("math.absf", "math.fma", "math.floor", "math.ceil", "math.copysign"), 1),
    **dict.fromkeys(("math.tanh", "math.erf", "math.powf", "math.sinh", "math.cosh", "math.tan"), 24),
    "math.exp": 9,
}
"""fp32 lane slots an element takes, where it is not one: conversions run at 64 a cycle, special functions at 16 [G],
an exp is a multiply and an exp2, divisions and erf are sequences of them [E]."""
_SPECIAL = 8
_INTEGER = 2


def cycles(op: Operation, model: CostModel = H100) -> Cost:
    """The cost of one execution of `op`; the shapes of its types are all that counts."""
    name = op.name
    if name in _FREE:
        return FREE
    if name == "aref.put":
        return _put(op, model)
    if name in _BARRIER:
        return Cost(model.barrier_cycles)
    if name in _FENCES:
        return Cost(model.fence_cycles)
    if name in _FORKS:
        return Cost(model.fork_cycles)
    if name in DOTS:
        return _dot(op, model)
    if name in LOADS or name in STORES:
        return _transfer(op, model)
    if name in _SHARED:
        return _shared(op, model)
    if name == "ttg.convert_layout":
        return _convert_layout(op, model)
    return _arithmetic(op, model)


def _bytes(type: str) -> int:
    kind = parse_type(type)
    return kind.bytes if isinstance(kind, TensorType | MemDescType | TensorDescType) else 8


def _elements(type: str) -> int:
    kind = parse_type(type)
    return math.prod(kind.shape) if isinstance(kind, TensorType) else 1


def _up(work: float, rate: float) -> int:
    return math.ceil(work / rate)


def _put(op: Operation, model: CostModel) -> Cost:
    """The loads of a put, all at once; an empty payload is an arrival."""
    payload = op.regions[0].block.terminator.operands
    if not payload:
        return Cost(model.barrier_cycles)
    bytes = sum(_bytes(value.type) for value in payload)
    issue = model.barrier_cycles + len(payload) * model.tma_issue_cycles
    return Cost(issue, "memory", _up(bytes, model.memory_bytes_per_cycle), model.memory_latency_cycles)


def _dot(op: Operation, model: CostModel) -> Cost:
    """The products, or the reads of shared memory where those take longer (small N)."""
    a, b, out = parse_type(op.operands[0].type), parse_type(op.operands[1].type), parse_type(op.results[0].type)
    if not isinstance(a, TensorType | MemDescType) or not isinstance(b, TensorType | MemDescType):
        return FREE
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = math.prod(out.shape[:-2]) if isinstance(out, TensorType) else 1
    products = _up(rows * inner * columns, model.fma_per_cycle(a.element))
    read = b.bytes // batch * max(1, rows // WGMMA_ROWS) + (a.bytes // batch if isinstance(a, MemDescType) else 0)
    busy = batch * max(products, _up(read, model.shared_bytes_per_cycle))
    return Cost(model.scalar_cycles, "tensor cores", busy, model.wgmma_latency_cycles)


def _transfer(op: Operation, model: CostModel) -> Cost:
    """Global memory: the port is busy for the bytes, the warps for the issue."""
    bytes = max((_bytes(it.type) for it in (*op.results, *op.operands) if "!tt.ptr" not in it.type), default=0)
    busy = _up(bytes, model.memory_bytes_per_cycle)
    latency = model.memory_latency_cycles
    if op.name in ("tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter"):
        issue = _up(bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles + model.tma_issue_cycles
        return Cost(issue, "memory", busy, latency)
    if op.name in TMA_LOADS or op.name in TMA_STORES:
        return Cost(model.tma_issue_cycles, "memory", busy, latency)
    return Cost(max(model.scalar_cycles, _up(bytes, model.shared_bytes_per_cycle)), "memory", busy, latency)


def _shared(op: Operation, model: CostModel) -> Cost:
    """Between registers and shared memory. What TMA loads needs no copy: Triton lets it write the buffer itself."""
    if op.name == "ttg.local_alloc":
        source = op.operands[0].defining_op if op.operands else None
        if not op.operands or (source and source.name in TMA_LOADS):
            return FREE
    bytes = _bytes((op.results or op.operands)[0].type)
    return Cost(_up(bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles)


def _convert_layout(op: Operation, model: CostModel) -> Cost:
    """Through shared memory and back; an accumulator that becomes an operand of wgmma stays in its registers."""
    source, target = parse_type(op.operands[0].type), parse_type(op.result.type)
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return FREE
    if "dot_op" in target.encoding and f"parent = {source.encoding}" in target.encoding:
        return FREE
    return Cost(2 * (_up(source.bytes, model.shared_bytes_per_cycle) + model.shared_latency_cycles))


def _slots(name: str, integer: bool) -> int:
    if name in _SLOTS:
        return _SLOTS[name]
    if name.startswith("math."):
        return _SPECIAL
    return _INTEGER if integer else 1


def _arithmetic(op: Operation, model: CostModel) -> Cost:
    """CUDA cores, element by element; scalars cost their issue. Reductions and scans add their shuffles."""
    types = [value.type for value in (*op.operands, *op.results)]
    elements = max((_elements(type) for type in types), default=1)
    if elements == 1:
        return Cost(model.scalar_cycles)
    latency = model.shuffle_cycles * 5 if op.name in ("tt.reduce", "tt.scan", "tt.histogram", "tt.gather") else 0
    names = [(it.name, it.results[0].type) for it in op.regions[0].block.ops if it.results] if op.regions else []
    names = names or [(op.name, types[-1])]
    slots = sum(_slots(name, _is_integer(type)) for name, type in names)
    return Cost(0, "cuda cores", _up(elements * slots, model.lanes_per_cycle), latency)


def _is_integer(type: str) -> bool:
    kind = parse_type(type)
    element = kind.element if isinstance(kind, TensorType) else type
    return element.startswith(("i", "!tt.ptr"))
