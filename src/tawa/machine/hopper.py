"""The cost model of the simulator's clock (`tawa.sim.time.cost`), and its numbers for an H100 or H200 (SXM).

Sources: [W] NVIDIA H100 whitepaper, [A] NVIDIA A100 whitepaper, [G] CUDA C++ Programming Guide, "Arithmetic
Instructions", compute capability 9.0, [L] Luo et al., arXiv 2402.13499 and 2501.12084 (measured latencies), [E] an
estimate, [M] measured on an H200 (bench/results/ablation.json): a ring that loads one slot at a time (D=2 P=1, 8 warps,
one CTA an SM) takes 1598 cycles a step of 32 KiB (128x128x64, 317 TFLOP/s) and 1856 a step of 48 KiB (128x256x64, 546
TFLOP/s) at 1.83 GHz: 64 bytes a cycle, and 1085 cycles of which some 130 are barriers and issue.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.nvidia import LANES_PER_CYCLE, LATENCY_CYCLES, SHARED_BYTES_PER_CYCLE, SHUFFLE_CYCLES

_BITS = {"f32": 32, "tf32": 32, "f16": 16, "bf16": 16}


@dataclass(frozen=True, slots=True)
class CostModel:
    """Rates per cycle of one SM, and latencies in cycles.

    clock_ghz: of the data sheet [W].
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

    clock_ghz: float = 1.83
    fp16_fma_per_cycle: int = 2048
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
        return self.fp16_fma_per_cycle * 16 // _BITS.get(element, 8)


H100 = CostModel()
"""The default model of timelines."""
