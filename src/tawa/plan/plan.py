"""The Plan: one frozen value that holds every decision of the compiler for one kernel.

The Plan maps the kernel to the machine and never changes its sequential meaning. A user can print it, edit it
(`dataclasses.replace`, or its JSON) and pin all or part of it with ``plan=``. The planner decides every field that is
None and everything without an entry.

Loads, stores and loops have names that do not change when other parts of the file are edited:

    argument   the parameter of the kernel that the memory belongs to
    loop       the number of the innermost loop around it, in program order, from 0; None outside all loops
    ordinal    its number among the loads (stores) of this argument directly in this loop, in program order, from 0

`line` is only informative. An `OperandPlan` or `StorePlan` without argument, a `LoopPlan` without loop, or a `RingPlan`
without name is the default for all loads, stores, loops or rings that have no entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar, cast, get_args

from tawa.errors import PlanError
from tawa.html import notebook_markup, table
from tawa.outside import shown, text_of
from tawa.plan import json_format
from tawa.plan.decision import (
    Flag,
    ListOf,
    Split,
    Text,
    Whole,
    check_values,
    decision,
    declared,
    one_of,
    reordering,
)
from tawa.plan.fields import (
    UNCAPPED,
    LaunchPlan,
    LoopPlan,
    OperandPlan,
    PartitionPlan,
    RingPlan,
    StorePlan,
)
from tawa.plan.json_format import JSON_VERSION
from tawa.plan.schedule import Schedule

Form = Literal["as_written", "persistent", "unpartitioned", "stock"]
TileOrder = Literal["launch", "longest_first", "grouped", "hilbert", "l2_halves"]
Tiles = Literal["strided", "dynamic"]
SplitAxis = Literal["rows", "columns", "programs"]
SlotViews = Literal["shared", "own"]
Sums = Literal["in_order", "after_loops"]


def _sections_text(sections: Sequence[tuple[int, int]]) -> str:
    dots = ", ".join(f"{first} to {last}" if first != last else str(first) for first, last in sections)
    return f"of dots {dots}" if dots else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions for one kernel: all of them, or some, and the planner makes the others.

    form: the kernel as written; persistent, with `ctas_per_sm` programs for each SM that iterate over tiles;
        unpartitioned, where all warps load and compute, as in stock Triton's kernel, but loops convert no tiles
        that they need not convert, and load rows ahead, and tiles that are needed behind a loop wait in shared memory;
        or stock Triton's.
    tile_order: the order of tiles in a persistent form: "launch" is the order in which the hardware starts programs;
        "longest_first" starts those first that take longest, and those together that load the same data; "grouped",
        "hilbert" and "l2_halves" start blocks of the grid together (`tawa.transforms.ttir.orders.grid_orders`).
    tile_group: G, the tiles along the first axis of the grid of a block, in the orders "grouped" and "l2_halves".
    tiles: how programs get their tiles, in a persistent form or a loop over tiles that the kernel has: "strided": of n
        programs, each takes every n-th; "dynamic": each takes the next one from a counter in memory.
    groups, split: the number of consumer groups, and what they divide: the rows or the columns of the tile; or
        "programs": each is a program of the grid, with its own tile, beside its neighbours in one CTA.
    exchange: whether groups that divide rows exchange the operands of dots that sum over these rows; and whether groups
        that divide columns each compute some of the dots whose results all of them need whole, for all of them.
    correction: whether a partition of its own rewrites accumulators in tensor memory.
    split_k: S, the programs that share the iterations of a tile's loop; the last one adds up their sums. 1: none do.
    partitions: warps and registers. max_registers: cap on registers per thread at kernel entry, so that several CTAs
        fit on one SM; 0 leaves it to Triton. ctas_per_sm: the number of CTAs that fit on one SM, as far as known.
    sums: whether the sum of a row is added up across threads in each iteration, in stock Triton's order, or once,
        after the loops that carry it.
    operands, stores, loops, rings: one entry for each.
    unit_strides: arguments that the kernel assumes to be 1; each launch is checked.
    unrolled: whether loops over the rows of a chunk, of which a mask keeps some, become straight code, in a kernel
        without partitions.
    num_warps: the warps of a kernel without partitions, where no result depends on them; None: those of the launch.
    direct_stores: whether fp32 results that are stored through pointers, or added by relaxed atomics, leave from the
        layout of the dot, where a conversion would take shared memory from the rings.
    early_puts: E, slots of each ring that are filled before the partitions start.
    ping_pong: consumer groups issue their dots alternately. ping_pong_sections: the first and the last dot of each
        section, by their numbers in the program of a group.
    slot_views: whether wgmmas of sibling branches or loops share the view of a slot, or have separate ones.
    launches: which launches get the kernel.

    The JSON has the same names, and `version`, which counts changes of the format.
    """

    form: Form | None = decision(
        one_of(Form),
        "form",
        option="persistent",
        plain="as_written",
        always=True,
        usual=lambda it: (
            "one tile per program"
            if it != "unpartitioned"
            else "loops convert fewer tiles, and wait for rows less often"
        ),
    )
    tile_order: TileOrder | None = decision(
        one_of(TileOrder), "form", word="kernel.order", usual="the order in which the hardware starts programs"
    )
    tile_group: int | None = decision(
        Whole(1), "form", word="kernel.order_group",
        usual="so many tiles along x: programs that run at the same time load the fewest different tiles",
    )  # fmt: skip
    tiles: Tiles | None = decision(
        one_of(Tiles), "form", word="kernel.tiles", plain="strided", usual="of n programs, each takes every n-th tile"
    )
    groups: int | None = decision(
        Whole(), "form", word="groups.count", spoken=Whole(1), option="num_consumer_groups", plain=1, always=True,
        usual=lambda it: "all consumer warps work on one tile" if it == 1
        else "one group computes while the tensor cores work for the other",
    )  # fmt: skip
    split: SplitAxis | None = decision(
        one_of(SplitAxis), "partitions", word="groups.split", spoken=Split(get_args(SplitAxis)),
        usual={"rows": "each group computes some rows of every tile", "columns": "rows cannot be split",
               "programs": "neighbouring programs load the same tiles"}.__getitem__,
    )  # fmt: skip
    exchange: bool | None = decision(
        Flag(), "form", word="groups.exchange",
        shown=lambda it: "tiles that every group needs" if it else "",
        usual="a dot sums over what the groups divide, or each of them needs the whole results of a dot",
    )  # fmt: skip
    split_k: int | None = decision(
        Whole(1), "form", word="kernel.programs_per_tile", plain=1, reorders=lambda it: it > 1,
        usual="each program computes whole tiles",
    )  # fmt: skip
    correction: bool | None = decision(
        Flag(), "partitions", word="groups.correction", shown=lambda it: "a partition of its own" if it else "",
        usual="one group computes the factors while the partition rewrites the accumulator",
    )  # fmt: skip
    partitions: tuple[PartitionPlan, ...] = ()
    max_registers: int | None = decision(
        Whole(), "partitions", word="kernel.max_registers", shown=lambda it: str(it or "none"), always=True
    )
    ctas_per_sm: int | None = decision(Whole(), "partitions", word="kernel.ctas_per_sm", spoken=Whole(1), always=True)
    sums: Sums | None = decision(
        one_of(Sums), "loops", word="kernel.sums", option="precision", reorders=lambda it: it == "after_loops",
        usual=lambda it: "" if it == "after_loops" else "no loop carries a sum of the rows of a dot's result",
    )  # fmt: skip
    unrolled: bool | None = decision(
        Flag(), "loops", word="kernel.unrolled", shown=lambda it: "what a mask drops is not computed" if it else "",
        usual="the row of each register is known, and what its mask drops is not computed",
    )  # fmt: skip
    num_warps: int | None = decision(
        Whole(1), "form", word="kernel.num_warps", usual="no result depends on the number of warps",
    )  # fmt: skip
    operands: tuple[OperandPlan, ...] = ()
    stores: tuple[StorePlan, ...] = ()
    loops: tuple[LoopPlan, ...] = ()
    rings: tuple[RingPlan, ...] = ()
    unit_strides: tuple[str, ...] | None = decision(
        ListOf(Text()), "paths", word="kernel.unit_strides", shown=lambda it: f"{', '.join(it)} = 1" if it else "",
        usual="wider copies than one element; checked at each launch",
    )  # fmt: skip
    direct_stores: bool | None = decision(
        Flag(), "stores", word="kernel.direct_stores", usual="a conversion would take shared memory from the rings",
        shown=lambda it: "fp32 results leave from the layout of the dot" if it else "",
    )  # fmt: skip
    early_puts: int | None = decision(Whole(), "rings", word="kernel.early_slots", always=True)
    ping_pong: bool | None = decision(
        Flag(), "loops", word="groups.ping_pong", option="ping_pong", shown=lambda it: "on" if it else "off",
        always=True,
    )  # fmt: skip
    ping_pong_sections: tuple[tuple[int, int], ...] | None = decision(
        ListOf(ListOf(Whole())), "loops", word="groups.ping_pong_sections", shown=_sections_text,
        usual="a section ends where the tensor cores would be idle",
    )  # fmt: skip
    slot_views: SlotViews | None = decision(
        one_of(SlotViews), "rings", word="kernel.slot_views", always=True,
        usual=lambda it: "several branches or loops read one slot, which ptxas miscompiles" if it == "own"
        else "no two branches or loops read the same slot",
    )  # fmt: skip
    launches: LaunchPlan | None = None

    def __post_init__(self) -> None:
        check_values(self)
        for name in _LISTS:
            keys = [entry.key for entry in getattr(self, name)]
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None or keys.count(None) > 1:
                raise PlanError(f"the Plan has two {name} of one name, {twice!r}; cure: one entry each")

    # -- lookup of one entry -------------------------------------------------------------------------------------------

    def operand(self, key: tuple[str | None, int | None, int]) -> OperandPlan:
        """The entry of a load, completed by the default entry."""
        return _entry(self.operands, key, (None, None, 0), OperandPlan(*key))

    def store(self, key: tuple[str | None, int | None, int]) -> StorePlan:
        """The entry of a store, completed by the default entry."""
        return _entry(self.stores, key, (None, None, 0), StorePlan(*key))

    def loop(self, number: int | None) -> LoopPlan:
        """The entry of a loop, completed by the default entry."""
        return _entry(self.loops, number, None, LoopPlan(number))

    def ring(self, name: str) -> RingPlan:
        """The entry of a ring."""
        return next((ring for ring in self.rings if ring.name == name), RingPlan(name))

    def over(self, other: Plan) -> Plan:
        """This Plan, with the fields that it leaves open taken from `other`."""
        changes: dict[str, Any] = {}
        for name in _FIELDS:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "launches" and mine is not None and theirs is not None:
                changes[name] = _filled(mine, theirs)
            elif name == "partitions":
                changes[name] = mine or theirs
            elif name in _LISTS:
                changes[name] = _merged(mine, theirs) if mine and theirs else mine or theirs
            else:
                changes[name] = theirs if mine is None else mine
        return Plan(**changes)

    # -- summaries ----------------------------------------------------------------------------------------------------

    @property
    def another_form(self) -> bool:
        """Whether it asks for a form other than the kernel as written: persistent, groups, shares of tiles."""
        taken = ((getattr(self, it.name), it.plain) for it in declared(Plan) if it.by == "form")
        return self.form != "stock" and any(value not in (None, plain) for value, plain in taken)

    @property
    def partitioned(self) -> bool:
        """Whether the Plan asks for partitions."""
        return self.form not in ("unpartitioned", "stock")

    @property
    def programs(self) -> int:
        """The programs of the grid that share a CTA."""
        return self.groups or 1 if self.split == "programs" else 1

    @property
    def own_groups(self) -> int:
        """The consumer groups of a program."""
        return (self.groups or 1) // self.programs

    @property
    def owned(self) -> bool:
        """Whether consumer groups own different dots (`tawa.analysis.dims.owners`), so that their loops differ."""
        return bool(self.exchange) and self.split == "columns" and (self.groups or 1) > 1

    @property
    def consumer_groups(self) -> int:
        """The number of consumer partitions."""
        return sum(part.role == "consumer" and bool(part.name) for part in self.partitions)

    @property
    def mma_depth(self) -> int:
        """The largest P of any loop."""
        return max((loop.mma_depth or 0 for loop in self.loops), default=0)

    @property
    def keeps_order(self) -> bool:
        """Whether every sum keeps its order, so that results have the bits of the unspecialised kernel."""
        return not self.reordering

    @property
    def reordering(self) -> list[str]:
        """The decisions that change the order of a sum."""
        return [
            said for it in (self, *self.operands, *self.stores, *self.loops, *self.rings) for said in reordering(it)
        ]

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of all loops that have one."""
        return tuple(it for loop in self.loops for it in loop.schedules)

    # -- text ----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, without fields that are left open."""
        return json_format.without_open_fields(asdict(self))

    def to_json(self) -> str:
        """The Plan as JSON text that `from_json` reads back."""
        return json.dumps(self.to_dict(), indent=2)

    def _repr_html_(self) -> str:
        """The decisions that it has, for a notebook."""
        return notebook_markup(table(("field", "value"), _html_rows(self.to_dict())))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Reads a complete or partial Plan; raises PlanError on anything else."""
        return json_format.from_text(Plan, text)

    @staticmethod
    def from_data(data: object) -> Plan:
        """Reads the data of such JSON; raises PlanError on anything else."""
        return json_format.from_data(Plan, data)

    @staticmethod
    def of(value: object) -> Plan:
        """A Plan from a Plan, a mapping, JSON text, or the path of a JSON file; raises PlanError."""
        if isinstance(value, Plan):
            return value
        if isinstance(value, Mapping):
            return Plan.from_data(cast(object, value))
        if isinstance(value, str) and value.lstrip().startswith("{"):
            return Plan.from_json(value)
        if isinstance(value, str | os.PathLike):
            path = FilePath(os.fspath(value))
            try:
                with json_format.refused_as_plan():
                    return Plan.from_json(text_of(path))
            except OSError as error:
                raise PlanError(
                    f"plan={os.fspath(path)!r}: no such file can be read ({error.strerror}); "
                    "cure: a path, JSON text, a dict or a Plan"
                ) from error
        kind = type(value).__name__
        raise PlanError(f"plan={shown(value)}: a Plan, a dict, JSON text or a path is needed, not {kind}")


def _html_rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A row for each field, and for each entry of a list."""
    for name, value in data.items():
        entries = cast(list[object], value) if name in (*_LISTS, "partitions") else [value]
        yield from ((name, _entry_text(entry)) for entry in entries)


