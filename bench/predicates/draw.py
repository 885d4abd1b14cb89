"""Draws programs at random, until the truth is decided. Seed and number of a program decide everything."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.predicates.programs import (
    COUNT,
    INNER,
    LOADED,
    OUTER,
    PROGRAM,
    PROGRAMS,
    Load,
    Loop,
    Position,
    Program,
    simple,
)
from bench.predicates.terms import ALWAYS, EXTEND, SELECT, Term, number, term, variable
from bench.predicates.truth import Known, truth_of

ITEM, K_, T_ = variable(COUNT), variable("K"), variable("T")
INNER_, OUTER_ = variable(INNER), variable(OUTER)
PID, PROGRAMS_, M = variable(PROGRAM), variable(PROGRAMS), variable(LOADED)
NEAR = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16)
FAR = (17, 20, 31, 32, 40, 63, 64, 100, 128, 200, 256, 299, 300, 511, 512, 640, 777, 1000, 1100)
DIVISORS = (2, 3, 4, 5, 7, 8, 16, 32, 64, 100, 128)
_KINDS = {"random": 60, "always true": 14, "complementary": 8, "last rounds": 8, "slot before": 10}


EASY = 0.25
"""The share that is kept of the programs with a fault in a small launch."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A program with the truth. dropped: how many programs were drawn before, and are not decided or too easy."""

    program: Program
    known: Known
    dropped: int


def program_at(seed: int, place: int) -> Drawn:
    """The program of this number."""
    dice = random.Random(f"{seed}:{place}")
    for dropped in itertools.count():
        program = Draw(dice).program()
        known = truth_of(program)
        if known is not None and (dice.random() < EASY or known.truth == "right" or not _is_small(program, known)):
            return Drawn(program, known, dropped)
    raise AssertionError("unreachable")


def _is_small(program: Program, known: Known) -> bool:
    """Whether the faulty launch is one of the first that anyone tries."""
    step = max((abs(int(it.of)) for it in program.inner.terms if it.op == "constant"), default=1)
    limits = {"K": (2 * program.depth + 1) * max(step, 1), "T": 3, PROGRAM: 1}
    return all(abs(known.launch[name]) <= limit for name, limit in limits.items())


