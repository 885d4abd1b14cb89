"""Fingerprints of choices: equal fingerprints mean the same run, without unrolling it.

    tiles = (M + 127) / 128 · (N + 127) / 128       M = 128, N = 256 and M = 256, N = 128: two tiles
    for t in range(pid, tiles, programs): …         pid 0 of 1 with two tiles, pid 1 of 2 with four: two trips

Loop-invariant scalars are computed, including those in branches, and equal expression trees only once. The fingerprint
consists of the values that loops, conditions and protocol operations read. For a loop whose induction variable is not
needed it has the trip count only, and values that are not reached do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tawa.dialects.builtin import AssumeOp
from tawa.dialects.scalars import evaluate, width_of
from tawa.dialects.scf import ForOp, IfOp, trips_of
from tawa.dialects.tt import AddPtrOp, LoadOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import Block, Operation, Value
from tawa.verify.barriers.program.kernel import NUMBER_OPS, BarrierProgram, number_key
from tawa.verify.barriers.run.events import NeedsNumber
from tawa.verify.given_numbers import called

Cell = int
"""The value number of a scalar: scalars that are computed by the same expression share it."""
Known = int | str | None
"""The value of a scalar: a number, an address, or undefined."""
Compute = Callable[..., Known]
Fingerprint = tuple[object, ...]
ALWAYS: Cell = 0
"""The condition that always holds."""
_PEELED = 2
"""The number of iterations of an outer loop that are evaluated individually."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A scalar that is computed if `reached` holds; `op` if it is an operation of the program."""

    cell: Cell
    compute: Compute
    operands: tuple[Cell, ...]
    op: Operation | None = None
    reached: Cell = ALWAYS

    def fill(self, cells: list[Known]) -> None:
        """Computes the cell from its operands; if it is not reached, it stays unknown."""
        if not cells[self.reached]:
            return
        inputs = [cells[operand] for operand in self.operands]
        if self.op is None:
            cells[self.cell] = self.compute(*inputs)
        elif None in inputs:
            (cells[self.cell],) = evaluate(self.op, inputs)  # type: ignore[arg-type]
        else:
            cells[self.cell] = self.compute(*inputs)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A scalar that is chosen if `reached` holds: an argument, a program id or number of programs, or a loaded number.

    group: scalars that must be known together: those of one grid axis, and those loaded through one pointer.
    """

    cell: Cell
    kind: Literal["argument", "program", "memory"]
    group: Hashable
    argument: Value | None = None
    key: str = ""
    address: Cell = ALWAYS
    reached: Cell = ALWAYS


@dataclass(frozen=True, slots=True)
class Assumed:
    """A condition that the program assumes, if `reached` holds."""

    cell: Cell
    reached: Cell


class Fingerprints:
    """The computation of the scalars that determine the runs of a program; built once per program.

    first: the initial value of each cell. steps: the computations of the other cells, in order.
    outs: the cells of the fingerprint. trips: those of them that are trip counts.
    within: for each condition of reachability, the enclosing one.
    open_memory: whether numbers are loaded from addresses that are not known in advance.
    """

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.first: list[Known] = [1]
        self.steps: list[Computed | Chosen | Assumed] = []
        self.open_memory = False
        self.trips: list[Cell] = []
        self._outs: dict[Cell, None] = {}
        self._cells: dict[Value, Cell] = {}
        self._same: dict[Hashable, Cell] = {}
        self._roots: dict[Cell, Cell] = {}
        self._leaves = set(program.leaves)
        self._guards: list[Cell] = [ALWAYS]
        self.within: dict[Cell, Cell] = {}
        forks = [fork for op in program.ops if (fork := WarpSpecializeOp.of(op))]
        regions = [program.function.regions[0], *(region for fork in forks for region in fork.regions)]
        self.straight = all(len(region.blocks) == 1 for region in regions)
        if self.straight:
            self._cells.update((value, self._constant(number)) for value, number in program.constants.items())
            for arg in program.entry.args:
                if arg.type.startswith("!tt.ptr"):
                    cell = self._cells[arg] = self._constant(f"arg{arg.index}")
                    self._roots[cell] = cell
            self._block(program.entry)
        for leaf in program.leaves:
            cell = self._cell_of(leaf)
            if not self.straight and cell is not None:
                self._outs[cell] = None
        self.outs = tuple(self._outs)
        self.trips = sorted({*self.trips})

    def of(self, numbers: Mapping[Value, int], chosen: Mapping[str, int]) -> Fingerprint | None:
        """The fingerprint of one choice; None if it cannot be computed. Raises NeedsNumber as unrolling does."""
        if not self.straight or self.open_memory:
            return None
        cells = list(self.first)
        for step in self.steps:
            if isinstance(step, Computed):
                step.fill(cells)
            elif isinstance(step, Chosen):
                if step.argument is not None:
                    cells[step.cell] = numbers[step.argument]
                    continue
                key = self.key_of(step, cells)
                if key is not None and key not in chosen:
                    raise NeedsNumber(key)
                cells[step.cell] = None if key is None else chosen[key]
        return tuple(cells[out] for out in self.outs)

    def key_of(self, given: Chosen, cells: list[Known]) -> str | None:
        """The key of a chosen number; None if it is not reached."""
        if not cells[given.reached]:
            return None
        if given.kind == "program":
            return given.key
        address = cells[given.address]
        return None if address is None else f"*({address})"

    # -- the program -------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in self.program.kept_in(block):
            for result in op.results:
                self._cells.pop(result, None)  # of the previous iteration
            match op.name:
                case WarpSpecializeOp.NAME:
                    self._fork(op)
                case ForOp.NAME:
                    self._for(op)
                case IfOp.NAME:
                    self._if(op)
                case AssumeOp.NAME if (held := self._cell_of(AssumeOp(op).condition)) is not None:
                    self.steps.append(Assumed(held, self._guards[-1]))
                case _:
                    if not self._computed(op):
                        self._note(op.operands)
                        self._inside(op)
        if block.ops:
            self._note(block.terminator.operands)

    def _inside(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block)

    def _enter(self, reached: Cell) -> None:
        """Adds `reached` to the conditions of what follows, until the guard is popped."""
        self.within.setdefault(reached, self._guards[-1])
        self._guards.append(reached)

    def _fork(self, op: Operation) -> None:
        fork = WarpSpecializeOp(op)
        self._block(fork.default)
        for block in fork.partitions:
            for arg, given in zip(block.args, fork.capturing.operands, strict=True):
                cell = self._cell_of(given)
                if cell is not None:
                    self._cells[arg] = cell
            self._block(block)

    def _for(self, op: Operation) -> None:
        """A loop with known bounds contributes its trip count, and its bounds only if its body depends on them."""
        bounds = [self._cell_of(bound) for bound in op.operands[:3]]
        self._note(op.operands[3:])
        if None in bounds:
            self._note(op.operands[:3])
            self._inside(op)
            return
        fewer = self.program.shortened.get(op)
        trips = self._make(_trips, tuple(bounds)) if fewer is None else self._constant(fewer.trips)  # type: ignore[arg-type]
        self.trips.append(self._out(trips))
        induction = op.regions[0].block.args[0]
        peeled = 0
        if induction in self.program.needed:
            peeled = _PEELED if op in self.program.outer_loops else 0
            for trip in range(peeled):
                place = self._constant(trip)
                self._enter(self._make(_more, (trips, place)))
                self._cells[induction] = self._make(_place, (*bounds, place))  # type: ignore[arg-type]
                self._inside(op)
            self._cells.pop(induction, None)
        self._enter(self._make(_more, (trips, self._constant(peeled))))
        if induction in self.program.needed:
            self._note(op.operands[:3])
        self._inside(op)
        del self._guards[-1 - peeled :]

    def _if(self, op: Operation) -> None:
        condition = self._cell_of(op.operands[0])
        if condition is None:
            self._inside(op)
            return
        self._out(condition)
        ends: list[Block] = []
        for region, reach in zip(op.regions, (_may, _may_not), strict=True):
            for block in region.blocks[:1]:
                if block.ops:
                    self._enter(self._make(reach, (condition,)))
                    self._block(block)
                    self._guards.pop()
                    ends.append(block)
        if len(ends) == 2:
            for result, yes, no in zip(op.results, *(end.terminator.operands for end in ends), strict=True):
                cells = (condition, self._cell_of(yes), self._cell_of(no))
                if cells[1] is not None and cells[2] is not None:
                    self._cells[result] = self._make(_either, cells)  # type: ignore[arg-type]

    def _computed(self, op: Operation) -> bool:
        """Gives `op` a cell if it is a scalar that can be computed in advance; returns whether it is."""
        if len(op.results) != 1:
            return False
        if op.name in NUMBER_OPS:
            key = number_key(op)
            self._cells[op.result] = self._given(("program", key), "program", key[key.index("(") :], key=key)
            return True
        if op.name == LoadOp.NAME:
            address = self._cell_of(LoadOp(op).pointers)
            if width_of(op.result.type) is None:
                return False
            if address is None:
                self.open_memory = True
                return False
            root = self._roots.get(address, address)
            self._cells[op.result] = self._given(("memory", address), "memory", root, address=address)
            return True
        if op in self.program.given:
            address = self._constant(self.program.given[op])
            self._cells[op.result] = self._given(("memory", address), "memory", address, address=address)
            return True
        if op in self.program.functions:
            return self._function(op)
        compute: Compute | None = _address if op.name == AddPtrOp.NAME else self.program.scalar(op)
        if compute is None:
            return False
        operands: list[Cell] = []
        for operand in op.operands:
            cell = self._cell_of(operand)
            if cell is None:
                return False
            operands.append(cell)
        if compute is _address:
            cell = self._make(_address, tuple(operands))
            self._roots[cell] = self._roots.get(operands[0], operands[0])
        else:
            cell = self._make(compute, tuple(operands), op)
        self._cells[op.result] = cell
        return True

    def _function(self, op: Operation) -> bool:
        """Like a number in memory, whose address is the function with its inputs."""
        function = self.program.functions[op]
        inputs = [self._cell_of(value) for value in function.inputs]
        name = self._constant(function.name)
        address = self._make(_called, (name, *inputs)) if None not in inputs else None  # type: ignore[arg-type]
        if address is None:
            self.open_memory = True
            return False
        self._cells[op.result] = self._given(("memory", address), "memory", name, address=address)
        return True

    # -- cells -------------------------------------------------------------------------------------------------------

    def _cell_of(self, value: Value) -> Cell | None:
        cell = self._cells.get(value)
        if cell is None and value in self._leaves:
            cell = self._cells[value] = self._new(None)
            self.steps.append(Chosen(cell, "argument", value, argument=value))
        return cell

    def _new(self, known: Known) -> Cell:
        self.first.append(known)
        return len(self.first) - 1

    def _constant(self, known: Known) -> Cell:
        key = ("constant", known)
        if key not in self._same:
            self._same[key] = self._new(known)
        return self._same[key]

    def _make(self, compute: Compute, operands: tuple[Cell, ...], op: Operation | None = None) -> Cell:
        """A cell computed from others; folded if these are constants."""
        key = (compute, operands) if op is None else (op.name, *op.properties.items(), op.result.type, operands)
        for guard in self._guards:
            found = self._same.get((key, guard))
            if found is not None:
                return found
        made = Computed(len(self.first), compute, operands, op, self._guards[-1])
        self._same[key, made.reached] = self._new(None)
        if all(self.first[operand] is not None for operand in operands):
            replace(made, reached=ALWAYS).fill(self.first)
        if self.first[made.cell] is None:
            self.steps.append(made)
        return made.cell

    def _given(
        self, name: Hashable, kind: Literal["program", "memory"], group: Hashable, key: str = "", address: Cell = ALWAYS
    ) -> Cell:
        """A number to be chosen, shared by all uses that an earlier one dominates."""
        for guard in self._guards:
            if (name, guard) in self._same:
                return self._same[name, guard]
        cell = self._same[name, self._guards[-1]] = self._new(None)
        self.steps.append(Chosen(cell, kind, group, key=key, address=address, reached=self._guards[-1]))
        return cell

    def _note(self, values: list[Value]) -> None:
        for value in values:
            cell = self._cell_of(value)
            if cell is not None:
                self._out(cell)

    def _out(self, cell: Cell) -> Cell:
        """Adds a cell to the fingerprint, under the current condition."""
        if self.first[cell] is None:
            guard = self._guards[-1]
            cell = cell if guard == ALWAYS else self._make(_same, (cell,))
            self._outs[cell] = None
        return cell


def _trips(lower: int | None, upper: int | None, step: int | None) -> int | None:
    if lower is None or upper is None or step is None:
        return None
    return trips_of(lower, upper, step)


def _more(trips: int | None, done: int | None) -> int:
    """Whether an iteration exists. If the trip count is undefined, the run ends there."""
    return int(trips is not None and done is not None and trips > done)


def _place(lower: int | None, upper: int | None, step: int | None, trip: int | None) -> int | None:
    return None if lower is None or step is None or trip is None else lower + trip * step


def _may(condition: int | None) -> int:
    """Whether a condition may hold: an unknown one may."""
    return int(condition != 0)


def _may_not(condition: int | None) -> int:
    return int(condition is None or condition == 0)


def _either(condition: int | None, yes: Known, no: Known) -> Known:
    if condition is None:
        return yes if yes == no else None
    return yes if condition else no


def _same(value: Known) -> Known:
    return value


def _called(function: Known, *inputs: Known) -> Known:
    return None if None in inputs else called(str(function), *inputs)


def _address(base: Known, offset: Known) -> Known:
    return f"{base}+{offset}" if isinstance(base, str) and isinstance(offset, int) else None
