"""The numbers of NVIDIA Hopper, and those of Tawa that were tuned or estimated on it, each with its source.

Limits of an SM and of a thread, rates of its units, the latencies of the scheduler, the cost model of the simulator's
clock, and the sizes that the planner starts from. The analyses, the planner and the simulator compute with them. The
thresholds of the search for a Plan are in `tawa.plan.thresholds`.
"""

from __future__ import annotations

from dataclasses import dataclass

# -- limits (CUDA C++ Programming Guide, "Compute Capability 9.0") -----------------------------------------------------

SHARED_BYTES = 227 * 1024
"""The most shared memory of a CTA."""
SM_SHARED_BYTES = 228 * 1024
"""Shared memory of an SM."""
CTA_RESERVED_BYTES = 1024
"""Shared memory that the system reserves for each CTA."""
REGISTERS = 64 * 1024
"""Registers of an SM, 32 bits each."""
MAX_REGISTERS = 256
"""The most registers of a thread, as allocated (255 can be addressed)."""
REGISTER_STEP = 8
"""The granularity of registers per thread, at allocation and for `setmaxnreg`."""
WARP = 32
"""Threads of a warp."""
WARP_GROUP = 4
"""Warps of a warp group, which issues a wgmma together."""
PROCESSORS = 132
"""SMs of an H100 or H200 (SXM)."""
WGMMA_ROWS = 64
"""M of one wgmma: B is read from shared memory once for each 64 rows."""
WGMMA_K_BYTES = 32
"""Bytes of a row of A that one wgmma reads (PTX ISA): 16 elements of 16 bits."""
WGMMA_COLUMNS = 256
"""The largest N of one wgmma (PTX ISA)."""
ACCUMULATOR_COLUMNS = 8
"""Columns after which the layout of an accumulator repeats: four threads of a row have two elements each (PTX ISA)."""
TMA_CHUNK_BYTES = 16
"""TMA's unit of addresses, strides and rows of a box (CUDA driver API, cuTensorMapEncodeTiled). Measured on an H200: in
its innermost dimension, a box must begin at a multiple of it, and a store or a reduction at 0 or more; these change
whole chunks, also where a row of the tensor ends within one. Loads fill with zeros behind the last element."""


