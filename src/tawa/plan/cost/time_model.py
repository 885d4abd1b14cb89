"""The model of time: how long a launch takes, for stock Triton's kernel and for each Plan.

    time = start + max(waves of programs · latency of one,  programs of an SM · their throughput bound)

The latency of a program is the sum over its blocks: an iteration takes as long as its chain of dots and other work,
or as long as the memory needs to refill a slot. The bound is the busiest unit of the SM: tensor cores, CUDA cores,
special functions, or the port to L2. The maximum is smooth (a p-norm), because units never overlap fully.

    stock Triton             dot, wait, the work on its result, next iteration; CTAs on the SM overlap with each other;
                             if ptxas serialises its wgmmas, each of their instructions waits
    a converter              transposes operands for the consumers; an iteration takes at least as long as it does
    one consumer             the producer refills slots; with P > 0 or stages, dots overlap with other work
    several consumers        each has its share of the chain; the bound holds for all of them
    programs share a tile    so many more programs, each with a part of the iterations; all store their sums, one loads
                             them. No measurement has fitted this yet, so that only a clear gain counts

A program is a sequence of phases. Those of a kernel are the blocks of its workload; operators ask about kernels that
are not compiled yet, whose phases they state (`tawa.plan.cost.tile_time`).

Coefficients: `tawa.machine.coefficients`, fitted to measured kernels; docs/choosing.md shows how well.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from tawa.analysis.work.visits import Visits
from tawa.analysis.work.workload import BlockWork, DotWork, Workload
from tawa.machine.coefficients import Coefficients, fitted
from tawa.machine.machines import WGMMA
from tawa.machine.nvidia import (
    CONVERSIONS_PER_CYCLE,
    LANES_PER_CYCLE,
    SHARED_BYTES_PER_CYCLE,
    SHARED_LATENCY_CYCLES,
    SPECIAL_PER_CYCLE,
    WARP_GROUP,
)
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program, kept_loads

_SUM_BYTES = 4
_WORD_BYTES = 4
"""Bytes that one permutation puts together."""
_NARROW = 8
"""Bits of elements that are packed into registers anew in each iteration that carries them."""
_LEAST_AHEAD = 0.5
"""Slots by which a producer is ahead, at least: it fills the next one while this one is read."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What a program executes again and again. loop: whose body it is, None for none. entries: of this loop."""

    work: BlockWork
    count: float = 1.0
    loop: Hashable = None
    entries: float = 0.0


def phases_of(workload: Workload, visits: Visits) -> list[Phase]:
    """The phases of a mean program."""
    return [
        Phase(work, visits.blocks.get(block, 0.0), loop, visits.entries.get(loop, 0.0) if loop is not None else 0.0)
        for block, work in workload.blocks.items()
        for loop in (workload.loops[block],)
    ]


def predict(workload: Workload, launch: Launch, program: Program, coefficients: Coefficients | None = None) -> float:
    """Microseconds of one launch of a kernel. coefficients: those of the fit, if None."""
    return time_us(phases_of(workload, launch.visits), launch, program, coefficients)


def time_us(
    phases: Sequence[Phase], launch: Launch, program: Program, coefficients: Coefficients | None = None
) -> float:
    """Microseconds of one launch of programs with these phases. coefficients: those of the fit, if None."""
    c = coefficients or fitted().coefficients
    if program.shares > 1:
        return _shared_us(phases, launch, program, c)
    latency, bound, fill = _program(phases, program, c)
    start = c.start_specialised if program.specialised else c.start_stock
    if program.persistent:
        on_one = _tiles_of_busiest(launch, program)
        if launch.visits.guessed and on_one > 1 and not program.dynamic:
            on_one *= c.uneven
        ctas = max(1, min(program.ctas, launch.on_one)) * program.programs
        cycles = together(on_one / ctas * latency, on_one * bound, ctas * program.groups, c) + fill
    else:
        on_one = launch.on_one if launch.in_order is None else launch.in_order
        in_ctas = program.ctas * program.programs  # programs of a CTA fill each other's waits as CTAs do
        ctas = max(1, min(in_ctas, launch.on_one))
        waves = on_one / ctas
        if launch.in_order is None:
            waves += c.tail * (math.ceil(waves) - waves)
        cycles = together(waves * (latency + fill), on_one * bound, ctas * program.groups, c)
    return start + cycles / program.machine.clock_ghz / 1e3


