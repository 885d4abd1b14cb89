"""The space of a kernel: every form that Tawa can make of it, and what the model of time expects of each.

    as written, 1 group, pointers       200 us
    as written, 2 groups, TMA           182 us
    persistent, 2 groups, TMA           184 us
    stock Triton                        212 us

Nothing is compiled: the counts of the workload give the time, shared memory, registers, and the CTAs of an SM. What a
form leaves open is decided by the planner. Forms that are added later plug in at `Space.forms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import geometric_mean

from tawa.analysis.dims.shared_programs import find_shared
from tawa.analysis.loops.loads_around import has_dots_before_loops, has_loads_around_loops
from tawa.analysis.loops.masked_rows import has_masked_rows
from tawa.analysis.loops.rows import has_loops_of_rows
from tawa.analysis.loops.split_sums import find_split_sums
from tawa.analysis.resources import AccumulatorInfo, RegisterInfo, SharedInfo
from tawa.analysis.work.longer_programs import find_longer_programs
from tawa.analysis.work.persistent import why_not_persistent
from tawa.analysis.work.workload import DotWork, Workload, find_workload
from tawa.dialects.aref import Fill
from tawa.errors import ResourceError
from tawa.ir import Module
from tawa.machine.machines import SM_90, Machine, wgmma_columns
from tawa.machine.nvidia import SHARED_BYTES, WARP, WARP_GROUP
from tawa.plan.cost.budget import Budget
from tawa.plan.cost.launches import Launch, programs_differ, usual_launches
from tawa.plan.cost.programs import Program, ProgramFacts, kept_loads, stock_program
from tawa.plan.cost.registers import registers_for_addresses
from tawa.plan.cost.time_model import predict
from tawa.plan.defaults import DEFAULT_DEPTH, PRODUCER_REGISTERS
from tawa.plan.fields import LoopPlan, OperandPlan, Path, RingPlan, StorePlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.planner import Counts, complete
from tawa.plan.search.prediction import SMALL_TILE, Expectation, expect
from tawa.remarks import Remark

_POINTERS = OperandPlan(path="pointers")
UNPARTITIONED = Plan(form="unpartitioned", groups=1)
AHEAD, NOT_AHEAD = (
    replace(UNPARTITIONED, operands=(OperandPlan(prefetched=it),), unrolled=False) for it in (True, False)
)
"""Without partitions, rows loaded one iteration ahead or not: which is faster depends on how many CTAs an SM has."""
UNROLLED = replace(NOT_AHEAD, unrolled=True)
SHARED_BY = tuple(replace(UNPARTITIONED, num_warps=it) for it in (2, 4))
"""Without partitions, by as many warps as share rows well (`tawa.plan.decide.loops.choose_unrolled`)."""
_INNER, _OUTER = "inner", "outer"
_MMA_DEPTHS = (0, 1, 2)
_PROGRAMS = (2, 3)
"""Programs that may share a CTA; the registers of an SM do not suffice for more with tensor core tiles."""
_SHARES = (2, 4, 8)
"""Programs that may share a tile."""


@dataclass(frozen=True)
class Space:
    """The space of a kernel.

    num_warps, num_stages: of the launch. workload: of the kernel as it is written. promoted: how many loads of operands
    TMA can make in place of pointers. persistent: whether the kernel has a persistent form. facts: of stock
    Triton's compiled kernel, if known. shares: whether neighbouring programs load the same tiles, so that several can
    share a CTA. splits: whether programs may share a tile: its loop allows it, and so does the user. rows, around:
    whether a loop is one of rows, and whether tiles that are loaded on one side of a loop are needed behind it only, or
    a dot stands before it, so that the kernel may gain without partitions. masked: whether a loop over rows has a mask
    that drops some. max_registers: ``maxnreg`` of the
    launch. machine: that executes it.
    """

    num_warps: int
    num_stages: int
    workload: Workload
    promoted: int = 0
    persistent: bool = False
    facts: ProgramFacts | None = None
    shares: bool = False
    splits: bool = False
    rows: bool = False
    around: bool = False
    masked: bool = False
    max_registers: int | None = None
    machine: Machine = SM_90

    @staticmethod
    def of(
        kernel: Module, promoted: int, launch: tuple[int, int, int | None], options: PlanOptions, ours: bool,
        pins: Plan | None = None, machine: Machine = SM_90, *, measured: bool = False,
    ) -> Space | None:  # fmt: skip
        """The space of a structured kernel as far as options and pins leave it open; None if its work is not known.

        promoted: how many loads of operands TMA can make in place of pointers. launch: its warps and stages, and
        ``maxnreg``. ours: whether Triton launches the kernel. measured: also the forms that only measurements choose.
        """
        workload = find_workload(kernel)
        if workload is None:
            return None
        persistent = ours and options.persistent is not False and why_not_persistent(kernel) is None
        shares = measured and ours and not isinstance(find_shared(kernel), Remark)
        splits = ours and options.precision == "relaxed" and (pins is None or pins.split_k is None)
        splits = splits and not isinstance(find_split_sums(kernel), Remark)
        num_warps, num_stages, limit = launch
        around = has_loads_around_loops(kernel) or has_dots_before_loops(kernel)
        without = {
            "rows": has_loops_of_rows(kernel), "around": around, "masked": has_masked_rows(kernel, num_warps)
        }  # fmt: skip
        return Space(
            num_warps, num_stages, workload, promoted, persistent, None, shares, splits, **without,
            max_registers=limit, machine=machine,
        )  # fmt: skip

    @cached_property
    def unequal(self) -> bool:
        """Whether programs may have different amounts of work."""
        return programs_differ(self.workload)

    @cached_property
    def longer(self) -> bool:
        """Whether it is known which programs have more work than others."""
        return find_longer_programs(self.workload.function) is not None

    @cached_property
    def by_pointers(self) -> bool:
        """Whether an operand is loaded through pointers."""
        return any(load.operand and not load.tma for work in self.workload.blocks.values() for load in work.loads)

    def promotes(self, plan: Plan) -> bool | None:
        """Whether a form or a complete Plan has TMA in place of pointers; None without operands through pointers."""
        if not self.by_pointers or plan.form == "unpartitioned":
            return None
        return any(it.path in ("promoted", "promoted_in_kernel") for it in plan.operands) or (
            self.promoted > 0 and not plan.operands
        )

    def words(self, plan: Plan) -> str:
        """A form for people."""
        if plan.form == "unpartitioned":
            ahead = ", rows ahead" * any(it.prefetched for it in plan.operands)
            warps = f", {plan.num_warps} warps" if plan.num_warps else ""
            return "no partitions" + warps + ahead + ", unrolled" * bool(plan.unrolled)
        form = "persistent" if plan.form == "persistent" else "as written"
        form += f", {plan.ctas_per_sm} CTAs an SM" if only_measured(plan) else ""
        form += ", tiles from a counter" if plan.tiles == "dynamic" else ""
        form += ", longest first" if plan.tile_order == "longest_first" else ""
        form += f", {plan.split_k} programs share a tile" if (plan.split_k or 1) > 1 else ""
        path = {True: ", TMA in place of pointers", False: ", pointers", None: ""}[self.promotes(plan)]
        of_cta = f", {plan.programs} programs in a CTA" if plan.programs > 1 else ""
        return f"{form}, {plan.own_groups} group{'s' * (plan.own_groups > 1)}{path}{of_cta}"

    @cached_property
    def _programs(self) -> dict[Plan, Program]:
        return {}

    def program(self, form: Plan) -> Program:
        """What the planner is expected to make of a form. One without partitions has stock Triton's time."""
        if form.form == "unpartitioned":
            return self.stock
        if form not in self._programs:
            self._programs[form] = Program(completed(self, form), machine=self.machine)
        return self._programs[form]

    @cached_property
    def stock(self) -> Program:
        """Stock Triton's kernel."""
        launch = self.num_warps, self.num_stages
        return stock_program(self.workload, *launch, self.facts, self.max_registers, self.machine)

    @cached_property
    def forms(self) -> tuple[Plan, ...]:
        """All forms."""
        own = tuple(_forms_of(self)) if self.workload.dots else ()
        return (
            *own,
            *_shared_forms(self, own),
            *_split_forms(self, own),
            *(it for it in SHARED_BY if self.rows and it.num_warps != self.num_warps),
            *((AHEAD, NOT_AHEAD) if self.rows else (NOT_AHEAD,) if self.around else ()),
            *((UNROLLED,) if self.masked else ()),
        )

    # -- what is expected ----------------------------------------------------------------------------------------------

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that the model of time predicts. An expectation is that of the launch with the largest gain.

        A real launch gets the form that is predicted to be the fastest for it (`tawa.plan.search.search`).
        """
        return usual_launches(self.workload, self.machine.processors)

    def expected(self, plan: Plan, spilled: int = 0) -> Expectation | None:
        """The expectation of a Plan, with or without schedules; None if stock Triton's kernel does not fit.

        spilled: bytes of spill stores and loads of all its consumers together.
        """
        if not self.stock.fits:
            return None
        chained = any(dot.chained for dot in self.workload.dots)
        if chained and all(it.schedule is None and it.stages is None for it in plan.loops if it.loop is not None):
            plan = replace(plan, loops=tuple(replace(it, stages=2) for it in plan.loops))  # they are decided later
        own = self._expect(Program(plan, ProgramFacts(spilled=spilled), machine=self.machine))
        return self._or_persistent(form_of(self, plan), own)

    def of_form(self, form: Plan) -> Expectation:
        """The expectation of a form, before the planner's decisions."""
        return self._or_persistent(form, self._expect(self.program(form)))

    def _or_persistent(self, form: Plan, own: Expectation) -> Expectation:
        """The expectation of the persistent form, if launches of many programs get that and it is faster."""
        if form.form == "persistent":
            return own
        others = (it for it in in_orders(self, form) if it.form == "persistent" and not only_measured(it))
        found = (replace(self._expect(self.program(it)), form=self.words(it)) for it in others)
        return max((own, *found), key=lambda it: it.gain)

    def mean_us(self, program: Program) -> float:
        """The mean of its predicted times over the usual launches."""
        return geometric_mean(predict(self.workload, launch, program) for launch in self.launches)

    def knowing(self, facts: ProgramFacts | None) -> Space:
        """The space once stock Triton's kernel is compiled; the same if nothing is known of it."""
        return self if facts is None else replace(self, facts=facts)

    def _expect(self, program: Program) -> Expectation:
        found = (expect(self.workload, launch, program, self.stock) for launch in self.launches)
        return max(found, key=lambda it: it.gain)


