"""Inputs for a given outcome of a decision, by backward propagation from the decision to the inputs.

    k != 1280 is false, for k in range(0, K, 64)            K of at least 1281
    (pid % 8) == 5                                          pid = 5
    k · 64 + 3 == 1283, for k in range(0, n)                n of at least 21
    i == 40, i carried through a loop over K, step 64       K of at least 2561

Each operation maps the required values of its result to those of its operand (`inputs.preimages`).

The results are candidates; a run shows whether one has the outcome. If there is no candidate and every step was exact,
no such inputs exist. Example: if a loop of at most D trips fills the first slots, its slot never wraps around.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

from tawa.dialects import arith
from tawa.dialects.control_flow import LoopCarried, holder_of, incoming, loop_carried
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.barriers.inputs.preimages import GROWS, RELATIONS, ROUNDS, preimage
from tawa.verify.barriers.program.kernel import NUMBER_OPS, BarrierProgram, number_key
from tawa.verify.barriers.program.origins import Origins

_MOST = 8
"""The largest number of candidates at each step."""
_DEEP, _STEPS = 40, 250
_OTHERS = (0, 1)
"""The values tried for the other operand of a comparison, sum or product if it is not a constant."""
MEMORY = "*"
"""The root of all loaded numbers."""
Root = Value | str
"""An input: an argument of the kernel, or the key of a chosen number."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A requirement on one root: exactly a number, or at least that number."""

    number: int
    exact: bool


Inputs = dict[Root, Wanted]


def merged(one: Inputs, other: Inputs) -> Inputs | None:
    """The conjunction of two sets of requirements; None if they contradict each other."""
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


