"""Which inputs send a decision the other way: the program is read backwards, from the decision to what it is made of.

    k != 1280 does not hold, for k in range(0, K, 64)       K of at least 1281
    (pid % 8) == 5                                          pid = 5
    k · 64 + 3 == 1283, for k in range(0, n)                n of at least 21
    i == 40, i carried through a loop over K, step 64       K of at least 2561

What is found are candidates: a run tells whether one does it. Where nothing is found and each step was exact, there are
no such inputs: the first slots are filled by a loop of at most D trips, so that its slot never wraps around.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from tawa.dialects.scalars import width_of
from tawa.dialects.tt import same_number
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.barrier_program import NUMBER_OPS, BarrierProgram, number_key

MEMORY = "*"
"""The root of all numbers that are read from memory."""
Root = Value | str
_MOST = 8
"""Candidates that are followed at each step."""
_DEEP, _STEPS = 40, 120
_OTHERS = (0, 1)
"""What the other side of a comparison, a sum or a product is tried with where it is no constant."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of one root: a number, or at least that number."""

    number: int
    exact: bool


Inputs = dict[Root, Wanted]


def merged(one: Inputs, other: Inputs) -> Inputs | None:
    """Both at once; None where they contradict each other."""
    found = dict(one)
    for root, wanted in other.items():
        known = found.get(root)
        if known is None:
            found[root] = wanted
            continue
        low, high = sorted((known, wanted), key=lambda it: it.number)
        if (low.exact and low.number != high.number) or (low.number == high.number and low.exact != high.exact):
            if low.number != high.number:
                return None
            high = Wanted(high.number, True)
        found[root] = high
    return found