def _forms_of(space: Space) -> Iterator[Plan]:
    """The forms in which each program has its CTA and its tile."""
    paths = (False, True) if space.promoted else (True,) if space.by_pointers else (False,)
    rows = min((dot.rows for dot in space.workload.dots if not dot.exchanged), default=0)
    groups = [1]
    if space.num_warps >= 2 * WARP_GROUP and rows >= 2 * space.machine.dot.rows:
        groups.append(2)
    for pointers, number in product(paths, groups):
        kept = (_POINTERS,) if pointers else ()
        yield from in_orders(space, Plan(form="as_written", groups=number, operands=kept))


def in_orders(space: Space, written: Plan) -> Iterator[Plan]:
    """A form with one tile for each program, and the persistent ones that differ from it in the order of tiles only.

    Without the first one if no dot is in a loop.
    """
    if not is_straight(space.workload):
        yield written
    if not space.persistent:
        return
    persistent = replace(written, form="persistent")
    yield persistent
    if (beside := _most_beside(space, persistent)) > 1:
        yield replace(persistent, ctas_per_sm=beside)
    if space.unequal:
        yield replace(written, form="persistent", tiles="dynamic")
    if space.longer:
        yield replace(written, form="persistent", tiles="dynamic", tile_order="longest_first")


def _most_beside(space: Space, persistent: Plan) -> int:
    """CTAs of a persistent form with loops that fit on an SM, but not more than stock Triton's kernel has there.

    One alone has the deepest rings, which large tiles need. Small ones are bound by latency: several CTAs fill the
    waits of each other, as those of stock Triton's kernel do.
    """
    largest = max((it.rows * it.columns for it in space.workload.dots), default=0)
    if is_straight(space.workload) or largest >= SMALL_TILE:
        return 1
    counts = expected_counts(space, persistent)
    return min(replace(counts.budget, most_ctas=None).ctas(counts.rings, 2), space.stock.ctas)


