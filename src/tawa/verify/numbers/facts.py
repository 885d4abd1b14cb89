"""Facts about the unknowns of a kernel: the caller's assumptions, and `tl.assume` in its source.

    K >= 128, K % 128 == 0 and a loop of ceil(K / 64) trips  →  2, 4, 6, … trips

A bound is seldom an argument itself; it is computed from one. So "can this bound be 3?" is answered by the preimage:
the values of the argument that give 3, and whether the facts allow one of them. If the computation is not a chain of
additions, multiplications and divisions by constants, every number is possible, which is conservative. Arithmetic on
arguments is assumed not to overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tawa.dialects import arith
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import FuncOp, GetProgramIdOp
from tawa.errors import AssumptionError
from tawa.ir import Module, Operation, source_of
from tawa.ir.attributes import read_int
from tawa.verify.assumptions import POSITIVE_STEP, Assumption, positive_step
from tawa.verify.numbers.loops import is_positive
from tawa.verify.skeleton.program import Program, Term, integer_arguments

FAR = 1 << 64
_MOST_VALUES = 1 << 14
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=")  # of arith.cmpi, by predicate
_WIDENS = op_names(arith.ExtSIOp)
_SAME_NUMBER = op_names(arith.ExtSIOp, arith.IndexCastOp, arith.TruncIOp)

Interval = tuple[int, int]
"""A closed interval."""


@dataclass(frozen=True, slots=True)
class Fact:
    """An assumption, and its text in a verdict."""

    assumption: Assumption
    text: str


@dataclass(frozen=True, slots=True)
class _Chain:
    """The computation of a number: its steps (operation, constant), last operation first, and what it starts from."""

    root: Term
    steps: tuple[tuple[str, int], ...]


def check_names(module: Module, assumptions: Sequence[Assumption]) -> None:
    """Raises AssumptionError if a fact names anything but an integer argument of a kernel of the module."""
    functions = [op for op in module.body.ops if FuncOp.matches(op) and op.regions and op.regions[0].blocks]
    names = list(dict.fromkeys(name for op in functions for name in integer_arguments(op).values()))
    for fact in assumptions:
        if fact.name not in names:
            raise AssumptionError(
                f"{str(fact)!r}: the kernel has no integer argument {fact.name}. "
                f"Its integer arguments: {', '.join(names) or 'none'}"
            )


class Facts:
    """All facts about the arguments of one skeleton; `used` has the texts of those that a query relied on."""

    def __init__(self, program: Program, assumptions: Sequence[Assumption]) -> None:
        self.used: dict[str, None] = {}
        self._module = program.module
        self._about: dict[str, list[Fact]] = {}
        """By the text of a number: checks have terms of their own."""
        self._chains: dict[Term, _Chain | None] = {}
        for fact in assumptions:
            self._add(program.arguments[fact.name], Fact(fact, str(fact)))
        for op, condition in program.assumed:
            for number, assumption in _stated(condition):
                self._add(number, Fact(assumption, self._text(op)))

    def __bool__(self) -> bool:
        return bool(self._about)

    def _add(self, number: Term, fact: Fact) -> None:
        self._about.setdefault(number.text, []).append(fact)

    def _text(self, op: Operation | None) -> str:
        place = source_of(self._module, op) if op else None
        return f"tl.assume at {place}" if place else "llvm.intr.assume in the kernel"

    def exclude(self, op: Operation | None, step: bool = False) -> None:
        """Records that the kernel's own assumption at `op`, or the `step` of the loop `op`, excluded a run."""
        self.used[self._positive(op) if step else self._text(op)] = None

    def _positive(self, loop: Operation | None) -> str:
        place = source_of(self._module, loop) if loop else None
        return f"{POSITIVE_STEP} at {place}" if place else POSITIVE_STEP

    def assume_positive(self, step: Term, loop: Operation | None) -> None:
        """Records the assumption that the step of a loop is positive, unless that is provable."""
        while step.key[0] in _SAME_NUMBER or (step.key[0] == arith.MulIOp.NAME and len(step.parts) == 1):
            if not all(number > 0 for number in step.key if isinstance(number, int)):
                break
            (step,) = step.parts
        if not is_positive(step) and step.key[0] != GetProgramIdOp.NAME and self.allows(step, -FAR, 0):
            self.used[positive_step(step.name) if step.key[0] == "argument" else self._positive(loop)] = None

    def contradiction(self) -> str:
        """The name of a number of which no value meets all facts; empty if there is no such number."""
        for facts in self._about.values():
            if not _exists((-FAR, FAR), [fact.assumption for fact in facts]):
                return facts[0].assumption.name
        return ""

    def constrains(self, term: Term) -> bool:
        """Whether a fact constrains this number."""
        return self._chain(term) is not None

    def allows(self, term: Term, low: int, high: int) -> bool:
        """Whether the number can be in [low, high]."""
        chain = self._chain(term)
        if chain is None:
            return True
        facts = self._about[chain.root.text]
        self.used.update(dict.fromkeys(fact.text for fact in facts))
        assumptions = [fact.assumption for fact in facts]
        return any(_exists(part, assumptions) for part in _preimage(chain.steps, (low, high)))

    def root(self, term: Term) -> Term:
        """What a number is computed from by operations with constants: an argument, if nothing else takes part."""
        return _chain(term).root

    def preimage(self, term: Term, number: int) -> list[Interval]:
        """The values of its root for which the term is `number`."""
        return _preimage(_chain(term).steps, (number, number))

    def _chain(self, term: Term) -> _Chain | None:
        if term not in self._chains:
            chain = _chain(term)
            self._chains[term] = chain if chain.root.text in self._about else None
        return self._chains[term]


