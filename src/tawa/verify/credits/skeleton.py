"""The protocol skeleton of an aref-level module: straight lists of instructions over numbered registers, and terms.

A value that is no known number is a `Term`, the tree of operations that makes it, so that the same expression in two
partitions is one unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tawa.dialects.scalars import width_of
from tawa.ir import Module, Operation, Value

MAIN = "kernel"


class Code(IntEnum):
    """Instructions; their operands follow in a tuple."""

    SCALAR = 0  # function or None, input registers, result register, signature
    ADVANCE = 1  # input, result
    PUT = 2  # ring, count, fresh
    GET = 3  # ring, count, reader, view registers
    CONSUMED = 4  # ring, count, condition or -1, reader
    DOT = 5  # view registers, asynchronous
    WAIT = 6  # pendings
    MOVE = 7  # sources, targets
    FOR = 8  # lower, upper, step, induction variable or -1, loop, exit
    NEXT = 9  # first instruction of the body, induction variable or -1
    IF = 10  # condition, where to go if it is false
    JUMP = 11  # where to
    WHILE = 12  # loop
    TEST = 13  # condition, exit, loop
    FORK = 14
    ASSUME = 15  # condition
    END = 16


class UnsupportedError(Exception):
    """The module holds what the skeleton cannot say; `op` is the place."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


class Term:
    """A number that is not known: an operation on known and unknown numbers. Equal terms are one object."""

    __slots__ = ("key", "name", "number")

    def __init__(self, key: tuple[Any, ...], number: int, name: str) -> None:
        self.key = key
        self.number = number
        self.name = name

    @property
    def opaque(self) -> bool:
        """Whether an operation went in that two partitions cannot be known to agree on."""
        return self.key[0] == "opaque" or any(part.opaque for part in self.parts)

    @property
    def parts(self) -> list[Term]:
        """The terms it is made of."""
        return [part for part in self.key if isinstance(part, Term)]

    def holds(self, other: Term) -> bool:
        """Whether `other` is part of this term, or is it."""
        return self is other or any(part.holds(other) for part in self.parts)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it is but for its numbers."""
        return tuple(item for item in self.key if not isinstance(item, Term | int))

    def walk(self) -> Iterator[Term]:
        """This term and all that it is made of."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def __repr__(self) -> str:
        return self.name


class Terms:
    """All terms of one module."""

    def __init__(self) -> None:
        self._terms: dict[tuple[Any, ...], Term] = {}
        self._parts: set[Term] = set()

    def __call__(self, key: tuple[Any, ...], name: str = "") -> Term:
        """The term of `key`; a name is for messages."""
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = Term(key, len(self._terms), name or f"?{len(self._terms)}")
            self._parts.update(found.parts)
        return found

    def has_part(self, part: Term) -> bool:
        """Whether another term is made of `part`."""
        return part in self._parts


@dataclass(slots=True)
class Ring:
    """One ring: slots, and who reads it."""

    name: str
    depth: int
    readers: list[str] = field(default_factory=list[str])
    writers: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Loop:
    """A loop. `constant`: its bounds are numbers in the text."""

    op: Operation
    constant: bool


@dataclass(slots=True)
class Part:
    """One partition (or the kernel around them): its instructions, and the operation behind each."""

    name: str
    code: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    ops: list[Operation | None] = field(default_factory=list[Operation | None])
    puts: int = 0
    gets: int = 0
    uses: list[tuple[int, int, bool, int]] = field(default_factory=list[tuple[int, int, bool, int]])
    """What each instruction does to registers (`credits_live.Uses`)."""
    live: list[tuple[tuple[int, int], ...]] = field(default_factory=list[tuple[tuple[int, int], ...]])
    """For each instruction the registers that make up the state in front of it, each with its kind."""


@dataclass(slots=True)
class Program:
    """The skeleton. parts[0] is the kernel around the partitions."""

    module: Module
    parts: list[Part]
    rings: list[Ring]
    loops: list[Loop]
    registers: list[Any]  # constants and arguments are preset
    arguments: dict[str, Term]
    terms: Terms
    bounds: dict[Term, tuple[int | Term, int]]  # upper bounds outside all loops, with lower bound and step
    spread: dict[Term, int] = field(default_factory=dict[Term, int])
    """Upper bounds of loops that begin or step differently: after how many numbers each has had a trip."""
    inner: tuple[int, int] | None = None  # lower bound and step of the loops whose upper bound is made inside loops
    measure: Callable[[], None] = lambda: None  # finds `wild` and `largest`, which only a search with numbers needs
    wild: str = ""  # why runs beyond the bound may differ from those within; empty where they cannot
    few: str = ""  # why not all runs within the bound are tried; empty where they are
    largest: int = 0  # the largest number that an unknown is compared with, in trips
    settled: int = 0  # in trips of a loop, the largest number that something is compared with which says how far it is
    decides: Operation | None = None  # what that decides
    fresh: int = 0  # D of the deepest ring with a put that does not wait: such a put is right for the first D counts
    pendings: int = 0  # the most wgmmas that a wait leaves in flight
    assumed: list[tuple[Operation, Term]] = field(default_factory=list[tuple[Operation, Term]])
    """What the kernel states at its beginning (`tl.assume`): the operation and the condition."""

    @property
    def leader(self) -> int:
        """The partition that a run follows: the first that writes."""
        return next((at for at, part in enumerate(self.parts) if at and part.puts), len(self.parts) - 1)


def merge_ranges(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Lower bound and step from which on numbers tell both of two loops with one upper bound, trip by trip."""
    return min(one[0], other[0]), math.gcd(one[1], other[1], one[0] - other[0])


def integer_arguments(function: Operation) -> dict[Value, str]:
    """The integer arguments of a kernel with their names: as in its source, where that tells them apart."""
    arguments = [arg for arg in function.regions[0].block.args if width_of(arg.type) is not None]
    plain = Counter(plain_name(arg.hint) for arg in arguments)
    names: dict[Value, str] = {}
    for arg in arguments:
        name = plain_name(arg.hint)
        names[arg] = name if name and plain[name] == 1 else arg.hint or f"argument {arg.index}"
    return names


def plain_name(hint: str) -> str:
    """A value's name without the number that the printer adds."""
    head, _, tail = hint.rpartition("_")
    return head if head and tail.isdigit() else hint
