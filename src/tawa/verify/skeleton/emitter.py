"""Code under construction: the instructions of each partition, and the registers of its values.

%n = arith.addi %i, %one     →     SCALAR r7 ← add, r3, r5        r7: the register of %n
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.dialects.aref import AccessOp, index_depth
from tawa.dialects.scalars import width_of
from tawa.ir import Operation, Value
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.program import MAIN, Code, Part, Program, UnsupportedError
from tawa.verify.skeleton.sources import Sources, origin_of


class Emitter:
    """The program so far.

    accesses: what the barrier level accesses, if memory takes part. part: the current partition. canonical: the terms
    or numbers of values that are the same in every iteration. rings: their numbers. widths: of registers, in bits.
    """

    def __init__(self, program: Program, sources: Sources, accesses: Accesses | None, name: str) -> None:
        self.program = program
        self.sources = sources
        self.accesses = accesses
        self.needed = sources.needed
        self.part = Part(name)
        self.register: dict[Value, int] = {}
        self.registers = program.registers
        self.canonical: dict[Value, Any] = {}
        self.rings: dict[Value, int] = {}
        self.widths: dict[int, int | None] = {}

    def emit(self, op: Operation | None, *instruction: Any) -> int:
        """Adds an instruction that comes from `op` to the current partition; returns its place."""
        self.part.code.append(instruction)
        self.part.ops.append(op)
        return len(self.part.code) - 1

    def patch(self, at: int, position: int, target: int) -> None:
        """Sets an operand of an instruction, such as the target of a jump that was not known."""
        instruction = list(self.part.code[at])
        instruction[position] = target
        self.part.code[at] = tuple(instruction)

    def define(self, value: Value, preset: Any = None) -> int:
        """The register of a value, with its content if it is known. A new register gets its kind."""
        number = self.register.get(value)
        if number is None:
            number = self.register[value] = len(self.registers)
            self.registers.append(preset)
            self.widths[number] = width_of(value.type)
            if index_depth(value.type) is not None:
                origin = origin_of(value)
                self.program.kinds[number] = -1 if origin is None else self.rings.get(origin, -1)
            elif self.accesses is not None:
                if value.type.startswith(("!", "tensor<")) and not value.type.startswith("!tt.ptr"):
                    self.program.kinds[number] = -1  # places, descriptors, tiles; of numbers: see `skeleton.counters`
            elif value.type == "i1" or width_of(value.type) is None:  # other numbers are not part of the state
                self.program.kinds[number] = -1
        return number

    def use(self, value: Value) -> int:
        """The register of a value."""
        number = self.register.get(value)
        return self.define(value) if number is None else number

    def move(self, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        """Copies the sources to those targets that are needed, all at once."""
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if t in self.needed]
        if pairs:
            self.emit(None, Code.MOVE, tuple(self.use(s) for s, _ in pairs), tuple(self.define(t) for _, t in pairs))

    def constant(self, number: Any) -> int:
        """A register with this content."""
        self.registers.append(number)
        return len(self.registers) - 1

    # -- rings -------------------------------------------------------------------------------------------------------

    def ring(self, access: AccessOp) -> int:
        """The number of the ring that an operation accesses."""
        ring = self.rings.get(access.ring)
        if ring is None:
            raise UnsupportedError("the ring is not created in this function before the partitions", access.op)
        return ring

    def reader(self, ring: int) -> int:
        """The number of the current partition among the readers of a ring; it becomes one."""
        readers = self.program.rings[ring].readers
        if self.part.name == MAIN and readers:
            return 0  # the code after the partitions continues as the first reader
        if self.part.name not in readers:
            readers.append(self.part.name)
        return readers.index(self.part.name)

    def writer(self, ring: int) -> None:
        """Makes the current partition a writer of a ring."""
        writers = self.program.rings[ring].writers
        if self.part.name not in writers:
            writers.append(self.part.name)
