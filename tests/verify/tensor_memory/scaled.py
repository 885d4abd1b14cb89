"""A block-scaled GEMM for sm_100, as Tawa's compiler makes it: scales by TMA, in the slots of the operands.

default     epilogue   waits for the accumulator
partition0  MMA        waits for full of each step; copies both scales to tensor memory; the dot commits to empty
partition1  load       waits for empty; expects the bytes of A, B and their scales on full; copies them
"""

from __future__ import annotations

from functools import cache

from tawa.bridge.triton.read_module import read_levels
from tawa.ir import Module
from tawa.machine.machines import SM_100
from tests.cases.compiled import compile_case
from tests.cases.scaled import scaled
from tests.support.back_end import without_ptx


@cache
def scaled_module(slots: int = 3) -> Module:
    """The barrier level, with so many slots."""
    case = scaled("mxfp8", "tma", 136, 136, 512)
    with without_ptx():
        return read_levels(compile_case(case, only_if_faster=False, aref_depth=slots, target=SM_100))[1]


__all__ = ["scaled_module"]
