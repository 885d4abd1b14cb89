"""Join stages: two loops in a row, each of two stages, share one pipeline.

    prologue 1               if loop 1 has trips:
    steady loop 1              prologue 1, steady loop 1
    epilogue 1                 if loop 2 has trips:
    prologue 2           →       epilogue 1 and prologue 2 in one kernel iteration, steady loop 2, epilogue 2
    steady loop 2              else:
    epilogue 2                   epilogue 1
                             else:
                               if loop 2 has trips: prologue 2, steady loop 2, epilogue 2

The last dot of the first loop then runs during the arithmetic of the first iteration of the second, as between any two
iterations of a loop. Without it, the tensor cores are idle during that arithmetic, and the warps during that dot.

Requires: both loops have schedules of two stages; `why_not_joined` found no obstacle.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from tawa.analysis.loops.dependences import captured, find_dependences
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import ForOp, YieldOp
from tawa.ir import Builder, Module, Operation, Value
from tawa.plan import Plan
from tawa.plan.decide.loops import groups_of, numbered, staged_loops
from tawa.plan.schedule import Schedule
from tawa.transforms.pipelining.expand_stages import Expander, Key, Steady, branched


def scheduled_loops(module: Module, plan: Plan) -> Iterator[tuple[int, Schedule, Expander]]:
    """The loops of all consumers that have a schedule, group by group, with their numbers."""
    for number, group, loop in groups_of(numbered(staged_loops(module)), plan):
        schedule = plan.loop(number).schedule_of(group)
        if schedule is not None:
            yield number, schedule, Expander(find_dependences(loop), schedule)


def why_not_joined(first: Expander, second: Expander) -> str:
    """Why two loops cannot share a pipeline; empty if they can."""
    loop, other = first.loop.op, second.loop.op
    if first.last != 1 or second.last != 1:
        return "both loops need two stages"
    if first.kept or second.kept:
        return "a dot reads a buffer that an earlier iteration filled"
    if loop.parent is not other.parent or not all(map(is_pure, _between(loop, other))):
        return "the loops are not in a row"
    uses = [use for result in loop.results for use in result.uses]
    if any(use.op is not other or use.index < ForOp.inits.first for use in uses):
        return "results of the first loop have other uses than to start the second"
    if _out_of_order(first, second):
        return "the second loop starts with what the first one computes last"
    return ""


def join_stages(first: Expander, second: Expander) -> None:
    """Replaces two loops by their joined pipelines."""
    _Join(first, second).run()


def _between(loop: Operation, other: Operation) -> list[Operation]:
    """The operations between two loops of one block; the second one itself if they are in the wrong order."""
    assert loop.parent is not None
    ops = loop.parent.ops
    start, end = ops.index(loop), ops.index(other)
    return ops[start + 1 : end] if start < end else [other]


def _out_of_order(first: Expander, second: Expander) -> bool:
    """Whether an operation of the joint iteration comes before one whose result it needs."""
    made: set[Operation] = set()
    for _, stage, number in _joint_order(first, second):
        if stage == 1:
            made.add(first.nodes[number])
            continue
        for value in captured(second.nodes[number]):
            init = second.init(value.index - 1) if value in second.loop.iter_args else None
            if init is not None and init.owner is first.loop.op:
                last = first.loop.yielded[init.index]
                if first.stage_of(last) == 1 and last.defining_op not in made:
                    return True
    return False


class _Join:
    """The joined pipelines of two loops."""

    def __init__(self, first: Expander, second: Expander) -> None:
        self.first = first
        self.second = second

    def run(self) -> None:
        """Replaces the loops."""
        first, second = self.first, self.second
        op = second.loop.op
        builder = Builder.before(op)
        some, others = first.enough_trips(builder), second.enough_trips(builder)
        both, inside, alone = _branched(builder, some, op)
        steady = first.steady(inside, first.prologue(inside, first.init))
        inside.create(YieldOp.NAME, self.after_first(inside, others, steady))
        only, then, neither = _branched(alone, others, op)
        then.create(YieldOp.NAME, second.pipeline(then, self.start))
        starts = range(len(second.loop.inits))
        neither.create(YieldOp.NAME, [self.start(number) for number in starts])
        alone.create(YieldOp.NAME, only.results)
        for result, value in zip(op.results, both.results, strict=True):
            result.replace_all_uses_with(value)
        op.erase()
        first.loop.op.erase()

    def after_first(self, builder: Builder, others: Value, pending: Steady) -> Sequence[Value]:
        """Emits what follows the steady loop of the first loop; returns the results of the second."""
        first, second = self.first, self.second
        branch, inside, outside = _branched(builder, others, second.loop.op)
        steady = second.steady(inside, self.joint_iteration(inside, pending))
        inside.create(YieldOp.NAME, second.epilogue(inside, steady))
        ends = first.epilogue(outside, pending)
        inits = [ends[it.index] if it.owner is first.loop.op else it for it in second.loop.inits]
        outside.create(YieldOp.NAME, inits)
        return branch.results

    def start(self, number: int) -> Value:
        """An initial value of the second loop where the first one has no trips."""
        init = self.second.init(number)
        return self.first.init(init.index) if init.owner is self.first.loop.op else init

    def joint_iteration(self, builder: Builder, pending: Steady) -> list[Value]:
        """Emits stage 1 of the first loop's last iteration with stage 0 of the second loop's first one.

        Returns what the second loop's steady loop carries at first.
        """
        first, second = self.first, self.second
        made: dict[Key, Value] = {}
        known: dict[Key, Value] = {}
        ended = first.from_end(builder, made, pending)

        def init(number: int) -> Value:
            value = second.init(number)
            return ended(first.loop.iter_args[value.index], 0) if value.owner is first.loop.op else value

        find = second.from_start(builder, known, init)
        last, start = first.section(builder, ended, 0), second.section(builder, find, 0)
        last.straight = start.straight = False  # the dots of one loop overlap the work of the other
        start.flights, start.waited = last.flights, last.waited
        for _, stage, number in _joint_order(first, second):
            if stage == 1:
                first.step(last, number, 0, made)
            else:
                second.step(start, number, 0, known)
        first.finish(last, made)
        second.finish(start, known)
        return second.at_first(find)


def _branched(builder: Builder, condition: Value, like: Operation) -> tuple[Operation, Builder, Builder]:
    """A branch with results like those of `like`, and builders for its sides."""
    return branched(builder, condition, [it.type for it in like.results], [it.hint for it in like.results])


def _joint_order(first: Expander, second: Expander) -> list[tuple[int, int, int]]:
    """The operations of the iteration that two loops share: stage 1 of the first loop, and stage 0 of the second."""
    return list(heapq.merge(_timed(first, 1), _timed(second, 0)))


def _timed(expander: Expander, stage: int) -> Iterator[tuple[int, int, int]]:
    """The operations of a stage in their order: the cycle at which each may begin, the stage, and its number."""
    begin = 0
    for number in expander.sequence:
        if expander.stages[number] == stage:
            begin = max(begin, expander.begins[number])
            yield begin, stage, number
