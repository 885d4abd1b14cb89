"""Share streams: the producer loads a sequence of tiles once for all groups, where its length depends on the group.

    group producer {                          group producer {
      for %n in 0 … %full { put r { K[%n] } }   for %t in 0 … T { put r { K[64 %t] } }      T: the most of any group
      for %n in %full … %end { the same } }   group consumer {
    group consumer {                     →      for %t in 0 … A { get r; … 64 %t …; consumed r }
      for %n in 0 … %full { get r; … }          for %t in 0 … B { get r; … %full + 64 %t …; consumed r }
      for %n in %full … %end { get r; … } }     for %t in 0 … C { get r; consumed r } }

A group whose sequence is shorter than that of another one gets and releases the rest, so that every slot is released
by every group. A and B are the trips of the original loops. They are written such that a group gets T tiles whatever
its trip counts are, which is what the credit check relies on:

    A = min(trips of the first, T);   B = min(trips of the second, T - A);   C = T - A - B

Requires: `partition`, on the program of one group.
Ensures: no trip count in the producer depends on the group index.
Declines when the loops do not put one sequence of tiles (`tawa.analysis.rings.streams`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.dims.dependents import dependent_values
from tawa.analysis.rings.streams import NoStreamError, StreamInfo, find_streams
from tawa.declines import PROGRAMS
from tawa.dialects.aref import AdvanceOp, ConsumedOp, GetOp
from tawa.dialects.arith import AddIOp, DivSIOp, MaxSIOp, MinSIOp, MulIOp, SubIOp, constant_int
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import ForOp, YieldOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Builder, Module, Operation, Region, Value, clone_op, source_of
from tawa.plan import Plan
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class ShareStreams:
    """Options: the Plan, whose groups may have to alternate."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Evens out the trip counts of the producer's loops."""
        groups = find_groups(module)
        markers = [view for op in module.walk() if (view := GroupIndexOp.of(op))]
        producers = [group for group in groups if group.role == "producer"]
        if not markers or len(producers) != 1:
            return PassResult(changed=False)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        number = constant_int(markers[0].groups) or 1
        try:
            streams = find_streams(producers[0], function, _dependent(producers[0]))
            if streams and self.plan.ping_pong:
                reason = "groups whose trip counts differ cannot alternate on the tensor cores"
                return _declined(module, streams[0].loops[0].op, reason, "ping_pong=False")
            for consumer in (group for group in groups if group.role == "consumer"):
                for stream, loops in zip(streams, _readers(consumer, streams), strict=True):
                    _read_all(stream, loops, _Lengths(consumer, loops, stream.step, number))
            for stream in streams:
                _put_all(stream, _Lengths(producers[0], stream.loops, stream.step, number))
        except NoStreamError as found:
            return _declined(module, found.op, found.reason)
        return PassResult(changed=bool(streams))


def _declined(module: Module, op: Operation, reason: str, cure: str = "") -> PassResult:
    return PassResult(False, (PROGRAMS.remark(source_of(module, op), cure, why=reason),))


def _dependent(group: GroupOp) -> set[Value]:
    return dependent_values(group.body, lambda op: GroupIndexOp.of(op) is not None)


def _readers(consumer: GroupOp, streams: Sequence[StreamInfo]) -> list[list[ForOp]]:
    """The loops of a consumer that read each stream, in the order of the producer's."""
    rings = {ring for stream in streams for ring in stream.rings}
    every = [loop for op in consumer.op.walk() if (loop := ForOp.of(op))]
    loops = [loop for loop in every if any(get.ring in rings for get in _gets(loop))]
    found: list[list[ForOp]] = []
    for stream in streams:
        found.append(loops[: len(stream.loops)])
        loops = loops[len(stream.loops) :]
    return found


def _gets(loop: ForOp) -> list[GetOp]:
    return [get for op in loop.body.ops if (get := GetOp.of(op))]


