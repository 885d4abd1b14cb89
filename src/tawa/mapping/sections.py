"""The sections of a mapping. A word that is None is left to the planner.

The metadata of each word has the field of the Plan that it stands for; `docs/mapping.md` has the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.mapping.words import Flag, ListOf, OneOf, Ring, Split, Text, Types, Whole, read_words, word


@dataclass(frozen=True, slots=True)
class KernelWords:
    """[kernel]: the kernel as a whole.

    name, signature: which kernel the mapping is for, where it is found by them. specialised: false asks for stock
    Triton's kernel.
    """

    name: str | None = word(Text())
    signature: str | None = word(Text())
    specialised: bool | None = word(Flag(), "form")
    persistent: bool | None = word(Flag(), "form")
    order: str | None = word(OneOf(("launch", "longest first", "grouped", "hilbert", "l2 halves")), "tile_order")
    order_group: int | None = word(Whole(1), "tile_group")
    tiles: str | None = word(OneOf(("strided", "dynamic")), "tiles")
    programs_per_tile: int | None = word(Whole(1), "split_k")
    max_registers: int | None = word(Whole(), "max_registers")
    ctas_per_sm: int | None = word(Whole(1), "ctas_per_sm")
    sums: str | None = word(OneOf(("in order", "after loops")), "sums")
    unit_strides: tuple[str, ...] | None = word(ListOf(Text()), "unit_strides")
    early_slots: int | None = word(Whole(), "early_puts")
    slot_views: str | None = word(OneOf(("shared", "own")), "slot_views")
    launches: str | None = word(OneOf(("predicted", "specialised", "always")), "launches.choice")

    def __post_init__(self) -> None:
        read_words(self, "[kernel]")


@dataclass(frozen=True, slots=True)
class GroupWords:
    """[groups]: the consumer groups.

    take_turns: they issue their dots in turns. turns: the first and last dot of each turn.
    """

    count: int | None = word(Whole(1), "groups")
    split: str | None = word(Split(), "split")
    take_turns: bool | None = word(Flag(), "ping_pong")
    turns: tuple[tuple[int, int], ...] | None = word(ListOf(ListOf(Whole())), "turns")

    def __post_init__(self) -> None:
        read_words(self, "[groups]")


@dataclass(frozen=True, slots=True)
class OperandWords:
    """[operands.NAME]: a load.

    ring: the number of slots of its ring, or the ring's name. memory: where an operand that no iteration changes is
    kept: "registers" or "shared".
    """

    path: str | None = word(
        OneOf(("tma", "tma in kernel", "cp.async", "registers", "consumer", "pointers")), "operands.path"
    )
    ring: int | str | None = word(Ring(), "operands.depth, operands.ring")
    memory: str | None = word(OneOf(("registers", "shared")), "loops.kept")
    hoisted: bool | None = word(Flag(), "operands.hoisted")
    prefetched: bool | None = word(Flag(), "operands.prefetched")
    rows: str | None = word(OneOf(("in order", "for next dot")), "operands.rows")
    turned: str | None = word(OneOf(("registers", "converter")), "operands.turned")
    reordered: bool | None = word(Flag(), "operands.reordered")

    def __post_init__(self) -> None:
        read_words(self, "[operands]")


@dataclass(frozen=True, slots=True)
class StoreWords:
    """[stores.NAME]: a store of a tile."""

    path: str | None = word(OneOf(("tma", "pointers")), "stores.path")
    staged: bool | None = word(Flag(), "stores.staged")
    slices: int | None = word(Whole(1), "stores.slices")
    buffers: int | None = word(Whole(1), "stores.buffers")

    def __post_init__(self) -> None:
        read_words(self, "[stores]")


@dataclass(frozen=True, slots=True)
class LoopWords:
    """[loops.NAME]: a loop with dots.

    in_flight: P, iterations whose dots stay in flight. stages: of its schedule, exactly; 0 leaves the loop as it is.
    carry: tiles that are carried from one iteration to the next, with their types. steps: the whole schedule: "STAGE:
    OPERATION", in the order of an iteration. kept: dots, by number, whose left operand stays in registers. joined: its
    first iteration overlaps with the last one of the loop before it.
    """

    in_flight: int | None = word(Whole(), "loops.mma_depth")
    stages: int | None = word(Whole(), "loops.stages")
    carry: tuple[tuple[str, str], ...] | None = word(Types(), "loops.schedule")
    steps: tuple[str, ...] | None = word(ListOf(Text()), "loops.schedule")
    kept: tuple[int, ...] | None = word(ListOf(Whole()), "loops.kept")
    joined: bool | None = word(Flag(), "loops.joined")

    def __post_init__(self) -> None:
        read_words(self, "[loops]")


@dataclass(frozen=True, slots=True)
class RingWords:
    """[rings.NAME]: a ring, by the name that the Plan has for it."""

    slots: int | None = word(Whole(1), "rings.depth")

    def __post_init__(self) -> None:
        read_words(self, "[rings]")


@dataclass(frozen=True, slots=True)
class PartitionWords:
    """[partitions.NAME]: producer, converter, consumer (all groups), consumer0, consumer1.

    registers: per thread; 0 leaves them to Triton. role: of a partition with another name.
    """

    warps: int | None = word(Whole(1), "partitions.num_warps")
    registers: int | None = word(Whole(), "partitions.registers")
    role: str | None = word(OneOf(("producer", "converter", "consumer")), "partitions.role")

    def __post_init__(self) -> None:
        read_words(self, "[partitions]")


Section = KernelWords | GroupWords | OperandWords | StoreWords | LoopWords | RingWords | PartitionWords

__all__ = [
    "GroupWords", "KernelWords", "LoopWords", "OperandWords", "PartitionWords", "RingWords", "Section", "StoreWords",
]  # fmt: skip
