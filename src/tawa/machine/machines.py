"""The machines that kernels are compiled for, as values: what differs between them, each number with its source.

    SM_90     H100, H200    wgmma: a warp group issues it, the sums are in its registers, it waits for a count
    SM_100    B200          tcgen05.mma: a thread issues it, the sums are in tensor memory, a commit reaches an mbarrier

A compile takes its machine from `machine_of`, and hands it down in the Target of its Plan. What deals with one of the
two instructions, whatever the compile is for, names `WGMMA` or `TCGEN05`. The numbers that both machines have in common
are in `tawa.machine.nvidia`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tawa.dialects.ttg import target_of
from tawa.errors import TargetError, did_you_mean
from tawa.ir import Module
from tawa.machine.blackwell import B200
from tawa.machine.hopper import H100, CostModel
from tawa.machine.nvidia import WARP_GROUP


@dataclass(frozen=True, slots=True)
class Dot:
    """The instruction of the tensor cores that runs beside its issuer (PTX ISA, "wgmma" and "tcgen05").

    accumulator: where its sums lie. completion: how its end is known: the issuer waits until at most so many are
    pending, or a commit arrives at an mbarrier.
    rows: the largest M; B is read from shared memory once for so many rows. columns: the largest N. k_bytes: of a row
    of A: 16 elements of 16 bits.
    """

    accumulator: Literal["registers", "tensor memory"]
    completion: Literal["count", "commit"]
    rows: int
    columns: int = 256
    k_bytes: int = 32


WGMMA = Dot("registers", "count", rows=64)
TCGEN05 = Dot("tensor memory", "commit", rows=128)
"""Of one CTA. M may be 64, too, which takes as long as 128 (an estimate)."""

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

    name: ``sm_100``. capability: compute capability, times ten. gpus: the products. own: what no other machine has.
    processors: SMs. dram: bytes that DRAM moves in a microsecond, at most.
    tensor_columns: of an SM's tensor memory, each of 128 lanes of 32 bits. dot: the instruction of the tensor cores.
    clock_ghz: in which the model of time counts cycles (`tawa.machine.coefficients`). costs: rates and latencies of an
    SM, in cycles of the data sheet's clock.
    """

    name: str
    capability: int
    gpus: str
    own: str
    processors: int
    dram: float
    tensor_columns: int
    dot: Dot
    clock_ghz: float
    costs: CostModel

    def __str__(self) -> str:
        """``sm_100 (B200, GB200)``."""
        return f"{self.name} ({self.gpus})"


SM_90 = Machine("sm_90", 90, "H100, H200", "wgmma", 132, 3.35e6, 0, WGMMA, 1.755, H100)
"""An H100 or H200 (SXM). SMs, DRAM of the H100: H100 whitepaper. Clock: near that of an H200 under load."""
SM_100 = Machine("sm_100", 100, "B200, GB200", "tensor memory", 148, 8e6, 512, TCGEN05, 1.78, B200)
"""A B200. DRAM: 8 TB/s of HBM3e (Blackwell data sheet); SMs: `cudaDeviceProp`. Tensor memory: PTX ISA, "Tensor Memory".
Clock under load: an estimate, the same part of the data sheet's as on an H200. Costs: `tawa.machine.blackwell`."""


MACHINES = (SM_90, SM_100)
"""Those that are known."""
KNOWN = " and ".join(map(str, MACHINES))
"""All of them, for messages."""

_NAME = re.compile(r"(?:sm_?)?(\d+)a?", re.IGNORECASE)
_OTHERS = (70, 72, 75, 80, 86, 87, 88, 89, 101, 103, 110, 120, 121)


def machine_named(text: str) -> Machine:
    """The machine of a name: ``sm_100``, ``sm_100a`` or ``100``. Raises TargetError for any other."""
    found = _NAME.fullmatch(text.strip())
    known = machine_for(int(found[1])) if found else None
    if known is not None:
        return known
    names = [it.name for it in MACHINES]
    cure = f"name one of {', '.join(map(str, MACHINES))}"
    if found and int(found[1]) in _OTHERS:
        raise TargetError(f"{text}: Tawa knows {' and '.join(names)}", cure)
    raise TargetError(f"{text}: no GPU of this name is known", did_you_mean(text.lower(), names, cure))


def machine_of(capability: int) -> Machine:
    """The machine of a compute capability, times ten. Raises ValueError for one that is not known."""
    found = machine_for(capability)
    if found is None:
        raise ValueError(f"compute capability {capability} is not known; cure: 90 or 100")
    return found


def machine_for(capability: int | None) -> Machine | None:
    """The machine of a compute capability, times ten; None for one that is not known."""
    return next((it for it in MACHINES if it.capability == capability), None)


def machine_called(name: str) -> Machine | None:
    """The machine that Triton calls by this name, ``cuda:100``; None for one that is not known."""
    return next((it for it in MACHINES if name == f"cuda:{it.capability}"), None)


def machine_of_module(module: Module) -> Machine | None:
    """The machine that a program with layouts was made for; None if it names none, or one that is not known."""
    return machine_called(target_of(module.op))
