"""Live registers: how many registers per thread hold values while the wgmmas of a consumer run.

    %s = warp_group_dot %q, %k, %zero          live: %s, %o, and what else is used later
    %p = exp2 %s                               not a place that counts: threads compute it piece by piece
    %o = warp_group_dot %p, %v, %o0            live: %o (in the registers of %o0), %p, …

Only dots and their waits count: a wgmma needs its whole accumulator and its whole left operand at once, whereas
elementwise operations between dots are interleaved by LLVM, so that their tiles are never live as a whole. Masks, and
tiles that are computed from scalars and ranges alone, are computed again where they are used.

An estimate: it knows neither addresses nor what ptxas computes again. Of 192 Plans of attention, linear attention and
GEMMs, all with fewer than 40 registers left spilled, and of the others three, by less than 100 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.analysis.layout.layouts import slice_layout
from tawa.analysis.loops.costs import REPEATS, is_of_numbers, registers_of
from tawa.dialects.scf import CONTROL, LOOPS
from tawa.dialects.ttg import WarpSpecializeOp, warps_of
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Block, Module, TensorType, Value, parse_type

_DOTS = (WarpGroupDotOp.NAME, WarpGroupDotWaitOp.NAME)
_COLUMNS_PER_THREAD = 4  # threads of a warp among which the columns of an accumulator are divided


def live_registers(module: Module) -> int:
    """The most registers per thread that are live at a wgmma of a consumer; 0 if there is no fork.

    module: the barrier level. Consumers run the same program, so the one in the default region stands for all.
    """
    fork = next((view for op in module.walk() if (view := WarpSpecializeOp.of(op))), None)
    if fork is None:
        return 0
    search = _Search(module, warps_of(fork.op))
    search.enter(fork.default, set())
    return search.most


@dataclass(slots=True)
class _Search:
    module: Module
    num_warps: int
    most: int = 0
    weights: dict[Value, int] = field(default_factory=dict[Value, int])
    numbers: dict[Value, bool] = field(default_factory=dict[Value, bool])
    taken: dict[Block, set[Value]] = field(default_factory=dict[Block, set[Value]])

    def enter(self, block: Block, behind: set[Value]) -> None:
        """Walks a block from its end. behind: what is live there, apart from the operands of the terminator."""
        live = set(behind)
        for op in reversed(block.ops):
            if op.name in _DOTS:
                types = {result.type for result in op.results}  # an accumulator stays in its registers
                self._count(live | {it for it in op.operands if it.type not in types})
            live.difference_update(op.results)
            if op.name in CONTROL:
                inside = {
                    value for region in op.regions for it in region.blocks for value in self._taken_from_above(it)
                }
                around = live | inside if op.name in LOOPS else live
                for region in op.regions:
                    for nested in region.blocks:
                        self.enter(nested, around)
                live |= inside
            live.update(op.operands)

    def _count(self, live: set[Value]) -> None:
        self.most = max(self.most, sum(map(self._weight, live)))

    def _weight(self, value: Value) -> int:
        if value not in self.weights:
            self.weights[value] = self._registers(value)
        return self.weights[value]

    def _registers(self, value: Value) -> int:
        kind, maker = parse_type(value.type), value.defining_op
        if not isinstance(kind, TensorType):
            return 0  # most scalars are the same in all threads of a warp, and have registers of their own
        if kind.element == "i1" or (maker is not None and maker.name in REPEATS) or is_of_numbers(value, self.numbers):
            return 0
        cut = slice_layout(self.module, kind.encoding)
        if cut is not None and cut.dim == 0 and cut.parent.startswith("#mma") and len(kind.shape) == 1:
            return max(1, kind.bytes // _COLUMNS_PER_THREAD // 4)  # one number for each column that a thread has
        return registers_of(value.type, self.num_warps)

    def _taken_from_above(self, block: Block) -> set[Value]:
        """Values that a block uses and that are defined outside of it."""
        if block not in self.taken:
            own, used = set(block.args), set[Value]()
            for op in block.ops:
                used.update(op.operands)
                for region in op.regions:
                    for nested in region.blocks:
                        used |= self._taken_from_above(nested)
                own.update(op.results)
            self.taken[block] = used - own
        return self.taken[block]