def only_measured(form: Plan) -> bool:
    """Whether only measurements choose a form: it is not predicted well enough yet."""
    return form.form == "unpartitioned" or (form.form == "persistent" and (form.ctas_per_sm or 1) > 1)


def _shared_forms(space: Space, forms: Sequence[Plan]) -> Iterator[Plan]:
    """The forms in which several programs share a CTA: two or three of four warps.

    Only measurements choose them; they are not predicted well enough yet to be taken without.
    """
    if not space.shares or space.num_warps > WARP_GROUP:
        return
    for it in forms:
        if it.groups == 1:
            yield from (replace(it, groups=programs, split="programs") for programs in _PROGRAMS)


def _split_forms(space: Space, forms: Sequence[Plan]) -> Iterator[Plan]:
    """The forms in which several programs share a tile; only kernels whose sums the user lets round otherwise."""
    for it in forms if space.splits else ():
        if it.groups == 1 and it.form == "as_written":
            yield from (replace(it, split_k=shares) for shares in _SHARES)


@dataclass(frozen=True, slots=True)
class ExpectedRing:
    """A ring that the planner is expected to make."""

    name: str
    slot_bytes: int
    fill: Fill = "tma"
    payload: tuple[str, ...] = ()
    converted: bool = False
    fills: int | None = None


