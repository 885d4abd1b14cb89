"""The sections of a mapping: a class each, whose fields are its words. A word that is None is left to the planner.

A decision of the Plan declares its word (`tawa.plan.decision`); here are the words that stand for several decisions, or
for a part of one. `docs/mapping.md` has a table of all.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tawa.mapping.words import Types, read_words, word
from tawa.plan.decision import Declared, Flag, Kind, ListOf, OneOf, Text, declared
from tawa.plan.fields import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.plan.plan import Plan


@dataclass(frozen=True)
class Words:
    """The words of one section, by name."""

    SECTION: ClassVar[str]

    if TYPE_CHECKING:  # the fields are made from declarations

        def __init__(self, *values: Any, **words: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        read_words(self, f"[{self.SECTION}]")


_OWNERS: dict[type[Any], str] = {
    Plan: "", LaunchPlan: "launches.", OperandPlan: "operands.", StorePlan: "stores.", LoopPlan: "loops.",
    RingPlan: "rings.", PartitionPlan: "partitions.",
}  # fmt: skip
"""The classes that declare words, and where the Plan has their fields."""


def words_of(section: str, owner: type[Any]) -> dict[str, Declared]:
    """The declarations of a class that have a word in a section, by word."""
    parts = ((it.word.partition("."), it) for it in declared(owner))
    return {name: it for (own, _, name), it in parts if name and own == section}


DECISIONS = {it.name: it.word.partition(".")[2] for owner in _OWNERS for it in declared(owner) if it.word}
"""The words of decisions, by their field."""


def decided(words: Words, owner: type[Any]) -> dict[str, Any]:
    """The decisions of a class that words have, by field, as the Plan has them."""
    found = ((it, getattr(words, name)) for name, it in words_of(words.SECTION, owner).items())
    return {it.name: it.meant(value) for it, value in found if value is not None}


def said(kind: type[Words], owner: object) -> dict[str, Any]:
    """The words of a section that say what a Plan, or an entry of it, decides."""
    found = words_of(kind.SECTION, type(owner))
    return {name: it.said(getattr(owner, it.name)) for name, it in found.items()}


def reorders(words: Words) -> bool:
    """Whether a word changes the order of a sum."""
    found = ((it, getattr(words, name)) for owner in _OWNERS for name, it in words_of(words.SECTION, owner).items())
    return any(value is not None and it.reorders(it.meant(value)) for it, value in found)


def _made(class_name: str, section: str, about: str, **more: tuple[Kind, str]) -> type[Words]:
    """A section. more: words that are no decision of their own, with their kinds and the field of the Plan."""
    found: list[tuple[str, Any, Field[Any]]] = []
    for owner, place in _OWNERS.items():
        own = words_of(section, owner)
        found += [(name, Any, word(it.of_word, f"{place}{it.name}")) for name, it in own.items()]
    rest = [(name, Any, word(kind, to)) for name, (kind, to) in more.items()]
    found = [*rest, *found] if section == "kernel" else [*found, *rest]
    space = {"SECTION": section, "__doc__": about, "__module__": __name__}
    return make_dataclass(class_name, found, bases=(Words,), namespace=space, frozen=True)


KernelWords = _made(
    "KernelWords", "kernel",
    """[kernel]: the kernel as a whole.

    name, signature: of the kernel that a shipped mapping is for. specialised: false asks for stock Triton's kernel.
    partitioned: false keeps all work with all warps, as in stock Triton's kernel; its loops then convert fewer tiles,
    and load rows ahead. persistent: true runs as many programs as SMs, each of which takes
    tile after tile. launches: which launches get the kernel.
    """,
    name=(Text(), ""), signature=(Text(), ""), specialised=(Flag(), "form"), partitioned=(Flag(), "form"),
    persistent=(Flag(), "form"),
)  # fmt: skip
GroupWords = _made(
    "GroupWords", "groups",
    """[groups]: the consumer groups.

    count: consumer groups. split: what they divide; "rows of q" also checks that q is the left operand of a dot,
    "columns of k" that k is the right one. ping_pong: they issue their dots alternately. ping_pong_sections: the first
    and last dot of each section.
    """,
)  # fmt: skip
OperandWords = _made(
    "OperandWords", "operands",
    """[operands.NAME]: a load.

    path: "tma": as the kernel is written, or in place of pointers; "tma in kernel": the kernel makes the descriptor;
    "cp.async", "registers", "pointers": through pointers; "consumer": the consumer loads it, as every operand that
    feeds no dot. ring: the number of slots of its ring, or the ring's name. memory: where an operand that no iteration
    changes is kept: "registers" or "shared".
    """,
    memory=(OneOf(("registers", "shared")), "loops.kept"),
)  # fmt: skip
StoreWords = _made(
    "StoreWords",
    "stores",
    """[stores.NAME]: a store of a tile.

    path: "tma": as the kernel is written, or in place of pointers.
    """,
)
LoopWords = _made(
    "LoopWords", "loops",
    """[loops.NAME]: a loop with dots.

    in_flight: P, iterations whose dots stay in flight. stages: of its schedule, exactly; 0 leaves the loop as it is.
    carry: tiles that are carried from one iteration to the next, with their types. steps: the whole schedule: "STAGE:
    OPERATION", in the order of an iteration. kept: dots, by number, whose left operand stays in registers. joined: its
    first iteration overlaps with the last one of the loop before it. chain: iterations of which each issues its dots
    before the results of the one before it are used.
    """,
    carry=(Types(), "loops.wanted"), steps=(ListOf(Text()), "loops.wanted"),
)  # fmt: skip
RingWords = _made(
    "RingWords",
    "rings",
    """[rings.NAME]: a ring, by the name that the Plan has for it.

    slots: D.
    """,
)
PartitionWords = _made(
    "PartitionWords", "partitions",
    """[partitions.NAME]: producer, converter, consumer (all groups), consumer0, consumer1.

    warps: how many. registers: per thread; 0 leaves them to Triton. role: of a partition with another name.
    """,
)  # fmt: skip