def wgmma_columns(rows: int, columns: int, num_warps: int) -> int:
    """N of the wgmmas that Triton makes of a dot: warps that have no rows of their own share the columns."""
    beside = max(1, num_warps * WGMMA_ROWS // WARP_GROUP // max(1, rows))
    return min(WGMMA_COLUMNS, max(ACCUMULATOR_COLUMNS, columns // beside))


SLACK_BYTES = 1024
"""Shared memory for padding between buffers (TMA tiles start at multiples of 1024 bytes), barriers, small scratch."""

# -- clocks ------------------------------------------------------------------------------------------------------------

CLOCK_GHZ = 1.755
"""In which the model of time counts cycles (`tawa.machine.coefficients`): near that of an H200 under load."""
DATA_SHEET_GHZ = 1.83
"""In which the simulator counts them: 989.4 TFLOP/s / (2 · 132 SMs · 2048 multiply-adds)."""

# -- rates of an SM, per cycle (H100 whitepaper; CUDA C++ Programming Guide, "Arithmetic Instructions") -----------

FP16_FMA_PER_CYCLE = 2048
"""Multiply-adds of the tensor cores: 989.4 TFLOP/s / (2 · 132 SMs · 1.83 GHz); tf32 half of it, fp8 and int8 twice."""
_BITS = {"f32": 32, "tf32": 32, "f16": 16, "bf16": 16}


def fma_per_cycle(element: str, fp16: int = FP16_FMA_PER_CYCLE) -> int:
    """Multiply-adds per cycle of the tensor cores on operands of type `element`; fp16: the rate of fp16."""
    return fp16 * 16 // _BITS.get(element, 8)


SHARED_BYTES_PER_CYCLE = 128
"""32 banks of 4 bytes."""
LANES_PER_CYCLE = 128
"""fp32 operations. One warp can use a quarter of an SM, so four or more warps can use all lanes."""
CONVERSIONS_PER_CYCLE = 64
SPECIAL_PER_CYCLE = 16
"""exp2, log2, sin, cos, rsqrt."""
SHUFFLES_PER_CYCLE = 32
"""Values that warps exchange (`shfl`)."""

# -- narrow elements in registers (Triton 3.6: PTX and SASS of attention, d = 128) -------------------------------------

PACKED_BITS = 16
"""The narrowest elements that loops carry packed. LLVM carries a pair of fp16 or bf16 elements as one 32-bit vector: a
loop with stages has 461 instructions, one without 460. Narrower elements it carries one by one, in a register each."""
REPACKING_SLOTS = 3.4
"""Issue slots an iteration for each such element: `prmt`, `shr` and `cvt` take results apart and put operands together.
With fp8 scores, 64 to a thread, a loop that carries them has 702 instructions, one that carries fp32 504, and one
without stages 483."""

# -- latencies of the scheduler (tawa.analysis.loops.costs) ------------------------------------------------------------
# A scheduler needs proportions, not exact times: these are rounded, and they are latencies of an idle chip, unlike
# those of the simulator's clock below.

LATENCY_CYCLES = 32
"""From the last product of a wgmma to its registers, including the wait; an estimate."""
SHARED_LATENCY_CYCLES = 30
BARRIER_CYCLES = 20
GLOBAL_CYCLES = 400
SHUFFLE_CYCLES = 25
INNER_TRIPS = 8
"""The assumed trip count of an inner loop with unknown bounds."""

# -- the simulator's clock (tawa.sim.time.cost) ------------------------------------------------------------------------
# Sources: [W] NVIDIA H100 whitepaper, [A] NVIDIA A100 whitepaper, [G] CUDA C++ Programming Guide, "Arithmetic
# Instructions", compute capability 9.0, [L] Luo et al., arXiv 2402.13499 and 2501.12084 (measured latencies), [E] an
# estimate, [M] measured on an H200 (bench/results/ablation.json): a ring that loads one slot at a time (D=2 P=1, 8
# warps, one CTA an SM) takes 1598 cycles a step of 32 KiB (128x128x64, 317 TFLOP/s) and 1856 a step of 48 KiB
# (128x256x64, 546 TFLOP/s) at 1.83 GHz: 64 bytes a cycle, and 1085 cycles of which some 130 are barriers and issue.


@dataclass(frozen=True, slots=True)
class CostModel:
    """Rates per cycle of one SM, and latencies in cycles.

    fp16_fma_per_cycle: 989.4 TFLOP/s / (2 · 132 SMs · 1.83 GHz) = 2048 [W]; tf32 half of it, fp8 and int8 twice.
    shared_bytes_per_cycle: 32 banks of 4 bytes [G].
    memory_bytes_per_cycle, memory_latency_cycles: [M], below. 64 bytes is also the width of the SM's port to L2 [A];
        the latency is that of a busy chip (unloaded: L2 260, DRAM 480, TMA 170 more [L]). DRAM alone gives 3.35 TB/s /
        (132 · 1.83 GHz) = 13.9 bytes to each SM (H200: 4.8 TB/s, 19.9): the rate holds if four of five bytes hit
        L2, as for tiles of a GEMM.
    lanes_per_cycle: 128 fp32 operations [G]; `tawa.sim.time.cost` has the costs of other operations relative to them.
    shared_latency_cycles: 29 [L]. wgmma_latency_cycles: from the last product to the registers [E].
    barrier_cycles: an arrive, an expect, or a wait that does not block [E]: one access to shared memory.
    tma_issue_cycles, fence_cycles, shuffle_cycles, scalar_cycles, fork_cycles: [E].
    tensor_bytes_per_cycle: of tensor memory, which Hopper does not have (`tawa.machine.blackwell`).
    """

    clock_ghz: float = DATA_SHEET_GHZ
    fp16_fma_per_cycle: int = FP16_FMA_PER_CYCLE
    shared_bytes_per_cycle: int = SHARED_BYTES_PER_CYCLE
    memory_bytes_per_cycle: int = 64
    lanes_per_cycle: int = LANES_PER_CYCLE
    memory_latency_cycles: int = 950
    shared_latency_cycles: int = 29
    wgmma_latency_cycles: int = LATENCY_CYCLES
    barrier_cycles: int = 29
    tma_issue_cycles: int = 20
    fence_cycles: int = 20
    shuffle_cycles: int = SHUFFLE_CYCLES
    scalar_cycles: int = 2
    fork_cycles: int = 200
    tensor_bytes_per_cycle: int = SHARED_BYTES_PER_CYCLE

    def fma_per_cycle(self, element: str) -> int:
        """Multiply-adds per cycle of the tensor cores on operands of type `element`."""
        return fma_per_cycle(element, self.fp16_fma_per_cycle)


H100 = CostModel()
"""The default model of timelines."""

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
VECTOR_BYTES = 16
"""The most bytes that one instruction of a thread loads, or copies to shared memory (PTX ISA: ld, cp.async)."""
BANK_BYTES = 128
"""Bytes of one row of all banks of shared memory (CUDA C++ Programming Guide, shared memory)."""
MATRIX_ROWS = 8
"""Rows of 16 bytes that ldmatrix reads at a time (PTX ISA)."""
CP_ASYNC_BYTES = 4
"""The fewest bytes that one cp.async copies (PTX ISA)."""
ROW_BYTES = 128
"""The most bytes of a row that TMA fetches at a time (bench/results/small.json: 128 x 64 x 32 at 2048³ and 4096³)."""

# -- usual launches (tawa.plan.cost.launches) --------------------------------------------------------------------------

USUAL_SIZES = (2048, 4096)
"""Values of integer arguments, where a compile does not know them: short and long loops."""
USUAL_TRIPS = 32
"""Iterations of a loop whose bounds memory decides."""
SECTION_WAVES = 2
"""Waves of programs whose tiles a persistent form starts longest first before it goes on to other data. One wave reads
the least data at a time; with two, the long tiles of a section do not all end at once. Not measured."""
USUAL_WAVES = 8
"""Programs for each SM, where a compile does not know the grid."""

# -- registers (tawa.plan.cost.registers, tawa.plan.decide.loops) ------------------------------------------------------

LEAST_REGISTERS = 24
"""Per thread of a partition: the minimum of `setmaxnreg` (PTX ISA)."""
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
LARGEST_PRODUCER_TILE = 8 * 1024
"""Bytes of a tile that a producer may compute for a trip count or a condition: 16 registers of each thread."""
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

PING_PONG_CYCLES = 40
"""The cost of a section of ping-pong: a wait and an arrival, of `BARRIER_CYCLES` each."""

# -- schedules (tawa.plan.scheduler) -----------------------------------------------------------------------------------

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