def completed(space: Space, form: Plan) -> Plan:
    """The Plan that the planner is expected to make of a form: completed from what is counted before layouts."""
    counts, options = expected_counts(space, form), PlanOptions()
    try:
        plan = complete(form, counts, options)
    except ResourceError:  # the planner will decline it
        one_slot = tuple(RingPlan(it.name, depth=1) for it in counts.rings)
        plan = complete(replace(form, rings=one_slot), counts, options)
    chained = any(dot.chained for dot in space.workload.dots)
    waits = any(dot.unit != "wgmma" for dot in space.workload.dots)
    (loop,) = plan.loops
    loop = replace(loop, mma_depth=0 if chained or waits else loop.mma_depth, stages=2 if chained and not waits else 0)
    kept, every = _kept_pointers(space, form)
    paths: list[Path] = [*("pointers" for _ in range(kept)), *("promoted" for _ in range(every - kept))]
    operands = (OperandPlan("operand", None, at, path, ring=_INNER) for at, path in enumerate(paths))
    by_tma = space.promotes(form) is True and form.form == "persistent"
    stores = (StorePlan("result", path="promoted"),) if by_tma else ()
    return replace(plan, loops=(loop,), operands=tuple(operands), stores=stores)


def expected_counts(space: Space, plan: Plan) -> Counts:
    """The rings of a form, and the resources for them, from the counts of the workload alone.

    Tiles that are loaded outside the innermost loops have a ring if a loop is around them, and stay with the consumer
    otherwise.
    """
    workload, groups, persistent = space.workload, plan.groups or 1, plan.form == "persistent"
    warps = max(space.num_warps, WARP_GROUP) // plan.own_groups
    slot, around, once = _operand_bytes(workload, persistent)
    fill: Fill = "cp.async" if _kept_pointers(space, plan)[0] else "tma"
    rings = [ExpectedRing(_INNER, max(1, slot), fill)]
    if around:
        rings.append(ExpectedRing(_OUTER, plan.programs * around, fill))
    many, straight = persistent or plan.programs > 1, is_straight(workload)
    stored = {work.depth > 0: 0 for work in workload.blocks.values()}
    for work in workload.blocks.values():
        stored[work.depth > 0] = max(stored[work.depth > 0], work.stored_bytes)
    staged = max(stored.values()) if many else stored.get(True, 0)
    behind = 0 if many else stored.get(False, 0)
    transposed = max(
        (sum(it.transposed_bytes * it.batch for it in work.dots) for work in workload.blocks.values()), default=0
    )
    inside = plan.programs * (once + transposed)
    if groups > 1:  # each group stores its part beside the rings
        inside, behind = max(inside, behind), 0
    dots = [[it for it in work.dots if it.unit == "wgmma"] for work in workload.blocks.values()]
    registers = RegisterInfo.of([[_accumulator(it, plan.own_groups, warps) for it in block] for block in dots], warps)
    budget = Budget(
        warps,
        space.num_stages,
        SHARED_BYTES,
        SharedInfo(plan.programs * staged, inside, behind, plan.programs * transposed),
        registers,
        max_registers=space.max_registers,
        groups=groups,
        outer=frozenset({_OUTER}),
        producer_registers=_producer_registers(space, plan, registers.accumulators, warps * groups),
        most_ctas=1 if many else None,
        launch_warps=space.num_warps,
        straight=straight,
    )
    return Counts(tuple(rings), budget)