def busy_us(workload: Workload, launch: Launch, program: Program) -> dict[str, float]:
    """Microseconds for which a launch keeps each unit of the busiest SM busy; "latency": if its CTAs did nothing else.

    Together they say what bounds a kernel: a launch takes at least as long as the largest of them.
    """
    c, phases = fitted().coefficients, phases_of(workload, launch.visits)
    waves = launch.on_one / max(1, min(program.ctas, launch.on_one))
    cycles = {"latency": waves * _program(phases, program, c)[0]}
    for it in phases:
        for unit, one in _units(it.work, program, c).items():
            cycles[unit] = cycles.get(unit, 0.0) + launch.on_one * it.count * one
    return {unit: found / program.machine.clock_ghz / 1e3 for unit, found in cycles.items()}


def _units(work: BlockWork, program: Program, c: Coefficients) -> dict[str, float]:
    """Cycles of each unit in one execution of a block."""
    special = work.work.special / SPECIAL_PER_CYCLE * c.special
    return {
        "memory": sum(load.bytes for load in work.loads) / c.bytes_per_cycle + work.stored_bytes / c.bytes_per_cycle,
        "tensor cores": sum(_dot_cycles(dot, program, c) for dot in work.dots),
        "special functions": special,
        "CUDA cores": _cuda_cycles(work, program, c) - special,
    }


def _shared_us(phases: Sequence[Phase], launch: Launch, program: Program, c: Coefficients) -> float:
    """Microseconds of a launch whose programs share tiles.

    The partial sums go through L2: each program stores its own, and the last one of a tile loads all of them, after a
    latency each for the stores, the arrival, and the loads.
    """
    shares = program.shares
    parts = [it if it.loop is None else replace(it, count=it.count / shares) for it in phases]
    programs = replace(launch, programs=launch.programs * shares, in_order=None, strided=None, longest_first=None)
    sums = max((sum(dot.rows * dot.columns * dot.batch for dot in it.work.dots) for it in phases), default=0)
    stored = sums * _SUM_BYTES * c.store / SHARED_BYTES_PER_CYCLE * programs.on_one
    loaded = shares * sums * _SUM_BYTES / c.bytes_per_cycle * launch.on_one
    added = (stored + loaded + 3 * c.latency) / program.machine.clock_ghz / 1e3
    alone = replace(program, plan=replace(program.plan, split_k=None))
    return time_us(parts, programs, alone, c) + added


def _tiles_of_busiest(launch: Launch, program: Program) -> float:
    """The tiles' worth of work of the busiest SM, in a persistent form."""
    work = launch.strided if not program.dynamic else launch.longest_first if program.longest_first else launch.in_order
    return launch.on_one if work is None else work


def together(latency: float, bound: float, agents: int, coefficients: Coefficients | None = None) -> float:
    """Cycles until `agents` consumers that share an SM are done. Each fills the waits of the others; one alone cannot.

    latency: cycles of one consumer alone. bound: cycles in which all of them together keep the busiest unit busy.
    coefficients: those of the fit, if None.
    """
    if agents == 1:
        return max(latency, bound)
    return _norm((coefficients or fitted().coefficients).sharing, latency, bound)


def _program(phases: Sequence[Phase], program: Program, c: Coefficients) -> tuple[float, float, float]:
    """Cycles of one program alone, the least that it keeps a unit busy, and those until its first slots are filled."""
    latency = bound = 0.0
    spilled = program.spilled * c.spill / max(1, sum(bool(it.work.dots) for it in phases))
    for it in phases:
        if not it.count:
            continue
        chain, busy = _block(it.work, program, c)
        if it.work.dots:
            chain, busy = chain + spilled, busy + program.groups * spilled
        latency += it.count * chain
        bound += it.count * busy
        if it.loop is not None and _is_staged(it.work, program):  # its first and last iterations overlap with nothing
            latency += it.entries * c.drain_staged * chain
    loops = sum({it.loop: it.entries for it in phases if it.work.dots and it.loop is not None}.values())
    fill = c.fill_specialised if program.specialised else c.fill_stock
    latency += loops * (c.drain_specialised if program.specialised else c.fill_stock)
    return latency, bound, fill


