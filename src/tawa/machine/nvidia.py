"""The numbers that sm_90 and sm_100 share, each with its source; `tawa.machine.machines` has those that differ."""

from __future__ import annotations

# -- limits (CUDA C++ Programming Guide, "Compute Capability 9.0" and "10.0") ------------------------------------------

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
LEAST_REGISTERS = 24
"""Per thread of a partition: the minimum of `setmaxnreg` (PTX ISA)."""
WARP = 32
"""Threads of a warp."""
WARP_GROUP = 4
"""Warps of a warp group: they have one `setmaxnreg`, issue a wgmma together, and reach all lanes of tensor memory."""

# -- accesses to memory ------------------------------------------------------------------------------------------------

TMA_CHUNK_BYTES = 16
"""TMA's unit of addresses, strides and rows of a box (CUDA driver API, cuTensorMapEncodeTiled). Measured on an H200: in
its innermost dimension, a box must begin at a multiple of it, and a store or a reduction at 0 or more; these change
whole chunks, also where a row of the tensor ends within one. Loads fill with zeros behind the last element."""
ROW_BYTES = 128
"""The most bytes of a row that TMA fetches at a time (bench/results/small.json: 128 x 64 x 32 at 2048³ and 4096³)."""
VECTOR_BYTES = 16
"""The most bytes that one instruction of a thread loads, or copies to shared memory (PTX ISA: ld, cp.async)."""
BANK_BYTES = 128
"""Bytes of one row of all banks of shared memory (CUDA C++ Programming Guide, shared memory)."""
MATRIX_ROWS = 8
"""Rows of 16 bytes that ldmatrix reads at a time (PTX ISA)."""
CP_ASYNC_BYTES = 4
"""The fewest bytes that one cp.async copies (PTX ISA)."""

# -- rates of an SM, per cycle (CUDA C++ Programming Guide, "Arithmetic Instructions") ---------------------------------

SHARED_BYTES_PER_CYCLE = 128
"""32 banks of 4 bytes."""
LANES_PER_CYCLE = 128
"""fp32 operations. One warp can use a quarter of an SM, so four or more warps can use all lanes."""
CONVERSIONS_PER_CYCLE = 64
SPECIAL_PER_CYCLE = 16
"""exp2, log2, sin, cos, rsqrt."""
SHUFFLES_PER_CYCLE = 32
"""Values that warps exchange (`shfl`)."""

# -- latencies of the scheduler (tawa.analysis.loops.costs) ------------------------------------------------------------
# A scheduler needs proportions, not exact times: these are rounded, and they are latencies of an idle Hopper chip,
# unlike those of the simulator's clock (`tawa.machine.hopper`).

LATENCY_CYCLES = 32
"""From the last product of a wgmma to its registers, including the wait; an estimate."""
SHARED_LATENCY_CYCLES = 30
BARRIER_CYCLES = 20
GLOBAL_CYCLES = 400
SHUFFLE_CYCLES = 25
