"""`aref`: asynchronous references, the channels between partitions.

    %r = "aref.create"() <{name = "ring0"}> : () -> !aref.ring<3 x (!ttg.memdesc<…>, !ttg.memdesc<…>)>
    %i = "aref.first"(%r)                   : -> !aref.index<3>          the running count 0
    "aref.put"(%r, %i) ({ loads; "aref.filled"(%tiles…) })               waits until the slot is empty, fills it
    "aref.put"(%r, %i) ({ ^bb0(%a, %b): stores; "aref.filled"() })        the same, by stores into the slot's buffers
    %a, %b = "aref.acquire"(%r, %i)                                       the open begin of a put: waits until empty
    "aref.publish"(%r, %i)                                                its end, perhaps behind a loop
    %a, %b = "aref.get"(%r, %i)                                           waits until full; views of the slot's buffers
    "aref.consumed"(%r, %j [, %if])                                       this reader releases slot j
    "aref.landed"(%r, %i)                                                 waits until every put before i has landed
    %n = "aref.advance"(%i)                 : -> !aref.index<3>          the count plus one

Semantics per slot ⟨buf, F, E⟩ from arXiv 2510.14719, section 3: put needs E, get needs F, consumed returns E. An
index is an abstract running count; it is carried through every loop around the accesses and lowered to (slot, parity).

A put may fill only the first buffers of a slot; its get has as many views.

A payload lies in shared or in tensor memory. A reader may change what is in a slot before it releases it (an exchange):
the writer finds it there when it acquires the slot again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tawa.dialects.declare.declaration import Effect, OpView
from tawa.dialects.declare.families import YieldingOp
from tawa.dialects.declare.fields import attribute, operand, optional_operand, region, types_of
from tawa.ir.attributes import read_bool, read_string
from tawa.ir.text import split_top_level


@dataclass(frozen=True, slots=True)
class RingType:
    """``!aref.ring<D x (payload…)>``: D slots, each a tuple of buffers; an empty payload is a token."""

    depth: int
    payload: tuple[str, ...]

    def __str__(self) -> str:
        return f"!aref.ring<{self.depth} x ({', '.join(self.payload)})>"

    @property
    def index_type(self) -> str:
        """The type of running counts into this ring."""
        return f"!aref.index<{self.depth}>"

    @staticmethod
    def parse(text: str) -> RingType:
        """Reads the type; raises ValueError on any other text."""
        if not (text.startswith("!aref.ring<") and text.endswith(")>")):
            raise ValueError(f"not a ring type: {text}")
        depth, _, payload = text[11:-1].partition(" x ")
        return RingType(int(depth), tuple(split_top_level(payload[1:-1])))


def index_depth(type: str) -> int | None:
    """D of an ``!aref.index<D>``; None for any other type."""
    return int(type[12:-1]) if type.startswith("!aref.index<") else None


Fill = Literal["tma", "cp.async", "registers", "stores", "number", "commit", "threads"]
"""How a slot is filled: by TMA, by cp.async of all threads of the producer, from their registers, by the stores that a
put contains, which compute the tile piece by piece, with a number that the producer has computed, by dots of one thread
(a commit announces them), or by whatever its threads have done when they publish it."""
Writer = Literal["producer", "converter", "mma", "consumer", "correction"]
"""The partition that fills a ring."""
Reader = Literal["consumer", "converter", "mma", "storer", "correction"]
"""The partitions that read a ring."""


EXCHANGES: frozenset[Fill] = frozenset({"commit", "threads"})
"""The fills of rings whose slots the dots of one thread and a consumer access by turns."""


def read_fill(text: str) -> Fill:
    """Reads a `Fill`; raises ValueError on any other text."""
    match text:
        case "tma" | "cp.async" | "registers" | "stores" | "number" | "commit" | "threads":
            return text
        case _:
            raise ValueError(f"not a kind of filling: {text}")


class CreateOp(OpView):
    """``aref.create``: a ring with all slots empty. Before the fork. Becomes buffers and two mbarriers per slot."""

    NAME = "aref.create"
    EFFECTS = (Effect("allocate", "shared"),)
    name = attribute("name", read_string)  # the ring's name in the Plan

    @property
    def fill(self) -> Fill:
        """How a put fills a slot."""
        return read_fill(read_string(self.op.properties.get("fill", '"tma"')))

    @property
    def writer(self) -> Writer:
        """Who fills the slots."""
        found = _WRITERS.get(self.fill, "producer")
        return "correction" if found == "consumer" and "corrected" in self.op.properties else found

    @property
    def reader(self) -> Reader:
        """Who reads the slots."""
        match read_string(self.op.properties.get("reader", '"consumer"')):
            case "converter" | "mma" | "storer" | "correction" as reader:
                return reader
            case _:
                return "consumer"

    @property
    def type(self) -> RingType:
        """Depth and payload."""
        return RingType.parse(self.op.result.type)

    @property
    def implied_empty(self) -> bool:
        """Whether a put always finds its slot empty, because its writer waits for the release through other rings.

        Such a ring has no barriers for empty slots.
        """
        return read_bool(self.op.properties.get("implied_empty", "false"))


_WRITERS: dict[Fill, Writer] = {"stores": "converter", "commit": "mma", "threads": "consumer"}


class FirstOp(OpView):
    """``aref.first``: the running count 0 of a ring. Pure."""

    NAME = "aref.first"
    ring = operand(0)


class AdvanceOp(OpView):
    """``aref.advance``: a running count plus one. Pure."""

    NAME = "aref.advance"
    index = operand(0)


class AccessOp(OpView):
    """The base of put, acquire, publish, get, consumed and landed: a ring and a running count."""

    EFFECTS = (Effect("order"),)
    ring, index = operand(0), operand(1)

    @property
    def type(self) -> RingType:
        """Depth and payload of the ring."""
        return RingType.parse(self.ring.type)

    def check(self) -> str | None:
        """The index has the type of this ring's counts."""
        ring = self.type
        return (
            None if self.index.type == ring.index_type else f"index {self.index.type} into a ring of depth {ring.depth}"
        )