def _block(work: BlockWork, program: Program, c: Coefficients) -> tuple[float, float]:
    """Cycles of one execution of a block: of its chain in one consumer, and of the busiest unit for all consumers."""
    tensor = sum(_dot_cycles(dot, program, c) for dot in work.dots)
    kept = kept_loads(work, program.by_pointers)
    rows = sum(load.runs if load in kept else load.rows for load in work.loads if load.operand)
    moved = max(work.operand_bytes / c.bytes_per_cycle, rows * c.row)
    addresses = (work.addresses.slots + work.addresses.integers) * work.addresses_computed
    serving = program.by_pointers * addresses / LANES_PER_CYCLE * c.address
    serving += sum(load.pieces * (c.through if load.fill == "registers" else c.copy) for load in kept) / LANES_PER_CYCLE
    waiting = c.arrival * (any(load.fill == "registers" for load in kept) + any(load.serves for load in work.loads))
    waiting += c.scalar * (work.scalar_loads > 0)
    cuda = _cuda_cycles(work, program, c) + _carried(work, program, c) + (0.0 if program.specialised else serving)
    busy = _norm(c.overlap, tensor, cuda, moved / program.programs)  # one copy of a tile serves all programs of a CTA
    warps = max(1.0, program.num_warps / program.groups / program.programs / WARP_GROUP)
    own = cuda / program.groups * (1 + c.alone / warps) + work.work.shuffles * c.shuffle
    if work.dots and any(not load.operand and not load.serves for load in work.loads):
        own += c.beside_specialised if program.specialised else c.beside_stock
    if not work.dots:
        return own + c.block + c.outside * any(not load.serves for load in work.loads), busy
    waited = sum(_by_wgmma(dot, program) for dot in work.dots)
    share = max(tensor / program.groups, sum(_steps_cycles(dot, program, c) for dot in work.dots))
    share += (len(work.dots) - waited) * c.wait_mma
    if program.specialised:
        exposed = (c.exposed + moved) * (_is_exposed(work) and not program.persistent)
        chain = _specialised_chain(share, own, moved, serving + waiting, waited, _is_staged(work, program), program, c)
        return max(chain, _converter_cycles(work, program)) + exposed, busy
    chained = any(dot.chained or dot.computed for dot in work.dots)
    wait = c.wait_chained if chained else c.wait_stock
    chain = share + own + waited * (wait + (warps - 1) * c.sync) + waiting
    if program.serialised:
        chain += sum(_instructions(dot, warps) for dot in work.dots) * c.wait_serialised
    if program.slots <= 1 or _is_exposed(work):
        return chain + c.exposed + moved, busy
    return max(chain, (c.latency + moved) / (program.slots - 1 - c.held)), busy


def _is_exposed(work: BlockWork) -> bool:
    """Whether the block loads operands of its dots in no loop, so that nothing loads them ahead."""
    return not work.depth and any(load.operand for load in work.loads)


def _is_staged(work: BlockWork, program: Program) -> bool:
    """Whether the block is the body of a loop with stages: one whose dots depend on other work of an iteration."""
    return program.specialised and program.staged and any(dot.chained or dot.computed for dot in work.dots)


def _carried(work: BlockWork, program: Program, c: Coefficients) -> float:
    """Cycles of packing operands that stages carry in 8 bits: each byte takes a register."""
    narrow = (dot.rows * dot.inner * dot.batch for dot in work.dots if dot.computed and dot.bits <= _NARROW)
    return sum(narrow) / LANES_PER_CYCLE * c.carried if program.narrow and _is_staged(work, program) else 0.0


