"""The accesses of a run to rings: what each needs of a slot, and what it leaves; see `run.machine`."""

from __future__ import annotations

from typing import Any, cast

from tawa.verify.run.state import Channel, Event, FaultError, Thread
from tawa.verify.skeleton.program import Program
from tawa.verify.verdict import FaultKind


class Credits:
    """The rings of a run. events: what happened; None if that is not kept."""

    program: Program
    registers: list[Any]
    channels: list[Channel]
    events: list[Event] | None

    def _event(self, index: int, action: str, ring: int, count: int, thread: Thread) -> None:
        if self.events is not None:
            self.events.append(Event(index, action, ring, count, thread.part.ops[thread.pc]))

    def _in_order(self, index: int, action: str, ring: int, count: int, expected: int, thread: Thread) -> None:
        """Raises FaultError if an access is not to the next slot."""
        if count != expected:
            self._event(index, action, ring, count, thread)
            message = f"the {action} {count} of {self._name(ring)} is out of order: {expected} is next"
            raise self._fault("order", message, index, thread)

    def _is_empty(self, index: int, action: str, ring: int, count: int, thread: Thread) -> bool:
        """Whether all readers have released the slot that a writer fills next; if not, the writer waits."""
        previous = count - self.channels[ring].depth
        if previous >= 0 and not all(previous in released for released in self.channels[ring].released):
            thread.waits = ("put", ring, count)
            return False
        thread.waits = None
        self._event(index, action, ring, count, thread)
        return True

    def _put(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, fresh = cast(tuple[int, int, bool], instruction[1:4])
        channel, count = self.channels[ring], self.registers[at]
        self._in_order(index, "put", ring, count, channel.puts, thread)
        previous = count - channel.depth
        if fresh and previous >= 0:
            self._event(index, "put", ring, count, thread)
            slot = f"{self._name(ring)}[{count % channel.depth}]"
            message = f"the put {count} does not wait, but {slot} was filled by put {previous}"
            raise self._fault("write before release", message, index, thread)
        if not self._is_empty(index, "put", ring, count, thread):
            return False
        channel.puts += 1
        return True

    def _acquire(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        """The writer waits until the next slot is empty, and holds it; once more if it holds it already."""
        ring, at, views = cast(tuple[int, int, tuple[int, ...]], instruction[1:])
        channel, count = self.channels[ring], self.registers[at]
        self._in_order(index, "acquire", ring, count, channel.puts, thread)
        if not self._is_empty(index, "acquire", ring, count, thread):
            return False
        channel.held = True
        for view in views:
            self.registers[view] = (ring, count)
        return True

    def _publish(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> None:
        ring, at = cast(tuple[int, int], instruction[1:])
        channel, count = self.channels[ring], self.registers[at]
        self._event(index, "publish", ring, count, thread)
        if not channel.held or count != channel.puts:
            message = f"{count} of {self._name(ring)} is published, but its writer does not hold it"
            raise self._fault("order", message, index, thread)
        channel.held = False
        channel.puts += 1

    def _get(self, index: int, thread: Thread, instruction: tuple[Any, ...]) -> bool:
        ring, at, reader, views = cast(tuple[int, int, int, tuple[int, ...]], instruction[1:])
        channel, count = self.channels[ring], self.registers[at]
        self._in_order(index, "get", ring, count, channel.gets[reader], thread)
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
        ring, at, _, reader = cast(tuple[int, int, int, int], instruction[1:])
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
            channel = self.channels[ring]
            if not any(count in held for held in channel.borrowed) and not (channel.held and count == channel.puts):
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
