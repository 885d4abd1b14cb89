"""One run of the skeleton for chosen unknowns: partitions are scheduled until each blocks or ends.

Arefs with one writer and known readers are a bounded Kahn network: a maximal run ends in the same state for every
schedule, so one schedule decides. In the one used here the *leader* (a partition that writes) runs one iteration at a
time, and the others follow as far as they can.

A slot is empty when every reader has released its previous contents: put i needs the release of i − D.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tawa.dialects.arith import SelectOp
from tawa.dialects.scalars import width_of, wrap
from tawa.dialects.scf import ForOp
from tawa.ir import Operation
from tawa.verify.numbers.loops import trip_count
from tawa.verify.run.credits import Credits
from tawa.verify.run.ends import check_end, deadlock
from tawa.verify.run.events import Act, InFlight
from tawa.verify.run.events import Event as RunEvent
from tawa.verify.run.happens_before import Order
from tawa.verify.run.history import Fault
from tawa.verify.run.places import NotUnderstood, Place, indexed, viewed
from tawa.verify.run.state import Channel, Event, FaultError, Frame, ImpossibleError, NeedError, Thread, TooLongError
from tawa.verify.skeleton.program import Program, Term

MOST_STEPS = 100_000
"""The most instructions of one run."""


class Machine(Credits):
    """The state of one run."""

    def __init__(self, program: Program, numbers: dict[Term, int], leader: int, *, trace: bool = False) -> None:
        self.program = program
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
        names = [part.name for part in program.parts]
        self.order = None if program.memories is None else Order(program.memories, names, records=trace)
        self.events: list[Event] | None = [] if trace else None
        self.steps: int = 0
        self.times: dict[tuple[Any, ...], int] = {}
        self.chains: dict[Term, list[Any]] = {}
        self.late = False
        """Whether a trip count is chosen for a `while` that computes otherwise with the numbers of another one."""

    def run(self) -> None:
        """Returns if the run ends without a fault; raises `FaultError`, `NeedError` or `ImpossibleError` otherwise."""
        while self.alive:
            self._follow()
            if self.leader in self.alive and self._run_partition(self.leader):
                continue
            if self.alive:
                self._block()
        self._finish()

    def _follow(self) -> None:
        """Runs the partitions other than the leader as far as they can."""
        moved = True
        while moved:
            moved = False
            others = [index for index in self.alive if index != self.leader]
            for index in others:
                alive = len(self.alive)
                if self._run_partition(index) and (len(others) > 1 or len(self.alive) != alive):
                    moved = True

    def _finish(self) -> None:
        check_end(self.program, self.channels)
        if self.order is not None:
            self._ordered(0, None, self.order.finish)

    # -- running -----------------------------------------------------------------------------------------------------

    def _run_partition(self, index: int) -> bool:
        """Runs one partition until it blocks, ends or, if it leads, reaches a loop head; returns whether it moved."""
        thread = self.threads[index]
        code, registers = thread.part.code, self.registers
        start = steps = self.steps
        leads, head = index == self.leader, False
        while not (head and leads):
            instruction = code[thread.pc]
            kind = instruction[0]
            following, head = thread.pc + 1, False
            if kind == 0:  # SCALAR
                _, function, ins, out, signature = instruction
                registers[out] = self._scalar(function, [registers[it] for it in ins], signature, out)
            elif kind == 1:  # ADVANCE
                registers[instruction[2]] = registers[instruction[1]] + 1
            elif kind == 7:  # MOVE
                values = [registers[it] for it in instruction[1]]
                for target, value in zip(instruction[2], values, strict=True):
                    registers[target] = value
            elif kind == 19:  # ACT
                if not self._act(index, thread, instruction[1]):
                    break
            elif kind == 20:  # VIEW
                registers[instruction[3]] = self._view(thread, instruction)
            elif kind == 2:  # PUT
                if not self._put(index, thread, instruction):
                    break
            elif kind == 3:  # GET
                if not self._get(index, thread, instruction):
                    break
            elif kind == 23:  # ACQUIRE
                if not self._acquire(index, thread, instruction):
                    break
            elif kind == 24:  # PUBLISH
                self._publish(index, thread, instruction)
            elif kind == 4:  # CONSUMED
                holds = True if instruction[3] < 0 else self._holds(thread, instruction[3])
                if holds is None:
                    break
                if holds:
                    self._consumed(index, thread, instruction)
            elif kind == 5:  # DOT
                self._dot(index, thread, instruction)
            elif kind == 6:  # WAIT
                thread.flight = thread.flight[max(len(thread.flight) - instruction[1], 0) :]
                self._event(index, "wait", -1, instruction[1], thread)
            elif kind == 8:  # FOR
                entered = self._enter_loop(thread, instruction)
                if entered is None:
                    break
                following, head = following if entered else instruction[5], entered
            elif kind == 9:  # NEXT
                again = self._next(thread, instruction)
                if again is None:
                    break
                following, head = instruction[1] if again else following, again
            elif kind == 10:  # IF
                holds = self._holds(thread, instruction[1])
                if holds is None:
                    break
                following = following if holds else instruction[2]
            elif kind == 11:  # JUMP
                following = instruction[1]
            elif kind == 12:  # WHILE
                self._enter_while(thread, instruction)
            elif kind == 13:  # TEST
                again = self._test_while(thread, instruction)
                if again is None:
                    break
                following, head = following if again else instruction[2], again
            elif kind == 14:  # FORK
                self._fork(instruction)
                thread.pc = following
                self.steps = steps + 1
                return True
            elif kind == 15:  # ASSUME
                self._assume(thread, registers[instruction[1]])
            elif kind == 17:  # SEND
                self._send(thread, self.channels[cast(int, instruction[1])], registers[instruction[2]])
            elif kind == 18:  # RECEIVE
                ring, count = cast(tuple[int, int], registers[instruction[1]])
                registers[instruction[2]] = self._receive(thread, self.channels[ring].numbers.get(count))
            elif kind == 21:  # PICK
                registers[instruction[4]] = _picked(*(registers[it] for it in instruction[1:4]))
            elif kind == 25:  # QUIET
                if self._leaves_out(instruction):
                    following = instruction[1]
            elif kind == 22:  # JOIN
                if len(self.alive) > 1:
                    break
                self._join(thread)
            else:
                self._end(index, thread)
                self.steps = steps + 1
                return True
            thread.pc = following
            steps += 1
            if steps > MOST_STEPS:
                break
        self.steps = steps
        if steps > MOST_STEPS:
            raise TooLongError(f"{thread.part.name} makes more than {MOST_STEPS} steps")
        return steps > start

    def _fork(self, instruction: tuple[Any, ...]) -> None:
        self.alive = [0, *instruction[1]]
        for place in instruction[1]:
            self.threads[place].pc = 0
        if self.order is not None:
            self.order.fork()

    def _join(self, thread: Thread) -> None:
        if self.order is not None:
            self.order.join()

    def _end(self, index: int, thread: Thread) -> None:
        self.alive.remove(index)
        if thread.flight:
            message = f"{thread.part.name} ends with wgmmas in flight: no wait completes them"
            raise FaultError("accumulator in flight", message, index, None)
        if self.order is not None and index:
            order = self.order
            self._ordered(index, None, lambda: order.end(order.actors[index]))

    # -- the policy for what is unknown: numbers ---------------------------------------------------------------------

    def _scalar(self, function: Any, inputs: list[Any], signature: tuple[Any, ...], out: int) -> Any:
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
        if signature[0] in ("opaque", "atomic", "undefined"):
            again = self.times[signature] = self.times.get(signature, 0) + 1
            return self._unknown((*signature, again, *inputs))
        return self._unknown((*signature, *inputs))

    def _unknown(self, key: tuple[Any, ...]) -> Any:
        term = self.program.terms(key)
        return self.numbers.get(term, term)

    def _leaves_out(self, instruction: tuple[Any, ...]) -> bool:
        """Whether the run leaves out a region without accesses: not if its numbers follow from those of the run."""
        return False

    def _assume(self, thread: Thread, condition: Any) -> None:
        if condition == 0:
            raise ImpossibleError(thread.part.ops[thread.pc])

    def _send(self, thread: Thread, channel: Channel, number: Any) -> None:
        channel.numbers[channel.puts - 1] = number

    def _receive(self, thread: Thread, number: Any) -> Any:
        return number

    def _holds(self, thread: Thread, register: int) -> bool | None:
        """Whether a condition holds; None if that is not decided yet."""
        condition = self.registers[register]
        if isinstance(condition, Term):
            raise NeedError(condition, "flag")
        return bool(condition)

    def _enter_loop(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        """Enters a loop; returns whether it has a trip. None if that is not decided yet."""
        lower, upper, step = (self.registers[it] for it in instruction[1:4])
        frame = Frame(trip_count(lower, upper, step, thread.part.ops[thread.pc]), lower, step)
        if frame.trips <= 0:
            return False
        thread.frames.append(frame)
        if instruction[4] >= 0:
            self.registers[instruction[4]] = frame.lower
        return True

    def _next(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        """Goes on to the next iteration, or leaves the loop; returns which. None if that is not decided yet."""
        frame = thread.frames[-1]
        frame.index += 1
        if frame.index < frame.trips:
            if instruction[2] >= 0:
                self.registers[instruction[2]] = self._iteration(frame, thread.part.ops[thread.pc])
            return True
        thread.frames.pop()
        return False

    @staticmethod
    def _iteration(frame: Frame, loop: Operation | None) -> int:
        """The number of an iteration; one of a loop over unsigned numbers may be beyond the largest signed number."""
        width = None if loop is None else width_of(ForOp(loop).lower.type)
        return wrap(frame.lower + frame.index * frame.step, width or 64)

    def _enter_while(self, thread: Thread, instruction: tuple[Any, ...]) -> None:
        thread.frames.append(Frame(0))

    def _test_while(self, thread: Thread, instruction: tuple[Any, ...]) -> bool | None:
        """Whether a `while` goes on. None if that is not decided yet."""
        if self._test(thread, instruction):
            return True
        thread.frames.pop()
        return False

    def _test(self, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        """Whether a while continues: by its condition, or by the trip count chosen for its first unknown condition."""
        frame, condition = thread.frames[-1], self.registers[instruction[1]]
        if not isinstance(condition, Term):
            going = bool(condition)
        elif all(number in self.program.arguments.values() for number in condition.numbers):
            raise NeedError(condition, "flag")
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
                self.late |= not chain[0].numbers.isdisjoint(condition.numbers)
                frame.lower, frame.step = None, 0
                return self._test(thread, instruction)
            if at == len(chain):
                chain.append(condition)
            going = at < trips
        frame.index += 1 if going else 0
        return going

    # -- barriers and memory -----------------------------------------------------------------------------------------

    def _view(self, thread: Thread, instruction: tuple[Any, ...]) -> Place:
        source, slot, op = self.registers[instruction[1]], instruction[2], thread.part.ops[thread.pc]
        assert op is not None
        if not isinstance(source, Place):
            raise NotUnderstood(f"{op.name} views memory that is not an allocation of this kernel", op)
        if slot < 0:
            return viewed(op, source)
        return indexed(op, source, self._known(self.registers[slot], op, "the slot"))

    def _known(self, value: Any, op: Operation, what: str) -> int:
        """The number in a register."""
        if isinstance(value, Term):
            raise NeedError(value, "flag")
        if not isinstance(value, int):
            raise NotUnderstood(f"{what} of {op.name} depends on an unknown value", op)
        return value

    def _act(self, index: int, thread: Thread, act: Act) -> bool:
        """Executes an event; returns False if it blocks."""
        order, registers = self.order, self.registers
        assert order is not None
        actor = order.actors[index]
        for register in act.uses:
            known = registers[register]
            if isinstance(known, InFlight):
                complete = int(all(group < actor.done for group in known.groups))
                use = RunEvent("use", act.op, amount=complete)
                self._ordered(index, act.op, lambda use=use: order.step(actor, use))
        if act.kind == "use":
            return True
        event = act.event(tuple([self._operand(act, it) for it in act.reads]), self._crossing(thread, act))
        if act.takes:
            registers[act.number] = self._taken(order, event)
        if not self._ordered(index, act.op, lambda: order.step(actor, event)):
            thread.blocked = event
            return False
        thread.blocked = None
        if act.kind == "dot":
            number = actor.issued
            actor.issued += 1
            if not act.amount:
                actor.done = actor.issued  # it waits for itself, hence for all earlier ones
                self._ordered(index, act.op, lambda: order.step(actor, RunEvent("dot wait", act.op)))
            if act.result >= 0:
                before = registers[act.tile]
                groups = before.groups if isinstance(before, InFlight) else ()
                going = frozenset([number, *(it for it in groups if it >= actor.done)])
                registers[act.result] = InFlight(going) if act.amount else None
        elif act.kind == "dot wait":
            actor.done = max(actor.done, actor.issued - act.amount)
            for tile, result in act.tiles:
                known = registers[tile]
                complete = isinstance(known, InFlight) and all(group < actor.done for group in known.groups)
                if result >= 0:
                    registers[result] = None if complete else known
        return True

    def _operand(self, act: Act, register: int) -> Any:
        value = self.registers[register]
        if isinstance(value, Place | int):
            return value
        if register == act.descriptor:
            return None
        if register in (act.parity, act.threads):
            return self._known(value, act.op, "the parity" if register == act.parity else "the threads")
        raise NotUnderstood(f"{act.op.name} accesses shared memory that is not an allocation of this kernel", act.op)

    def _crossing(self, thread: Thread, act: Act) -> Any:
        """What identifies the number that a store puts into memory; None for any other event, and for a load."""
        if act.number < 0 or act.takes:
            return None
        return ("number", self.registers[act.number])

    def _taken(self, order: Order, event: RunEvent) -> Any:
        """The number that a load takes out of memory."""
        region = order.memory.regions.get(event.memory[0].alloc, {}).get(event.memory[0].place)
        number = None if region is None or not region.writes else next(iter(region.writes.values())).event.number
        return None if number is None else number[1]

    def _ordered(self, index: int, op: Operation | None, step: Callable[[], bool | None]) -> bool | None:
        """A step of the order of events, with its faults as those of this run."""
        try:
            return step()
        except Fault as fault:
            raise FaultError(fault.kind, fault.message, index, op, fault.steps) from None

    def _block(self) -> None:
        blocked = [(index, self.threads[index].blocked) for index in self.alive]
        if self.order is not None and any(event is not None for _, event in blocked):
            order = self.order
            waiting = [(order.actors[index], event) for index, event in blocked if event is not None]
            fault = order.deadlock(waiting)
            assert isinstance(fault, Fault)
            raise FaultError(fault.kind, fault.message, waiting[0][0].number, waiting[0][1].op, fault.steps)
        threads = [self.threads[index] for index in self.alive]
        waiting = [thread for thread in threads if thread.waits]
        if not waiting:
            raise AssertionError("no partition waits and none moves")
        for thread in waiting:
            assert thread.waits is not None
            action, ring, count = thread.waits
            self._event(self.threads.index(thread), f"wait for {action}", ring, count, thread)
        first = waiting[0]
        message = deadlock(self.program, self.channels, waiting)
        raise self._fault("deadlock", message, self.threads.index(first), first)


def _picked(condition: Any, one: Any, other: Any) -> Any:
    """The tile that is selected, or one of two: it stays in flight, as the back end renames registers or waits."""
    if isinstance(condition, int):
        return one if condition else other
    groups = [it.groups for it in (one, other) if isinstance(it, InFlight)]
    return InFlight(frozenset[int]().union(*groups)) if groups else None
