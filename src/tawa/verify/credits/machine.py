"""One run of the skeleton for chosen unknowns: partitions are scheduled until each blocks or ends.

Arefs with one writer and known readers are a bounded Kahn network: a maximal run ends in the same state for every
schedule, so one schedule decides. In the one used here the *leader* (a partition that writes) runs one iteration at a
time, and the others follow as far as they can. The progress of the others relative to the leader, at the heads of the
leader's loops, is the state whose recurrence is detected.

A slot is empty when every reader has released its previous contents: put i needs the release of i − D.
"""

from __future__ import annotations

from typing import Any, cast

from tawa.dialects.arith import SelectOp
from tawa.ir import Operation
from tawa.verify.credits.ends import check_end, deadlock
from tawa.verify.credits.loops import trip_count
from tawa.verify.credits.skeleton import Program, Term
from tawa.verify.credits.state import Channel, Event, FaultError, Frame, ImpossibleError, NeedError, Thread
from tawa.verify.verdict import FaultKind

MOST_STEPS = 200_000


class Machine:
    """The state of one run."""

    def __init__(
        self, program: Program, numbers: dict[Term, int], leader: int, *, records: bool = False, trace: bool = False
    ) -> None:
        self.program = program
        self.records = records  # the states at the heads of the leader's loops
        self.numbers = numbers
        self.leader = leader
        self.registers = list(program.registers)
        for number, value in enumerate(self.registers):
            if isinstance(value, Term) and value in numbers:
                self.registers[number] = numbers[value]
        self.channels = [
            Channel(
                ring.depth,
                len(ring.readers),
                gets=[0] * len(ring.readers),
                released=[set() for _ in ring.readers],
                borrowed=[[] for _ in ring.readers],
            )
            for ring in program.rings
        ]
        self.threads = [Thread(part) for part in program.parts]
        self.alive: list[int] = [0]
        self.events: list[Event] | None = [] if trace else None
        self.steps: int = 0
        self.trips: list[tuple[int, int, int]] = []  # of the leader's loops: loop, trips, periods of a recurrence
        self.times: dict[tuple[Any, ...], int] = {}
        self.chains: dict[Term, list[Any]] = {}

    def run(self) -> None:
        """Returns if the run ends without a fault; raises `FaultError`, `NeedError` or `ImpossibleError` otherwise."""
        leader = self.leader
        while self.alive:
            moved = True
            while moved:  # the others follow
                moved = False
                others = [index for index in self.alive if index != leader and (index or len(self.alive) == 1)]
                for index in others:
                    alive = len(self.alive)
                    if self._run_partition(index) and (len(others) > 1 or len(self.alive) != alive):
                        moved = True
            if leader in self.alive:
                if self.records:
                    self._record()
                if self._run_partition(leader):
                    continue
            if self.alive:
                self._block()
        check_end(self.program, self.channels)

    # -- the state that recurs ---------------------------------------------------------------------------------------

    def _record(self) -> None:
        frames = self.threads[self.leader].frames
        if not frames or self.program.loops[frames[-1].loop].constant:
            return
        frame = frames[-1]
        state = self._state(len(frames) - 1, frame)
        earlier = frame.seen.setdefault(state, [])
        for index in earlier:
            frame.recurs |= 1 << (frame.index - index)
        earlier.append(frame.index)

    def _state(self, depth: int, head: Frame) -> Any:
        channels = self.channels
        base = [channel.puts for channel in channels]
        rings = tuple(
            (tuple(channel.puts - got for got in channel.gets), tuple(tuple(b - channel.puts for b in it)
             for it in channel.borrowed))
            for channel in channels
        )  # fmt: skip
        threads: list[Any] = []
        for index in self.alive:
            thread = self.threads[index]
            frames = tuple(
                (it.loop, it.index - head.index, it.trips - it.index - head.trips + head.index)
                if level == depth
                else (it.loop, it.index, it.trips)
                for level, it in enumerate(thread.frames)
            )
            flight = tuple(tuple(sorted((ring, count - base[ring]) for ring, count in it)) for it in thread.flight)
            values = tuple(self._relative(self.registers[number], ring) for number, ring in thread.part.live[thread.pc])
            threads.append((index, thread.pc, frames, flight, values))
        return rings, tuple(threads)

    def _relative(self, value: Any, ring: int) -> Any:
        if isinstance(value, tuple):
            place = cast(tuple[int, int], value)
            return place[0], place[1] - self.channels[place[0]].puts
        if isinstance(value, Term) or value is None:
            return None
        return value - self.channels[ring].puts if ring >= 0 else value

    # -- running -----------------------------------------------------------------------------------------------------

    def _run_partition(self, index: int) -> bool:
        """Runs one partition until it blocks, ends or, if it leads, reaches a loop head; returns whether it moved."""
        thread = self.threads[index]
        code, registers = thread.part.code, self.registers
        start = steps = self.steps
        leads = index == self.leader
        while True:
            instruction = code[thread.pc]
            kind = instruction[0]
            head = False
            if kind == 0:  # SCALAR
                _, function, ins, out, signature = instruction
                registers[out] = self._scalar(function, [registers[it] for it in ins], signature)
            elif kind == 1:  # ADVANCE
                registers[instruction[2]] = registers[instruction[1]] + 1
            elif kind == 7:  # MOVE
                values = [registers[it] for it in instruction[1]]
                for target, value in zip(instruction[2], values, strict=True):
                    registers[target] = value
            elif kind == 2:
                if not self._put(index, thread, instruction):
                    break
            elif kind == 3:
                if not self._get(index, thread, instruction):
                    break
            elif kind == 4:
                self._consumed(index, thread, instruction)
            elif kind == 5:
                self._dot(index, thread, instruction)
            elif kind == 6:
                keep = instruction[1]
                thread.flight = (
                    thread.flight[len(thread.flight) - keep :] if keep < len(thread.flight) else thread.flight
                )
                self._event(index, "wait", -1, keep, thread)
            elif kind == 8:
                frame = self._enter(instruction, thread.part.ops[thread.pc])
                if frame.trips <= 0:
                    if leads:
                        self.trips.append((frame.loop, 0, -1))
                    thread.pc = instruction[6]
                    steps += 1
                    continue
                thread.frames.append(frame)
                if instruction[4] >= 0:
                    registers[instruction[4]] = frame.lower
                head = leads
            elif kind == 9:
                frame = thread.frames[-1]
                frame.index += 1
                if frame.index < frame.trips:
                    thread.pc = instruction[1]
                    if instruction[2] >= 0:
                        registers[instruction[2]] = frame.lower + frame.index * frame.step
                    steps += 1
                    if leads:
                        self.steps = steps
                        return True
                    continue
                thread.frames.pop()
                if leads:
                    self.trips.append((frame.loop, frame.trips, frame.recurs))
            elif kind == 10:
                condition = registers[instruction[1]]
                if isinstance(condition, Term):
                    raise NeedError(condition, "flag")
                if not condition:
                    thread.pc = instruction[2]
                    steps += 1
                    continue
            elif kind == 11:
                thread.pc = instruction[1]
                steps += 1
                if steps > MOST_STEPS:
                    break
                continue
            elif kind == 12:
                thread.frames.append(Frame(instruction[1], 0))
            elif kind == 13:
                if not self._test(thread, instruction):
                    frame = thread.frames.pop()
                    if leads:
                        self.trips.append((frame.loop, frame.index, frame.recurs))
                    thread.pc = instruction[2]
                    steps += 1
                    continue
                head = leads
            elif kind == 14:
                if self.alive == [0] and thread.waits is None:
                    thread.waits = ("fork", 0, 0)
                    self.alive = [0, *range(1, len(self.threads))]
                    self.steps = steps + 1
                    return True
                if len(self.alive) > 1:
                    break
                thread.waits = None
            elif kind == 17:
                sending = self.channels[cast(int, instruction[1])]
                sending.numbers[sending.puts - 1] = registers[instruction[2]]
            elif kind == 18:
                ring, count = cast(tuple[int, int], registers[instruction[1]])
                registers[instruction[2]] = self.channels[ring].numbers[count]
            elif kind == 15:
                condition = registers[instruction[1]]
                if condition == 0:
                    raise ImpossibleError(thread.part.ops[thread.pc])
            else:
                self.alive.remove(index)
                if thread.flight:
                    message = f"{thread.part.name} ends with wgmmas in flight: no wait completes them"
                    raise FaultError("accumulator in flight", message, index, None)
                self.steps = steps + 1
                return True
            thread.pc += 1
            steps += 1
            if head:
                break
        self.steps = steps
        if steps > MOST_STEPS:
            raise FaultError("deadlock", f"{thread.part.name} does not end", index, None)
        return steps > start

    def _scalar(self, function: Any, inputs: list[Any], signature: tuple[Any, ...]) -> Any:
        if function is not None:
            for value in inputs:
                if type(value) is not int:
                    break
            else:
                number = function(*inputs)
                if number is not None:
                    return number
            if signature[0] == SelectOp.NAME and type(inputs[0]) is int:
                return inputs[1] if inputs[0] else inputs[2]
        if signature[0] in ("opaque", "atomic"):
            again = self.times[signature] = self.times.get(signature, 0) + 1
            return self._unknown((*signature, again, *inputs))
        return self._unknown((*signature, *inputs))

    def _unknown(self, key: tuple[Any, ...]) -> Any:
        term = self.program.terms(key)
        return self.numbers.get(term, term)

    def _enter(self, instruction: tuple[Any, ...], op: Operation | None) -> Frame:
        lower, upper, step = (self.registers[it] for it in instruction[1:4])
        return Frame(instruction[5], trip_count(lower, upper, step, op), lower, step)

    def _test(self, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        """Whether a while continues: by its condition, or by the trip count chosen for its first unknown condition."""
        frame, condition = thread.frames[-1], self.registers[instruction[1]]
        if not isinstance(condition, Term):
            going = bool(condition)
        else:
            first = frame.lower if frame.lower is not None else self.program.terms(("while", condition))
            trips = self.numbers.get(first)
            if trips is None:
                raise NeedError(first)
            if frame.lower is None:
                frame.lower, frame.step = first, frame.index
                frame.trips = frame.index + trips
            chain = self.chains.setdefault(first, [])
            at = frame.index - frame.step
            if at < len(chain) and chain[at] is not condition:
                # Another loop with the same first conditions diverges here: treat the two as different loops.
                frame.lower, frame.step = None, 0
                return self._test(thread, instruction)
            if at == len(chain):
                chain.append(condition)
            going = at < trips
        frame.index += 1 if going else 0
        return going

    # -- arefs -------------------------------------------------------------------------------------------------------

    def _event(self, index: int, action: str, ring: int, count: int, thread: Thread) -> None:
        if self.events is not None:
            self.events.append(Event(index, action, ring, count, thread.part.ops[thread.pc]))

    def _put(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, fresh = cast(tuple[int, int, bool], instruction[1:])
        channel, count = self.channels[ring], self.registers[at]
        if count != channel.puts:
            self._event(index, "put", ring, count, thread)
            message = f"the put {count} of {self._name(ring)} is out of order: {channel.puts} is next"
            raise self._fault("order", message, index, thread)
        previous = count - channel.depth
        if fresh and previous >= 0:
            self._event(index, "put", ring, count, thread)
            slot = f"{self._name(ring)}[{count % channel.depth}]"
            message = f"the put {count} does not wait, but {slot} was filled by put {previous}"
            raise self._fault("write before release", message, index, thread)
        if previous >= 0 and not all(previous in released for released in channel.released):
            thread.waits = ("put", ring, count)
            return False
        thread.waits = None
        self._event(index, "put", ring, count, thread)
        channel.puts += 1
        return True

    def _get(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, reader, views = cast(tuple[int, int, int, tuple[int, ...]], instruction[1:])
        channel, count = self.channels[ring], self.registers[at]
        if count != channel.gets[reader]:
            self._event(index, "get", ring, count, thread)
            message = f"the get {count} of {self._name(ring)} is out of order: {channel.gets[reader]} is next"
            raise self._fault("order", message, index, thread)
        if count >= channel.puts:
            thread.waits = ("get", ring, count)
            return False
        thread.waits = None
        self._event(index, "get", ring, count, thread)
        channel.gets[reader] += 1
        channel.borrowed[reader].append(count)
        for view in views:
            self.registers[view] = (ring, count)
        return True

    def _consumed(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> None:
        ring, at, condition, reader = cast(tuple[int, int, int, int], instruction[1:])
        if condition >= 0:
            holds = self.registers[condition]
            if isinstance(holds, Term):
                raise NeedError(holds, "flag")
            if not holds:
                return
        channel, count = self.channels[ring], self.registers[at]
        self._event(index, "consumed", ring, count, thread)
        name = self._name(ring)
        if count not in channel.borrowed[reader]:
            gone = count in channel.released[reader]
            message = f"{name}: {count} is released " + ("a second time" if gone else "before its get")
            raise self._fault("order", message, index, thread)
        if any((ring, count) in reads for reads in thread.flight):
            message = f"{name}: {count} is released while a wgmma in flight reads it"
            raise self._fault("write before release", message, index, thread)
        channel.borrowed[reader].remove(count)
        channel.released[reader].add(count)

    def _dot(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> None:
        views, in_flight = cast(tuple[tuple[int, ...], bool], instruction[1:])
        reads = [cast(tuple[int, int], it) for number in views if isinstance(it := self.registers[number], tuple)]
        for ring, count in reads:
            if not any(count in held for held in self.channels[ring].borrowed):
                self._event(index, "read", ring, count, thread)
                message = f"{self._name(ring)}: {count} is read after its release"
                raise self._fault("write before release", message, index, thread)
        if reads:
            self._event(index, "wgmma" if in_flight else "read", *reads[0], thread)
        if in_flight:
            thread.flight.append(frozenset(reads))

    def _name(self, ring: int) -> str:
        return self.program.rings[ring].name

    def _fault(self, kind: FaultKind, message: str, index: int, thread: Thread) -> FaultError:
        return FaultError(kind, message, index, thread.part.ops[thread.pc])

    def _block(self) -> None:
        threads = [self.threads[index] for index in self.alive]
        waiting = [thread for thread in threads if thread.waits and thread.waits[0] != "fork"]
        if not waiting:
            raise AssertionError("no partition waits and none moves")
        for thread in waiting:
            assert thread.waits is not None
            action, ring, count = thread.waits
            self._event(self.threads.index(thread), f"wait for {action}", ring, count, thread)
        first = waiting[0]
        message = deadlock(self.program, self.channels, waiting)
        raise self._fault("deadlock", message, self.threads.index(first), first)