def _entry_text(entry: object) -> str:
    if isinstance(entry, Mapping):
        return ", ".join(f"{key} {it}" for key, it in cast(Mapping[str, object], entry).items())
    return str(entry)


_FIELDS = tuple(it.name for it in fields(Plan))
_LISTS = ("operands", "stores", "loops", "rings")
_E = TypeVar("_E", OperandPlan, StorePlan, LoopPlan, RingPlan)
_F = TypeVar("_F", OperandPlan, StorePlan, LoopPlan, RingPlan, LaunchPlan)


def _entry(entries: Sequence[_E], key: object, for_all: object, empty: _E) -> _E:
    """The entry of a key, completed by the default entry (the one with key `for_all`)."""
    own = next((it for it in entries if it.key == key), empty)
    rest = next((it for it in entries if it.key == for_all), None)
    return own if rest is None or key == for_all else _filled(own, rest)


def _filled(entry: _F, rest: _F) -> _F:
    """An entry with the fields that it leaves open taken from `rest`; its key does not change."""
    names = [it.name for it in fields(entry) if it.name not in ("argument", "loop", "ordinal", "name")]
    changes = {name: getattr(rest, name) for name in names if _open(entry, name) and not _open(rest, name)}
    return replace(entry, **changes) if changes else entry


def _open(entry: object, name: str) -> bool:
    """Whether an entry leaves a field open."""
    value = getattr(entry, name)
    return value is None or (name in ("payload", "line") and not value)


def _merged(mine: Sequence[_E], theirs: Sequence[_E]) -> tuple[_E, ...]:
    """The entries of both lists; two entries with one key are merged, and `mine` has priority."""
    known = {entry.key: entry for entry in mine}
    found = {entry.key: entry for entry in theirs}
    merged = [_filled(known[key], entry) if key in known else entry for key, entry in found.items()]
    return (*merged, *(entry for entry in mine if entry.key not in found))


__all__ = [
    "JSON_VERSION", "UNCAPPED", "LaunchPlan", "LoopPlan", "OperandPlan", "PartitionPlan", "Plan", "RingPlan",
    "StorePlan",
]  # fmt: skip
