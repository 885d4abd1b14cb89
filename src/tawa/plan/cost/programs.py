"""Programs that the model of time can be asked about: a complete Plan, or stock Triton's kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from tawa.analysis.work.workload import BlockWork, LoadWork, Workload
from tawa.machine.machines import SM_90, Machine
from tawa.machine.nvidia import (
    CTA_RESERVED_BYTES,
    MAX_REGISTERS,
    REGISTER_STEP,
    REGISTERS,
    SHARED_BYTES,
    SM_SHARED_BYTES,
    WARP,
)
from tawa.plan.defaults import (
    CHAINED_REGISTERS,
    INSTRUCTION_REGISTERS,
    POINTER_LOOP_REGISTERS,
    PRODUCER_REGISTERS,
    piece_bytes_of,
)
from tawa.plan.fields import OperandPlan, PartitionPlan, Path, RingPlan
from tawa.plan.option_conflicts import STOCK
from tawa.plan.plan import Plan

_THROUGH_POINTERS: frozenset[Path | None] = frozenset({"cp.async", "registers", "pointers"})
_INSTEAD: frozenset[Path | None] = frozenset({"promoted", "promoted_in_kernel"})
_MOST_CTAS = 16
_SM_WARPS = 64
"""Warps that share an SM, at most."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What is known of a compiled program, or estimated.

    serialised: whether ptxas waits for each wgmma before it issues the next. registers: per thread. spilled: bytes of
    spill stores and loads of all consumers together, counted statically. shared: bytes of a CTA.
    """

    serialised: bool = False
    registers: int = 0
    spilled: float = 0
    shared: int = 0

    def ctas(self, num_warps: int) -> int:
        """CTAs of so many warps that share an SM."""
        registers = math.ceil(max(1, self.registers) / REGISTER_STEP) * REGISTER_STEP
        by_registers = REGISTERS // (registers * num_warps * WARP)
        by_shared = SM_SHARED_BYTES // (self.shared + CTA_RESERVED_BYTES)
        return max(1, min(by_registers, by_shared, _SM_WARPS // num_warps, _MOST_CTAS))

    def room(self, num_warps: int) -> int:
        """Bytes of shared memory that a CTA of so many warps may take more, while as many CTAs share an SM."""
        return max(0, SM_SHARED_BYTES // self.ctas(num_warps) - CTA_RESERVED_BYTES - self.shared)


@dataclass(frozen=True)
class Program:
    """One program. The model of time reads its Plan; these are the decisions that it depends on.

    plan: complete, as it was made or as it is expected; ``form="stock"`` for stock Triton's kernel, whose ring has as
    many slots as its pipeline has stages. narrow: whether stages carry operands of 8 bits, where the scheduler would
    carry wider ones. machine: that executes it.
    """

    plan: Plan
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    narrow: bool = False
    machine: Machine = SM_90

    @property
    def specialised(self) -> bool:
        """Whether a producer loads."""
        return self.plan.form != "stock"

    @property
    def persistent(self) -> bool:
        """Whether each program of the launch iterates over tiles of the grid."""
        return self.plan.form == "persistent"

    @property
    def dynamic(self) -> bool:
        """Whether programs take the next tile from a counter."""
        return self.plan.tiles == "dynamic"

    @property
    def longest_first(self) -> bool:
        """Whether the longest tiles are the first."""
        return self.plan.tile_order == "longest_first"

    @property
    def shares(self) -> int:
        """Programs that share a tile's loop."""
        return self.plan.split_k or 1

    @property
    def programs(self) -> int:
        """Programs of the grid that share a CTA."""
        return self.plan.programs

    @cached_property
    def groups(self) -> int:
        """Consumer groups of a program."""
        return self.plan.own_groups

    @cached_property
    def num_warps(self) -> int:
        """Warps of all consumers."""
        return sum(it.num_warps for it in self.plan.partitions if it.role == "consumer")

    @property
    def ctas(self) -> int:
        """CTAs that share an SM."""
        return self.plan.ctas_per_sm or 1

    @cached_property
    def slots(self) -> int:
        """D of the deepest ring of tiles that a producer loads."""
        loaded = (ring.slots for ring in self.plan.rings if ring.is_loaded)
        return max(loaded, default=1)

    @cached_property
    def in_flight(self) -> int:
        """P."""
        return self.plan.mma_depth

    @cached_property
    def staged(self) -> bool:
        """Whether a loop has a schedule of several stages."""
        loops = (it for it in self.plan.loops if it.loop is not None)
        return any((it.schedule.stages if it.schedule is not None else it.stages or 1) > 1 for it in loops)

    @cached_property
    def by_pointers(self) -> float:
        """The part of the operands' pointer loads that TMA does not make in their place."""
        paths = [it.path for it in self.plan.operands if it.ring]
        kept, instead = (sum(path in of for path in paths) for of in (_THROUGH_POINTERS, _INSTEAD))
        return kept / (kept + instead) if kept else 0.0

    @property
    def by_tma(self) -> bool:
        """Whether all operands are loaded by TMA."""
        return not self.by_pointers

    @cached_property
    def stores_by_tma(self) -> bool:
        """Whether TMA makes stores in place of pointers."""
        return any(it.path == "promoted" for it in self.plan.stores)

    @cached_property
    def piece_bytes(self) -> int:
        """Bytes of what a converter transposes at a time; 0 if operands are transposed in registers."""
        converter = next((it for it in self.plan.partitions if it.role == "converter"), None)
        return piece_bytes_of(converter.registers or PRODUCER_REGISTERS) if converter is not None else 0

    @property
    def fits(self) -> bool:
        """Whether its shared memory is there, as far as that is known."""
        return self.facts.shared <= SHARED_BYTES

    @property
    def serialised(self) -> bool:
        """Whether ptxas waits for each wgmma before it issues the next."""
        return self.facts.serialised

    @property
    def spilled(self) -> float:
        """Bytes of spill stores and loads of one consumer group."""
        return self.facts.spilled / max(1, self.plan.consumer_groups)


def kept_loads(work: BlockWork, by_pointers: float) -> list[LoadWork]:
    """The operand loads of a block that stay with pointers. Where TMA makes some, the slowest are assumed to stay.

    by_pointers: as `Program.by_pointers`.
    """
    every = [load for load in work.loads if load.operand and not load.tma]
    every.sort(key=lambda load: (load.fill == "registers", load.pieces), reverse=True)
    return every[: math.ceil(by_pointers * len(every))]


def stock_program(
    workload: Workload, num_warps: int, num_stages: int, facts: ProgramFacts | None = None,
    max_registers: int | None = None, machine: Machine = SM_90,
) -> Program:  # fmt: skip
    """Stock Triton's kernel: its software pipeline, and the CTAs that share an SM.

    facts: of the compiled kernel; None: they are estimated, and no wgmma is taken to be serialised. max_registers:
    ``maxnreg`` of the launch.
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
    if facts is None:
        more = CHAINED_REGISTERS if chained else INSTRUCTION_REGISTERS
        more += POINTER_LOOP_REGISTERS * by_pointers
        registers = min(accumulators / (WARP * num_warps) + more, max_registers or MAX_REGISTERS)
        facts = ProgramFacts(registers=math.ceil(registers), shared=max(1, num_stages) * in_slots + once)
    plan = Plan(
        partitions=(PartitionPlan("consumer", "consumer", num_warps),),
        ctas_per_sm=facts.ctas(num_warps),
        operands=(OperandPlan("operands", path="pointers" if by_pointers else None, ring="stages"),),
        rings=(RingPlan("stages", depth=num_stages),),
    )
    return Program(STOCK.over(plan), facts, machine=machine)
