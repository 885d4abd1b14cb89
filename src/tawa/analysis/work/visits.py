"""Visits: how often one program executes each block, for given arguments and a given program id.

    for n in range(0, (pid + 1) * 128, 64)      program 3 of 8: 8 iterations

Scalar integers are evaluated as the program would; nothing else is. A trip count that memory decides, or that of a
`while` loop, counts as `USUAL_TRIPS`; a branch whose condition is unknown counts as half on either side. A loop around
other control flow is evaluated at a few of its iterations, which stand for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tawa.dialects.scalars import evaluate, width_of
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.tt import DOTS, FuncOp, GetNumProgramsOp, GetProgramIdOp
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_int

USUAL_TRIPS = 32
"""Iterations of a loop whose bounds memory decides."""
_SAMPLES = 4
"""Iterations of a loop around other control flow that are evaluated."""

Known = dict[Value, int | None]


@dataclass(slots=True)
class Visits:
    """What a program executes.

    blocks: executions of each block. entries: executions of each loop, for loops that do not stay empty. guessed:
    whether memory decides how many dots a program computes, so that this is a guess.
    """

    blocks: dict[Block, float] = field(default_factory=dict[Block, float])
    entries: dict[Operation, float] = field(default_factory=dict[Operation, float])
    guessed: bool = False

    def add(self, other: Visits, weight: float) -> None:
        """Adds the visits of another program, weighted."""
        for block, count in other.blocks.items():
            self.blocks[block] = self.blocks.get(block, 0.0) + weight * count
        for loop, count in other.entries.items():
            self.entries[loop] = self.entries.get(loop, 0.0) + weight * count
        self.guessed |= other.guessed


def count_visits(
    function: FuncOp, arguments: Sequence[int | None], program: Sequence[int], grid: Sequence[int]
) -> Visits:
    """The visits of one program.

    arguments: by index of the function's parameters; None is unknown. program, grid: up to three numbers each.
    """
    counter = _Counter(tuple(program), tuple(grid))
    known: Known = dict(zip(function.body.args, arguments, strict=False))
    counter.run(function.body, known, 1.0)
    return counter.visits


class _Counter:
    def __init__(self, program: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.program, self.grid = (*program, 0, 0), (*grid, 1, 1)
        self.visits = Visits()
        self.plain: dict[Block, bool] = {}

    def run(self, block: Block, known: Known, weight: float) -> None:
        """Executes a block `weight` times with these scalars."""
        self.visits.blocks[block] = self.visits.blocks.get(block, 0.0) + weight
        for op in block.ops:
            if loop := ForOp.of(op):
                self._for(loop, known, weight)
            elif WhileOp.of(op):
                self._while(op, known, weight)
            elif branch := IfOp.of(op):
                self._if(branch, known, weight)
            else:
                self._scalar(op, known)

    def _scalar(self, op: Operation, known: Known) -> None:
        if GetProgramIdOp.matches(op):
            known[op.result] = self.program[read_int(op.properties["axis"])]
        elif GetNumProgramsOp.matches(op):
            known[op.result] = self.grid[read_int(op.properties["axis"])]
        elif op.results and width_of(op.results[0].type) is not None:
            for value, number in zip(op.results, evaluate(op, [known.get(it) for it in op.operands]), strict=True):
                known[value] = number

    def _for(self, loop: ForOp, known: Known, weight: float) -> None:
        lower, upper, step = (known.get(value) for value in loop.bounds)
        if lower is None or upper is None or not step:
            trips, lower = USUAL_TRIPS, None
            self._guess(loop.op)
        else:
            trips = max(0, -(-(upper - lower) // step))
        if not trips:
            return
        self.visits.entries[loop.op] = self.visits.entries.get(loop.op, 0.0) + weight
        carried = {arg: known.get(init) if trips == 1 else None for arg, init in
                   zip(loop.iter_args, loop.inits, strict=True)}  # fmt: skip
        count = 1 if self._is_plain(loop.body) else min(trips, _SAMPLES)
        for sample in range(count):
            at = (2 * sample + 1) * trips // (2 * count)
            now = {**known, **carried, loop.induction: None if lower is None else lower + at * (step or 1)}
            self.run(loop.body, now, weight * trips / count)

    def _while(self, op: Operation, known: Known, weight: float) -> None:
        loop = WhileOp(op)
        self.visits.entries[op] = self.visits.entries.get(op, 0.0) + weight
        self._guess(op)
        for block in (loop.before, loop.after):
            self.run(block, dict(known), weight * USUAL_TRIPS)

    def _if(self, branch: IfOp, known: Known, weight: float) -> None:
        condition = known.get(branch.condition)
        if condition is None:
            self._guess(branch.op)
        for taken, block in zip((True, False), branch.branches, strict=False):
            share = 0.5 if condition is None else float(bool(condition) == taken)
            if not share:
                continue
            inner = dict(known)
            self.run(block, inner, weight * share)
            if share == 1.0:
                for value, given in zip(branch.op.results, block.terminator.operands, strict=True):
                    known[value] = inner.get(given)

    def _guess(self, op: Operation) -> None:
        """Notes that the number of executions of what is inside an operation is a guess."""
        self.visits.guessed = self.visits.guessed or any(it.name in DOTS for it in op.walk())

    def _is_plain(self, block: Block) -> bool:
        """Whether all iterations of a loop with this body execute the same blocks."""
        if block not in self.plain:
            self.plain[block] = not any(
                op.regions and (ForOp.of(op) or WhileOp.of(op) or IfOp.of(op)) for op in block.ops
            )
        return self.plain[block]
