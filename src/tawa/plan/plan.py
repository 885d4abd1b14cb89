"""The Plan: one frozen value that holds every decision of the compiler for one kernel.

The kernel keeps its sequential meaning whatever the Plan says; the Plan is the mapping to the machine. A user can print
it, edit it (`dataclasses.replace`, or its JSON) and pin all or part of it with ``plan=``: what is None, or has no
entry, is left to the planner.

Loads, stores and loops are named by what an edit elsewhere in the file does not change:

    argument   the parameter of the kernel that the memory belongs to
    loop       the number of the innermost loop around it, in program order, from 0; None: outside of all loops
    ordinal    its number among the loads (stores) of this argument right in this loop, in program order, from 0

`line` is for readers. An entry without argument (an `OperandPlan`, a `StorePlan`) or without loop (a `LoopPlan`) speaks
for all that have no entry of their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, get_args

from tawa.dialects.aref import Fill
from tawa.errors import PlanError
from tawa.plan.schedule import Schedule

Form = Literal["as_written", "persistent", "stock"]
TileOrder = Literal["launch"]
SplitAxis = Literal["rows", "columns"]
SlotViews = Literal["shared", "own"]
Path = Literal[
    "host_descriptor", "kernel_descriptor", "raised", "raised_in_kernel", "cp.async", "registers", "consumer",
    "pointers",
]  # fmt: skip
PartitionRole = Literal["producer", "consumer"]
Launched = Literal["stock", "specialised"]

JSON_VERSION = 5
"""1 had neither schedules nor what goes with them, 2 rings for TMA only, 3 no operands kept, 4 no operands, stores,
loops, form or launches."""

UNCAPPED = 0
"""In place of a number of registers: left to Triton."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition (warp group). `registers` of a thread; 0 leaves them to Triton's even split."""

    name: str
    role: PartitionRole
    num_warps: int
    registers: int | None = None

    def __post_init__(self) -> None:
        _check_numbers(self, "num_warps", "registers")
        _check_words(self, role=PartitionRole)


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """One load.

    path: how its tile reaches those who need it.
        host_descriptor, kernel_descriptor  by TMA, as the kernel is written
        raised, raised_in_kernel            by TMA in place of pointers; the descriptor is made by the launcher, or by
                                            the kernel
        cp.async, registers                 through pointers, by copies of the producer's threads, or their registers
        pointers                            one of these two, whichever it can be
        consumer                            the warps that compute load it themselves
    ring: the ring that carries it; operands of one ring that are loaded side by side for the same dots share a slot,
    others have their turns. None where no ring does.
    hoisted: it is loaded beside the load before it that feeds the same dots, so that both fill one slot.
    prefetched: a consumer loads it one iteration before it is used.
    """

    argument: str | None = None
    loop: int | None = None
    ordinal: int = 0
    path: Path | None = None
    ring: str | None = None
    hoisted: bool | None = None
    prefetched: bool | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_numbers(self, "loop", "ordinal")
        _check_flags(self, "hoisted", "prefetched")
        _check_words(self, path=Path)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """What tells it from other loads."""
        return self.argument, self.loop, self.ordinal


@dataclass(frozen=True, slots=True)
class StorePlan:
    """One store of a tile.

    path: host_descriptor, kernel_descriptor (by TMA, as the kernel is written), raised (by TMA in place of pointers),
    or pointers. staged: it leaves from a buffer of its own, which is waited for no sooner than that is used again.
    """

    argument: str | None = None
    loop: int | None = None
    ordinal: int = 0
    path: Path | None = None
    staged: bool | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_numbers(self, "loop", "ordinal")
        _check_flags(self, "staged")
        _check_words(self, path=Path)

    @property
    def key(self) -> tuple[str | None, int | None, int]:
        """What tells it from other stores."""
        return self.argument, self.loop, self.ordinal