def is_straight(workload: Workload) -> bool:
    """Whether no dot is in a loop, so that only a persistent form can be specialised."""
    return all(workload.loops[block] is None for block, work in workload.blocks.items() if work.dots)


def _accumulator(dot: DotWork, groups: int, warps: int) -> AccumulatorInfo:
    """The accumulator of a dot in one of the groups that share its rows."""
    rows = dot.rows // groups
    return AccumulatorInfo(rows * dot.columns * dot.batch, wgmma_columns(rows, dot.columns, warps))


def _producer_registers(space: Space, plan: Plan, accumulators: int, num_warps: int) -> int:
    """The registers per thread of the producer, from the counts of its loads."""
    left, every = _kept_pointers(space, plan)
    kept = [load for work in space.workload.blocks.values() for load in kept_loads(work, left / max(1, every))]
    if not kept:
        return PRODUCER_REGISTERS
    accesses = sum(math.ceil(load.pieces / (WARP_GROUP * WARP)) for load in kept)
    held = sum(load.bytes for load in kept if load.fill == "registers") // (4 * WARP_GROUP * WARP)
    return registers_for_addresses(accesses, held, accumulators, num_warps, space.max_registers)


def _kept_pointers(space: Space, plan: Plan) -> tuple[int, int]:
    """The operands that a form leaves to pointers, of all that are loaded through pointers."""
    every = sum(load.operand and not load.tma for work in space.workload.blocks.values() for load in work.loads)
    return max(0, every - (space.promoted if space.promotes(plan) else 0)), every


def variants(space: Space, form: Plan) -> Iterator[Program]:
    """Programs of a form that differ from the usual one in D, P and stages."""
    if form.form == "unpartitioned":
        yield space.program(form)
        return
    usual, counts = space.program(form), expected_counts(space, form)
    slots = usual.slots
    for depth in sorted({slots, max(1, slots - 1), min(slots, DEFAULT_DEPTH), min(slots, 2)}, reverse=True):
        depths = counts.budget.depths(counts.rings, depth)
        rings = tuple(replace(it, depth=own) for it, own in zip(usual.plan.rings, depths, strict=True))
        plan = replace(usual.plan, rings=rings)
        if usual.staged:
            yield replace(usual, plan=plan)
        for in_flight in _MMA_DEPTHS:  # rings that are filled outside the innermost loops may have one slot
            if in_flight < min(depths) and (not usual.staged or not in_flight):
                loop = LoopPlan(0, mma_depth=in_flight, stages=0)
                yield replace(usual, plan=replace(plan, loops=(loop,)))


def variant_words(made: Program) -> str:
    """D, P and stages for people."""
    return f"D = {made.slots}, " + ("stages" if made.staged else f"P = {made.in_flight}")


def _operand_bytes(workload: Workload, persistent: bool) -> tuple[int, int, int]:
    """Bytes of the operands of one iteration, and of those outside the innermost loops: in a loop, and in none."""
    slot = around = once = 0
    for block, work in workload.blocks.items():
        if work.dots and workload.loops[block] is not None:
            slot = max(slot, work.operand_bytes)
        elif persistent or work.depth:
            around += work.operand_bytes
        else:
            once += work.operand_bytes
    return slot, around, once


def form_of(space: Space, plan: Plan) -> Plan:
    """The form of a complete Plan."""
    if plan.form == "unpartitioned":
        if plan.num_warps:
            return replace(UNPARTITIONED, num_warps=plan.num_warps)
        ahead = AHEAD if any(it.prefetched for it in plan.operands) else NOT_AHEAD
        return UNROLLED if plan.unrolled else ahead
    return Plan(
        form="persistent" if plan.form == "persistent" else "as_written",
        tiles="dynamic" if plan.tiles == "dynamic" else None,
        tile_order="longest_first" if plan.tile_order == "longest_first" else None,
        groups=plan.groups or 1,
        split="programs" if plan.programs > 1 else None,
        split_k=plan.split_k if (plan.split_k or 1) > 1 else None,
        ctas_per_sm=plan.ctas_per_sm if only_measured(plan) and not is_straight(space.workload) else None,
        operands=(_POINTERS,) if space.promotes(plan) is False else (),
    )