def _specialised_chain(
    dots: float, own: float, moved: float, serving: float, count: int, staged: bool, program: Program, c: Coefficients
) -> float:
    """Cycles of an iteration of a consumer: its own, or the producer's until the slot is full again.

    dots, own: cycles of its dots and of its other work. moved, serving: of the operands, and of their addresses.
    """
    if staged:
        chain = _norm(c.overlap, dots, own) + c.wait_staged
    elif program.in_flight:
        chain = _norm(c.overlap, dots, own) + c.wait_in_flight
    else:
        chain = dots + own + count * c.wait_specialised
    latency = c.latency_tma + program.by_pointers * (c.latency - c.latency_tma)
    if program.slots == 1:
        return chain + latency + moved + serving
    ahead = max(_LEAST_AHEAD, program.slots - (1 if staged else program.in_flight))  # stages take the place of P
    return max(chain, (latency + moved + dots * c.held_specialised) / ahead + serving)


def _cuda_cycles(work: BlockWork, program: Program, c: Coefficients) -> float:
    """Cycles of the CUDA cores and of the way to and from memory, if all warps work."""
    counts = work.work
    lanes = ((counts.slots + counts.integers) / LANES_PER_CYCLE + counts.conversions / CONVERSIONS_PER_CYCLE) * c.lanes
    lanes += counts.narrow / CONVERSIONS_PER_CYCLE * c.narrow
    special = counts.special / SPECIAL_PER_CYCLE * c.special
    transposed = _transposed_bytes(work) * c.transpose * (not program.piece_bytes)
    lanes += _transposed_bytes(work) / _WORD_BYTES / CONVERSIONS_PER_CYCLE * bool(program.piece_bytes)
    by_tma = work.stored_bytes - (0 if program.stores_by_tma else work.pointer_stored_bytes)
    through = by_tma * c.store_tma + (work.stored_bytes - by_tma) * c.store
    loaded = sum(load.bytes for load in work.loads if not load.operand) * c.store
    return lanes + special + (transposed + through + loaded) / SHARED_BYTES_PER_CYCLE


def _transposed_bytes(work: BlockWork) -> int:
    """Bytes of the operands that wgmma cannot read as they are stored."""
    return sum(dot.transposed_bytes * dot.batch for dot in work.dots)


def _converter_cycles(work: BlockWork, program: Program) -> float:
    """Cycles of a converter: it loads a piece and stores it, one after the other."""
    if not program.piece_bytes:
        return 0.0
    pieces = _transposed_bytes(work) / program.piece_bytes
    return pieces * 2 * (program.piece_bytes / SHARED_BYTES_PER_CYCLE + SHARED_LATENCY_CYCLES)


def _dot_cycles(dot: DotWork, program: Program, c: Coefficients) -> float:
    wgmma, of = _by_wgmma(dot, program), program.machine.dot
    rows = max(dot.rows, of.rows) if wgmma else dot.rows
    products = rows * dot.columns * dot.inner * dot.bits / (program.machine.costs.fp16_fma_per_cycle * 16)
    factor = c.tensor_8 if dot.bits <= 8 else c.tensor_16 if dot.bits <= 16 else c.tensor_32
    factor *= 1.0 if wgmma else c.tensor_mma
    read = (
        (dot.inner * dot.columns * max(1.0, rows / of.rows) + (0 if dot.computed else rows * dot.inner)) * dot.bits / 8
    )
    return dot.batch * max(products * factor, read / SHARED_BYTES_PER_CYCLE)


def _steps_cycles(dot: DotWork, program: Program, c: Coefficients) -> float:
    """The least cycles of a dot by mma.sync: those of its steps along K, each of which waits for the one before."""
    return 0.0 if _by_wgmma(dot, program) else dot.inner * dot.bits / 8 / WGMMA.k_bytes * c.step_mma


def _by_wgmma(dot: DotWork, program: Program) -> bool:
    return dot.unit == "wgmma" and program.num_warps >= WARP_GROUP


def _instructions(dot: DotWork, warp_groups: float) -> float:
    """The wgmma instructions of a dot in each of its warp groups, one after the other."""
    steps = math.ceil(dot.inner * dot.bits / 8 / WGMMA.k_bytes) * math.ceil(dot.columns / WGMMA.columns)
    return dot.batch * steps * max(1.0, dot.rows / WGMMA.rows / warp_groups)


def _norm(power: float, *values: float) -> float:
    """A smooth maximum."""
    most = max(values)
    if most <= 0:
        return 0.0
    return most * sum((value / most) ** power for value in values if value > 0) ** (1 / power)