class _Lengths:
    """Trip counts, computed in front of the first loop. own: of each loop. longest: of all of them, of any group."""

    def __init__(self, group: GroupOp, loops: Sequence[ForOp], step: int, groups: int) -> None:
        self.first, self.builder = loops[0].op, Builder.before(loops[0].op)
        self.dependent, self.step, self.type = _dependent(group), step, loops[0].lower.type
        self.starts = [self._copied(loop.lower, None, {}) for loop in loops]
        self.own = self._trips(loops, None)
        sums = [self._sum(self._trips(loops, number)) for number in range(groups)]
        self.longest = sums[0]
        for other in sums[1:]:
            self.longest = MaxSIOp.create(self.builder, self.longest, other, "trips")

    def _trips(self, loops: Sequence[ForOp], number: int | None) -> list[Value]:
        """The trip count of each loop, of the group with this number or of the one that executes it."""
        made: dict[Value, Value] = {}
        b, found = self.builder, list[Value]()
        for loop in loops:
            lower, upper = (self._copied(bound, number, made) for bound in (loop.lower, loop.upper))
            length = SubIOp.create(b, upper, lower)
            rounded = AddIOp.create(b, length, b.constant(self.step - 1, self.type))
            trips = DivSIOp.create(b, rounded, b.constant(self.step, self.type))
            found.append(MaxSIOp.create(b, trips, b.constant(0, self.type), "trips"))
        return found

    def _sum(self, parts: Sequence[Value]) -> Value:
        total = parts[0]
        for part in parts[1:]:
            total = AddIOp.create(self.builder, total, part, "trips")
        return total

    def _copied(self, value: Value, number: int | None, made: dict[Value, Value]) -> Value:
        """A value as the group with this number has it, computed in front of the loops; None: as every group has it."""
        if value in made:
            return made[value]
        differs = number is not None and value in self.dependent
        op = value.defining_op
        if not differs and (op is None or self._is_before(op)):
            return value
        if number is not None and op is not None and GroupIndexOp.of(op):
            made[value] = self.builder.constant(number)
            return made[value]
        if op is None or op.regions or not is_pure(op):
            raise NoStreamError(self.first, "a trip count cannot be computed for every group in advance")
        for operand in op.operands:
            made[operand] = self._copied(operand, number, made)
        copy = self.builder.insert(clone_op(op, dict(made)))
        made.update(zip(op.results, copy.results, strict=True))
        return made[value]

    def _is_before(self, op: Operation) -> bool:
        """Whether an operation is in front of the loops."""
        assert self.builder.anchor is not None
        block = self.builder.block
        here = op.within(block)
        return here is None or block.index_of(here) < block.index_of(self.builder.anchor)


def _count_trips(loop: ForOp, start: Value, trips: Value, step: int) -> None:
    """Lets a loop count its trips; its old induction variable is computed in the body."""
    type, before = loop.lower.type, Builder.before(loop.op)
    inside = Builder.at_start(loop.body, loop.op.loc)
    uses = list(loop.induction.uses)
    offset = MulIOp.create(inside, loop.induction, inside.constant(step, type))
    index = AddIOp.create(inside, start, offset, loop.induction.hint)
    for use in uses:
        use.op.set_operand(use.index, index)
    for at, bound in enumerate((before.constant(0, type), trips, before.constant(1, type))):
        loop.op.set_operand(at, bound)


def _put_all(stream: StreamInfo, lengths: _Lengths) -> None:
    """Makes one loop of the producer's loops, as long as that of the group with the most trips."""
    first, *others = stream.loops
    results = list(first.op.results)
    ends: list[tuple[Value, Value]] = []
    for loop, continued in zip(others, stream.carried, strict=True):
        ends += [(result, results[index]) for result, index in zip(loop.op.results, continued, strict=True)]
        results = [results[index] for index in continued]
    for result, end in reversed(ends):
        result.replace_all_uses_with(end)
    for loop in reversed(others):
        loop.op.erase()
    _count_trips(first, lengths.starts[0], lengths.longest, stream.step)


def _read_all(stream: StreamInfo, loops: Sequence[ForOp], lengths: _Lengths) -> None:
    """Bounds the loops of a consumer by the length of the stream, and gets what is left of it."""
    b, left = lengths.builder, lengths.longest
    counts: list[Value] = []
    for trips in lengths.own:
        counts.append(MinSIOp.create(b, trips, left, "trips"))
        left = SubIOp.create(b, left, counts[-1], "left")
    for loop, start, count in zip(loops, lengths.starts, counts, strict=True):
        _count_trips(loop, start, count, stream.step)
    _drain(loops[-1], left)


def _drain(loop: ForOp, trips: Value) -> None:
    """Gets and releases, after a loop, as many more tiles of each of its rings."""
    gets = _gets(loop)
    first = {get.ring: loop.op.results[get.index.index - 1] for get in reversed(gets) if get.index in loop.iter_args}
    builder = Builder.after(loop.op)
    bounds = (builder.constant(0, trips.type), trips, builder.constant(1, trips.type))
    body = Block((trips.type, *(it.type for it in first.values())), ("left", *("count" for _ in first)))
    counts: dict[Value, Value] = dict(zip(first, body.args[1:], strict=True))
    inside = Builder.at_end(body, loop.op.loc)
    for get in gets:
        count = counts[get.ring]
        inside.create(GetOp.NAME, (get.ring, count), [view.type for view in get.op.results])
        inside.create(ConsumedOp.NAME, (get.ring, count))
        counts[get.ring] = inside.create(AdvanceOp.NAME, (count,), (count.type,), hints=("count",)).result
    inside.create(YieldOp.NAME, tuple(counts.values()))
    types = [it.type for it in first.values()]
    ending = builder.create(ForOp.NAME, (*bounds, *first.values()), types, regions=[Region([body])])
    for before, after in zip(first.values(), ending.results, strict=True):
        for use in [use for use in before.uses if use.op is not ending]:
            use.op.set_operand(use.index, after)