@dataclass(frozen=True, slots=True)
class RingPlan:
    """One ring: `payload` are the types of a slot's buffers, `depth` is D, `slot_bytes` of one slot.

    copies: rings like it, one for each consumer group, where its tiles are rows of the group; else 1.
    fill: how the producer fills a slot: "tma", "cp.async", or from its "registers".
    What follows from its operands (all but the depth) may be left out of a Plan that pins it.
    """

    name: str
    payload: tuple[str, ...] = ()
    depth: int | None = None
    slot_bytes: int | None = None
    copies: int | None = None
    fill: Fill | None = None

    def __post_init__(self) -> None:
        _check_numbers(self, "depth", "slot_bytes", "copies")
        _check_words(self, fill=Fill)

    @property
    def key(self) -> str:
        """What tells it from other rings."""
        return self.name

    @property
    def slots(self) -> int:
        """D of a ring of a complete Plan."""
        assert self.depth is not None
        return self.depth

    @property
    def total_bytes(self) -> int:
        """Shared memory of all slots, barriers not counted."""
        return self.slots * (self.slot_bytes or 0) * (self.copies or 1)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One loop with dots of its own.

    mma_depth: P, iterations whose wgmmas stay in flight. stages: the most that its schedule may have; 1 changes only
    the order, 0 leaves the loop as it is. schedule: of a loop whose dots are staged. kept: dots, by their number in the
    loop, whose left operand the loop does not change and which waits in registers.
    """

    loop: int | None = None
    mma_depth: int | None = None
    stages: int | None = None
    schedule: Schedule | None = None
    kept: tuple[int, ...] | None = None
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_numbers(self, "loop", "mma_depth", "stages")

    @property
    def key(self) -> int | None:
        """What tells it from other loops."""
        return self.loop


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Which launches get the kernel.

    conditions: what a launch must fulfil, in words; the others get the stock kernel. They follow from the operands.
    short, crowded: what launches get that an SM is done with soon, or that have more programs than SMs.
    many: what launches of more programs than SMs get: the kernel as it is, or its persistent form.
    """

    conditions: tuple[str, ...] | None = None
    short: Launched | None = None
    crowded: Launched | None = None
    many: Literal["as_written", "persistent"] | None = None

    def __post_init__(self) -> None:
        _check_words(self, short=Launched, crowded=Launched, many=Literal["as_written", "persistent"])


@dataclass(frozen=True, slots=True)
class Plan:
    """Every decision for one kernel; or some of them, where the planner takes the others.

    form: the kernel as it is written; persistent, as many programs as SMs, which work on one tile after another; or
        stock, Triton's own.
    tile_order: of a persistent form: "launch", as the hardware would start the programs.
    groups, split: consumer groups, and what of the tile is shared out among them.
    partitions: warps and registers. max_registers: cap on registers a thread at kernel entry, so that several CTAs fit
        on one SM; 0 leaves it to Triton. ctas_per_sm: how many do, as far as this is known.
    operands, stores, loops, rings: one entry each.
    unit_strides: arguments that are taken to be 1, and asked for at launches.
    early_puts: E, slots of each ring that are filled before the partitions start.
    ping_pong: consumer groups issue their dots by turns. turns: from which dot to which each goes, by their numbers in
        the program of a group.
    slot_views: whether wgmmas of sibling branches or loops share the view of a slot, or have their own.
    launches: which launches get the kernel.
    numbering: how its loops are numbered: in program order, or, in Plans of the versions 2 to 4, among those whose dots
        are staged, group by group.

    Its JSON has the same names, and `version`, which counts their changes.
    """

    form: Form | None = None
    tile_order: TileOrder | None = None
    groups: int | None = None
    split: SplitAxis | None = None
    partitions: tuple[PartitionPlan, ...] = ()
    max_registers: int | None = None
    ctas_per_sm: int | None = None
    operands: tuple[OperandPlan, ...] = ()
    stores: tuple[StorePlan, ...] = ()
    loops: tuple[LoopPlan, ...] = ()
    rings: tuple[RingPlan, ...] = ()
    unit_strides: tuple[str, ...] | None = None
    early_puts: int | None = None
    ping_pong: bool | None = None
    turns: tuple[tuple[int, int], ...] | None = None
    slot_views: SlotViews | None = None
    launches: LaunchPlan | None = None
    numbering: Literal["program", "staged"] = "program"

    def __post_init__(self) -> None:
        _check_numbers(self, "groups", "max_registers", "ctas_per_sm", "early_puts")
        _check_flags(self, "ping_pong")
        _check_words(self, form=Form, tile_order=TileOrder, split=SplitAxis, slot_views=SlotViews)
        for name in ("operands", "stores", "loops", "rings"):
            keys = [entry.key for entry in getattr(self, name)]
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None or keys.count(None) > 1:
                raise PlanError(f"the Plan has two {name} of one name, {twice!r}; cure: one entry each")

    # -- what it says of one thing -------------------------------------------------------------------------------------

    def operand(self, key: tuple[str | None, int | None, int]) -> OperandPlan:
        """What the Plan says of a load."""
        return _entry(self.operands, key, (None, None, 0), OperandPlan(*key))

    def store(self, key: tuple[str | None, int | None, int]) -> StorePlan:
        """What the Plan says of a store."""
        return _entry(self.stores, key, (None, None, 0), StorePlan(*key))

    def loop(self, number: int | None) -> LoopPlan:
        """What the Plan says of a loop."""
        return _entry(self.loops, number, None, LoopPlan(number))

    def ring(self, name: str) -> RingPlan:
        """What the Plan says of a ring."""
        return next((ring for ring in self.rings if ring.name == name), RingPlan(name))

    def over(self, other: Plan) -> Plan:
        """This Plan; what it leaves open is as `other` says."""
        changes: dict[str, Any] = {}
        for name in _FIELDS:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "launches" and mine is not None and theirs is not None:
                changes[name] = _filled(mine, theirs)
            elif name in ("partitions", "numbering"):
                changes[name] = mine or theirs
            elif name in _LISTS:
                changes[name] = _merged(mine, theirs) if mine and theirs else mine or theirs
            else:
                changes[name] = theirs if mine is None else mine
        return Plan(**changes)

    # -- in a few numbers ----------------------------------------------------------------------------------------------

    @property
    def consumer_groups(self) -> int:
        """How many partitions consume."""
        return sum(part.role == "consumer" for part in self.partitions)

    @property
    def mma_depth(self) -> int:
        """The largest P of any loop."""
        return max((loop.mma_depth or 0 for loop in self.loops), default=0)

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Of the loops whose dots are staged."""
        return tuple(loop.schedule for loop in self.loops if loop.schedule is not None)

    # -- text ----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, without what is left open."""
        from tawa.plan.reading import plan_to_dict

        return plan_to_dict(self)

    def to_json(self) -> str:
        """The Plan as JSON text that `from_json` reads back."""
        return json.dumps(self.to_dict(), indent=2)

    @staticmethod
    def from_json(text: str) -> Plan:
        """Reads a Plan, whole or in part, of any version; raises PlanError on anything else."""
        from tawa.plan.reading import plan_from_json

        return plan_from_json(text)

    @staticmethod
    def of(value: object) -> Plan:
        """A Plan from a Plan, a mapping, JSON text, or the path of a file with such; raises PlanError."""
        from tawa.plan.reading import plan_of

        return plan_of(value)


