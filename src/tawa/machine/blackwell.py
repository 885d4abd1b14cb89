"""The rates of NVIDIA Blackwell (B200, compute capability 10.0) for the simulator's clock, each with its source.

Nothing here was measured. Sources: [B] NVIDIA Blackwell data sheet and architecture brief, dense rates of one B200;
[P] PTX ISA, "Tensor Memory"; [E] an estimate. What is not named is as on Hopper.
"""

from __future__ import annotations

from tawa.machine.hopper import CostModel

FP16_FMA_PER_CYCLE = 4096
"""Multiply-adds of the tensor cores of an SM: 2.25 PFLOP/s / (2 · 148 SMs · 1.85 GHz) = 4109 [B], rounded to the power
of two that gives the clock below. tf32 half of it (1.1 PFLOP/s), fp8 and int8 twice (4.5 PFLOP/s), as on Hopper."""
CLOCK_GHZ = 1.856
"""In which the simulator counts cycles: 2.25 PFLOP/s / (2 · 148 SMs · 4096 multiply-adds)."""
TENSOR_BYTES_PER_CYCLE = 512
"""tcgen05.ld and tcgen05.st: 32 bits for each of 128 lanes [E]; a warp reaches a quarter of the lanes [P]."""

B200 = CostModel(
    clock_ghz=CLOCK_GHZ, fp16_fma_per_cycle=FP16_FMA_PER_CYCLE, tensor_bytes_per_cycle=TENSOR_BYTES_PER_CYCLE
)
"""The model of timelines of modules for compute capability 10.0."""
