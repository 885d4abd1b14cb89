"""NVIDIA Hopper in numbers, and every number of Tawa that was tuned or estimated, each with its source.

Limits of an SM and of a thread, rates of its units, the latencies that the scheduler weighs, the cost model of the
simulator's clock, and the thresholds of the planner. Nothing here computes: the analyses, the planner and the simulator
do.
"""

from __future__ import annotations

from dataclasses import dataclass

# -- limits (CUDA C++ Programming Guide, "Compute Capability 9.0") -----------------------------------------------------

SHARED_BYTES = 227 * 1024
"""Shared memory of a CTA at most."""
SM_SHARED_BYTES = 228 * 1024
"""Shared memory of an SM."""
CTA_RESERVED_BYTES = 1024
"""Shared memory that the system takes for each CTA."""
REGISTERS = 64 * 1024
"""Registers of an SM, 32 bits each."""
MAX_REGISTERS = 256
"""Registers of a thread at most, as allocated (255 can be addressed)."""
REGISTER_STEP = 8
"""Registers of a thread are allocated, and set by `setmaxnreg`, in these steps."""
WARP = 32
"""Threads of a warp."""
WARP_GROUP = 4
"""Warps of a warp group: they issue a wgmma together."""
PROCESSORS = 132
"""SMs of an H100 or H200 (SXM)."""
WGMMA_ROWS = 64
"""M of one wgmma: B is read from shared memory once for each 64 rows."""
SLACK_BYTES = 1024
"""Shared memory for what lies between buffers (TMA tiles begin at multiples of 1024 bytes), barriers, small scratch."""

# -- rates of an SM, for each cycle (H100 whitepaper; CUDA C++ Programming Guide, "Arithmetic Instructions") -----------

FP16_FMA_PER_CYCLE = 2048
"""Multiply-adds of the tensor cores: 989.4 TFLOP/s / (2 · 132 SMs · 1.83 GHz); tf32 half of it, fp8 and int8 twice."""
SHARED_BYTES_PER_CYCLE = 128
"""32 banks of 4 bytes."""
LANES_PER_CYCLE = 128
"""fp32 operations. A warp has a quarter of an SM to itself, so that 4 warps or more see all of it."""
CONVERSIONS_PER_CYCLE = 64
SPECIAL_PER_CYCLE = 16
"""exp2, log2, sin, cos, rsqrt."""

# -- latencies that the scheduler weighs (tawa.analysis.loops.costs) ---------------------------------------------------
# A scheduler needs proportions, not times: these are rounder than those of the simulator's clock below, and of a chip
# that is not busy.

LATENCY_CYCLES = 32
"""From the last product of a wgmma to its registers, the wait included; an estimate."""
SHARED_LATENCY_CYCLES = 30
BARRIER_CYCLES = 20
GLOBAL_CYCLES = 400
SHUFFLE_CYCLES = 25
INNER_TRIPS = 8
"""Trips of an inner loop with unknown bounds."""

# -- the simulator's clock (tawa.sim.time.cost) ------------------------------------------------------------------------
# Sources: [W] NVIDIA H100 whitepaper, [A] NVIDIA A100 whitepaper, [G] CUDA C++ Programming Guide, "Arithmetic
# Instructions", compute capability 9.0, [L] Luo et al., arXiv 2402.13499 and 2501.12084 (measured latencies), [E] an
# estimate, [M] measured on an H200 (bench/results/ablation.json): a ring that loads one slot at a time (D=2 P=1, 8
# warps, one CTA an SM) takes 1598 cycles a step of 32 KiB (128x128x64, 317 TFLOP/s) and 1856 a step of 48 KiB
# (128x256x64, 546 TFLOP/s) at 1.83 GHz: 64 bytes a cycle, and 1085 cycles of which some 130 are barriers and issue.


@dataclass(frozen=True, slots=True)
class CostModel:
    """Rates for each cycle of one SM, and latencies in cycles.

    fp16_fma_per_cycle: 989.4 TFLOP/s / (2 · 132 SMs · 1.83 GHz) = 2048 [W]; tf32 half of it, fp8 and int8 twice.
    shared_bytes_per_cycle: 32 banks of 4 bytes [G].
    memory_bytes_per_cycle, memory_latency_cycles: [M], below. 64 bytes is also the width of the SM's port to L2 [A];
        the latency is that of a busy chip (unloaded: L2 260, DRAM 480, TMA 170 more [L]). DRAM alone gives 3.35 TB/s /
        (132 · 1.83 GHz) = 13.9 bytes to each SM (H200: 4.8 TB/s, 19.9): the rate holds where four of five bytes hit
        L2, as tiles of a GEMM do.
    lanes_per_cycle: 128 fp32 operations [G]; `tawa.sim.time.cost` says how many of them another operation is worth.
    shared_latency_cycles: 29 [L]. wgmma_latency_cycles: from the last product to the registers [E].
    barrier_cycles: an arrive, an expect, or a wait that passes at once [E]: one access to shared memory.
    tma_issue_cycles, fence_cycles, shuffle_cycles, scalar_cycles, fork_cycles: [E].
    """

    clock_ghz: float = 1.83
    fp16_fma_per_cycle: int = FP16_FMA_PER_CYCLE
    shared_bytes_per_cycle: int = SHARED_BYTES_PER_CYCLE
    memory_bytes_per_cycle: int = 64
    lanes_per_cycle: int = LANES_PER_CYCLE
    memory_latency_cycles: int = 950
    shared_latency_cycles: int = 29
    wgmma_latency_cycles: int = 32
    barrier_cycles: int = 29
    tma_issue_cycles: int = 20
    fence_cycles: int = 20
    shuffle_cycles: int = 25
    scalar_cycles: int = 2
    fork_cycles: int = 200

    def fma_per_cycle(self, element: str) -> int:
        """Multiply-adds of the tensor cores on operands of `element`."""
        bits = {"f32": 32, "tf32": 32, "f16": 16, "bf16": 16}.get(element, 8)
        return self.fp16_fma_per_cycle * 16 // bits


