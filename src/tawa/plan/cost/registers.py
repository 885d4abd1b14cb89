"""Registers of the partitions of a CTA, and how many CTAs share an SM with them.

Limits: CUDA C++ Programming Guide, "Compute Capability 9.0".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tawa.analysis.layout.layouts import per_thread, tile_order
from tawa.analysis.resources import RegisterInfo, wgmma_registers
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.ir import Module
from tawa.machine.nvidia import (
    CTA_RESERVED_BYTES,
    MAX_REGISTERS,
    REGISTER_STEP,
    REGISTERS,
    SM_SHARED_BYTES,
    WARP,
    WARP_GROUP,
)
from tawa.plan.defaults import (
    ADDRESS_REGISTERS,
    CHAINED_REGISTERS,
    INSTRUCTION_REGISTERS,
    LEAST_WORKING_REGISTERS,
    MAX_PRODUCER_REGISTERS,
    MOST_CTAS,
    POINTER_REGISTERS,
    PRODUCER_REGISTERS,
    WORKING_REGISTERS,
)


def entry_registers(num_warps: int, limit: int | None = None, beside: int = 1) -> int:
    """Registers per thread at kernel entry: the even share of a CTA that fills an SM, or `limit` if that is less.

    num_warps: of all consumers; the producer's warps are padded to a warp group. limit: ``maxnreg`` of the launch, or a
    cap. beside: warp groups beside the consumers. With more registers, no GPU can launch the kernel.
    """
    even = min(REGISTERS // _threads(num_warps, beside), MAX_REGISTERS, limit or MAX_REGISTERS)
    return max(REGISTER_STEP, _step_down(even))


_THREADS = WARP_GROUP * WARP
"""Threads of a producer that computes on tiles."""


def consumer_registers(
    num_warps: int, limit: int | None = None, producer: int = PRODUCER_REGISTERS, beside: int = 1
) -> int:
    """Registers per consumer thread after the warp groups beside the consumers have given up theirs.

    As in Triton's allocate-warp-groups: each thread starts with an even share (at most `limit`), and the consumer gets
    the registers that the producer releases, in steps of 8.
    """
    pool = entry_registers(num_warps, limit, beside) * _threads(num_warps, beside)
    pool -= beside * producer * WARP_GROUP * WARP
    return min(_step_down(pool // (num_warps * WARP)), _step_down(MAX_REGISTERS))


def registers_of_an_sm(partitions: Sequence[tuple[int, int]], limit: int | None = None) -> tuple[int, int]:
    """The registers that partitions ask for, and the registers that their CTA has.

    partitions: warps, and registers per thread; limit: per thread at kernel entry. Partitions of fewer warps share warp
    groups, whose warps have the registers of the most demanding one, and the last group is padded.
    """
    groups: list[tuple[int, int]] = []  # warps, registers
    for warps, registers in sorted(partitions, key=lambda it: -it[0]):
        used, most = groups[-1] if groups and groups[-1][0] < WARP_GROUP else (0, 0)
        if used:
            groups.pop()
        groups.append((used + warps, max(most, registers)))
    threads = [-(-warps // WARP_GROUP) * WARP_GROUP * WARP for warps, _ in groups]
    even = _step_down(min(REGISTERS // sum(threads), MAX_REGISTERS, limit or MAX_REGISTERS)) if threads else 0
    needed = sum(count * registers for count, (_, registers) in zip(threads, groups, strict=True))
    return needed, even * sum(threads)


def producer_registers(
    loads: Sequence[DotLoadInfo], module: Module, num_warps: int, groups: int = 1, folded: int = 0,
    limit: int | None = None,
) -> int:  # fmt: skip
    """Registers per thread of the producer: 24 if TMA fills all rings, more for tiles of addresses (an estimate).

    num_warps: of one of the `groups` consumer groups, which keep at least the registers of their accumulators and
    `LEAST_WORKING_REGISTERS`. folded: elements of the largest tile that it folds into a number. limit: per thread at
    kernel entry.
    """
    by_threads = [info for info in loads if info.fill != "tma"]
    if not by_threads and not folded:
        return PRODUCER_REGISTERS
    accesses = held = 0
    for info in by_threads:
        tile = info.load.tile
        if tile is None:
            continue
        order = tile_order(module, tile.encoding)
        side_by_side = per_thread(module, tile.encoding, order[0]) if order else 1
        accesses += -(-math.prod(tile.shape) // (_THREADS * side_by_side))
        held += info.payload.bytes // (4 * _THREADS) if info.fill == "registers" else 0
    if not by_threads:
        accesses = folded // _THREADS
    accumulators = wgmma_registers(module, num_warps).accumulators
    return registers_for_addresses(accesses, held, accumulators, num_warps * groups, limit)


def registers_for_addresses(
    accesses: int, held: int, accumulators: int, num_warps: int, limit: int | None = None
) -> int:
    """Registers per thread of a producer with tiles of addresses.

    accesses: of a thread. held: its registers for loaded elements. accumulators: of a consumer thread. num_warps: of
    all consumers. limit: of the registers at kernel entry. Consumers keep what they need, or, if even the smallest
    producer does not leave them that, what it leaves them: few warps then have the most that a thread can have.
    """
    wanted = ADDRESS_REGISTERS + POINTER_REGISTERS * accesses + held
    least = min(accumulators + LEAST_WORKING_REGISTERS, consumer_registers(num_warps, limit))
    counts = range(PRODUCER_REGISTERS, MAX_PRODUCER_REGISTERS + 1, REGISTER_STEP)
    fitting = [count for count in counts if consumer_registers(num_warps, limit, count) >= least]
    return min([count for count in fitting if count >= wanted][:1] or fitting[-1:])


def register_cap(
    shared_bytes: int,
    num_warps: int,
    registers: RegisterInfo,
    producer: int = PRODUCER_REGISTERS,
    most: int | None = None,
    limit: int | None = None,
) -> tuple[int, int | None]:
    """The CTAs of the specialised kernel that share an SM, and the cap on registers at kernel entry, or None.

    A specialised kernel asks for all registers, so without a cap one CTA fills the SM. ptxas requires that a single
    wgmma fits under the cap (C7602), and that all accumulators fit into the registers of the consumer after
    `setmaxnreg`. most: the most CTAs that are wanted. limit: ``maxnreg`` of the launch, which no cap exceeds.
    """
    for ctas in range(min(_ctas_by_memory(shared_bytes), most or MOST_CTAS), 1, -1):
        cap = entry_registers(num_warps, min(limit or MAX_REGISTERS, REGISTERS // (ctas * _threads(num_warps))))
        room = consumer_registers(num_warps, cap, producer) - registers.accumulators
        if room >= WORKING_REGISTERS and cap >= registers.instruction + INSTRUCTION_REGISTERS:
            return ctas, cap
    cap = entry_registers(num_warps, limit)
    if cap == entry_registers(num_warps):
        return 1, None
    return ctas_under(cap, shared_bytes, num_warps, most), cap


def ctas_under(cap: int, shared_bytes: int, num_warps: int, most: int | None = None) -> int:
    """The CTAs of the specialised kernel that share an SM under a cap on registers; 0 for no cap."""
    by_registers = REGISTERS // (entry_registers(num_warps, cap) * _threads(num_warps))
    return max(1, min(_ctas_by_memory(shared_bytes), most or MOST_CTAS, by_registers))


def stock_ctas(
    shared_bytes: int, num_warps: int, registers: RegisterInfo, chained: bool = False, limit: int | None = None
) -> int:
    """An estimate of the CTAs of the stock kernel that share an SM.

    chained: whether a dot reads the result of another dot, which takes additional registers. limit: ``maxnreg``.
    """
    more = CHAINED_REGISTERS if chained else INSTRUCTION_REGISTERS
    count = min(registers.accumulators + more, limit or MAX_REGISTERS) * num_warps * WARP
    return max(1, min(_ctas_by_memory(shared_bytes), REGISTERS // count))


def _ctas_by_memory(shared_bytes: int) -> int:
    return min(SM_SHARED_BYTES // (shared_bytes + CTA_RESERVED_BYTES), MOST_CTAS)


def _threads(num_warps: int, beside: int = 1) -> int:
    """Threads of a CTA with so many warp groups beside consumers of so many warps."""
    return (num_warps + beside * WARP_GROUP) * WARP


def _step_down(count: int) -> int:
    return count // REGISTER_STEP * REGISTER_STEP
