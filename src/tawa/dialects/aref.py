"""`aref`: asynchronous references, the channels between partitions.

    %r = "aref.create"() <{name = "ring0"}> : () -> !aref.ring<3 x (!ttg.memdesc<…>, !ttg.memdesc<…>)>
    %i = "aref.first"(%r)                   : -> !aref.index<3>          the running count 0
    "aref.put"(%r, %i) ({ loads; "aref.filled"(%tiles…) })               waits until the slot is empty, fills it
    %a, %b = "aref.get"(%r, %i)                                           waits until full; views of the slot's buffers
    "aref.consumed"(%r, %j [, %if])                                       this reader is done with slot j
    "aref.landed"(%r, %i)                                                 waits until every put before i has landed
    %n = "aref.advance"(%i)                 : -> !aref.index<3>          the count plus one

Semantics per slot ⟨buf, F, E⟩ from arXiv 2510.14719, section 3: put needs E, get needs F, consumed gives E back. An
index is an abstract running count; it is carried through every loop around the accesses and lowered to (slot, parity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.dialects.registry import Effect, OpSpec, declare
from tawa.dialects.view import OpView
from tawa.ir import Block, Value
from tawa.ir.attributes import read_bool, read_string
from tawa.ir.text import split_top_level

declare(
    OpSpec("aref.create", (Effect("allocate", "shared"),)),
    OpSpec("aref.first"),
    OpSpec("aref.advance"),
    OpSpec("aref.put", (Effect("order"),), recursive=True),
    OpSpec("aref.filled", terminator=True),
    OpSpec("aref.get", (Effect("order"),)),
    OpSpec("aref.consumed", (Effect("order"),)),
    OpSpec("aref.landed", (Effect("order"),)),
)


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


Fill = Literal["tma", "cp.async", "registers"]
"""How a slot is filled: by TMA, by cp.async of all threads of the producer, or from their registers."""


def read_fill(text: str) -> Fill:
    """Reads a kind of filling; raises ValueError on any other text."""
    match text:
        case "tma" | "cp.async" | "registers":
            return text
        case _:
            raise ValueError(f"not a kind of filling: {text}")


class CreateOp(OpView):
    """``aref.create``: a ring, all slots empty. Before the fork. Becomes buffers and two mbarriers a slot."""

    NAME = "aref.create"
    __slots__ = ()

    @property
    def name(self) -> str:
        """The ring's name in the Plan."""
        return read_string(self.op.properties["name"])

    @property
    def type(self) -> RingType:
        """Depth and payload."""
        return RingType.parse(self.op.result.type)

    @property
    def fill(self) -> Fill:
        """How a put fills a slot."""
        return read_fill(read_string(self.op.properties.get("fill", '"tma"')))

    @property
    def implied_empty(self) -> bool:
        """Whether a put always finds its slot empty: by way of other rings its writer waits for the release before it.

        Such a ring gets no barriers for empty slots.
        """
        return read_bool(self.op.properties.get("implied_empty", "false"))


class _AccessOp(OpView):
    """What put, get and consumed have in common."""

    __slots__ = ()

    @property
    def ring(self) -> Value:
        """The channel."""
        return self.op.operands[0]

    @property
    def index(self) -> Value:
        """The running count."""
        return self.op.operands[1]


class PutOp(_AccessOp):
    """``aref.put``: operands ring, index; region: the loads, ending in ``aref.filled`` of the tiles in payload order.

    Executed by the one writer, or ahead of it before partitions start. A `fresh` put fills a slot that nobody has
    filled yet and waits for nothing. What it becomes depends on the ring's `fill`:

        tma        wait(empty), expect(bytes of the tuple), one TMA copy a tile
        cp.async   wait(empty), one cp.async a tile, arrive(full) of each thread when its own copies have landed
        registers  wait(empty), one local_store a tile, fence_async_shared, arrive(full)
    """

    NAME = "aref.put"
    __slots__ = ()

    @property
    def fresh(self) -> bool:
        """Whether the slot is known to be empty."""
        return read_bool(self.op.properties.get("fresh", "false"))

    @property
    def body(self) -> Block:
        """The loads."""
        return self.op.regions[0].block


class GetOp(_AccessOp):
    """``aref.get``: operands ring, index; results: one view a payload entry.

    Executed by a reader. Becomes wait(full).
    """

    NAME = "aref.get"
    __slots__ = ()


class ConsumedOp(_AccessOp):
    """``aref.consumed``: operands ring, index, optional i1. The reader is done with the slot. Becomes arrive(empty).

    Reads of the slot that are still in flight (wgmma) must be complete: a wait stands before it.
    """

    NAME = "aref.consumed"
    __slots__ = ()

    @property
    def condition(self) -> Value | None:
        """Whether it happens; None means always."""
        return self.op.operands[2] if len(self.op.operands) > 2 else None


class LandedOp(_AccessOp):
    """``aref.landed``: operands ring, index of the next put. Waits until all copies of earlier puts have landed.

    Executed by the writer, which may then write again what those copies read beside global memory: their descriptors.
    The slots stay as they are. Becomes wait(full) of each slot, for the phase of its last put.
    """

    NAME = "aref.landed"
    __slots__ = ()