_FIELDS = tuple(it.name for it in fields(Plan))
_LISTS = frozenset({"operands", "stores", "loops", "rings"})
_E = TypeVar("_E", OperandPlan, StorePlan, LoopPlan, RingPlan)
_F = TypeVar("_F", OperandPlan, StorePlan, LoopPlan, RingPlan, LaunchPlan)


def _entry(entries: Sequence[_E], key: object, for_all: object, empty: _E) -> _E:
    """The entry of a key; what it leaves open, or all, is as the entry for all others says."""
    own = next((it for it in entries if it.key == key), empty)
    rest = next((it for it in entries if it.key == for_all), None)
    return own if rest is None or key == for_all else _filled(own, rest)


def _filled(entry: _F, rest: _F) -> _F:
    """An entry with what it leaves open taken from another; its own name stays."""
    names = [it.name for it in fields(entry) if it.name not in ("argument", "loop", "ordinal", "name")]
    changes = {name: getattr(rest, name) for name in names if _open(entry, name) and not _open(rest, name)}
    return replace(entry, **changes) if changes else entry


def _open(entry: object, name: str) -> bool:
    """Whether an entry says nothing of a field."""
    value = getattr(entry, name)
    return value is None or (name in ("payload", "line") and not value)


def _merged(mine: Sequence[_E], theirs: Sequence[_E]) -> tuple[_E, ...]:
    """All entries of both; of one name, what the first leaves open is as the second says."""
    known = {entry.key: entry for entry in mine}
    found = {entry.key: entry for entry in theirs}
    merged = [_filled(known[key], entry) if key in known else entry for key, entry in found.items()]
    return (*merged, *(entry for entry in mine if entry.key not in found))


def _check_numbers(value: Any, *names: str) -> None:
    """Raises PlanError when a field that counts something is no whole number from 0 on, or None."""
    for name in names:
        number: object = getattr(value, name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise PlanError(f"{name}={number!r} in a Plan: a whole number is needed, not {type(number).__name__}")
        if number is not None and number < 0:
            raise PlanError(f"{name}={number} in a Plan; cure: 0 or more")


def _check_flags(value: Any, *names: str) -> None:
    """Raises PlanError when a field is not True, False or None."""
    for name in names:
        flag: object = getattr(value, name)
        if flag is not None and not isinstance(flag, bool):
            raise PlanError(f"{name}={flag!r} in a Plan: True or False is needed, not {type(flag).__name__}")


def _check_words(value: Any, **words: Any) -> None:
    """Raises PlanError when a field is not one of the words that it may be."""
    for name, known in words.items():
        word: object = getattr(value, name)
        if word is not None and word not in get_args(known):
            raise PlanError(f"{name}={word!r} in a Plan: one of {', '.join(get_args(known))} is needed")


__all__ = [
    "JSON_VERSION", "UNCAPPED", "LaunchPlan", "LoopPlan", "OperandPlan", "PartitionPlan", "Plan", "RingPlan",
    "StorePlan",
]  # fmt: skip