class Targets(Origins):
    """Backward propagation in one program. `unsure`: a step was inexact, so inputs may have been missed."""

    def __init__(self, program: BarrierProgram) -> None:
        super().__init__(program)
        self.unsure = False
        self._busy: set[tuple[object, ...]] = set()
        self._depth = self._steps = 0
        self._given: Inputs = {}

    # -- goals -------------------------------------------------------------------------------------------------------

    def reached(self, op: Operation, given: Inputs) -> list[Inputs]:
        """Inputs for which the program reaches `op`, with some inputs given."""
        self._given = given
        found: list[Inputs] = [given]
        inside: Operation = op
        for outer in op.ancestors():
            self._steps = 0
            if IfOp.matches(outer) and outer not in self.program.guards:
                found = self.both(found, self.truth(IfOp(outer).condition, _holds(outer, 0, inside)))
            elif ForOp.matches(outer):
                found = self.both(found, self.trips(outer, 1))
            inside = outer
        return found

    def truth(self, value: Value, want: bool) -> list[Inputs]:
        """Inputs for which a condition is `want`."""
        return self._followed(("truth", value, want), self._truth(value, want))

    def equal(self, value: Value, number: int) -> list[Inputs]:
        """Inputs for which a value equals a number."""
        return self.within(value, number, number)

    def within(self, value: Value, low: int, high: int) -> list[Inputs]:
        """Inputs for which a value is in [low, high]."""
        steps = self._within(value, low, high) if low <= high and self.meets(value, low, high) else iter(())
        return self._followed(("within", value, low, high), steps)

    def at_least(self, value: Value, number: int) -> list[Inputs]:
        """Inputs for which a value is at least a number."""
        steps = self._at_least(value, number) if self.meets(value, number, None) else iter(())
        return self._followed(("least", value, number), steps)

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
        for number in self._typical(right):
            found += self.both(self.equal(right, number), self.equal(left, number + distance))
        for number in self._typical(left):
            found += self.both(self.equal(left, number), self.equal(right, number - distance))
        return found[:_MOST]

    def above(self, left: Value, right: Value, distance: int) -> list[Inputs]:
        """Inputs for which left >= right + distance."""
        fixed = self.constant(right)
        if fixed is not None:
            return self.at_least(left, fixed + distance)
        fixed = self.constant(left)
        if fixed is not None:
            self.unsure = True  # every smaller number qualifies
            return [*self.within(right, 0, fixed - distance), *self.equal(right, fixed - distance)]
        self.unsure = True
        found: list[Inputs] = []
        for number in self._typical(right):
            found += self.both(self.equal(right, number), self.at_least(left, number + distance))
        return found[:_MOST]

    def _typical(self, value: Value, deep: int = 4) -> tuple[int, ...]:
        """The values tried for an operand that is not a constant, while the other operand is propagated."""
        value = self.source(value)
        op = value.defining_op
        given = self._given.get(value if op is None else self._root(value, op) or value)
        fixed = given.number if given is not None else self.constant(value)
        if fixed is not None:
            return (fixed,)
        loop = ForOp.of(value.owner.parent_op) if isinstance(value.owner, Block) and value.index == 0 else None
        if loop:
            low = self._typical(loop.lower, deep - 1)[0] if deep else 0
            by = self.constant(loop.step) or 1
            return (low, low + by, low + 2 * by, low + 3 * by)
        compute = self.program.scalar(op) if op is not None and deep else None
        if op is not None and compute is not None and len(op.operands) == 2 and op.result.type != "i1":
            pairs = product(*(self._typical(operand, deep - 1) for operand in op.operands))
            made = dict.fromkeys(number for pair in pairs if (number := compute(*pair)) is not None)
            return tuple(islice(made, len(_OTHERS) + 2)) or _OTHERS
        return _OTHERS

    def trips(self, loop: Operation, count: int) -> list[Inputs]:
        """Inputs for which a loop has at least `count` trips."""
        lower, upper, step = ForOp(loop).bounds
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
        for number in self._typical(lower):
            found += self.both(self.equal(lower, number), self.at_least(upper, number + (count - 1) * by + 1))
        return found[:_MOST]

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

    def both(self, one: list[Inputs], other: list[Inputs]) -> list[Inputs]:
        """Inputs that satisfy both."""
        pairs = (both for first in one for second in other if (both := merged(first, second)) is not None)
        found = list(islice(pairs, _MOST + 1))
        self.unsure = self.unsure or len(found) > _MOST
        return found[:_MOST]

    def _where(self, found: list[Inputs], condition: Value, way: bool) -> list[Inputs]:
        """The inputs of `found`, extended so that a condition is `way`."""
        before, both = self._given, list[Inputs]()
        for one in found:
            self._given = {**before, **one}
            both += self.both([one], self.truth(condition, way))
        self._given = before
        self.unsure = self.unsure or len(both) > _MOST
        return both[:_MOST]

    def _truth(self, value: Value, want: bool) -> Iterator[list[Inputs]]:
        value = self.source(value)
        known, op = self.constant(value), value.defining_op
        if known is not None:
            yield [{}] if bool(known) == want else []
            return
        if op is not None and arith.CmpIOp.matches(op):
            left, right = op.operands
            predicate = read_int(op.properties["predicate"])
            for relation in RELATIONS[predicate][want]:
                match relation:
                    case "=":
                        yield self.apart(left, right, 0)
                    case ">":
                        yield self.above(left, right, 1)
                    case _:
                        yield self.above(right, left, 1)
            if predicate > 5:  # unsigned: a negative number is a large one
                yield self.equal(left if want == (predicate > 7) else right, -1)
            return
        if op is not None and (arith.AndIOp.matches(op) or arith.OrIOp.matches(op)) and op.result.type == "i1":
            left, right = op.operands
            if want == (arith.AndIOp.matches(op)):
                yield self.both(self.truth(left, want), self.truth(right, want))
            else:
                yield self.truth(left, want)
                yield self.truth(right, want)
            return
        if op is not None and arith.XOrIOp.matches(op) and op.result.type == "i1":
            left, right = op.operands
            for first, second in ((False, want), (True, not want)):
                yield self.both(self.truth(left, first), self.truth(right, second))
            return
        yield from self._within(value, int(want), int(want))

    def _within(self, value: Value, low: int, high: int) -> Iterator[list[Inputs]]:
        value = self.source(value)
        fixed, op = self.constant(value), value.defining_op
        if fixed is not None:
            yield [{}] if low <= fixed <= high else []
        elif op is None or op.name in _CONTROL:
            yield from self._through_control_flow(value, low, high)
        elif (root := self._root(value, op)) is not None:
            yield self._some(root, low, high)
        elif arith.SelectOp.matches(op):
            select = arith.SelectOp(op)
            for operand, way in ((select.true_value, True), (select.false_value, False)):
                yield self._where(self.within(operand, low, high), select.condition, way)
        elif op.name in _FLAGS and op.result.type == "i1":
            for number in (0, 1):
                if low <= number <= high:
                    yield self.truth(value, bool(number))
        elif op.name.startswith("arith.") and len(op.operands) == 2:
            yield from self._computed(op, low, high)
        elif arith.TruncIOp.matches(op):
            self.unsure = True
            yield self.within(arith.TruncIOp(op).source, low, high)
        else:
            self.unsure = True

    def _computed(self, op: Operation, low: int, high: int) -> Iterator[list[Inputs]]:
        left, right = op.operands
        if op.name in _CHOICES:
            yield self.within(left, low, high)
            yield self.within(right, low, high)
            return
        a, b = self.constant(left), self.constant(right)
        if b is not None:
            limits = self.limits(left) if (arith.RemSIOp.matches(op) or arith.RemUIOp.matches(op)) and b > 0 else None
            whole = limits is not None and limits[0] >= 0 and limits[1] < ROUNDS * b  # all rounds are searched
            for some in preimage(op.name, low, high, b)[0] if whole else self._before(op.name, low, high, b):
                yield self.within(left, *some)
        elif a is not None and op.name in _COMMUTES:
            for some in self._before(op.name, low, high, a):
                yield self.within(right, *some)
        elif a is not None and arith.SubIOp.matches(op):
            yield self.within(right, a - high, a - low)
        else:
            self.unsure = True
            linear = arith.AddIOp.matches(op) or arith.SubIOp.matches(op)
            if low <= 0 <= high and not linear:
                yield self.equal(left, 0)
            if (arith.RemSIOp.matches(op) or arith.RemUIOp.matches(op)) and low >= 0:
                yield self.both(self.within(left, low, high), self.at_least(right, high + 1))
            for other in self._typical(right) if linear else (1,):
                for some in self._before(op.name, low, high, other):
                    yield self.both(self.within(left, *some), self.equal(right, other))
            for other in self._typical(left) if arith.AddIOp.matches(op) else (1,) if arith.MulIOp.matches(op) else ():
                for some in self._before(op.name, low, high, other):
                    yield self.both(self.within(right, *some), self.equal(left, other))
            for other in self._typical(left) if arith.SubIOp.matches(op) else ():
                yield self.both(self.within(right, other - high, other - low), self.equal(left, other))

    def _before(self, name: str, low: int, high: int, by: int) -> list[tuple[int, int]]:
        pieces, exact = preimage(name, low, high, by)
        self.unsure = self.unsure or not exact
        return pieces

    def _at_least(self, value: Value, number: int) -> Iterator[list[Inputs]]:
        value = self.source(value)
        fixed, op = self.constant(value), value.defining_op
        if fixed is not None:
            yield [{}] if fixed >= number else []
        elif op is None or op.name in _CONTROL:
            yield from self._through_control_flow(value, number, None)
        elif (root := self._root(value, op)) is not None:
            yield [{root: Wanted(number, False)}] if number > 0 else [{}]
        elif arith.MinSIOp.matches(op) or arith.MinUIOp.matches(op):
            left, right = op.operands
            yield self.both(self.at_least(left, number), self.at_least(right, number))
        elif arith.MaxSIOp.matches(op) or arith.MaxUIOp.matches(op):
            for operand in op.operands:
                yield self.at_least(operand, number)
        elif arith.SelectOp.matches(op):
            select = arith.SelectOp(op)
            for operand, way in ((select.true_value, True), (select.false_value, False)):
                yield self._where(self.at_least(operand, number), select.condition, way)
        elif len(op.operands) == 2 and (by := self.constant(op.operands[1])) is not None and op.name in GROWS:
            left = op.operands[0]
            if op.name in _SCALES and by < 1:
                self.unsure = True
                return
            yield self.at_least(left, GROWS[op.name](number, by))
        elif arith.AddIOp.matches(op) or arith.MulIOp.matches(op):
            left, right = op.operands
            self.unsure = True
            for other in _OTHERS if arith.AddIOp.matches(op) else (1,):
                for one, two in ((left, right), (right, left)):
                    yield self.both(self.at_least(one, GROWS[op.name](number, other)), self.at_least(two, other))
        elif arith.SubIOp.matches(op):
            left, right = op.operands
            self.unsure = True
            for other in _OTHERS:
                yield self.both(self.at_least(left, number + other), self.equal(right, other))
        else:
            yield from self._within(value, number, number)
            if not arith.CmpIOp.matches(op):
                self.unsure = True

    def _root(self, value: Value, op: Operation) -> Root | None:
        if op.name in NUMBER_OPS:
            return number_key(op)
        return MEMORY if self.program.is_loaded(op) and width_of(value.type) is not None else None

    def _some(self, root: Root, low: int, high: int) -> list[Inputs]:
        """The two ends of a range, restricted to non-negative numbers if it has any, and always for program ids."""
        if isinstance(root, str) and root != MEMORY:
            low = max(low, int(root.startswith("num_programs")))
        elif low < 0 <= high:
            self.unsure, low = True, 0
        self.unsure = self.unsure or high > low + 1  # the numbers in between are not tried
        return [{root: Wanted(number, True)} for number in sorted({low, high})] if low <= high else []

    def _goal(self, value: Value, low: int, high: int | None) -> list[Inputs]:
        return self.at_least(value, low) if high is None else self.within(value, low, high)

    def _through_control_flow(self, value: Value, low: int, high: int | None) -> Iterator[list[Inputs]]:
        """Propagates to an argument of the kernel, or through a loop or branch. high: None for no upper bound."""
        holder, carried = holder_of(value), loop_carried(value)
        if holder is None or FuncOp.matches(holder):
            if value not in self.program.leaves:
                self.unsure = True
            elif high is None:
                yield [{value: Wanted(low, False)}] if low > 0 else [{}]
            else:
                yield self._some(value, low, high)
        elif IfOp.matches(holder):
            for yielded, way in zip(incoming(value), (True, False), strict=True):
                yield self.both(self._goal(yielded.value, low, high), self.truth(holder.operands[0], way))
        elif carried:
            yield from self._carried(carried, low, high)
        elif ForOp.matches(holder):
            yield from self._place(holder, low, high)
        else:
            for source in self.program.carried.get(value, ()):
                self.unsure = True
                yield self._goal(source, low, high)

    def _place(self, loop: Operation, low: int, high: int | None) -> Iterator[list[Inputs]]:
        view = ForOp(loop)
        first, step = self.constant(view.lower), self.constant(view.step)
        if first is not None and step is not None and step > 0:
            count = max(0, -(-(low - first) // step))
            if high is None or first + count * step <= high:
                yield self.trips(loop, count + 1)
            return
        self.unsure = True
        number = low if high is None else min(max(low, 0), high)
        yield self.both(self._goal(view.lower, low, high), self.at_least(view.upper, number + 1))
        for begin in _OTHERS:
            if number >= begin and (number - begin) % (step or 1) == 0:
                one = self.both(self.equal(view.lower, begin), self.at_least(view.upper, number + 1))
                yield one if step is not None else self.both(one, self.equal(view.step, 1))

    def _carried(self, carried: LoopCarried, low: int, high: int | None) -> Iterator[list[Inputs]]:
        loop = carried.loop.op
        yield self._goal(carried.init, low, high)
        start, more = self.constant(carried.init), self.increment(carried.yielded, carried.argument)
        if more is not None and start is not None:
            if more:
                near, far = (low, high) if more > 0 else (-high if high is not None else -start, -low)
                begin, by = (start, more) if more > 0 else (-start, -more)
                count = max(0, -(-(near - begin) // by))
                if far is None or begin + count * by <= far:
                    yield self.trips(loop, count + 1)
            return
        if carried.yielded is not carried.argument:
            self.unsure = True  # the number of trips that this takes is not computed
            yield self.both(self._goal(carried.yielded, low, high), self.trips(loop, 2))


def _holds(branch: Operation, region: int, inside: Operation) -> bool:
    return any(inside.parent is block for block in branch.regions[region].blocks)


_CONTROL = op_names(ForOp, IfOp, WhileOp, WarpSpecializeOp, GroupOp)
_COMMUTES = op_names(arith.AddIOp, arith.MulIOp, arith.XOrIOp, arith.AndIOp, arith.OrIOp)
_SCALES = op_names(arith.MulIOp, arith.DivSIOp, arith.DivUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp)
_FLAGS = op_names(arith.CmpIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_CHOICES = op_names(arith.MinSIOp, arith.MinUIOp, arith.MaxSIOp, arith.MaxUIOp)
