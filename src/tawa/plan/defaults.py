"""The numbers that the planner starts from, each with its source: tuned, measured or estimated on an H100 or H200.

The thresholds of the search for a Plan are in `tawa.plan.thresholds`, the numbers of the machines in `tawa.machine`.
"""

from __future__ import annotations

from tawa.machine.nvidia import LEAST_REGISTERS

# -- rings and P (tawa.plan.planner) -----------------------------------------------------------------------------------

DEFAULT_MMA_DEPTH = 1
"""P if D allows it: one iteration of wgmmas in flight hides the release of a slot (bench/results/ablation.json)."""
DEFAULT_DEPTH = 3
"""The least D, unless it reduces the CTAs on the SM (bench/results/ablation.json)."""
BYTES_IN_FLIGHT = 128 * 1024
"""Bytes in flight that hide the latency of global memory: measured on an H200."""
MOST_SLOTS = 8
"""The most slots that pay for their barriers: measured on an H200."""
CONVERTED_SLOTS = 2
"""The slots of a ring that a converter fills: one is read while the other is filled. An estimate."""
EARLY_PUTS = 2
"""Slots that are filled before the partitions start; more do not help (bench/results/ablation.json)."""
AMPLE_SLOTS = 3
"""From this depth on, P = 1 is as fast as P = 0 for CTAs that share an SM (bench/pointers/small.py)."""

# -- usual launches (tawa.plan.cost.launches) --------------------------------------------------------------------------

USUAL_SIZES = (2048, 4096)
"""Values of integer arguments, where a compile does not know them: short and long loops."""
SECTION_WAVES = 2
"""Waves of programs whose tiles a persistent form starts longest first before it goes on to other data. One wave reads
the least data at a time; with two, the long tiles of a section do not all end at once. Not measured."""
USUAL_WAVES = 8
"""Programs for each SM, where a compile does not know the grid."""

# -- registers (tawa.plan.cost.registers, tawa.plan.decide.loops) ------------------------------------------------------

PRODUCER_REGISTERS = LEAST_REGISTERS
"""Per thread of a producer that only issues TMA copies."""
CONVERTER_WARPS = 2
"""Beside the producer's warp in one warp group, so that a CTA with two consumer groups still has twelve warps."""
CONVERTER_PIECES = {24: 1024, 40: 2048}
"""Bytes of a tile that a converter of two warps transposes at a time, by registers per thread: no spills (ptxas)."""


def piece_bytes_of(registers: int) -> int:
    """The largest pieces that a converter with this many registers per thread transposes without spills."""
    return max(size for count, size in CONVERTER_PIECES.items() if count <= max(registers, min(CONVERTER_PIECES)))


ADDRESS_REGISTERS = 40
"""Base number per thread of a producer with tiles of addresses; an estimate from ptxas' counts."""
POINTER_REGISTERS = 3
"""Per address in a thread of such a producer, including its mask."""
MAX_PRODUCER_REGISTERS = 168
"""The most per thread of a producer."""
WORKING_REGISTERS = 88
"""Per consumer thread in addition to accumulators: addresses, operands, temporaries of the epilogue; from ptxas."""
LEAST_WORKING_REGISTERS = 72
"""The least per consumer thread in addition to accumulators if a producer needs registers for addresses."""
INSTRUCTION_REGISTERS = 26
"""What ptxas needs in addition to the accumulator of one wgmma (C7602); the main loop of a stock GEMM needs as many."""
CHAINED_REGISTERS = 48
"""What an attention loop of stock Triton needs in addition to accumulators: 46 to 59 in kernels with d = 64."""
POINTER_LOOP_REGISTERS = 30
"""What a loop of stock Triton that loads through pointers needs in addition: addresses, masks; from ptxas' counts."""
MOST_CTAS = 4
"""The most CTAs on an SM that the planner assumes."""
KEPT_REGISTERS = 168
"""Per thread, for the results of a loop's dots and for operands kept in registers; with more, kernels spilled
(bench/results/flex.json)."""
BYTES_AHEAD = 32
"""Per thread, for all values that a loop carries for loads prefetched one iteration ahead."""

ELEMENTS_AHEAD = 3
"""Per thread, of the largest tile of a loop without dots, for each tile that is loaded ahead: with fewer, masks and
copies took longer than the wait in a trial on an H200 (``python -m bench.unpartitioned`` times it)."""

# -- schedules (tawa.plan.scheduler, tawa.plan.decide.ping_pong) -------------------------------------------------------

PING_PONG_CYCLES = 40
"""The cost of a section of ping-pong: a wait and an arrival, of `BARRIER_CYCLES` each."""
MAX_STAGES = 2
"""With three, two tiles of fp32 scores are live at a time; FlashAttention-3 (arXiv 2407.08608, appendix B.3) measured
that to be slower because of register pressure."""
MOST_DOTS = 6
"""The most dots of a loop for which every assignment of stages is tried."""
MOST_DELAYED = 3
"""The most dots of a loop for which delayed results are tried as well."""
RESERVED_REGISTERS = 32
"""Per thread, in addition to tiles: addresses, counts, temporaries of reductions."""
ALIKE = 1.02
"""Schedules whose lengths differ by less than this factor count as equally long."""
GAIN = 1.03
"""The factor by which a schedule must be shorter than waiting for each dot."""
