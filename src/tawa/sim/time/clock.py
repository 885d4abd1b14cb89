"""The clock: computes the times of a trace.

Each partition has a clock, and each unit has a time until which it is busy. The partition with the earliest clock
executes next, so a unit serves requests in the order of their times, one operation at a time. Asynchronous work begins
when its unit is free and does not block its partition. A phase completes at the time of its last contribution; waiting
partitions resume at that time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from tawa.dialects.tcgen05 import ISSUED_BY_ONE_THREAD
from tawa.errors import InternalError
from tawa.ir import Operation
from tawa.machine.classes import TMA_STORES
from tawa.machine.hopper import CostModel
from tawa.sim.machine.trace import Key, Recorder, Step, Trace
from tawa.sim.time.cost import Cost, Unit, cycles
from tawa.sim.time.kinds import Kind, Kinds, role_of
from tawa.sim.time.timeline import LOADS, TENSOR_CORES, TMA, UNITS, Span, Timeline


def time_trace(trace: Trace, model: CostModel) -> Timeline:
    """The timeline of one CTA under a cost model."""
    return Clock(trace, model).run()


@dataclass(slots=True, eq=False)
class _Runner:
    """A partition and its position in its steps."""

    row: str
    steps: list[Step]
    at: int = 0
    now: int = 0


@dataclass(slots=True, eq=False)
class Clock:
    """The state of timing one trace."""

    trace: Trace
    model: CostModel
    spans: list[Span] = field(default_factory=list[Span])
    _free: dict[Unit, int] = field(default_factory=dict[Unit, int])
    _costs: dict[Operation, Cost] = field(default_factory=dict[Operation, Cost])
    _kinds: Kinds = field(default_factory=Kinds)
    _missing: Counter[Key] = field(default_factory=Counter[Key])
    _latest: dict[Key, int] = field(default_factory=dict[Key, int])
    _parked: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])
    _actions: dict[Key, tuple[Kind, str]] = field(default_factory=dict[Key, tuple[Kind, str]])
    _queue: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _runners: list[_Runner] = field(default_factory=list[_Runner])

    def run(self) -> Timeline:
        """Runs every partition to its end."""
        names = row_names(self.trace.partitions)
        self._runners = [_Runner(names[it.agent], it.steps) for it in self.trace.partitions]
        for runner in self._runners:
            for step in runner.steps:
                self._missing.update(step.signals)
                if step.action is not None:
                    self._missing[step.action] += 1
        self._queue = [(0, number) for number in range(len(self._runners))]
        while self._queue:
            now, number = heapq.heappop(self._queue)
            self._step(number, self._runners[number], now)
        # The simulated run ended, so every event that a step waits for has its contributions.
        for runner in self._runners:
            if runner.at < len(runner.steps):
                raise InternalError(f"the clock of {runner.row} waits for an event that no step completes")
        return self._timeline(names)

    def _timeline(self, names: dict[int, str]) -> Timeline:
        used = {span.row for span in self.spans}
        partitions = sorted(dict.fromkeys(names.values()), key=lambda row: (row != "producer", row != "mma", row))
        rows = [*partitions, *(row for row in UNITS if row in used)]
        spans = sorted(self.spans, key=lambda span: (rows.index(span.row), span.begin_cycles, span.end_cycles))
        last = max([*(runner.now for runner in self._runners), *(span.end_cycles for span in spans)], default=0)
        return Timeline(tuple(rows), tuple(spans), last, self.model.clock_ghz)

    def _step(self, number: int, runner: _Runner, now: int) -> None:
        """Executes one step, or parks the partition until the events that it waits for complete."""
        if runner.at == len(runner.steps):
            return
        step = runner.steps[runner.at]
        ready = now
        for key in step.waits:
            if key == step.action:
                continue
            if self._missing[key]:
                self._parked.setdefault(key, []).append(number)
                return
            ready = max(ready, self._latest.get(key, 0))
        if ready > runner.now:
            self._wait(runner, step, ready)
        if ready > now:
            # Other partitions may request a unit before `ready`.
            heapq.heappush(self._queue, (ready, number))
            return
        self._execute(runner, step)
        runner.at += 1
        heapq.heappush(self._queue, (runner.now, number))

    def _wait(self, runner: _Runner, step: Step, ready: int) -> None:
        if step.op is not None:
            last = max((key for key in step.waits if key != step.action), key=lambda key: self._latest.get(key, 0))
            kind, label = self._actions.get(last, ("wait", step.target or "barrier"))
            kind = kind if kind in ("wgmma", "epilogue") else "wait"
            self._span(runner.row, label, kind, runner.now, ready, step)
        runner.now = ready

    def _execute(self, runner: _Runner, step: Step) -> None:
        op = step.op
        if op is None:
            self._complete(step.signals, runner.now)
            return
        cost = self._costs.get(op)
        if cost is None:
            cost = self._costs[op] = cycles(op, self.model)
        kind, label = self._kinds.of(op), op.name.partition(".")[2]
        begin, runner.now = runner.now, runner.now + cost.issue_cycles
        # Scalar work gets no span: there is much of it and each is short.
        if cost.issue_cycles > self.model.scalar_cycles:
            self._span(runner.row, label, kind, begin, runner.now, step)
        # Without an action, a predicate of the operation is false, or it is a synchronous one of tiles.
        skipped = step.action is None and (cost.unit == "memory" or op.name in ISSUED_BY_ONE_THREAD)
        if cost.unit is None or skipped:
            self._complete(step.signals, runner.now)
        elif step.action is None:
            begin = max(runner.now, self._free.get(cost.unit, 0))
            self._free[cost.unit] = begin + cost.busy_cycles
            runner.now = begin + cost.busy_cycles + cost.latency_cycles
            self._span(runner.row, label, kind, begin, runner.now, step)
            self._complete(step.signals, runner.now)
        else:
            self._start(runner, step, cost, kind, label)

    def _start(self, runner: _Runner, step: Step, cost: Cost, kind: Kind, label: str) -> None:
        """Asynchronous work: begins when its unit is free and lands after the latency."""
        assert cost.unit is not None and step.action is not None
        begin = max(runner.now, self._free.get(cost.unit, 0))
        end = self._free[cost.unit] = begin + cost.busy_cycles
        landed = end + cost.latency_cycles
        if cost.unit == "tensor cores":
            self._span(TENSOR_CORES, label, kind, begin, end, step)
        else:
            by_tma = kind == "tma" or (step.op is not None and step.op.name in TMA_STORES)
            self._span(TMA if by_tma else LOADS, label, kind, landed - cost.busy_cycles, landed, step)
        if kind == "epilogue":
            landed = end  # store waits end when the buffer is read, not when the data reach memory
        self._actions[step.action] = (kind, label)
        self._complete((step.action, *step.signals), landed)
        if step.action in step.waits:
            self._span(runner.row, label, kind, runner.now, landed, step)
            runner.now = landed

    def _complete(self, keys: tuple[Key, ...], time: int) -> None:
        for key in keys:
            self._missing[key] -= 1
            self._latest[key] = max(self._latest.get(key, 0), time)
            if not self._missing[key]:
                for number in self._parked.pop(key, ()):
                    runner = self._runners[number]
                    heapq.heappush(self._queue, (runner.now, number))

    def _span(self, row: str, label: str, kind: Kind, begin: int, end: int, step: Step) -> None:
        if end > begin:
            self.spans.append(Span(row, label, kind, begin, end, step.slot, step.location))


def row_names(partitions: tuple[Recorder, ...]) -> dict[int, str]:
    """Row names of agents: the role, numbered if several agents share it; the partition name if it has no role."""
    agents = list(dict.fromkeys(it.agent for it in partitions))
    own = {agent: [it for it in partitions if it.agent == agent] for agent in agents}
    roles = {agent: role_of(own[agent], alone=len(agents) == 1) or own[agent][-1].name for agent in agents}
    several = Counter(roles.values())
    seen: Counter[str] = Counter()
    names: dict[int, str] = {}
    for agent, role in roles.items():
        names[agent] = f"{role} {seen[role]}" if several[role] > 1 else role
        seen[role] += 1
    return names
