"""The scheduler: a modulo schedule of a loop for one in-order partition beside asynchronous tensor cores.

The partition issues a dot and continues; the tensor cores execute dots in the order of issue, and an operation that
needs the result of a dot waits for it. A good schedule fills this latency with other work, if necessary of another
iteration. Stages serve that purpose.

    bounds      a kernel iteration takes at least the issue slots of the partition, the time of the tensor cores, and
                the latency of each recurrence divided by the iterations that it spans
    stages      every assignment of stages to the dots, with and without a stage of delay for their results. Every other
                operation gets the earliest stage that its inputs allow, or a later one if that leaves fewer live
                registers between kernel iterations (an fp16 operand instead of the fp32 scores it is computed from),
                or as many that need no repacking (the fp32 scores instead of the fp8 operand that is computed from
                them: a loop carries 8-bit elements one by one, `tawa.machine.work.PACKED_BITS`)
    order       list scheduling: earliest start first, dots before other operations, then by height (the longest path
                to the end of the kernel iteration); operations that wait for a dot come after those that do not
    choice      the shortest kernel iteration whose tiles fit the registers; among those within 2%, the fewest stages,
                then the fewest live registers between iterations; only schedules for which the rings are deep enough,
                and whose additional work does not cost the consumer groups of a CTA more than the overlap gains

A dot whose operand the loop stores to shared memory itself is in the stage of that store, unless the Plan asks for
stages: then its operand may stay in the buffer for a stage, and the dot runs an iteration behind.

No dot stays in flight from one kernel iteration to the next: its registers would have to be renamed, and ptxas waits
for the dot to do so. `tawa.transforms.pipelining.pipeline_mma` handles that case.

There are at most two stages unless the Plan asks for more (`tawa.plan.defaults.MAX_STAGES`).

Source: B. R. Rau, "Iterative Modulo Scheduling" (1996): bounds, heights; arXiv 2510.14719, section 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tawa.analysis.loops.costs import OpCost
from tawa.analysis.loops.dependences import DependenceInfo, is_exchanged
from tawa.dialects.aref import ConsumedOp, GetOp, PutOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.machine.nvidia import LATENCY_CYCLES
from tawa.plan.behind import exchanged_early, only_stored
from tawa.plan.cost.labels import label_of
from tawa.plan.cost.loop_costs import Limits, busiest
from tawa.plan.cost.time_model import together
from tawa.plan.defaults import ALIKE, GAIN, MOST_DOTS, RESERVED_REGISTERS
from tawa.plan.schedule import Schedule, ScheduledOp
from tawa.plan.stages import StageAssignments


@dataclass(frozen=True, slots=True)
class _Made:
    """A candidate schedule."""

    stages: tuple[int, ...]
    sequence: tuple[int, ...]
    begins: tuple[int, ...]
    ii_cycles: int
    alive: int
    registers: int
    work_cycles: int  # of the busier one: the partition, or the tensor cores


@dataclass(slots=True)
class _State:
    """A partial kernel iteration. waited: the number of issued dots that are known to be complete."""

    costs: list[OpCost]
    begins: list[int]
    ends: list[int]
    needs: list[list[int]]  # by node: the dots of this kernel iteration that must be complete before it
    issued: list[int] = field(default_factory=list[int])
    waited: int = 0
    now: int = 0
    tensor: int = 0


def find_schedule(graph: DependenceInfo, limits: Limits, loop: int = 0, places: Sequence[str] = ()) -> Schedule | None:
    """The best schedule for which the rings are deep enough; None if no schedule clearly beats waiting for each dot.

    loop: the number of the loop. places: file:line of the loop and of each node, for messages.
    """
    problem = _Problem(graph, limits)
    suitable = (made for made in problem.candidates() if problem.rings_suffice(made.stages, made.sequence))
    if limits.behind:
        made = next(suitable, None)
        return problem.describe(made, loop, places) if made else None
    found = next(filter(problem.holds_for_all_groups, suitable), None)
    if found is None or not problem.clearly_shorter(found):
        return None
    return problem.describe(found, loop, places)


def candidate_schedules(
    graph: DependenceInfo, limits: Limits, loop: int = 0, places: Sequence[str] = ()
) -> tuple[Schedule, ...]:
    """Every schedule that was considered, the best first, for users and tuners to pin."""
    problem = _Problem(graph, limits)
    return tuple(problem.describe(made, loop, places) for made in problem.candidates())


def placed_schedule(
    graph: DependenceInfo,
    limits: Limits,
    stages: Sequence[int],
    sequence: Sequence[int],
    loop: int = 0,
    places: Sequence[str] = (),
) -> Schedule:
    """The schedule that has these stages, by node, and issues the nodes in this order; it is not checked."""
    problem = _Problem(graph, limits)
    return problem.describe(problem.placed(tuple(stages), sequence), loop, places)


class _Problem(StageAssignments):
    """The scheduling problem of one loop."""

    def candidates(self) -> list[_Made]:
        """All candidates, the best first; none if the loop has too many dots to try every assignment of stages."""
        if not 1 <= len(self.dots) <= MOST_DOTS:
            return []
        made = self.lagging() if self.limits.behind else [self.order(stages) for stages in self.assignments()]
        room = self.limits.registers - RESERVED_REGISTERS
        if not any(it.registers <= room for it in made):
            made = [self.relieved(it, room) for it in made]
            room = self.limits.registers  # beyond that, tiles alone spill
        least = min((max(it.registers, room) for it in made), default=room)
        shortest = min((it.ii_cycles for it in made if it.registers <= least), default=0)

        def rank(it: _Made) -> tuple[object, ...]:
            alike = it.ii_cycles <= shortest * ALIKE
            order = (max(it.stages), it.alive, it.registers, it.ii_cycles) if alike else (it.ii_cycles,)
            return (max(it.registers, room), not alike, order, it.stages)

        return sorted(made, key=rank)

    def clearly_shorter(self, made: _Made) -> bool:
        """Whether a schedule clearly beats waiting for each dot."""
        return made.ii_cycles * GAIN <= self.waiting_cycles()

    def holds_for_all_groups(self, made: _Made) -> bool:
        """Whether a schedule beats waiting for each dot also where several consumer groups share the SM.

        One group's arithmetic then runs beside the dots of another even without stages. What a schedule adds to the
        work of a partition, it adds for all groups, and no group hides it.
        """
        groups = self.limits.groups
        work = busiest(self.costs_under([0] * self.count))
        waiting = together(self.waiting_cycles(), groups * work, groups)
        return together(made.ii_cycles, groups * made.work_cycles, groups) <= waiting

    def lagging(self) -> list[_Made]:
        """The candidate in which the dots of `only_stored` run an iteration behind; none if they cannot."""
        late = only_stored(self)
        stages = self.stages_of({dot: int(dot in late) for dot in self.dots}) if late else None
        if stages is None:
            return []
        made = self.order(stages, [dot for dot in self.dots if stages[dot]])
        sequence = exchanged_early(self, stages, made.sequence)
        dots = 1 + max(sequence.index(dot) for dot in self.dots)
        return [self.order(stages, first=sequence[:dots])]  # what waits for dots stands in the order in which they end

    # -- order ---------------------------------------------------------------------------------------------------

    def order(self, stages: tuple[int, ...], late: Sequence[int] = (), first: Sequence[int] = ()) -> _Made:
        """List scheduling of one kernel iteration.

        late: dots that come behind all puts of the first stage. first: nodes that come before all others, in this
        order, which is not checked.
        """
        costs = self.costs_under(stages)
        heights, renewed = self._heights(stages, costs), self._renewed(stages)
        needs = [self._needs(number, stages) for number in range(self.count)]
        state = _State(costs, [0] * self.count, [0] * self.count, needs)
        sequence, given = list(first), set(first)
        for number in first:
            self._place(number, state)
        inputs = [[it.source for it in edges if self.across(it, stages) == 0] for edges in self.before]
        left = [sum(it not in given for it in sources) for sources in inputs]
        puts = [
            number
            for number, op in enumerate(self.graph.nodes)
            if PutOp.matches(op) and not stages[number] and number not in given
        ]
        for number in late:
            left[number] += len(puts)
        ready = [number for number in range(self.count) if not left[number] and number not in given]
        while ready:
            number = min(ready, key=lambda node: self._rank(node, state, heights, renewed))
            ready.remove(number)
            sequence.append(number)
            self._place(number, state)
            freed = [edge.target for edge in self.behind[number] if self.across(edge, stages) == 0]
            for target in (*freed, *(late if number in puts else ())):
                left[target] -= 1
                if not left[target]:
                    ready.append(target)
        if self.limits.owned:
            return self.placed(stages, self._late_gets(stages, sequence))
        return self._made(stages, sequence, state)

    def _late_gets(self, stages: Sequence[int], sequence: Sequence[int]) -> list[int]:
        """The order in which each slot is got right before its first use: other groups wait for what this one puts."""
        found = list(sequence)
        for number in reversed(sequence):
            op = self.graph.nodes[number]
            if GetOp.matches(op) or op.name in VIEWS:
                targets = [found.index(it.target) for it in self.behind[number] if not self.across(it, stages)]
                found.insert(min(targets, default=len(found)) - 1, found.pop(found.index(number)))
        return found

    def placed(self, stages: tuple[int, ...], sequence: Sequence[int]) -> _Made:
        """One kernel iteration in a given order."""
        costs, needs = self.costs_under(stages), [self._needs(number, stages) for number in range(self.count)]
        state = _State(costs, [0] * self.count, [0] * self.count, needs)
        for number in sequence:
            self._place(number, state)
        return self._made(stages, sequence, state)

    def relieved(self, made: _Made, room: int) -> _Made:
        """The candidate with reads and dots moved later in its order, while that lowers the register pressure.

        A dot that is issued behind other arithmetic overlaps less, but its operand is in registers for a shorter time.
        Where dots run an iteration behind, they fill the wait during which rows are read: then reads and dots move
        until the tiles fit the registers, and further only where that does not lengthen the iteration. Rates of the
        backward pass of attention, D = 64, over those of the other order: 1.01 to 1.04 with such dots, 0.94 to 0.95
        without (``bench/results/attention_backward_plans.json``).
        """
        if not self.limits.behind:
            return self._moved_down(made, room)
        made = self._moved_down(made, self.limits.registers)
        return self._moved_down(made, room, made.ii_cycles)

    def _moved_down(self, made: _Made, room: int, most: int | None = None) -> _Made:
        """Moves reads and dots later while that lowers the excess over `room`. most: cycles of the iteration."""
        excess = self._excess(made, room)
        while excess:
            later = [self.placed(made.stages, sequence) for sequence in self._later_orders(made)]
            fast = [it for it in later if most is None or it.ii_cycles <= most]
            ranked = sorted((self._excess(it, room), it.ii_cycles, at) for at, it in enumerate(fast))
            if not ranked or ranked[0][0] >= excess:
                break
            excess, _, at = ranked[0]
            made = fast[at]
        return made

    def _excess(self, made: _Made, room: int) -> int:
        """The registers above the limit, over all places of an order."""
        return sum(max(0, live - room) for live in self.live_registers(made.stages, made.sequence))

    def _later_orders(self, made: _Made) -> Iterator[list[int]]:
        """The orders in which one read of shared memory, or one dot with an operand in registers, comes later."""
        sequence = list(made.sequence)
        for number, op in enumerate(self.graph.nodes):
            dot = WarpGroupDotOp.of(op)
            if not (LocalLoadOp.matches(op) or (dot and dot.a_in_registers)):
                continue
            chain = self.own_feeders(number, made.stages) if dot else self._free_users(number, made.stages)
            edges = [edge for it in chain for edge in self.behind[it] if not self.across(edge, made.stages)]
            last = min((sequence.index(it.target) for it in edges if it.target not in chain), default=len(sequence))
            rest = [it for it in sequence if it not in chain]
            for place in range(sequence.index(number) + 1, last + 1):
                before = sequence[place - 1]
                if before not in chain and (place == last or self.costs[before].stream_cycles):
                    at = rest.index(before) + 1
                    yield [*rest[:at], *(it for it in sequence if it in chain), *rest[at:]]

    def _free_users(self, number: int, stages: Sequence[int]) -> set[int]:
        """A node, and the operations of its iteration that cost nothing and depend on nothing else."""
        chain = {number}
        for other in range(number + 1, self.count):
            inputs = [edge for edge in self.before[other] if edge.kind == "value"]
            own = inputs and all(edge.source in chain and not self.across(edge, stages) for edge in inputs)
            if own and not self.costs[other].stream_cycles:
                chain.add(other)
        return chain

    def _made(self, stages: tuple[int, ...], sequence: Sequence[int], state: _State) -> _Made:
        length = max([state.now, *state.ends])  # no dot stays in flight
        alive, registers = self.alive(stages), max(self.live_registers(stages, sequence))
        return _Made(
            stages, tuple(sequence), tuple(state.begins), length, alive, registers, busiest(state.costs)
        )  # fmt: skip

    def _place(self, number: int, state: _State) -> None:
        """Issues node `number` next."""
        cost = state.costs[number]
        start = state.begins[number] = self._start(number, state)
        needed = [dot for dot in state.needs[number] if dot in state.issued]
        if needed:
            state.waited = max(state.waited, *(1 + state.issued.index(dot) for dot in needed))
        state.now = state.ends[number] = start + cost.stream_cycles
        if cost.tensor_cycles:
            state.tensor = max(state.tensor, state.now) + cost.tensor_cycles
            state.ends[number] = state.tensor + LATENCY_CYCLES
            state.issued.append(number)

    def _needs(self, number: int, stages: Sequence[int]) -> list[int]:
        """The dots of this kernel iteration that must be complete before `number`."""
        return [
            edge.source
            for edge in self.before[number]
            if self.across(edge, stages) == 0 and edge.kind != "sum" and self.costs[edge.source].tensor_cycles
        ]

    def _start(self, number: int, state: _State) -> int:
        """The earliest start of `number`: the partition is free, and the dots that it needs are complete."""
        tensor = state.tensor if number in self.dots and not self.costs[number].tensor_cycles else 0
        return max([state.now, tensor, *(state.ends[dot] for dot in state.needs[number])])

    def _rank(self, number: int, state: _State, heights: list[int], renewed: list[list[int]]) -> tuple[int, ...]:
        """The priority (least first): earliest start, no new wait, releases, dots with their gets, greatest height.

        Groups that own dots put at times of their own, so how long the wait for a slot of another group is, is unknown.
        """
        opens = any(
            dot not in state.issued or state.issued.index(dot) >= state.waited
            for dot in (*state.needs[number], *renewed[number])
        )
        release = ConsumedOp.of(self.graph.nodes[number]) is not None
        get = GetOp.of(self.graph.nodes[number])
        return (
            self._start(number, state),
            self.limits.owned and get is not None and is_exchanged(get) and not get.own,
            opens,
            not release,
            not self.leads_to_dot[number],
            -heights[number],
            number,
        )

    def _renewed(self, stages: Sequence[int]) -> list[list[int]]:
        """By node: the dots that read, from registers, the value that the node redefines for the next kernel iteration.

        If the node executes before such a dot is complete, its result needs other registers and a copy per iteration.
        """
        renewed: list[list[int]] = [[] for _ in range(self.count)]
        for number in reversed(range(self.count)):
            values = [edge for edge in self.behind[number] if edge.kind == "value"]
            for edge in values:
                if self.across(edge, stages) == 1 and edge.target in self.dots:
                    renewed[number].append(edge.target)
            if len(values) == 1 and self.across(values[0], stages) == 0:
                following = values[0].target
                if not self.costs[following].stream_cycles:  # a reinterpretation of its operand
                    renewed[number] += renewed[following]
        return renewed

    def _heights(self, stages: Sequence[int], costs: Sequence[OpCost]) -> list[int]:
        """The longest path from each node to the end of the kernel iteration, in cycles."""
        heights = [cost.stream_cycles for cost in costs]
        changed = True
        while changed:  # few rounds: within a kernel iteration, the dependences are acyclic
            changed = False
            for edge in reversed(self.graph.edges):
                way = heights[edge.target] + self.latency(edge, costs)
                if self.across(edge, stages) == 0 and way > heights[edge.source]:
                    heights[edge.source], changed = way, True
        return heights

    def describe(self, made: _Made, loop: int, places: Sequence[str]) -> Schedule:
        """The candidate as a `Schedule`."""
        orders = {number: place for place, number in enumerate(made.sequence)}
        where = [*places, *[""] * (self.count + 1 - len(places))]
        ops = tuple(
            ScheduledOp(
                made.stages[number],
                orders[number],
                made.begins[number],
                label_of(self.graph, number),
                where[1 + number],
            )
            for number in range(self.count)
        )
        depths = self.ring_depths(made.stages, made.sequence)
        carried = self.carried(made.stages)
        return Schedule(loop, where[0], made.ii_cycles, self.bounds(), ops, depths, made.registers, carried)


__all__ = ["Limits", "candidate_schedules", "find_schedule", "placed_schedule"]
