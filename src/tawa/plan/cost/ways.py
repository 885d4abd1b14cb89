"""Ways of executing a kernel: what the model of time needs to know of stock Triton's kernel, or of a Plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawa.analysis.work.workload import BlockWork, LoadWork, Workload
from tawa.machine.hopper import (
    CHAINED_REGISTERS,
    CTA_RESERVED_BYTES,
    INSTRUCTION_REGISTERS,
    MAX_REGISTERS,
    POINTER_LOOP_REGISTERS,
    PRODUCER_REGISTERS,
    REGISTER_STEP,
    REGISTERS,
    SHARED_BYTES,
    SM_SHARED_BYTES,
    WARP,
    piece_bytes_of,
)
from tawa.plan.fields import Path
from tawa.plan.plan import Plan

_THROUGH_POINTERS: frozenset[Path | None] = frozenset({"cp.async", "registers", "pointers"})
_INSTEAD: frozenset[Path | None] = frozenset({"raised", "raised_in_kernel"})
_MOST_CTAS = 16
_SM_WARPS = 64
"""Warps that share an SM, at most."""


@dataclass(frozen=True, slots=True)
class StockFacts:
    """What is known of stock Triton's kernel once it is compiled.

    serialised: whether ptxas waits for each wgmma before it issues the next. registers: per thread. spilled: bytes of
    spill stores and loads, counted statically. shared: bytes of a CTA.
    """

    serialised: bool
    registers: int
    spilled: int
    shared: int

    def ctas(self, num_warps: int) -> int:
        """CTAs of so many warps that share an SM."""
        registers = math.ceil(max(1, self.registers) / REGISTER_STEP) * REGISTER_STEP
        by_registers = REGISTERS // (registers * num_warps * WARP)
        by_shared = SM_SHARED_BYTES // (self.shared + CTA_RESERVED_BYTES)
        return max(1, min(by_registers, by_shared, _SM_WARPS // num_warps, _MOST_CTAS))


@dataclass(frozen=True, slots=True)
class Way:
    """How a kernel is executed.

    specialised: whether a producer loads. groups: consumer groups (stock: 1). num_warps: of all consumers. ctas: on one
    SM. slots: D, or num_stages of stock Triton. in_flight: P. staged: whether the loops have a schedule of several
    stages. persistent: whether each program of the launch iterates over tiles of the grid. by_pointers: the part of the
    operands' pointer loads that TMA does not make in their place. stores_by_tma: whether TMA makes stores in place of
    pointers. fits: whether the slots fit into shared memory. narrow: whether stages carry operands of 8 bits, where the
    scheduler would carry wider ones. serialised: whether ptxas waits for each wgmma before it issues the next. spilled:
    bytes of spill stores and loads of one consumer group, counted statically. programs: of the grid that share a CTA.
    piece_bytes: of what a converter turns at a time; 0 if operands are turned in registers. dynamic: whether programs
    take the next tile from a counter. longest_first: whether the longest tiles are the first. shares: programs that
    share a tile's loop.
    """

    specialised: bool
    groups: int = 1
    num_warps: int = 4
    ctas: int = 1
    slots: int = 3
    in_flight: int = 0
    staged: bool = False
    persistent: bool = False
    by_pointers: float = 0.0
    stores_by_tma: bool = False
    fits: bool = True
    narrow: bool = False
    serialised: bool = False
    spilled: float = 0.0
    programs: int = 1
    piece_bytes: int = 0
    dynamic: bool = False
    longest_first: bool = False
    shares: int = 1

    @property
    def by_tma(self) -> bool:
        """Whether all operands are loaded by TMA."""
        return not self.by_pointers


def stock_way(
    workload: Workload, num_warps: int, num_stages: int, facts: StockFacts | None = None,
    max_registers: int | None = None,
) -> Way:  # fmt: skip
    """Stock Triton's kernel: its software pipeline, and the CTAs that share an SM.

    facts: of the compiled kernel; None: CTAs and shared memory are estimated, and no wgmma is taken to be serialised.
    max_registers: ``maxnreg`` of the launch.
    """
    accumulators = in_slots = 0
    chained = by_pointers = False
    once = 0
    for block, work in workload.blocks.items():
        accumulators = max(accumulators, sum(dot.rows * dot.columns * dot.batch for dot in work.dots))
        chained |= any(dot.chained for dot in work.dots)
        if work.dots and workload.loops[block] is not None:
            in_slots = max(in_slots, work.operand_bytes)
            by_pointers |= any(load.operand and not load.tma for load in work.loads)
        elif not work.dots:
            once += work.operand_bytes
    more = CHAINED_REGISTERS if chained else INSTRUCTION_REGISTERS
    more += POINTER_LOOP_REGISTERS * by_pointers
    registers = min(accumulators / (WARP * num_warps) + more, max_registers or MAX_REGISTERS)
    registers = math.ceil(registers / REGISTER_STEP) * REGISTER_STEP
    shared = max(1, num_stages) * in_slots + once + CTA_RESERVED_BYTES
    ctas = min(REGISTERS // (registers * num_warps * WARP), SM_SHARED_BYTES // shared, _MOST_CTAS)
    way = Way(False, 1, num_warps, max(1, int(ctas)), num_stages, by_pointers=float(by_pointers),
              fits=shared <= SHARED_BYTES)  # fmt: skip
    if facts is None:
        return way
    fits = facts.shared <= SHARED_BYTES
    return replace(way, ctas=facts.ctas(num_warps), fits=fits, serialised=facts.serialised,
                   spilled=facts.spilled)  # fmt: skip


def plan_way(plan: Plan, spilled: int = 0) -> Way:
    """A complete Plan. spilled: bytes of spill stores and loads of all its consumers together."""
    loops = [it for it in plan.loops if it.loop is not None]
    staged = any((it.schedule.stages if it.schedule is not None else it.stages or 1) > 1 for it in loops)
    warps = sum(it.num_warps for it in plan.partitions if it.role == "consumer")
    depth = max((ring.slots for ring in plan.rings), default=1)
    return Way(
        True,
        plan.own_groups,
        warps,
        plan.ctas_per_sm or 1,
        depth,
        plan.mma_depth,
        staged,
        plan.form == "persistent",
        kept_pointers([it.path for it in plan.operands if it.ring]),
        any(it.path == "raised" for it in plan.stores),
        spilled=spilled / max(1, plan.consumer_groups),
        programs=plan.programs,
        piece_bytes=_piece_bytes(plan),
        dynamic=plan.tiles == "dynamic",
        longest_first=plan.tile_order == "longest_first",
        shares=plan.split_k or 1,
    )


def _piece_bytes(plan: Plan) -> int:
    """`Way.piece_bytes`: a Plan has a converter if one turns an operand."""
    converter = next((it for it in plan.partitions if it.role == "converter"), None)
    return piece_bytes_of(converter.registers or PRODUCER_REGISTERS) if converter is not None else 0


def kept_loads(work: BlockWork, way: Way) -> list[LoadWork]:
    """The operand loads of a block that stay with pointers. Where TMA makes some, the slowest are assumed to stay."""
    every = [load for load in work.loads if load.operand and not load.tma]
    every.sort(key=lambda load: (load.fill == "registers", load.pieces), reverse=True)
    return every[: math.ceil(way.by_pointers * len(every))]


def kept_pointers(paths: Sequence[Path | None]) -> float:
    """`Way.by_pointers`. paths: of the operands."""
    kept, instead = (sum(path in of for path in paths) for of in (_THROUGH_POINTERS, _INSTEAD))
    return kept / (kept + instead) if kept else 0.0


__all__ = ["StockFacts", "Way", "kept_loads", "kept_pointers", "plan_way", "stock_way"]
