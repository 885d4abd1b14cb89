"""The protocol skeleton of a module, at either level: per partition a list of instructions over numbered registers.

A value that is not a known constant is a `Term`, the expression tree that computes it, so that the same expression in
two partitions is one unknown.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tawa.dialects import arith, tt
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.parameters import part_of_descriptor
from tawa.dialects.scalars import width_of
from tawa.ir import Module, Operation, Value, Worklist
from tawa.verify.comparisons import one_form
from tawa.verify.crossed_numbers import NONE_CROSSED, CrossedNumbers
from tawa.verify.run.history import Memories
from tawa.verify.skeleton.live import Live, Uses

if TYPE_CHECKING:
    from tawa.verify.skeleton.lifted import LiftedRing

MAIN = "kernel"
USUAL = "i32"
"""The type of numbers that keys of operations do not name."""


class Code(IntEnum):
    """Opcodes; an instruction is a tuple of the opcode and its operands."""

    SCALAR = 0  # function or None, input registers, result register, signature
    ADVANCE = 1  # input, result
    PUT = 2  # ring, count, fresh, view registers
    GET = 3  # ring, count, reader, view registers
    CONSUMED = 4  # ring, count, condition or -1, reader
    DOT = 5  # view registers, asynchronous
    WAIT = 6  # pendings
    MOVE = 7  # sources, targets
    FOR = 8  # lower, upper, step, induction variable or -1, exit
    NEXT = 9  # first instruction of the body, induction variable or -1
    IF = 10  # condition, target if it is false
    JUMP = 11  # target
    WHILE = 12
    TEST = 13  # condition, exit
    FORK = 14  # the partitions that start
    ASSUME = 15  # condition
    END = 16
    SEND = 17  # ring, register of the number that the put before it sends
    RECEIVE = 18  # view register, result register
    ACT = 19  # the template of an event (`run.events.Act`)
    VIEW = 20  # source register, register of the slot or -1, result register
    PICK = 21  # condition, register if it holds, register if not, result register: one of two tiles
    JOIN = 22  # waits for their ends
    ACQUIRE = 23  # ring, count, view registers
    PUBLISH = 24  # ring, count
    QUIET = 25  # behind the region, its results as (register, value): a run may leave the region out


class UnsupportedError(Exception):
    """The skeleton cannot represent operation `op`."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


class Term:
    """An unknown number: an operation on known and unknown numbers. Equal terms are one object (hash-consed)."""

    __slots__ = ("given", "key", "leaves", "number", "reads", "text")

    def __init__(self, key: tuple[Any, ...], number: int, given: str) -> None:
        self.key = key
        self.number = number
        self.given = given
        text = f"({' '.join(text_of(it) for it in key)})"
        self.text = text if len(text) < _LONG else hashlib.sha256(text.encode()).hexdigest()
        """Equal in every program that computes it alike. Terms share operands, so a long text is only its digest."""
        own = () if str(key[0]).startswith("arith.") else (self.text,)
        self.reads: bool = any(it.reads if isinstance(it, Term) else tt.LoadOp.NAME in str(it) for it in key)
        """Whether it is computed from a number in memory."""
        self.leaves: frozenset[str] = frozenset(own).union(*(part.leaves for part in self.parts))
        """The texts of the numbers that it is computed from, and that are not computed themselves."""

    @property
    def name(self) -> str:
        """The name in the kernel's source, or what the number is; for messages."""
        return self.given or _described(self.key, _DEPTH)

    @property
    def opaque(self) -> bool:
        """Whether it contains an operation whose results may differ between partitions."""
        return any(part.key[0] == "opaque" for part in self.walk())

    @property
    def narrow(self) -> bool:
        """Whether an operation of fewer than 32 bits computes it, which wraps for small numbers, too."""
        types = [it for name, it in itertools.pairwise(self.key) if name in ("of", "to")]
        width = width_of(types[-1]) if types else None
        return width is not None and width < 32

    @property
    def parts(self) -> list[Term]:
        """The terms among its operands."""
        return [part for part in self.key if isinstance(part, Term)]

    @property
    def numbers(self) -> set[Term]:
        """The numbers that arithmetic makes it from; of a number in memory, not what its address is made from."""
        work = Worklist[Term]([self])
        for term in work:
            work += term.parts if str(term.key[0]).startswith("arith.") else []
        return {term for term in work.given if not (term.parts and str(term.key[0]).startswith("arith."))}

    def walk(self) -> Iterator[Term]:
        """This term and all of its subterms, each once."""
        work = Worklist[Term]([self])
        for term in work:
            yield term
            work += reversed(term.parts)

    def __repr__(self) -> str:
        return self.name


