"""Expand stages: rewrites a loop by its modulo schedule; `pipeline_stages` shows before and after.

One class resolves, for prologue, steady loop and epilogue alike, where the value of another iteration is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.loops.costs import is_free
from tawa.analysis.loops.dependences import DependenceInfo, captured, stores_invariant_operand, sum_only
from tawa.analysis.rings.channels import ancestor_in, slot_readers
from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, MulIOp, Predicate, SubIOp, constant_int
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.ttg import LocalAllocOp, LocalDeallocOp, LocalStoreOp
from tawa.dialects.ttng import FenceAsyncSharedOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.ir import Block, Builder, MemDescType, Operation, Region, Value, ValueMap, clone_op, parse_type
from tawa.ir.attributes import bool_attr, int_attr
from tawa.plan.schedule import Schedule
from tawa.transforms.lowering.slots import make_mutable

_DOTS = frozenset({WarpGroupDotOp.NAME, WarpGroupDotWaitOp.NAME})

Key = tuple[Value, int]


@dataclass(slots=True, eq=False)
class _Flight:
    """A dot in flight: its operation in the loop, its result, and whether a later dot accumulates onto that result."""

    node: Operation
    result: Value
    taken: bool = False
    alone: bool = True  # only free operations were issued after it


@dataclass(slots=True, eq=False)
class _Section:
    """One kernel iteration being emitted: insertion point, lookup of operands, and dots in flight.

    straight: it is in no loop, and nothing else is done while its dots run. Triton may duplicate waits there. reading:
    the buffers that the loop fills, with their readers in this kernel iteration that are not complete.
    """

    builder: Builder
    find: Callable[[Value, int], Value]
    straight: bool = False
    flights: list[_Flight] = field(default_factory=list[_Flight])
    waited: ValueMap = field(default_factory=dict[Value, Value])
    reading: dict[Value, set[Operation]] = field(default_factory=dict[Value, set[Operation]])

    def current(self, value: Value) -> Value:
        """`value` as the latest wait returned it."""
        while value in self.waited:
            value = self.waited[value]
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Steady:
    """Values after a steady loop: those that it carries, and the induction variable after the last trip."""

    values: dict[Key, Value]
    after_last: Value


def branched(
    builder: Builder, condition: Value, types: Sequence[str], hints: Sequence[str] = ()
) -> tuple[Operation, Builder, Builder]:
    """A branch with results of some types, and builders for its two sides, which are still empty."""
    then, other = Block(), Block()
    branch = builder.create(IfOp.NAME, (condition,), types, regions=[Region([then]), Region([other])], hints=hints)
    return branch, Builder.at_end(then, builder.loc), Builder.at_end(other, builder.loc)


class Expander:
    """Rewrites one loop by its schedule, which must respect the dependences of the loop's `graph`.

    The key (value, r) denotes, in kernel iteration t, the value of iteration t − r.
    """

    def __init__(self, graph: DependenceInfo, schedule: Schedule) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        self.loop = graph.loop
        self.stages = [op.stage for op in schedule.ops]
        self.sequence = schedule.sequence
        self.last = schedule.stages - 1
        self.numbers = {op: number for number, op in enumerate(graph.nodes)}
        self.begins = [op.begin_cycle for op in schedule.ops]
        self.carried: dict[Key, None] = {}
        self.releases: dict[int, list[Operation]] = {}
        self.kept: dict[int, Value] = {}
        """By the node that fills it: a buffer that stays for readers in a later stage."""
        for edge in graph.edges:
            across = edge.distance + self.stages[edge.target] - self.stages[edge.source]
            if edge.kind == "release" and across == 0:
                self.releases.setdefault(edge.target, []).append(graph.nodes[edge.source])
            if edge.kind == "fill" and across:
                self.kept[edge.source] = graph.nodes[edge.source].result
        self._find_carried()

    def run(self) -> None:
        """Replaces the loop."""
        op, last = self.loop.op, self.last
        builder = Builder.before(op)
        buffers = self._keep_buffers(builder)
        if last == 0:
            results = self.pipeline(builder, self.init)
        else:
            branch, inside, outside = branched(
                builder, self.enough_trips(builder), [it.type for it in op.results], [it.hint for it in op.results]
            )
            inside.create(YieldOp.NAME, self.pipeline(inside, self.init))
            rest = self.loop.inits if last == 1 else outside.insert(clone_op(op, {})).results
            outside.create(YieldOp.NAME, rest)
            results = branch.results
        for buffer in buffers:
            builder.create(LocalDeallocOp.NAME, (buffer,))
        for result, value in zip(op.results, results, strict=True):
            result.replace_all_uses_with(value)
        op.erase()

    def _keep_buffers(self, builder: Builder) -> list[Value]:
        """Allocates the buffers that are kept outside of the loop, where each iteration stores into them."""
        made: list[Value] = []
        for number, filled in self.kept.items():
            alloc, type = LocalAllocOp.of(filled.defining_op), parse_type(filled.type)
            assert alloc is not None and alloc.source is not None and isinstance(type, MemDescType)
            builder.loc = alloc.op.loc
            buffer = builder.create(
                LocalAllocOp.NAME, (), (str(replace(type, mutable=True)),), hints=(filled.hint,)
            ).result
            at = Builder.before(alloc.op)
            self.nodes[number] = at.create(LocalStoreOp.NAME, (alloc.source, buffer))
            _fence(at)  # for the copy of the loop
            filled.replace_all_uses_with(buffer)
            make_mutable(buffer, at)
            alloc.op.erase()
            made.append(buffer)
        builder.loc = self.loop.op.loc
        return made

    def enough_trips(self, builder: Builder) -> Value:
        """Whether the trip count is at least S; the difference of the bounds fits an unsigned number."""
        lower, upper, step = self.loop.bounds
        some = CmpIOp.create(builder, Predicate.SLT, lower, upper)
        if self.last == 1:
            return some
        length = SubIOp.create(builder, upper, lower)
        ahead = self._steps(builder, step, self.last - 1)
        longer = CmpIOp.create(builder, Predicate.UGT, length, ahead)
        return AndIOp.create(builder, some, longer)

    def _steps(self, builder: Builder, step: Value, count: int) -> Value:
        """`count` steps of the induction variable."""
        known = constant_int(step)
        if count == 1:
            return step
        if known is not None:
            return builder.constant(known * count, step.type)
        factor = builder.constant(count, step.type)
        return MulIOp.create(builder, step, factor)

    def _moved(self, builder: Builder, value: Value, count: int) -> Value:
        """The induction variable `count` iterations later (earlier if negative)."""
        if count == 0:
            return value
        distance = self._steps(builder, self.loop.bounds[2], abs(count))
        made = AddIOp if count > 0 else SubIOp
        return made.create(builder, value, distance)

    # -- what is carried from one kernel iteration to the next -----------------------------------------------------

    def stage_of(self, value: Value) -> int | None:
        """The stage that defines `value`; None for block arguments and for loop invariants."""
        number = self.numbers.get(value.defining_op) if value.defining_op else None
        return None if number is None else self.stages[number]

    def _previous(self, value: Value) -> Value | None:
        """The value yielded for a loop-carried argument in the previous iteration; None for any other value."""
        if value.owner is self.loop.body and value.index > 0:
            return self.loop.yielded[value.index - 1]
        return None

    def _canonical(self, value: Value, age: int) -> Key:
        """The canonical key: a yielded result one iteration later is the same value as its loop-carried argument."""
        stage = self.stage_of(value)
        if stage is not None and age > stage:
            for arg, source in zip(self.loop.iter_args, self.loop.yielded, strict=True):
                if source is value:
                    return arg, age - 1
        return value, age

    def _made_now(self, value: Value, age: int, earliest: int) -> Key | None:
        """The (result, age) that (value, age) resolves to, if kernel iteration `earliest` or a later one defines it.

        earliest: relative to the current kernel iteration; 0 is the current one, −1 the one before.
        """
        seen: set[Value] = set()
        while value not in seen:
            seen.add(value)
            stage = self.stage_of(value)
            if stage is not None:
                return (value, age) if stage - age >= earliest else None
            source = self._previous(value)
            if source is None:
                return None
            value, age = source, age + 1
        return None

    def _demand(self, value: Value, age: int) -> None:
        """Carries (value, age) unless the current kernel iteration defines it."""
        if not self._made_now(value, age, 0):
            self._carry(value, age)

    def _carry(self, value: Value, age: int) -> None:
        """Carries (value, age), and the values from which its next value is obtained."""
        if (self.stage_of(value) is None and self._previous(value) is None) or value in self.kept.values():
            return
        key = self._canonical(value, age)
        if key not in self.carried:
            self.carried[key] = None
            value, age = key
            source = self._previous(value)
            self._demand(value if source is None else source, age - 1 if source is None else age)

    def _find_carried(self) -> None:
        """Collects the values that the steady loop, the epilogue and the results of the loop need carried."""
        for number in self.sequence:
            for value in captured(self.nodes[number]):
                self._demand(value, self.stages[number])
        for trip in range(self.last):
            for number in self.sequence:
                if self.stages[number] > trip:
                    for value in captured(self.nodes[number]):
                        self._demand_in_epilogue(value, self.stages[number], trip)
        for arg in self.loop.iter_args:
            self._demand_in_epilogue(arg, 0, 0)

    def _demand_in_epilogue(self, value: Value, age: int, trip: int) -> None:
        """Carries (value, age) for the epilogue's kernel iteration `trip`, unless the epilogue defines it itself."""
        if not self._made_now(value, age, -trip):
            self._carry(value, age - trip)

    # -- the three parts -------------------------------------------------------------------------------------------

    def pipeline(self, builder: Builder, inits: Callable[[int], Value]) -> list[Value]:
        """Emits prologue, steady loop and epilogue; returns the results of the original loop."""
        steady = self.steady(builder, self.prologue(builder, inits))
        return self.epilogue(builder, steady)

    def prologue(self, builder: Builder, inits: Callable[[int], Value]) -> list[Value]:
        """Emits the kernel iterations before the steady loop; returns the values that it carries at first.

        inits: gives the initial values of the original loop by their numbers.
        """
        known: dict[Key, Value] = {}  # (result, iteration)
        find = self.from_start(builder, known, inits)
        for trip in range(self.last):
            section = self.section(builder, find, trip)
            for number in self.sequence:
                if self.stages[number] <= trip:
                    self.step(section, number, trip, known)
            self.finish(section, known)
        return self.at_first(find)

    def epilogue(self, builder: Builder, steady: Steady) -> list[Value]:
        """Emits the kernel iterations after the steady loop; returns the results of the original loop."""
        made: dict[Key, Value] = {}  # (result, iteration − trips)
        find = self.from_end(builder, made, steady)
        for trip in range(self.last):
            section = self.section(builder, find, trip)
            for number in self.sequence:
                if self.stages[number] > trip:
                    self.step(section, number, trip, made)
            self.finish(section, made)
        return [find(arg, 0) for arg in self.loop.iter_args]

    def section(self, builder: Builder, find: Callable[[Value, int], Value], trip: int) -> _Section:
        """A partial kernel iteration that is emitted as straight-line code. find: of a value of an iteration."""
        return _Section(builder, lambda value, age: find(value, trip - age), straight=True)

    def step(self, section: _Section, number: int, trip: int, known: dict[Key, Value]) -> None:
        """Emits one operation of a partial kernel iteration; records its results in `known` by iteration."""
        copy = self._emit(section, number)
        for old, new in zip(self.nodes[number].results, copy.results, strict=True):
            known[old, trip - self.stages[number]] = new

    def finish(self, section: _Section, known: dict[Key, Value]) -> None:
        """Waits for all dots at the end of a partial kernel iteration."""
        self._wait_for(section, len(section.flights))
        for key, value in known.items():
            known[key] = section.current(value)

    def at_first(self, find: Callable[[Value, int], Value]) -> list[Value]:
        """The values that the steady loop carries at first."""
        return [find(value, self.last - age) for value, age in self.carried]

    def init(self, number: int) -> Value:
        """An initial value of the original loop."""
        return self.loop.inits[number]

    def from_start(
        self, builder: Builder, known: dict[Key, Value], inits: Callable[[int], Value]
    ) -> Callable[[Value, int], Value]:
        """Looks up values by iteration; the first iteration is 0."""

        def find(value: Value, iteration: int) -> Value:
            if value is self.loop.induction:
                return self._moved(builder, self.loop.bounds[0], iteration)
            if (value, iteration) in known:
                return known[value, iteration]
            source = self._previous(value)
            if source is None:
                return value
            return inits(value.index - 1) if iteration == 0 else find(source, iteration - 1)

        return find

    def from_end(self, builder: Builder, made: dict[Key, Value], steady: Steady) -> Callable[[Value, int], Value]:
        """Looks up values by iteration; the one after the last trip is 0."""

        def find(value: Value, iteration: int) -> Value:
            if value is self.loop.induction:
                return self._moved(builder, steady.after_last, iteration)
            found = self._made_now(value, -iteration, -self.last)
            if found and (found[0], -found[1]) in made:
                return made[found[0], -found[1]]
            if self.stage_of(value) is None and self._previous(value) is None:
                return value
            return steady.values[self._canonical(value, -iteration)]

        return find

    def steady(self, builder: Builder, inits: Sequence[Value]) -> Steady:
        """Emits the steady loop. inits: what it carries at first."""
        keys = list(self.carried)
        lower, upper, step = self.loop.bounds
        begin = self._moved(builder, lower, self.last)
        body = Block()
        loop = Operation(
            ForOp.NAME,
            (begin, upper, step, *inits),
            [value.type for value in inits],
            properties=dict(self.loop.op.properties),
            attributes=dict(self.loop.op.attributes),
            loc=self.loop.op.loc,
            hints=[value.hint for value, _ in keys],
        )
        induction = body.add_arg(lower.type, self.loop.induction.hint)
        args = {key: body.add_arg(init.type, key[0].hint) for key, init in zip(keys, inits, strict=True)}
        loop.add_region(Region([body]))
        inside = Builder.at_end(body, self.loop.op.loc)
        local: ValueMap = {}
        section = _Section(inside, lambda value, age: self._in_steady(inside, value, age, induction, args, local))
        for number in self.sequence:
            copy = self._emit(section, number)
            local.update(zip(self.nodes[number].results, copy.results, strict=True))
        self._wait_for(section, len(section.flights))
        following = [self._next(section, value, age) for value, age in keys]
        later = (op for op, stage in zip(self.nodes, self.stages, strict=True) if stage)
        after_last = begin
        if any(self.loop.induction in captured(op) for op in later):
            view = ForOp(loop)
            view.carry(begin, "next")
            following.append(self._moved(inside, induction, 1))
            after_last = loop.results[-1]
        inside.create(YieldOp.NAME, following)
        builder.insert(loop)
        return Steady(dict(zip(keys, loop.results, strict=False)), after_last)

    def _in_steady(
        self, builder: Builder, value: Value, age: int, induction: Value, args: dict[Key, Value], local: ValueMap
    ) -> Value:
        if value is self.loop.induction:
            return self._moved(builder, induction, -age)
        found = self._made_now(value, age, 0)
        if found:
            return local[found[0]]
        if self.stage_of(value) is None and self._previous(value) is None:
            return value
        return args[self._canonical(value, age)]

    def _next(self, section: _Section, value: Value, age: int) -> Value:
        """The value of (value, age) in the next kernel iteration."""
        source = self._previous(value)
        found = section.find(value, age - 1) if source is None else section.find(source, age)
        return section.current(found)

    # -- one operation ---------------------------------------------------------------------------------------------

    def _emit(self, section: _Section, number: int) -> Operation:
        """Emits one node after the waits that it requires."""
        op, stage = self.nodes[number], self.stages[number]
        used = captured(op)
        found = {value: section.find(value, stage) for value in used}
        needed = 0
        takes: list[tuple[int, _Flight]] = []
        for position, flight in enumerate(section.flights):
            results = [value for value in used if found[value] is flight.result]
            for value in results:
                if sum_only(op, value) and len(flight.node.result.uses) == 1:
                    takes.append((position, flight))
                else:
                    needed = position + 1
            if flight.node in self.releases.get(number, ()):
                needed = position + 1
        dot = WarpGroupDotOp.of(op)
        if (dot and stores_invariant_operand(dot)) or (
            op.regions and any(nested.name in _DOTS for nested in op.walk())
        ):
            needed = len(section.flights)
        for position, flight in takes:
            flight.taken = (
                flight.taken or position >= needed
            )  # a dot that was waited for is complete, not taken over in flight
        if needed and section.straight and section.flights[-1].alone:
            needed = len(section.flights)  # nothing else is done meanwhile; a copy of a wait for all is harmless
        self._wait_for(section, needed)
        copy = clone_op(op, {value: section.current(new) for value, new in found.items()})
        section.builder.insert(copy)
        for flight in section.flights:
            flight.alone = flight.alone and is_free(op)
        if number in self.kept:
            _fence(section.builder)
        if LocalAllocOp.matches(op):
            section.reading[copy.result] = _readers(op)
        if dot and not stores_invariant_operand(dot):
            copy.properties["isAsync"] = bool_attr(True)
            section.flights.append(_Flight(op, copy.result))
        else:
            self._end_live_ranges(section, {op})
        return copy

    def _wait_for(self, section: _Section, count: int) -> None:
        """Waits for the first `count` dots in flight; later uses of their results go through the wait."""
        done = section.flights[:count]
        if not done:
            return
        del section.flights[:count]  # in place: sections of two loops may share it
        issued = done[0].result.defining_op
        if len(done) == 1 and done[0].alone and not section.flights and issued is not None:
            # Triton's layout passes may duplicate a wait, and with it in-flight accumulators: keep the dot synchronous.
            issued.properties["isAsync"] = bool_attr(False)
            self._end_live_ranges(section, {flight.node for flight in done})
            return
        through = [flight for flight in done if not flight.taken]
        if not through:  # a wait needs a result: that of the dot in flight which accumulates onto theirs
            through = [flight for flight in section.flights if not flight.taken]
        values = [section.current(flight.result) for flight in through]
        section.builder.loc = done[-1].node.loc
        wait = section.builder.create(
            WarpGroupDotWaitOp.NAME,
            values,
            [value.type for value in values],
            properties={"pendings": int_attr(len(section.flights))},
            hints=[value.hint for value in values],
        )
        section.waited.update(zip(values, wait.results, strict=True))
        self._end_live_ranges(section, {flight.node for flight in done})

    @staticmethod
    def _end_live_ranges(section: _Section, done: set[Operation]) -> None:
        """Frees each buffer that the loop fills once its readers are complete; a dot is complete at the wait for it.

        Triton's allocator takes the last reader in program order for the end, while a dot may be in flight and read on.
        """
        for buffer, readers in list(section.reading.items()):
            if readers & done:
                readers -= done
                if not readers:
                    section.builder.create(LocalDeallocOp.NAME, (buffer,))
                    del section.reading[buffer]


def _fence(builder: Builder) -> None:
    builder.create(FenceAsyncSharedOp.NAME, properties={"bCluster": bool_attr(False)})


def _readers(buffer: Operation) -> set[Operation]:
    """The operations of the buffer's block that read it, by themselves or in a region."""
    block = buffer.parent
    assert block is not None
    return {ancestor_in(block, reader) for reader in slot_readers(buffer.result)}