class FilledOp(YieldingOp):
    """``aref.filled``: the end of a put, with the tiles in payload order."""

    NAME = "aref.filled"


class PutOp(AccessOp):
    """``aref.put``: operands ring, index; region: the loads, ending in ``aref.filled`` of the tiles in payload order.

    The region of a put by stores has the buffers of the slot as arguments and stores into them itself; its
    ``aref.filled`` has no operands.

    Executed by the only writer, or before the partitions start. A `fresh` put fills a slot for the first time and does
    not wait. The lowering depends on the ring's `fill`:

        tma        wait(empty), expect(bytes of the tuple), one TMA copy per tile
        cp.async   wait(empty), one cp.async per tile, arrive(full) of each thread when its own copies have landed
        registers  wait(empty), one local_store per tile, fence_async_shared, arrive(full)
        stores     wait(empty), the region, fence_async_shared, arrive(full)
        number     wait(empty), one local_store of the number, arrive(full)
    """

    NAME = "aref.put"
    RECURSIVE = True
    fresh = attribute("fresh", read_bool, "false")  # whether the slot is known to be empty
    own = attribute(
        "own", read_bool, "false"
    )  # whether the ring is that of the consumer group that executes it, in the program of any group
    body = region(0)  # the loads, or the stores

    def check(self) -> str | None:
        """The put fills the first buffers of the payload, or all of them by stores."""
        payload, filled = self.type.payload, FilledOp.of(self.body.terminator)
        if self.body.args:
            taken, handed = types_of(self.body.args), types_of(self.body.terminator.operands)
            wrong = None if taken == list(payload) and not handed else f"the ring has buffers {list(payload)}"
            return super().check() or wrong
        return super().check() or (
            None if filled and _begins(len(filled.values), payload) else f"the ring takes {len(payload)} tiles"
        )


def _begins(count: int, payload: Sequence[str]) -> bool:
    """Whether an access may have so many buffers, the first ones of a payload."""
    return min(1, len(payload)) <= count <= len(payload)


class ViewsOp(AccessOp):
    """The base of acquire and get: the results are views of the slot's buffers, or of the first ones."""

    def check(self) -> str | None:
        """The results are views of the buffers of the payload."""
        if reason := super().check():
            return reason
        payload, views = self.type.payload, types_of(self.op.results)
        if not _begins(len(views), payload):
            return f"{len(views)} views of {len(payload)} buffers"
        return None if tuple(views) == payload[: len(views)] else f"views {views} of buffers {list(payload)}"


class AcquireOp(ViewsOp):
    """``aref.acquire``: operands ring, index; results: one view per payload entry.

    Executed by the writer, which then holds the slot until it publishes it; it may acquire it again. Becomes
    wait(empty).
    """

    NAME = "aref.acquire"


class PublishOp(AccessOp):
    """``aref.publish``: the slot that the writer holds is full. Becomes arrive(full), or a commit to it."""

    NAME = "aref.publish"


class GetOp(ViewsOp):
    """``aref.get``: operands ring, index; results: one view per payload entry.

    Executed by a reader. Becomes wait(full); or nothing if it is `own`: the partition itself has filled the slot.
    """

    NAME = "aref.get"
    own = attribute("own", read_bool, "false")  # whether the partition itself has filled the slot


class ConsumedOp(AccessOp):
    """``aref.consumed``: operands ring, index, optional i1. The reader releases the slot. Becomes arrive(empty).

    Asynchronous reads of the slot (wgmma) must be complete, so a wait precedes it. `by_commit`: it happens when the
    earlier dots of the thread are complete; then it becomes a commit.
    """

    NAME = "aref.consumed"
    condition = optional_operand(2)  # whether it happens; None means always
    by_commit = attribute("by_commit", read_bool, "false")

    def check(self) -> str | None:
        """The condition is an i1."""
        if reason := super().check():
            return reason
        condition = self.condition
        return None if condition is None or condition.type == "i1" else f"the condition is {condition.type}, not i1"


class LandedOp(AccessOp):
    """``aref.landed``: operands ring, index of the next put. Waits until all copies of earlier puts have landed.

    Executed by the writer, which may then overwrite the descriptors that those copies read. The slots do not change.
    Becomes wait(full) of each slot, for the phase of its last put.
    """

    NAME = "aref.landed"

    def check(self) -> str | None:
        """The ring is not a token."""
        return super().check() or (None if self.type.payload else "nothing is copied into a token")
