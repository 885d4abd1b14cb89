"""Kinds of faults: each is an edit at one place of a program, and the sentence that says why the result is wrong.

A kind is given the place: an operation by its name, partition and number. What depends on the kernel (that the place is
one where the sentence is true, and the numbers with which it shows) is said where the kind is used, in ``faults_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.reviewed.edits import ARRIVE, COPY, EXPECT, At, Condition, Program
from tawa.ir import Value

Change = Callable[[Program], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty program. why: one sentence. numbers: arguments of a run that goes wrong.

    shown: whether the interpreter finds it; a run of more than a million operations is not made.
    """

    kernel: str
    name: str
    why: str
    change: Change = field(hash=False)
    numbers: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    tables: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    shown: bool = True

    def program(self) -> Program:
        """The kernel with the fault."""
        from bench.reviewed.kernels import KERNELS

        made = Program(KERNELS[self.kernel].module())
        self.change(made)
        return made


@dataclass(frozen=True, slots=True)
class Place:
    """An operation of a kernel: its name, its partition, and its number among those with the name."""

    op: str
    part: int = 0
    number: int = 0

    def of(self, program: Program) -> At:
        """The place in a program."""
        return program.find(self.op, self.part, self.number)


# -- conditions --------------------------------------------------------------------------------------------------------


def not_trip(n: int, outer: int = 0) -> Condition:
    """False in one iteration."""
    return lambda at: at.compare(at.trip(outer), "!=", n)


def before_trip(n: int, outer: int = 0) -> Condition:
    """True only in the first iterations."""
    return lambda at: at.compare(at.trip(outer), "<", n)


def at_trip(n: int, outer: int = 0) -> Condition:
    """True in one iteration."""
    return lambda at: at.compare(at.trip(outer), "==", n)


def not_last_of_odd(outer: int = 0) -> Condition:
    """False in the last iteration if their number is odd."""

    def make(at: At) -> Value:
        odd = at.compare(at.make("%", at.trips(outer), 2), "==", 1)
        return at.negate(at.make("&", odd, at.is_last(outer)))

    return make


def below_counter(type: str, first: int = 0, outer: int = 0) -> Condition:
    """True until a narrow counter of iterations wraps to negative numbers."""
    return lambda at: at.compare(at.carried(first, lambda end, it: end.make("+", it, 1), type), ">=", 0)


def program_below(argument: str, axis: int = 0) -> Condition:
    """True only in programs with a small number."""
    return lambda at: at.compare(at.program_id(axis), "<", at.argument(argument))


def float_is(argument: str, symbol: str, value: float) -> Condition:
    """True for some values of a float argument, none of which is NaN."""
    return lambda at: at.compare_float(at.argument(argument), symbol, value)


def float_equals_itself(argument: str) -> Condition:
    """False only for NaN."""
    return lambda at: at.compare_float(at.argument(argument), "==", at.argument(argument))


def loaded_is(pointer: str, symbol: str, value: int, offset: int = 0) -> Condition:
    """True for some values of a number in memory."""
    return lambda at: at.compare(at.loaded(pointer, offset), symbol, value)


def argument_is(argument: str, symbol: str, value: int) -> Condition:
    """True for some values of an argument."""
    return lambda at: at.compare(at.argument(argument), symbol, value)


def multiple(argument: str, of: int) -> Condition:
    """True for multiples."""
    return lambda at: at.compare(at.make("%", at.argument(argument), of), "==", 0)


# -- changes -----------------------------------------------------------------------------------------------------------


def guarded(place: Place, condition: Condition) -> Change:
    """The operation happens only if the condition holds."""

    def change(program: Program) -> None:
        at = place.of(program)
        at.guard(condition(at))

    return change


def doubled(place: Place, condition: Condition | None = None) -> Change:
    """The operation happens twice if the condition holds."""

    def change(program: Program) -> None:
        at = place.of(program)
        at.copy(condition(at) if condition else None)

    return change


def dropped(place: Place) -> Change:
    """The operation is missing."""
    return lambda program: place.of(program).drop()


def moved(place: Place, before: Place) -> Change:
    """The operation happens earlier."""
    return lambda program: place.of(program).move(before.of(program))


def integer(place: Place, name: str, change: Callable[[int], int]) -> Change:
    """Another integer in a property."""
    return lambda program: place.of(program).integer(name, change)


def slot(place: Place, operand: int, depth: int, condition: Condition | None = None, by: int = 1) -> Change:
    """Another slot, always or if a condition holds."""

    def change(program: Program) -> None:
        at = place.of(program)

        def other(here: At, number: Value) -> Value:
            next_one = here.make("%", here.make("+", number, by), depth)
            return here.choose(condition(here), next_one, number) if condition else next_one

        at.slot(operand, other)

    return change


def flipped(place: Place, condition: Condition) -> Change:
    """The other parity if a condition holds."""

    def change(program: Program) -> None:
        def other(here: At, parity: Value) -> Value:
            return here.make("^", parity, here.cast(condition(here), "extui", "i32"))

        place.of(program).operand(1, other)

    return change


def operand(place: Place, index: int, change: Callable[[At, Value], Value]) -> Change:
    """Another operand."""
    return lambda program: place.of(program).operand(index, change)


def bytes_at(place: Place, change: Callable[[int], int], condition: Condition) -> Change:
    """Other bytes are announced if a condition holds."""

    def edit(program: Program) -> None:
        at = place.of(program)
        other = at.copy(condition(at))
        At(program, other, at.part).integer("size", change)
        at.guard(at.negate(condition(at)))

    return edit


def swapped(first: Place, second: Place) -> Change:
    """Two operations in the other order."""

    def change(program: Program) -> None:
        a, b = first.of(program), second.of(program)
        b.move(a)

    return change


def partition_if(part: int, argument: str, symbol: str, value: int) -> Change:
    """A partition does its work only if a condition holds."""

    def change(program: Program) -> None:
        block = program.partitions[part]
        at = At(program, block.ops[-1], part)
        condition = At(program, block.ops[0], part).compare(program.argument(argument, part), symbol, value)
        start = block.index_of(condition.defining_op) + 1  # type: ignore[arg-type]
        at.wrap(condition, block.ops[start:-1])

    return change


def both(*changes: Change) -> Change:
    """Several changes, one after the other."""

    def change(program: Program) -> None:
        for it in changes:
            it(program)

    return change


RELEASE, ANNOUNCE, TRANSFER = Place(ARRIVE), Place(EXPECT, 1), Place(COPY, 1)
