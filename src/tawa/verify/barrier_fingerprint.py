"""What two choices of numbers have in common when they make the same run, found without unrolling.

    tiles = (M + 127) / 128 · (N + 127) / 128       M = 128, N = 256 and M = 256, N = 128: two tiles
    for t in range(pid, tiles, programs): …         pid 0 of 1 with two tiles, pid 1 of 2 with four: two trips

The scalars in front of the loops are computed; those that loops, conditions and protocol operations read make the
fingerprint. Of an outermost loop whose induction variable decides nothing, only the number of trips counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from tawa.dialects.scalars import Scalar
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import Block, Operation, Value
from tawa.verify.barrier_events import NeedsNumber
from tawa.verify.barrier_program import NUMBER_OPS, BarrierProgram, captures, number_key

Print = tuple[object, ...]


class Fingerprints:
    """Made once a program; `of` says what one choice of numbers comes to."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.straight = len(program.function.regions[0].blocks) == 1
        self.scalars: list[tuple[Value, Scalar | str, list[Value]]] = []
        self.read: dict[Value, None] = {}
        self.loops: list[tuple[Value, Value, Value]] = []
        self._known: set[Value] = set(program.leaves)
        if self.straight:
            self._block(program.entry)

    def of(self, numbers: Mapping[Value, int], chosen: Mapping[str, int]) -> Print | None:
        """The fingerprint; None where it cannot tell. Raises NeedsNumber as unrolling does."""
        if not self.straight:
            return None
        env = dict(numbers)
        for result, compute, operands in self.scalars:
            if isinstance(compute, str):
                if compute not in chosen:
                    raise NeedsNumber(compute)
                made = chosen[compute]
            else:
                made = compute(*[env[operand] for operand in operands])
                if made is None:
                    return None
            env[result] = made
        trips: list[int] = []
        for lower, upper, step in self.loops:
            if env[step] <= 0:
                return None
            trips.append(len(range(env[lower], env[upper], env[step])))
        memory = [item for item in chosen.items() if item[0].startswith("*")]
        return (*[env[value] for value in self.read], *trips, *memory)

    def _block(self, block: Block) -> None:
        for op in self.program.kept_in(block):
            if op.name == "ttg.warp_specialize":
                self._fork(op)
            elif op.name == "warp.group":
                self._block(op.regions[0].block)
            elif not self._computed(op):
                self._reader(op)
        self._note(block.terminator.operands)

    def _fork(self, op: Operation) -> None:
        fork = WarpSpecializeOp(op)
        self._block(fork.default)
        for block in fork.partitions:
            for arg, given in zip(block.args, captures(op), strict=True):
                if given in self._known:
                    self._known.add(arg)
                    self.scalars.append((arg, _same, [given]))
            self._block(block)

    def _computed(self, op: Operation) -> bool:
        """Whether `op` is a scalar that can be computed here."""
        if not op.results or not all(operand in self._known for operand in op.operands):
            return False
        if op.name in NUMBER_OPS:
            compute: Scalar | str | None = number_key(op)
        else:
            compute = self.program.scalar(op)
        if compute is None:
            return False
        self.scalars.append((op.result, compute, op.operands))
        self._known.add(op.result)
        return True

    def _reader(self, op: Operation) -> None:
        bounds = op.operands[:3]
        body = op.regions[0].block if op.name == "scf.for" else None
        counted = body is not None and body.args[0] not in self.program.needed
        if counted and all(bound in self._known for bound in bounds):
            self.loops.append((bounds[0], bounds[1], bounds[2]))
            self._note(op.operands[3:])
        else:
            self._note(op.operands)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    for nested in inner.walk():
                        self._note(nested.operands if nested in self.program.kept or not nested.results else ())

    def _note(self, values: list[Value] | tuple[Value, ...]) -> None:
        self.read.update((value, None) for value in values if value in self._known)


def _same(value: int) -> int:
    return value