_SIGNS = by_name(
    {
        arith.AddIOp: "+",
        arith.SubIOp: "-",
        arith.MulIOp: "*",
        arith.DivSIOp: "//",
        arith.RemSIOp: "%",
        arith.AndIOp: "&",
        arith.OrIOp: "|",
        arith.XOrIOp: "^",
    }
)
_NOUNS = {
    **by_name(
        {
            tt.LoadOp: "a number in memory",
            tt.GetProgramIdOp: "a program id",
            tt.GetNumProgramsOp: "a number of programs",
            arith.CmpIOp: "a comparison",
        }
    ),
    "while": "the trips of a while loop",
    "decided": "a number that a loop or a branch decides",
    "undefined": "a number that a mask leaves undefined",
    "induction": "the counter of a loop",
}
_LONG = 400
"""Characters of the text of a term."""
_DEPTH = 3
"""Operations in a description; what is inside of them is left out."""


def _described(key: tuple[Any, ...], depth: int) -> str:
    """What a number without a name is: ``K // 64 - 1``, or a noun and the names that it is computed from."""
    kind, operands = str(key[0]), [item for item in key if isinstance(item, Term | int)]
    if kind in _SIGNS and len(operands) == 2 and depth:
        left, right = (_operand(it, depth - 1) for it in operands)
        return f"{left} {_SIGNS[kind]} {right}"
    noun = f"the result of {key[1]}" if kind == "opaque" else _NOUNS.get(kind, "a number")
    parts = [part for operand in operands if isinstance(operand, Term) for part in operand.walk()]
    names = list(dict.fromkeys(part.given for part in parts if part.given))
    return f"{noun} computed from {', '.join(names[:_DEPTH])}" if names else noun


def _operand(operand: Term | int, depth: int) -> str:
    if isinstance(operand, int) or operand.given:
        return str(operand)
    text = _described(operand.key, depth)
    return f"({text})" if " " in text else text


