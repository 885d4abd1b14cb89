"""Polynomials over scalars of a program: sums of products with integer coefficients.

    128·pid·stride + 64·iv - 1

A monomial is the sorted tuple of its atoms' numbers; a polynomial is the sorted tuple of (monomial, coefficient).
`Atoms` numbers the atoms in the order in which they are first used, so that equal programs give equal polynomials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from math import gcd

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import GetNumProgramsOp, GetProgramIdOp, LoadOp
from tawa.ir import Block, Operation, Value

Monomial = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of products. terms: coefficient (never 0) by monomial, sorted."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: Iterable[tuple[Monomial, int]]) -> Poly:
        """Collects equal monomials."""
        sums: dict[Monomial, int] = {}
        for monomial, factor in terms:
            sums[monomial] = sums.get(monomial, 0) + factor
        return Poly(tuple(sorted((monomial, factor) for monomial, factor in sums.items() if factor)))

    @property
    def number(self) -> int | None:
        """The value of a constant polynomial; None for any other."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def atoms(self) -> tuple[int, ...]:
        """The numbers of the atoms, each once."""
        return tuple(dict.fromkeys(atom for monomial, _ in self.terms for atom in monomial))

    def __add__(self, other: Poly) -> Poly:
        return Poly.of((*self.terms, *other.terms))

    def __neg__(self) -> Poly:
        return Poly(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        return Poly.of((tuple(sorted((*left, *right))), a * b) for left, a in self.terms for right, b in other.terms)

    def divided_by(self, divisor: Poly) -> Poly | None:
        """The exact quotient by a polynomial of one term; None where there is a remainder."""
        quotient, rest = self.parted_by(divisor)
        return None if rest.terms else quotient

    def parted_by(self, divisor: Poly) -> tuple[Poly, Poly]:
        """The quotient of the terms that a polynomial of one term divides, and the remaining terms."""
        if len(divisor.terms) != 1:
            whole = self == divisor and bool(self.terms)
            return (ONE, ZERO) if whole else (ZERO, self)
        ((wanted, by),) = divisor.terms
        quotient: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for monomial, factor in self.terms:
            left = _without(monomial, wanted)
            if left is None or factor % by:
                rest.append((monomial, factor))
            else:
                quotient.append((left, factor // by))
        return Poly.of(quotient), Poly.of(rest)

    def content(self) -> int:
        """The greatest common divisor of the coefficients."""
        return reduce(gcd, (factor for _, factor in self.terms), 0)


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def constant(number: int) -> Poly:
    """A number as a polynomial."""
    return Poly.of([((), number)])


ZERO = Poly()
ONE = constant(1)


@dataclass(frozen=True, slots=True)
class Trip:
    """The number of iterations of a loop before the current one."""

    loop: Operation


@dataclass(frozen=True, slots=True)
class Carried:
    """The sum of `step` over all earlier iterations of a loop."""

    loop: Operation
    step: Poly


Atom = Value | Trip | Carried


class Atoms:
    """The atoms of one function, numbered.

    Values that the same operation computes from equal operands share one atom: the first of them represents all.
    """

    def __init__(self) -> None:
        self._numbers: dict[Atom, int] = {}
        self._atoms: list[Atom] = []
        self._computed: dict[tuple[object, ...], Value] = {}
        self._versions: dict[Value, dict[Value, None]] = {}
        self._wide: set[Monomial] = set()

    def widen(self, poly: Poly) -> None:
        """Records that the kernel computes the terms of `poly` in 64 bits, so that they may not fit 32."""
        self._wide.update(monomial for monomial, _ in poly.terms)

    def wide(self, poly: Poly) -> bool:
        """Whether a value of `poly`, or of a term of it, may need 64 bits."""
        if any(monomial in self._wide or abs(factor) >> 31 for monomial, factor in poly.terms):
            return True
        return any(self._wide_atom(atom) for atom in self.of(poly))

    def _wide_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Carried):
            return self.wide(atom.step)
        return isinstance(atom, Value) and atom.type == "i64"

    def equal(self, value: Value, key: tuple[object, ...]) -> Value:
        """The representative of all values with this `key`: operation, type and operands."""
        first = self._computed.setdefault(key, value)
        self._versions.setdefault(first, {first: None})[value] = None
        return first

    def versions(self, value: Value) -> tuple[Value, ...]:
        """The values that are equal to an atom, itself included."""
        return tuple(self._versions.get(value, (value,)))

    def index(self, atom: Atom) -> int:
        """The number of an atom."""
        if atom not in self._numbers:
            self._numbers[atom] = len(self._atoms)
            self._atoms.append(atom)
        return self._numbers[atom]

    def __getitem__(self, index: int) -> Atom:
        return self._atoms[index]

    def poly(self, atom: Atom) -> Poly:
        """An atom as a polynomial."""
        return Poly((((self.index(atom),), 1),))

    def of(self, poly: Poly) -> Iterator[Atom]:
        """The atoms of a polynomial, each once."""
        return (self._atoms[index] for index in poly.atoms)

    def text(self, poly: Poly) -> str:
        """A polynomial for messages: ``128*pid - 64``."""
        found = ""
        for monomial, factor in poly.terms:
            names = [_name(self._atoms[index]) for index in monomial]
            size = "*".join([str(abs(factor)), *names] if abs(factor) != 1 or not names else names)
            sign = (" - " if found else "-") if factor < 0 else (" + " if found else "")
            found += sign + size
        return found or "0"

    def invariant(self, poly: Poly, loop: Operation) -> bool:
        """Whether a polynomial is invariant in `loop`."""
        return all(not inside(atom, loop) for atom in self.of(poly))


_KINDS = by_name(
    {
        GetProgramIdOp: "(a program id)",
        GetNumProgramsOp: "(a number of programs)",
        LoadOp: "(a number in memory)",
    }
)
"""What a number without a name is, by the operation that computes it."""


def _name(atom: Atom) -> str:
    """The name of an atom in the kernel's source, or what it is."""
    if isinstance(atom, Trip | Carried):
        return "(iterations)" if isinstance(atom, Trip) else "(a running sum)"
    if isinstance(atom.owner, Block):
        return atom.hint or ("(loop counter)" if atom.index == 0 else "(carried by a loop)")
    head, _, tail = atom.hint.rpartition("_")  # MLIR numbers the values of one name
    return (head if head and tail.isdigit() else atom.hint) or _KINDS.get(atom.owner.name, "(a scalar)")


def inside(atom: Atom, op: Operation) -> bool:
    """Whether an atom is defined inside a region of `op`."""
    if isinstance(atom, Trip | Carried):
        return atom.loop is op or op.is_ancestor_of(atom.loop)
    owner = atom.owner
    outer = owner.parent_op if isinstance(owner, Block) else owner
    if outer is None:
        return False
    if isinstance(owner, Block) and outer is op:
        return True
    return outer is not op and op.is_ancestor_of(outer)