class Draw:
    """The numbers that the terms of one program may use."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.depth = dice.choice((1, 2, 2, 3, 3, 4))
        self.load = self._load() if dice.random() < 0.15 else None
        self.nested = dice.random() < 0.45
        self.outer = self._tiles() if self.nested else None
        self.inner = self._trips()

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _load(self) -> Load:
        at = self.dice.choice((number(0), PID, K_, number(3)))
        masks = (None, None, term("gt", K_, 3), term("lt", PID, T_), term("eq", term("rem", K_, 64), 0))
        return Load(at, self.dice.choice(masks), self.dice.choice((0, 1, 2, 5, -1)))

    def _tiles(self) -> Loop:
        strided = Loop(PID, T_, PROGRAMS_)
        rounded = term("div", term("add", T_, 127), 128)
        fixed = simple(self.dice.choice((2, 3, 5, 9)))
        every = (strided, strided, simple(T_), simple(T_), simple(rounded), Loop(PID, rounded, PROGRAMS_), fixed,
                 Loop(number(0), T_, PROGRAMS_))  # fmt: skip
        return self.dice.choice(every)

    def _trips(self) -> Loop:
        rounded, whole = term("div", term("add", K_, 63), 64), term("div", K_, 64)
        every = [simple(K_), simple(K_), simple(K_, 64), simple(K_, 64), simple(rounded), simple(whole),
                 simple(self.dice.choice((3, 7, 12, 33, 300))), simple(term("sub", K_, 1)),
                 simple(term("min", K_, 100)), Loop(number(2), K_, number(1))]  # fmt: skip
        if self.load:
            every += [simple(M), simple(term("min", M, K_))] * 2
        if self.nested:
            every += [simple(term("add", OUTER_, 1)), Loop(OUTER_, K_, number(1)), simple(term("min", K_, OUTER_))]
        else:
            every += [Loop(PID, K_, PROGRAMS_), Loop(PID, whole, PROGRAMS_), Loop(PID, K_, number(1))]
        return self.dice.choice(every)

    # -- terms ---------------------------------------------------------------------------------------------------------

    def a_number(self, depth: int = 2, scalars: bool = False) -> Term:
        """A number of the loops, or with `scalars` one that is known before them."""
        if depth == 0 or self.dice.random() < 0.45:
            return self._variable(scalars)
        a = self.a_number(depth - 1, scalars)
        match self.dice.choice(("add", "mul", "rem", "rem", "div", "div rem", "bit", "shift", "two", "clip", "choice")):
            case "add":
                return term(self.dice.choice(("add", "sub")), a, self.dice.choice(NEAR))
            case "mul":
                return term("mul", a, self.dice.choice((2, 3, 5, 7, -1, -3, 64, 1000)))
            case "rem":
                return term("rem", a, self.dice.choice(DIVISORS))
            case "div":
                return term("div", a, self.dice.choice(DIVISORS))
            case "div rem":
                return term("rem", term("div", a, self.dice.choice((64, 64, 2, 3, 4))), self.dice.choice(DIVISORS))
            case "bit":
                mask = self.dice.choice((1, 2, 3, 5, 7, 8, 15, 64))
                return term(self.dice.choice(("bit_and", "bit_or", "bit_xor")), a, mask)
            case "shift":
                return term(self.dice.choice(("left", "right")), a, self.dice.choice((1, 2, 3, 6)))
            case "two":
                other = self.a_number(depth - 1, scalars)
                return term(self.dice.choice(("add", "sub", "min", "max", "mul", "bit_xor")), a, other)
            case "clip":
                return term(self.dice.choice(("min", "max")), a, self.dice.choice(NEAR + FAR))
            case _:
                where = self.a_comparison(depth - 1, scalars)
                if self.dice.random() < 0.5:
                    return term("add", a, Term(EXTEND, (where,)))
                return Term(SELECT, (where, a, number(self.dice.choice(NEAR))))

    def _variable(self, scalars: bool) -> Term:
        known = [K_, K_, PID] + ([T_, PROGRAMS_] if self.nested else []) + ([M] * 3 if self.load else [])
        loops = [ITEM, INNER_, ITEM, INNER_] + ([OUTER_] * 2 if self.nested else [])
        return self.dice.choice(known if scalars or self.dice.random() < 0.25 else loops)

    def a_comparison(self, depth: int = 2, scalars: bool = False) -> Term:
        """A comparison that often holds."""
        a = self.a_number(depth, scalars)
        op = self.dice.choice(("ne", "ne", "ne", "lt", "le", "ge", "gt", "eq", "ult"))
        if op in ("lt", "le", "ult"):
            b = self.dice.choice((number(self.dice.choice(FAR)), number(self.dice.choice(NEAR)), self._variable(True)))
        elif op in ("ge", "gt"):
            b = self.dice.choice((number(self.dice.choice(NEAR[:4])), number(-self.dice.choice(NEAR)), PID))
        else:
            b = number(self.dice.choice(NEAR + FAR))
        return term(op, a, b)

    def a_predicate(self, depth: int = 2, scalars: bool = False) -> Term:
        """A truth value."""
        draw = self.dice.random()
        if depth == 0 or draw < 0.45:
            return self.a_comparison(scalars=scalars)
        a, b = self.a_predicate(depth - 1, scalars), self.a_predicate(depth - 1, scalars)
        if draw < 0.5:
            return Term("not", (term("eq", self.a_number(1, scalars), self.dice.choice(FAR)),))
        return term(self.dice.choice(("or", "or", "and", "and", "xor")), a, b)

    def always(self) -> Term:
        """A predicate that holds in every iteration of every launch, on any numbers of 32 bits."""
        n = self.a_number(1)
        c, d = self.dice.choice(NEAR[1:]), self.dice.choice(DIVISORS)
        p = self.a_comparison(1)
        even = term("mul", n, 2)
        square = term("mul", term("bit_and", n, 7), term("bit_and", n, 7))
        every = [
            term("lt", INNER_, self.inner.upper),
            term("ge", INNER_, self.inner.lower),
            term("le", self.inner.lower, term("min", INNER_, self.inner.upper)),
            term("gt", self.inner.upper, self.inner.lower),
            term("ge", ITEM, 0),
            term("le", 0, term("add", ITEM, c)),
            term("eq", term("bit_and", ITEM, 1), term("rem", ITEM, 2)),
            term("eq", term("bit_and", ITEM, d_ := self.dice.choice((3, 7, 15))), term("rem", ITEM, d_ + 1)),
            term("eq", term("right", ITEM, 3), term("div", ITEM, 8)),
            term("eq", term("right", n, 0), n),
            term("lt", term("rem", n, d), d),
            term("gt", term("rem", n, d), -d),
            term("lt", term("rem", term("mul", ITEM, 3), 7), 7),
            term("ge", term("rem", ITEM, d), 0),
            term("ge", n, term("min", n, c)),
            term("le", term("min", n, c), c),
            term("ge", term("max", n, c), c),
            term("eq", term("bit_and", even, 1), 0),
            term("ne", term("add", even, 1), 2 * c),
            term("eq", term("bit_xor", term("bit_xor", n, c), c), n),
            term("eq", term("add", term("mul", term("div", n, d), d), term("rem", n, d)), n),
            term("eq", term("sub", term("add", n, c), c), n),
            term("ne", term("rem", square, 4), 3),
            term("ge", term("bit_and", n, 255), 0),
            term("eq", term("bit_or", term("bit_and", n, c), n), n),
            term("or", p, Term("not", (p,))),
            term("or", term("lt", n, c), term("ge", n, c)),
            term("or", term("ne", n, c), term("eq", n, c)),
            Term("not", (term("and", term("lt", n, c), term("gt", n, c)),)),
            term("ge", term("add", Term(EXTEND, (p,)), 0), 0),
            term("lt", PID, PROGRAMS_),
            term("ge", PID, 0),
            term("le", number(1), PROGRAMS_),
            term("xor", p, Term("not", (p,))),
        ]
        if self.load and self.load.mask:
            every += [term("eq", Term(SELECT, (self.load.mask, M, number(self.load.other))), M)] * 2
        if self.nested and self.outer is not None:
            every += [term("lt", OUTER_, self.outer.upper), term("ge", OUTER_, self.outer.lower)] * 2
        if self.inner.upper == K_ and self.inner.lower.op == "constant":
            every += [term("ge", K_, term("sub", K_, 1)), term("ge", K_, 1), term("ne", K_, 0)]
        if self.inner.step == number(64):
            every += [term("eq", term("rem", INNER_, 64), 0), term("lt", term("sub", INNER_, 64), K_)]
        found = self.dice.choice(every)
        draw = self.dice.random()
        if draw < 0.2:
            return term("or", self.a_predicate(1), found)
        return term("and", self.dice.choice(every), found) if draw < 0.3 else found

    # -- programs ------------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """A program of a random kind."""
        kind = self.dice.choices(list(_KINDS), list(_KINDS.values()))[0]
        make: dict[str, Callable[[], Program]] = {
            "random": lambda: self._made(kind, (self.a_predicate(scalars=self.dice.random() < 0.25),)),
            "always true": lambda: self._made(kind, (self.always(),), right=True),
            "complementary": lambda: self._complementary(kind),
            "last rounds": lambda: self._last_rounds(kind),
            "slot before": lambda: self._slot_before(kind),
        }
        return make[kind]()

    def _made(self, kind: str, releases: tuple[Term, ...], right: bool = False) -> Program:
        return Program(
            self.depth, self.outer, self.inner, (self._position(), self._position()), releases, kind, self.load,
            right=right,
        )  # fmt: skip

    def _position(self) -> Position:
        forms: tuple[Position, ...] = ("count", "pair", "bit") if self.depth == 1 else ("count", "pair")
        return self.dice.choice(forms)

    def _complementary(self, kind: str) -> Program:
        """Two releases of which one is made; in some programs there is a gap between them, or an overlap."""
        p = self.a_predicate(1)
        if self.dice.random() < 0.3:
            n, c = self.a_number(1), self.dice.choice(NEAR + FAR)
            gap = self.dice.choice((0, 0, 0, 1, -1))
            return self._made(kind, (term("lt", n, c), term("ge", n, c + gap)), right=gap == 0)
        if self.dice.random() < 0.3:
            q = self.a_predicate(1)
            return self._made(kind, (term("and", p, q), Term("not", (term("and", p, q),))), right=True)
        return self._made(kind, (p, Term("not", (p,))), right=True)

    def _last_rounds(self, kind: str) -> Program:
        """No release in some last iterations, which nobody waits for if there are at most D of them."""
        left = self.dice.choice((1, 1, 2, 3, self.depth, self.depth, self.depth + 1))
        self.outer, self.nested = None, False
        if self.inner.upper != K_ or self.inner.lower.op != "constant":
            self.inner = self.dice.choice((simple(K_), simple(K_, 64)))
        step = int(self.inner.step.of)
        release = self.dice.choice((
            term("lt", INNER_, term("sub", K_, left * step)),
            term("lt", term("add", INNER_, left * step), K_),
        ))  # fmt: skip
        return self._made(kind, (release,), right=left <= self.depth)

    def _slot_before(self, kind: str) -> Program:
        """Each iteration releases the slot of the one before; the last slot is released behind the loop."""
        self.depth = max(self.depth, 2)
        first = term("gt", INNER_, self.inner.lower)
        some = term("gt", self.inner.upper, self.inner.lower)
        releases = (first, first, term("ne", INNER_, self.inner.lower), term("gt", ITEM, 0), self.a_predicate(1))
        tails = (some, some, some, ALWAYS, self.a_predicate(1, scalars=True))
        release, tail = self.dice.choice(releases), self.dice.choice(tails)
        right = tail == some and release in (releases[:3] if self.nested else releases[:4])
        return replace(self._made(kind, (release,), right=right), late=True, tail=tail)