class Terms:
    """The terms of one module, hash-consed."""

    def __init__(self) -> None:
        self._terms: dict[tuple[Any, ...], Term] = {}
        self.functions: dict[tuple[Any, ...], Callable[..., int | None]] = {}
        """By operation, attributes and type: what it computes."""

    def __call__(self, key: tuple[Any, ...], name: str = "") -> Term:
        """The term of `key`; `name`, if there is one, is used in messages."""
        key = self._normal(key)
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = Term(key, len(self._terms), name)
        found.given = found.given or name
        return found

    def evaluate(self, term: Any, given: Mapping[str, int]) -> int | None:
        """The number for these numbers, by the text of terms; None if it needs others, or has no defined value."""
        found = self._evaluated(term, given, {})
        assert not isinstance(found, list)
        return found

    def evaluate_each(self, term: Term, given: Mapping[str, int], name: str, numbers: list[int]) -> list[int | None]:
        """The same for each of these numbers of the leaf `name`."""
        found = self._evaluated(term, {**given, name: [*numbers]}, {})
        return found if isinstance(found, list) else [found] * len(numbers)

    def _evaluated(self, term: Any, given: Mapping[str, _Numbers], found: dict[Term, _Numbers]) -> _Numbers:
        if not isinstance(term, Term):
            return term if isinstance(term, int) else None
        if term not in found:
            known = given.get(term.text)
            found[term] = self._computed(term, given, found) if known is None else known
        return found[term]

    def _computed(self, term: Term, given: Mapping[str, _Numbers], found: dict[Term, _Numbers]) -> _Numbers:
        if term.key[0] == arith.CmpIOp.NAME and len(term.key) == _COMPARISON:
            inputs = [self._evaluated(it, given, found) for it in term.key[-2:]]
            return _each(arith.read_predicate(term.key[2]).holds, inputs)
        for count in (2, 1, 3):
            function = self.functions.get(term.key[:-count])
            if function is not None:
                return _each(function, [self._evaluated(it, given, found) for it in term.key[-count:]])
        return None

    def _normal(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of an equal term in one form: equal keys are equal numbers."""
        match key[0]:
            case arith.SelectOp.NAME:
                return _choice(key)
            case arith.CmpIOp.NAME if len(key) == _COMPARISON:
                predicate, left, right = one_form(arith.read_predicate(key[2]), *key[-2:])
                if (
                    predicate <= arith.Predicate.NE
                    and isinstance(left, Term)
                    and isinstance(right, Term)
                    and right.number < left.number
                ):
                    left, right = right, left
                return (*key[:2], f"{predicate} : i64", left, right)
            case arith.XOrIOp.NAME if (compared := _denied(*key[-2:])) is not None:
                return self._normal(
                    (*compared.key[:2], f"{arith.read_predicate(compared.key[2]).negated} : i64", *compared.key[-2:])
                )
            case arith.AddIOp.NAME | arith.MulIOp.NAME:
                return self._sum(key)
            case tt.AddPtrOp.NAME:
                return _address(key)
            case _:
                return key

    def _sum(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """A sum or a product in one order, constants last."""
        parts: list[Term] = []
        number, work = (0 if key[0] == arith.AddIOp.NAME else 1), [key[-1], key[-2]]
        while work:
            part = work.pop()
            if isinstance(part, Term) and part.key[:-2] == key[:-2]:
                work += [part.key[-1], part.key[-2]]
            elif isinstance(part, Term):
                parts.append(part)
            elif key[0] == arith.AddIOp.NAME:
                number += part
            else:
                number *= part
        if not parts:
            return key
        parts.sort(key=lambda part: part.number)
        left: Any = parts[0]
        for part in parts[1:-1]:
            left = self((*key[:-2], left, part))
        last = parts[-1] if len(parts) > 1 else None
        neutral = number == (0 if key[0] == arith.AddIOp.NAME else 1)
        if last is None:
            return (*key[:-2], left, number)
        if neutral:
            return (*key[:-2], left, last)
        return (*key[:-2], self((*key[:-2], left, last)), number)


_Numbers = int | None | list[int | None]
"""The number of a term, or one for each of several numbers of a leaf; None is unknown."""


def _each(function: Callable[..., int | None], inputs: list[_Numbers]) -> _Numbers:
    """The result for these operands; one for each place of those that are lists."""
    lists = [it for it in inputs if isinstance(it, list)]
    if None in inputs:
        return None
    if not lists:
        return function(*inputs)
    rows = zip(*(it if isinstance(it, list) else itertools.repeat(it) for it in inputs), strict=False)
    if any(None in it for it in lists):
        return [None if None in row else function(*row) for row in rows]
    return list(itertools.starmap(function, rows))


_COMPARISON = 5
"""Items in the key of a comparison of numbers; that of flags has more (`skeleton.compiler`)."""


def _choice(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A choice by the same condition as one of its operands is the choice of that operand."""
    condition, one, other = key[-3:]
    if isinstance(one, Term) and one.key[0] == key[0] and one.key[-3] is condition:
        one = one.key[-2]
    if isinstance(other, Term) and other.key[0] == key[0] and other.key[-3] is condition:
        other = other.key[-1]
    return (*key[:-3], condition, one, other)


def _address(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of an address with one offset, if offsets are numbers; without any, if they are 0."""
    base, offset = key[-2:]
    if isinstance(base, Term) and base.key[0] == key[0] and isinstance(base.key[-1], int) and isinstance(offset, int):
        base, offset = base.key[-2], base.key[-1] + offset
    return base.key if isinstance(base, Term) and offset == 0 else (*key[:-2], base, offset)


def _denied(left: Term | int, right: Term | int) -> Term | None:
    """The comparison of ``comparison ^ true``."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Term) and one.key[0] == arith.CmpIOp.NAME and len(one.key) == _COMPARISON and other == 1:
            return one
    return None


@dataclass(slots=True)
class Ring:
    """One ring: the number of slots, its readers and its writers.

    left_out: whether it has readers, of which none is in the program (`tawa.verify.free.pairs`).
    """

    name: str
    depth: int
    readers: list[str] = field(default_factory=list[str])
    writers: list[str] = field(default_factory=list[str])
    left_out: bool = False


@dataclass(slots=True)
class Part:
    """One partition, or the code around the partitions: its instructions, and the operation that each came from."""

    name: str
    code: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    ops: list[Operation | None] = field(default_factory=list[Operation | None])
    puts: int = 0
    gets: int = 0
    uses: list[Uses] = field(default_factory=list[Uses])
    """The registers that each instruction reads and writes, and its successors."""
    live: Live = field(default_factory=Live)
    """For each instruction the registers that are live before it, each with its kind: a ring number for counts."""
    fixed: list[int] = field(default_factory=list[int])
    """For each instruction the rings of which a constant slot may be used from there on, as bits."""
    touches: list[int] = field(default_factory=list[int])
    """For each instruction the allocations that are accessed from there on, as bits one above their numbers.

    What comes behind the end of other partitions is left out: there, everything is known.
    """
    writes: list[int] = field(default_factory=list[int])
    """Likewise the allocations that are written."""


@dataclass(slots=True)
class Program:
    """The skeleton. parts[0] is the code around the partitions."""

    module: Module
    parts: list[Part]
    rings: list[Ring]
    registers: list[Any]  # constants and arguments are preset
    arguments: dict[str, Term]
    terms: Terms
    fresh: int = 0  # D of the deepest ring with a put that does not wait: correct for the first D counts only
    crossed: CrossedNumbers = NONE_CROSSED
    """The numbers that cross in rings."""
    memories: Memories | None = None  # at the barrier level
    counters: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """What matters of a counter, by kind: its value up to the first number, beyond it the remainder by the second."""
    access_bits: int = 31
    """No counter wraps in fewer than 2^access_bits accesses."""
    kinds: dict[int, int] = field(default_factory=dict[int, int])
    """What matters of each register: the count of a ring, a counter, or (-1) all of it."""
    lifted: list[LiftedRing] = field(default_factory=list["LiftedRing"])
    """The rings of the barrier level that rotate (`skeleton.lifted`)."""
    rotating: dict[int, int] = field(default_factory=dict[int, int])
    """By register of a count: the place of its ring in `lifted`."""
    chosen: dict[int, Value] = field(default_factory=dict[int, Value])
    """By register, the results of branches."""
    unknown: set[int] = field(default_factory=set[int])
    """Registers of numbers that the free proof does not compute."""
    assumed: list[tuple[Operation, Term]] = field(default_factory=list[tuple[Operation, Term]])
    """Assumptions that the kernel states at its entry (`tl.assume`): the operation and the condition."""

    @property
    def leader(self) -> int:
        """The partition that runs one iteration at a time: the first that writes a ring."""
        return next((at for at, part in enumerate(self.parts) if at and part.puts), len(self.parts) - 1)

    @property
    def computes(self) -> bool:
        """Whether the free proof computes scalars: slots and parities at the barrier level."""
        return self.memories is not None


def integer_arguments(function: Operation) -> dict[Value, str]:
    """The integer arguments of a kernel with their names: the source names if these are unique."""
    every = function.regions[0].blocks[0].args
    arguments = [arg for arg in every if width_of(arg.type) is not None]
    plain = Counter(plain_name(arg.hint) for arg in arguments)
    names: dict[Value, str] = {}
    for arg in arguments:
        name = plain_name(arg.hint)
        if (part := part_of_descriptor(arg, every)) is not None:
            descriptor, which = part
            names[arg] = f"{plain_name(descriptor.hint)}{which}"
            continue
        names[arg] = name if name and plain[name] == 1 else arg.hint or f"argument {arg.index}"
    return names


def plain_name(hint: str) -> str:
    """A value's name without the numeric suffix that the printer adds."""
    head, _, tail = hint.rpartition("_")
    return head if head and tail.isdigit() else hint


def text_of(term: Any) -> str:
    """A number as text: equal in every program that computes it alike."""
    return term.text if isinstance(term, Term) else str(term)