def _chain(term: Term) -> _Chain:
    """The chain of operations with constants that computes a number, and what it starts from."""
    steps: list[tuple[str, int]] = []
    while True:
        name, inputs = term.key[0], term.key[1:]
        parts = [it for it in inputs if isinstance(it, Term)]
        numbers = [it for it in inputs if type(it) is int]
        if len(parts) != 1 or (term.narrow and name not in _WIDENS):
            break
        match name:
            case arith.TruncIOp.NAME if parts[0].key[0] not in _WIDENS:
                break  # a large number has other low bits
            case _ if name in _SAME_NUMBER and not numbers:
                pass
            case arith.AddIOp.NAME:
                steps.append(("add", numbers[0]))
            case arith.SubIOp.NAME if type(inputs[-1]) is int:
                steps.append(("add", -numbers[0]))
            case arith.MulIOp.NAME if numbers[0] > 0:
                steps.append(("times", numbers[0]))
            case arith.DivSIOp.NAME if type(inputs[-1]) is int and numbers[0] > 0:
                steps.append(("over", numbers[0]))
            case arith.MinSIOp.NAME:
                steps.append(("min", numbers[0]))
            case arith.MaxSIOp.NAME:
                steps.append(("max", numbers[0]))
            case arith.CmpIOp.NAME if not steps and type(inputs[-1]) is int and _predicate(term):
                steps.append((_predicate(term), numbers[0]))
            case _:
                break
        term = parts[0]
    return _Chain(term, tuple(steps))


def _predicate(term: Term) -> str:
    """The relation of a signed comparison; empty for an unsigned one."""
    properties = dict(zip(term.key[1:-2:2], term.key[2:-2:2], strict=True))
    number = read_int(str(properties["predicate"]))
    return _RELATIONS[number] if number < len(_RELATIONS) else ""


def _preimage(steps: tuple[tuple[str, int], ...], result: Interval) -> list[Interval]:
    """The preimage of `result`: the values of the argument for which the steps give a number in it."""
    parts = [result]
    for name, constant in steps:
        parts = [earlier for low, high in parts for earlier in _step_preimage(name, constant, low, high)]
    return parts


def _step_preimage(name: str, constant: int, low: int, high: int) -> list[Interval]:
    match name:
        case "add":
            return [(low - constant, high - constant)]
        case "times":
            return [(-(-low // constant), high // constant)]
        case "over":  # rounds to zero
            start = low * constant if low > 0 else low * constant - constant + 1
            end = high * constant if high < 0 else high * constant + constant - 1
            return [(start, end)]
        case "min":
            return [(low, FAR if high >= constant else high)] if low <= constant else []
        case "max":
            return [(-FAR if low <= constant else low, high)] if high >= constant else []
        case _:
            true, false = _comparison_preimage(name, constant)
            return [*(true if low <= 1 <= high else ()), *(false if low <= 0 <= high else ())]


def _comparison_preimage(relation: str, constant: int) -> tuple[list[Interval], list[Interval]]:
    """The values that satisfy the comparison, and those that do not."""
    below, above = (-FAR, constant - 1), (constant + 1, FAR)
    here = (constant, constant)
    match relation:
        case "==":
            return [here], [below, above]
        case "!=":
            return [below, above], [here]
        case "<":
            return [below], [here, above]
        case "<=":
            return [below, here], [above]
        case ">":
            return [above], [below, here]
        case _:
            return [here, above], [below]


def _exists(interval: Interval, facts: Sequence[Assumption]) -> bool:
    """Whether a value in the interval satisfies all facts; conservatively true if there are too many to try."""
    low, high = interval
    for fact in facts:
        if fact.modulus is None:
            if fact.relation in ("==", ">=", ">"):
                low = max(low, fact.number + (fact.relation == ">"))
            if fact.relation in ("==", "<=", "<"):
                high = min(high, fact.number - (fact.relation == "<"))
    rest = [fact for fact in facts if fact.modulus is not None or fact.relation == "!="]
    # Residues repeat with the least common multiple; each fact with != excludes one value.
    enough = math.lcm(*(fact.modulus or 1 for fact in rest)) * (1 + sum(fact.modulus is None for fact in rest))
    if enough > _MOST_VALUES and high - low >= _MOST_VALUES:
        return True
    last = min(high, low + enough - 1)
    return any(all(fact.holds(value) for fact in rest) for value in range(low, last + 1))


def _stated(condition: Term) -> list[tuple[Term, Assumption]]:
    """The facts that a condition states: comparisons of numbers with constants, joined by `and`; ignores the rest.

    The numbers are those that `_chain` ends at: arguments, and what is computed from several of them.
    """
    name, parts = condition.key[0], condition.parts
    if name == arith.AndIOp.NAME and len(parts) == 2:
        return [*_stated(parts[0]), *_stated(parts[1])]
    if name != arith.CmpIOp.NAME or len(parts) != 1 or type(condition.key[-1]) is not int:
        return []
    relation, number, compared = _predicate(condition), condition.key[-1], parts[0]
    if not relation:
        return []
    # arith.remsi of a negative number is negative, Python's % is not: they agree only on being 0.
    if compared.key[0] == arith.RemSIOp.NAME and number == 0 and relation in ("==", "!="):
        divided, modulus = compared.key[-2], compared.key[-1]
        if _is_root(divided) and type(modulus) is int and modulus > 0:
            return [(divided, Assumption(divided.name, relation, 0, modulus))]
        return []
    return [(compared, Assumption(compared.name, relation, number))] if _is_root(compared) else []


def _is_root(number: Term | int) -> TypeGuard[Term]:
    """Whether a number is the same in all partitions, and no chain of operations with constants computes it."""
    return isinstance(number, Term) and not number.opaque and _chain(number).root is number