H100 = CostModel()
"""The model that timelines take unless told otherwise."""

# -- rings and P (tawa.plan.planner) -----------------------------------------------------------------------------------

DEFAULT_MMA_DEPTH = 1
"""P where D allows it: one iteration of wgmmas in flight hides the release of a slot (bench/results/ablation.json)."""
DEFAULT_DEPTH = 3
"""D at least, where it costs no CTA on the SM (bench/results/ablation.json)."""
BYTES_IN_FLIGHT = 128 * 1024
"""Bytes in flight that hide the latency of global memory: seen on an H200."""
MOST_SLOTS = 8
"""The most slots worth their barriers: seen on an H200."""
EARLY_PUTS = 2
"""Slots that are filled before the partitions start; more of them hide nothing more (bench/results/ablation.json)."""
AMPLE_SLOTS = 3
"""From this depth on, P = 1 in place of 0 costs CTAs that share an SM nothing (bench/pointers/small.py)."""

# -- whether it pays (tawa.plan.profitability, tawa.plan.decide.persistent, tawa.plan.cost.launch_work) ---------------

LEAST_FILLS = 3
"""Slots that a program fills at least, or else stock Triton loads them all ahead as well."""
SMALL_OPERANDS = 16
"""Bits of operands with which several CTAs an SM are left to stock Triton: 0.97 to 1.02 of stock, with tf32 1.04 to
1.39 (bench/results/gemm_matrix.json)."""
WIDE_INSTRUCTION = 128
"""Registers of the accumulator of a wgmma of 256 columns: one such CTA keeps the tensor cores of an SM busy (1.01 to
1.36 from 2048³ on, bench/results/small.json)."""
ENOUGH_SLOTS = 2
"""Slots of a ring with which a persistent form pays though the other form has more (bench/results/persistent.json).

With one slot nothing is loaded while the consumer computes."""
LEAST_CYCLES = 8000
"""A specialised kernel begins later than a stock one; a launch with less work on each SM is left to stock Triton's
(bench/results/small.json)."""
DOT_CYCLES = 350
"""What a program alone on its SM waits for each dot of stock Triton's: fitted to bench/pointers/small.py."""
STORE_CYCLES = 500
"""The same for each store."""
ROW_BYTES = 128
"""What TMA fetches of a row at a time (bench/results/small.json: 128 x 64 x 32 at 2048³ and 4096³)."""

# -- registers (tawa.plan.cost.registers, tawa.plan.candidates, tawa.plan.decide.loops) -------------------------------

PRODUCER_REGISTERS = 24
"""Of a producer that only issues TMA copies: the least that `setmaxnreg` takes (PTX ISA)."""
ADDRESS_REGISTERS = 40
"""Of a producer that works on tiles of addresses, beside these; an estimate from ptxas' counts."""
POINTER_REGISTERS = 3
"""For one address with its part of a mask."""
MAX_PRODUCER_REGISTERS = 168
"""The most that a producer is given."""
WORKING_REGISTERS = 88
"""Of a consumer beside its accumulators: addresses, operands and temporaries of the epilogue; seen in ptxas' counts."""
LEAST_WORKING_REGISTERS = 72
"""The least beside its accumulators that a consumer keeps where a producer needs registers for its addresses."""
INSTRUCTION_REGISTERS = 26
"""What ptxas wants beside the accumulator of one wgmma (C7602); also what the main loop of a stock GEMM takes."""
CHAINED_REGISTERS = 48
"""What an attention loop of stock Triton takes beside its accumulators: 46 to 59, seen in kernels of d = 64."""
MOST_CTAS = 4
"""CTAs on an SM at most that are counted on."""
KEPT_REGISTERS = 168
"""Of a thread, for the results of a loop's dots and for operands that are kept; above, kernels were seen to spill
(bench/results/flex.json)."""
HARMLESS_BYTES = 64
"""Spilled stores and loads together that do no harm: a few registers that are set aside once, beside loops that keep
the rest; an estimate."""
BYTES_AHEAD = 32
"""Of all that a loop carries for loads that it does an iteration ahead, for each thread."""

TURN_CYCLES = 40
"""What a turn costs a group: a wait and an arrival, of `BARRIER_CYCLES` each."""

# -- schedules (tawa.plan.scheduler) -----------------------------------------------------------------------------------

MAX_STAGES = 2
"""With three, two tiles of fp32 scores are alive at a time; FlashAttention-3 (arXiv 2407.08608, appendix B.3) measured
that to be slower for want of registers."""
MOST_DOTS = 6
"""Of a loop whose choices of stages are all tried."""
MOST_DELAYED = 3
"""Dots of a loop for which it is also tried to use results a stage later."""
RESERVED_REGISTERS = 32
"""Of a thread, beside its tiles: addresses, counts, temporaries of reductions."""
ALIKE = 1.02
"""Schedules whose lengths differ by less are taken to be equally long."""
GAIN = 1.03
"""How much shorter than waiting for each dot a schedule must be."""
