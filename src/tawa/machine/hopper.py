"""Every number of the planner that was tuned or estimated, and where it comes from.

What the machine is like (bytes, registers, rates) stands with the analyses that count it: `tawa.analysis.resources`,
`tawa.analysis.loops.costs`.
"""

from __future__ import annotations

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
"""Slots from which on one more in the consumer's hands costs CTAs that share an SM nothing (bench/small.py)."""

# -- whether it pays (tawa.plan.profitability, tawa.plan.decide.persistent, tawa.plan.cost.launch_work) ----------------------------

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
"""What a program alone on its SM waits for each dot of stock Triton's: fitted to its small GEMMs (bench/small.py)."""
STORE_CYCLES = 500
"""The same for each store."""
ROW_BYTES = 128
"""What TMA fetches of a row at a time (bench/results/small.json: 128 x 64 x 32 at 2048³ and 4096³)."""

# -- registers (tawa.plan.cost.registers, tawa.plan.candidates, tawa.plan.decide.loops) --------------------------------------------

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
"""What a turn costs a group: a wait and an arrival, of 20 cycles each in `tawa.analysis.loops.costs`."""

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
