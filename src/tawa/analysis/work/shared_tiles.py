"""Shared tiles: what the programs of a grid load in common, and how many of them should form a block along x.

    a[pid x · 128 …]    128 x 64 of fp16, 16 KiB in each iteration: along y, programs share it
    b[pid y · 256 …]     64 x 256 of fp16, 32 KiB: along x, programs share it

P programs in a block of G along x load G tiles of a and P / G of b. That is least if G = sqrt(P · 32 / 16).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tawa.analysis.work.workload import find_workload
from tawa.dialects.tt import GetProgramIdOp
from tawa.ir import Module
from tawa.symbolic.origins import origins_of

_USUAL_GROUP = 8
_MOST = 64


@dataclass(frozen=True, slots=True)
class SharedTiles:
    """Bytes that a program loads in one iteration of its loop with dots.

    by_x: of tiles that depend on the program id along x and not along y. by_y: the other way round. own: on both.
    """

    by_x: int
    by_y: int
    own: int

    def group(self, programs: int) -> int:
        """G, a power of two: the tiles along x of a block of so many programs that loads the least."""
        if not self.by_x or not self.by_y:
            return _USUAL_GROUP
        wanted = math.log2(math.sqrt(programs * self.by_y / self.by_x))
        return min(_MOST, 1 << max(0, round(wanted)))


def find_shared_tiles(module: Module) -> SharedTiles | None:
    """What programs share, from the operands of dots in loops. None if the kernel is not structured. module: TTIR."""
    workload = find_workload(module)
    if workload is None:
        return None
    sums: dict[tuple[int, ...], int] = {(0,): 0, (1,): 0, (0, 1): 0}
    for block, work in workload.blocks.items():
        for load in work.loads if work.dots and workload.loops[block] is not None else ():
            assert load.op is not None
            ids = (GetProgramIdOp.of(op) for op in origins_of(load.op.operands).operations)
            axes = tuple(sorted({it.axis for it in ids if it is not None} & {0, 1}))
            if load.operand and axes:
                sums[axes] += load.bytes
    return SharedTiles(sums[0,], sums[1,], sums[0, 1])
