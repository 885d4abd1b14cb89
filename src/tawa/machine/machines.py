"""The machines that kernels are compiled for, as values: what differs between them, each number with its source.

    SM_90     H100, H200    wgmma: a warp group issues it, the sums are in its registers, it waits for a count
    SM_100    B200          tcgen05.mma: a thread issues it, the sums are in tensor memory, a commit reaches an mbarrier

A compile takes its machine from `machine_of`, and hands it down in the Target of its Plan. What deals with one of the
two instructions, whatever the compile is for, names `WGMMA` or `TCGEN05`. The numbers that both machines have in common
are in `tawa.machine.nvidia`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.dialects.tcgen05 import TCGen5MMAOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.machine.blackwell import B200
from tawa.machine.hopper import H100, CostModel
from tawa.machine.nvidia import WARP_GROUP


@dataclass(frozen=True, slots=True)
class Dot:
    """The instruction of the tensor cores that runs beside its issuer (PTX ISA, "wgmma" and "tcgen05").

    op: the operation that becomes it. issuer: who issues it. accumulator: where its sums lie. completion: how its end
    is known: the issuer waits until at most so many are pending, or a commit arrives at an mbarrier.
    rows: the largest M; B is read from shared memory once for so many rows. columns: the largest N. k_bytes: of a row
    of A: 16 elements of 16 bits.
    """

    op: str
    issuer: Literal["warp group", "thread"]
    accumulator: Literal["registers", "tensor memory"]
    completion: Literal["count", "commit"]
    rows: int
    columns: int = 256
    k_bytes: int = 32


WGMMA = Dot(WarpGroupDotOp.NAME, "warp group", "registers", "count", rows=64)
TCGEN05 = Dot(TCGen5MMAOp.NAME, "thread", "tensor memory", "commit", rows=128)
"""Of one CTA. M may be 64, too, which takes as long as 128."""

ACCUMULATOR_COLUMNS = 8
"""Columns after which the layout of a wgmma's accumulator repeats: four threads of a row have two elements each (PTX
ISA)."""


def wgmma_columns(rows: int, columns: int, num_warps: int) -> int:
    """N of the wgmmas that Triton makes of a dot: warps that have no rows of their own share the columns."""
    beside = max(1, num_warps * WGMMA.rows // WARP_GROUP // max(1, rows))
    return min(WGMMA.columns, max(ACCUMULATOR_COLUMNS, columns // beside))


@dataclass(frozen=True, slots=True)
class Machine:
    """What a kernel is compiled for.

    capability: compute capability, times ten. processors: SMs. dram: bytes that DRAM moves in a microsecond, at most.
    tensor_columns: of an SM's tensor memory, each of 128 lanes of 32 bits. dot: the instruction of the tensor cores.
    clock_ghz: in which the model of time counts cycles (`tawa.machine.coefficients`). costs: rates and latencies of an
    SM, in cycles of the data sheet's clock.
    """

    capability: int
    processors: int
    dram: float
    tensor_columns: int
    dot: Dot
    clock_ghz: float
    costs: CostModel


SM_90 = Machine(90, 132, 3.35e6, 0, WGMMA, 1.755, H100)
"""An H100 or H200 (SXM). SMs, DRAM of the H100: H100 whitepaper. Clock: near that of an H200 under load."""
SM_100 = Machine(100, 148, 8e6, 512, TCGEN05, 1.78, B200)
"""A B200. DRAM: 8 TB/s of HBM3e (Blackwell data sheet); SMs: `cudaDeviceProp`. Tensor memory: PTX ISA, "Tensor Memory".
Clock under load: an estimate, the same part of the data sheet's as on an H200. Costs: `tawa.machine.blackwell`."""


def machine_of(capability: int) -> Machine:
    """The machine of a compute capability, times ten. Raises ValueError for one that is not known."""
    for it in (SM_90, SM_100):
        if it.capability == capability:
            return it
    raise ValueError(f"compute capability {capability} is not known; cure: 90 or 100")


__all__ = [
    "ACCUMULATOR_COLUMNS", "SM_90", "SM_100", "TCGEN05", "WGMMA", "Dot", "Machine", "machine_of", "wgmma_columns",
]  # fmt: skip