class Targets:
    """The way back from decisions of one program. `unsure`: a step was taken that may have missed inputs."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.unsure = False
        self._busy: set[tuple[object, ...]] = set()
        self._depth = self._steps = 0

    # -- goals -------------------------------------------------------------------------------------------------------

    def reached(self, op: Operation) -> list[Inputs]:
        """Inputs for which the program comes to `op`."""
        found: list[Inputs] = [{}]
        inside: Operation = op
        for outer in op.ancestors():
            if outer.name == "scf.if" and outer not in self.program.guards:
                found = self._both(found, self.truth(outer.operands[0], _holds(outer, 0, inside)))
            elif outer.name == "scf.for":
                found = self._both(found, self.trips(outer, 1))
            inside = outer
        return found

    def truth(self, value: Value, want: bool) -> list[Inputs]:
        """Inputs for which a condition holds, or does not."""
        return self._followed(("truth", value, want), self._truth(value, want))

    def equal(self, value: Value, number: int) -> list[Inputs]:
        """Inputs for which a value is a number."""
        return self._followed(("equal", value, number), self._equal(value, number))

    def at_least(self, value: Value, number: int) -> list[Inputs]:
        """Inputs for which a value is a number or more."""
        return self._followed(("least", value, number), self._at_least(value, number))

    def apart(self, left: Value, right: Value, distance: int) -> list[Inputs]:
        """Inputs for which left = right + distance."""
        fixed = self.constant(right)
        if fixed is not None:
            return self.equal(left, fixed + distance)
        fixed = self.constant(left)
        if fixed is not None:
            return self.equal(right, fixed - distance)
        self.unsure = True
        found: list[Inputs] = []
        for number in _OTHERS:
            found += self._both(self.equal(right, number), self.equal(left, number + distance))
            found += self._both(self.equal(left, number), self.equal(right, number - distance))
        return found[:_MOST]

    def trips(self, loop: Operation, count: int) -> list[Inputs]:
        """Inputs for which a loop makes at least so many trips."""
        lower, upper, step = loop.operands[:3]
        low, by = self.constant(lower), self.constant(step)
        if by is None:
            self.unsure = True
            by = 1
        if low is not None:
            return self.at_least(upper, low + (count - 1) * by + 1)
        distance = self.distance(lower, upper)
        if distance is not None:
            return [{}] if distance > (count - 1) * by else []
        self.unsure = True
        found: list[Inputs] = []
        for number in _OTHERS:
            found += self._both(self.equal(lower, number), self.at_least(upper, number + (count - 1) * by + 1))
        return found[:_MOST]

    # -- what values are ---------------------------------------------------------------------------------------------

    def source(self, value: Value) -> Value:
        """Past casts, and past what a partition is given."""
        while True:
            op = value.defining_op
            if op is None:
                sources = self.program.carried.get(value, ())
                if len(sources) != 1:
                    return value
                value = sources[0]
            elif op.name in _SAME or same_number(op):
                value = op.operands[0]
            else:
                return value

    def constant(self, value: Value) -> int | None:
        """The number in the text."""
        value = self.source(value)
        if value in self.program.constants:
            return self.program.constants[value]
        op = value.defining_op
        compute = self.program.scalar(op) if op is not None else None
        if op is None or compute is None or not op.operands:
            return compute() if compute is not None else None
        inputs = [self.constant(operand) for operand in op.operands] if op.name.startswith("arith.") else [None]
        return None if None in inputs else compute(*inputs)

    def distance(self, lower: Value, upper: Value) -> int | None:
        """The most that `upper` can be past `lower`, where the text says so: min(…, lower + 128)."""
        lower, upper = self.source(lower), self.source(upper)
        if lower is upper or (self.program.tree(lower) is not None and self.program.tree(lower) == self.program.tree(upper)):
            return 0
        op = upper.defining_op
        if op is None:
            return None
        if op.name == "arith.addi":
            for value, more in (op.operands, op.operands[::-1]):
                fixed = self.constant(more)
                rest = None if fixed is None else self.distance(lower, value)
                if rest is not None and fixed is not None:
                    return rest + fixed
        if op.name in ("arith.minsi", "arith.minui"):
            known = [it for it in (self.distance(lower, operand) for operand in op.operands) if it is not None]
            return min(known) if known else None
        return None

    # -- steps -------------------------------------------------------------------------------------------------------

    def _followed(self, key: tuple[object, ...], steps: Iterator[list[Inputs]]) -> list[Inputs]:
        if key in self._busy:
            return []
        self._steps += 1
        if self._depth > _DEEP or self._steps > _STEPS:
            self.unsure = True
            return []
        self._busy.add(key)
        self._depth += 1
        try:
            found: list[Inputs] = []
            for some in steps:
                found += [it for it in some if it not in found]
                if len(found) > _MOST:
                    self.unsure = True
                    break
            return found[:_MOST]
        finally:
            self._busy.discard(key)
            self._depth -= 1

    def _both(self, one: list[Inputs], other: list[Inputs]) -> list[Inputs]:
        pairs = (both for first in one for second in other if (both := merged(first, second)) is not None)
        return list(islice(pairs, _MOST))

    def _truth(self, value: Value, want: bool) -> Iterator[list[Inputs]]:
        value = self.source(value)
        known, op = self.constant(value), value.defining_op
        if known is not None:
            yield [{}] if bool(known) == want else []
            return
        if op is not None and op.name == "arith.cmpi":
            left, right = op.operands
            predicate = read_int(op.properties["predicate"])
            for distance in _DISTANCES[predicate][want]:
                yield self.apart(left, right, distance)
            if predicate > 5:  # without a sign a negative number is a large one
                yield self.equal(left if want == (predicate > 7) else right, -1)
            return
        if op is not None and op.name in ("arith.andi", "arith.ori") and op.result.type == "i1":
            left, right = op.operands
            if want == (op.name == "arith.andi"):
                yield self._both(self.truth(left, want), self.truth(right, want))
            else:
                yield self.truth(left, want)
                yield self.truth(right, want)
            return
        if op is not None and op.name == "arith.xori" and op.result.type == "i1":
            for first, second in ((False, want), (True, not want)):
                yield self._both(self.truth(op.operands[0], first), self.truth(op.operands[1], second))
            return
        yield from self._equal(value, int(want))

    def _equal(self, value: Value, number: int) -> Iterator[list[Inputs]]:
        value = self.source(value)
        fixed, op = self.constant(value), value.defining_op
        if fixed is not None:
            yield [{}] if fixed == number else []
        elif op is None or op.name in _CONTROL:
            yield from self._handed_on(value, number, exact=True)
        elif (root := self._root(value, op)) is not None:
            yield [{root: Wanted(number, True)}]
        elif op.name == "arith.select":
            for operand, way in ((op.operands[1], True), (op.operands[2], False)):
                yield self._both(self.equal(operand, number), self.truth(op.operands[0], way))
        elif op.name in ("arith.cmpi", "arith.andi", "arith.ori", "arith.xori") and op.result.type == "i1":
            yield self.truth(value, bool(number))
        elif op.name.startswith("arith.") and len(op.operands) == 2:
            yield from self._computed(op, number)
        elif op.name == "arith.trunci":
            self.unsure = True
            yield self.equal(op.operands[0], number)
        else:
            self.unsure = True

    def _computed(self, op: Operation, number: int) -> Iterator[list[Inputs]]:
        left, right = op.operands
        if op.name in _CHOICES:
            yield self.equal(left, number)
            yield self.equal(right, number)
            return
        a, b = self.constant(left), self.constant(right)
        if b is not None:
            for wanted in self._before(op.name, number, b):
                yield self.equal(left, wanted)
        elif a is not None and op.name in ("arith.addi", "arith.muli", "arith.xori", "arith.andi", "arith.ori"):
            for wanted in self._before(op.name, number, a):
                yield self.equal(right, wanted)
        elif a is not None and op.name == "arith.subi":
            yield self.equal(right, a - number)
        else:
            self.unsure = True
            if number == 0 and op.name not in ("arith.addi", "arith.subi"):
                yield self.equal(left, 0)
            for other in _OTHERS if op.name in ("arith.addi", "arith.subi") else (1,):
                for wanted in self._before(op.name, number, other):
                    yield self._both(self.equal(left, wanted), self.equal(right, other))
                if op.name in ("arith.addi", "arith.muli"):
                    for wanted in self._before(op.name, number, other):
                        yield self._both(self.equal(right, wanted), self.equal(left, other))

    def _before(self, name: str, number: int, by: int) -> list[int]:
        """What the left operand may be where the right one is a constant; nothing where there is no such number."""
        match name:
            case "arith.addi":
                return [number - by]
            case "arith.subi":
                return [number + by]
            case "arith.muli":
                return [number // by] if by and number % by == 0 else []
            case "arith.xori":
                return [number ^ by]
            case "arith.shli":
                return [number >> by] if by >= 0 and (number >> by) << by == number else []
            case "arith.divsi" | "arith.divui" | "arith.floordivsi" if by > 0:
                return [number * by, number * by + by - 1]
            case "arith.ceildivsi" | "arith.ceildivui" if by > 0:
                return [number * by, number * by - by + 1]
            case "arith.shrsi" | "arith.shrui" if by >= 0:
                return [number << by, (number << by) + (1 << by) - 1]
            case "arith.remsi" | "arith.remui" if by > 0:
                return [number, number + by] if 0 <= number < by else []
            case _:
                self.unsure = True
                return [number]

    def _at_least(self, value: Value, number: int) -> Iterator[list[Inputs]]:
        value = self.source(value)
        fixed, op = self.constant(value), value.defining_op
        if fixed is not None:
            yield [{}] if fixed >= number else []
        elif op is None or op.name in _CONTROL:
            yield from self._handed_on(value, number, exact=False)
        elif (root := self._root(value, op)) is not None:
            yield [{root: Wanted(number, False)}] if number > 0 else [{}]
        elif op.name in ("arith.minsi", "arith.minui"):
            yield self._both(self.at_least(op.operands[0], number), self.at_least(op.operands[1], number))
        elif op.name in ("arith.maxsi", "arith.maxui"):
            for operand in op.operands:
                yield self.at_least(operand, number)
        elif op.name == "arith.select":
            for operand, way in ((op.operands[1], True), (op.operands[2], False)):
                yield self._both(self.at_least(operand, number), self.truth(op.operands[0], way))
        elif len(op.operands) == 2 and (by := self.constant(op.operands[1])) is not None and op.name in _GROWS:
            if op.name in ("arith.muli", "arith.divsi", "arith.divui", "arith.ceildivsi", "arith.ceildivui") and by < 1:
                self.unsure = True
                return
            yield self.at_least(op.operands[0], _GROWS[op.name](number, by))
        elif op.name in ("arith.addi", "arith.muli"):
            left, right = op.operands
            self.unsure = True
            for other in _OTHERS if op.name == "arith.addi" else (1,):
                for one, two in ((left, right), (right, left)):
                    yield self._both(self.at_least(one, _GROWS[op.name](number, other)), self.at_least(two, other))
        elif op.name == "arith.subi":
            left, right = op.operands
            self.unsure = True
            for other in _OTHERS:
                yield self._both(self.at_least(left, number + other), self.equal(right, other))
        else:
            yield from self._equal(value, number)
            if op.name != "arith.cmpi":
                self.unsure = True

    def _root(self, value: Value, op: Operation) -> Root | None:
        if op.name in NUMBER_OPS:
            return number_key(op)
        return MEMORY if op.name == "tt.load" and width_of(value.type) is not None else None

    def _handed_on(self, value: Value, number: int, *, exact: bool) -> Iterator[list[Inputs]]:
        """An argument of the kernel; what a loop or a branch hands on."""
        goal = self.equal if exact else self.at_least
        op = value.defining_op
        holder = op if op is not None else value.owner.parent_op if isinstance(value.owner, Block) else None
        if holder is None or holder.name == "tt.func":
            if value in self.program.leaves:
                yield [{value: Wanted(number, exact)}] if exact or number > 0 else [{}]
            else:
                self.unsure = True
            return
        if holder.name == "scf.if":
            for region, way in zip(holder.regions, (True, False), strict=True):
                if region.blocks and region.blocks[0].ops:
                    yielded = region.block.terminator.operands[value.index]
                    yield self._both(goal(yielded, number), self.truth(holder.operands[0], way))
            return
        if holder.name == "scf.for" and op is None and value.index == 0:
            yield from self._place(holder, number, exact=exact)
            return
        if holder.name == "scf.for":
            yield from self._carried(holder, value.index - (op is None), number, exact=exact)
            return
        for source in self.program.carried.get(value, ()):
            self.unsure = True
            yield goal(source, number)

    def _place(self, loop: Operation, number: int, *, exact: bool) -> Iterator[list[Inputs]]:
        lower, step = self.constant(loop.operands[0]), self.constant(loop.operands[2])
        if lower is not None and step is not None and step > 0:
            count = number - lower
            if count >= 0 and (count % step == 0 or not exact):
                yield self.trips(loop, -(-count // step) + 1)
            elif not exact:
                yield self.trips(loop, 1)
            return
        self.unsure = True
        goal = self.equal if exact else self.at_least
        yield self._both(goal(loop.operands[0], number), self.at_least(loop.operands[1], number + 1))
        for low in _OTHERS:
            by = step or 1
            if number >= low and (number - low) % by == 0:
                first = self._both(self.equal(loop.operands[0], low), self.at_least(loop.operands[1], number + 1))
                yield first if step is not None else self._both(first, self.equal(loop.operands[2], 1))

    def _carried(self, loop: Operation, place: int, number: int, *, exact: bool) -> Iterator[list[Inputs]]:
        goal = self.equal if exact else self.at_least
        first, arg = loop.operands[3 + place], loop.regions[0].block.args[1 + place]
        following = loop.regions[0].block.terminator.operands[place]
        yield goal(first, number)
        start, more = self.constant(first), self._increment(following, arg)
        if more is not None and start is not None:
            if more and (number - start) * more > 0 and ((number - start) % more == 0 or not exact):
                yield self.trips(loop, -(-(number - start) // more) + 1)
            return
        if following is not arg:
            yield self._both(goal(following, number), self.trips(loop, 2))
            self.unsure = True  # after how many trips is not followed

    def _increment(self, following: Value, arg: Value) -> int | None:
        """What each trip adds; where it wraps around as well, what it adds until then."""
        following = self.source(following)
        if following is arg:
            return 0
        op = following.defining_op
        if op is None:
            return None
        if op.name == "arith.addi":
            for value, more in (op.operands, op.operands[::-1]):
                if self.source(value) is arg and (by := self.constant(more)) is not None:
                    return by
        if op.name == "arith.select":
            grows = {self._increment(operand, arg) for operand in op.operands[1:]} - {None, 0}
            return grows.pop() if len(grows) == 1 else None
        return None


def _holds(branch: Operation, region: int, inside: Operation) -> bool:
    return any(inside.parent is block for block in branch.regions[region].blocks)


_SAME = frozenset({"arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui", "arith.bitcast"})
_CONTROL = frozenset({"scf.for", "scf.if", "scf.while", "ttg.warp_specialize", "warp.group"})
_CHOICES = frozenset({"arith.minsi", "arith.minui", "arith.maxsi", "arith.maxui"})
_GROWS = {
    "arith.addi": lambda number, by: number - by,
    "arith.subi": lambda number, by: number + by,
    "arith.muli": lambda number, by: -(-number // by),
    "arith.divsi": lambda number, by: number * by,
    "arith.divui": lambda number, by: number * by,
    "arith.floordivsi": lambda number, by: number * by,
    "arith.ceildivsi": lambda number, by: (number - 1) * by + 1,
    "arith.ceildivui": lambda number, by: (number - 1) * by + 1,
    "arith.shrsi": lambda number, by: number << by,
    "arith.shrui": lambda number, by: number << by,
    "arith.shli": lambda number, by: -(-number >> by),
}
"""What the left operand must be at least where the right one is a constant."""
_DISTANCES = (
    {True: (0,), False: (1, -1)},  # ==
    {True: (1, -1), False: (0,)},  # !=
    {True: (-1,), False: (0, 1)},  # <
    {True: (0, -1), False: (1,)},  # <=
    {True: (1,), False: (0, -1)},  # >
    {True: (0, 1), False: (-1,)},  # >=
    {True: (-1,), False: (0, 1)},
    {True: (0, -1), False: (1,)},
    {True: (1,), False: (0, -1)},
    {True: (0, 1), False: (-1,)},
)
"""By the predicate of ``arith.cmpi`` and how it is to go: what left − right is tried to be."""
