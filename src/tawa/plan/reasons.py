"""Describes each decision of a Plan in words, with who made it and why, for `tawa.explain`.

    field                    value                                 by         reason
    rings.ring0              D = 3 of (128x64xf16), 48 KiB         user       aref_depth=3
    loops.0                  P = 1                                 planner    one iteration of wgmmas in flight hides …
    loops.0.kept             none                                  feedback   the first Plan spills 512 bytes of …

The decisions are stored in the record of a compile, not in the Plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import PurePath
from typing import Any, Literal

from tawa.analysis.names import Name
from tawa.plan.decision import Declared, declared
from tawa.plan.fields import LaunchPlan, LoopPlan, OperandPlan, Path, RingPlan, StorePlan, Transposer
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.planner import IN_FLIGHT

By = Literal["user", "mapping", "planner", "feedback"]

PINNED = "plan="
_PATHS: dict[Path, tuple[str, str]] = {
    "host_descriptor": ("TMA", "the kernel uses a descriptor"),
    "kernel_descriptor": ("TMA", "the kernel creates the descriptor"),
    "promoted": ("TMA in place of pointers", "the tile is a box; the launcher creates the descriptor"),
    "promoted_in_kernel": ("TMA in place of pointers", "the tile is a box; the kernel creates the descriptor"),
    "cp.async": ("cp.async", "the tile is not a box that TMA can load"),
    "registers": ("registers of the producer", "neither TMA nor cp.async can load the tile"),
    "consumer": ("loaded by the consumer", "the producer cannot load it in advance"),
    "pointers": ("pointers", "the tile is not a box that TMA can store"),
}
_MUCH_TO_DO = "an iteration computes so much that the next row arrives meanwhile"
_COMMITTED = "dots signal an mbarrier when they complete, so no partition waits for a count of them"
_NOT_IN_FLIGHT = "no wgmma of this loop can stay in flight across iterations"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a Plan: its field, its value, who made it, and why.

    by: "user", with a Plan or an option; "mapping"; "planner"; or "feedback", the result of compiling another Plan.
    """

    field: str
    value: str
    by: By
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Plain JSON data."""
        return asdict(self)


def decisions(
    plan: Plan,
    pins: Plan,
    options: PlanOptions,
    why: Mapping[str, str] | None = None,
    feedback: Mapping[str, str] | None = None,
    mapping: Mapping[str, str] | None = None,
) -> tuple[Decision, ...]:
    """Every decision of a complete Plan.

    pins, options: what the user asked for. why, feedback: the reasons of the planner and of feedback, by field.
    mapping: where the pins come from one, its words that decide, by field.
    """
    return tuple(_Decisions(plan, pins, options, why or {}, feedback or {}, mapping).all())


@dataclass(frozen=True, slots=True)
class _Decisions:
    plan: Plan
    pins: Plan
    options: PlanOptions
    why: Mapping[str, str]
    feedback: Mapping[str, str]
    mapping: Mapping[str, str] | None

    def all(self) -> Iterator[Decision]:
        """All decisions, in the order of the Plan's fields."""
        plain = {it.name: it for it in declared(Plan)}
        entries = {
            "partitions": self._partitions, "operands": self._operands, "stores": self._stores, "loops": self._loops,
            "rings": self._rings, "launches": self._launches,
        }  # fmt: skip
        for it in fields(Plan):
            yield from self._plain(plain[it.name]) if it.name in plain else entries[it.name]()

    def _made(
        self, name: str, value: str, pinned: bool, option: str = "", usual: str = "", keys: tuple[str, ...] = ()
    ) -> Decision:
        """A decision with the author and the reason that are known for it.

        option: the launch option that can request this value. usual: the reason if the planner recorded none. keys:
        other fields under which the reason may be recorded.
        """
        if self.mapping is not None and name in self.mapping:
            return Decision(name, value, "mapping", self.mapping[name])
        if pinned and self.mapping is None:
            return Decision(name, value, "user", PINNED)
        if self._asked(option):
            return Decision(name, value, "user", f"{option}={getattr(self.options, option)!r}")
        for key in (name, *keys):
            if key in self.feedback:
                return Decision(name, value, "feedback", self.feedback[key])
        told = next((self.why[key] for key in (name, *keys) if key in self.why), usual)
        by_partner = told == PINNED and self.mapping is not None
        return Decision(name, value, "planner", "as the mapping has it for the same dot" if by_partner else told)

    def _asked(self, option: str) -> bool:
        return bool(option) and getattr(self.options, option) is not None

    # -- the kernel as a whole -----------------------------------------------------------------------------------------

    def _plain(self, it: Declared) -> Iterator[Decision]:
        """A decision about the kernel as a whole."""
        value, option = getattr(self.plan, it.name), it.option
        shown = value is not None or (it.always and self.plan.partitioned)
        text = it.shown(value) if shown else ""
        pinned = getattr(self.pins, it.name) is not None
        if it.name == "groups":
            pinned = pinned or any(part.role == "consumer" for part in self.pins.partitions)
            if not self._asked(option) and value != 1 and self.options.ping_pong:
                option = "ping_pong"
        if text:
            yield self._made(it.name, text, pinned, option, it.reason(value))

    def _partitions(self) -> Iterator[Decision]:
        own = {it.name for it in self.pins.partitions}
        for part in self.plan.partitions:
            registers = f"{part.registers} registers per thread" if part.registers else "registers chosen by Triton"
            value = f"{part.num_warps} warp{'s' * (part.num_warps > 1)}, {registers}"
            yield self._made(f"partitions.{part.name}", value, part.name in own, "", "", (f"partitions.{part.role}",))

    # -- loads, stores -------------------------------------------------------------------------------------------------

    def _operands(self) -> Iterator[Decision]:
        for it in self.plan.operands:
            if it.argument is not None:
                yield self._operand(it)
                yield from self._rows(it)

    def _stores(self) -> Iterator[Decision]:
        yield from (self._store(it) for it in self.plan.stores if it.argument is not None)

    def _operand(self, it: OperandPlan) -> Decision:
        asked = self.pins.operand(it.key)
        path: Path = it.path or "pointers"
        said, usual = _PATHS[path] if self.plan.partitioned else ("a load", _MUCH_TO_DO)
        option = ""
        if (self.options.pointer_loads, path) in (("tma", "promoted"), ("tma", "promoted_in_kernel")) or (
            self.options.pointer_loads == "cp.async" and path in ("cp.async", "registers")
        ):
            option = "pointer_loads"
        value = said + (f", {it.ring}" if it.ring else "")
        value += ", hoisted to the load before it" * (it.hoisted is True)
        value += ", prefetched one iteration ahead" * (it.prefetched is True)
        value += f", transposed {_TRANSPOSED[it.transposed]}" if it.transposed else ""
        value += ", in the order of the other operand" * (it.reordered is True)
        value += f" ({_place(it.line)})" if it.line else ""
        fields = (asked.path, asked.ring, asked.hoisted, asked.prefetched, asked.transposed, asked.reordered)
        pinned = any(field is not None for field in fields)
        name = operand_field(it.key)
        by_pointers = ("operands",) if path in ("cp.async", "registers") else ()
        made = self._made(name, value, pinned, option, usual, by_pointers)
        return Decision(name, value, made.by, "; ".join(filter(None, (made.reason, self._sharing(it)))))

    def _rows(self, it: OperandPlan) -> Iterator[Decision]:
        if it.rows is not None:
            pinned = self.pins.operand(it.key).rows is not None
            yield self._made(rows_field(it.key), _words(it.rows), pinned)

    def _sharing(self, it: OperandPlan) -> str:
        """How an operand shares its ring with operands before it; empty if it does not."""
        operands = [other for other in self.plan.operands if it.ring and other.ring == it.ring]
        before = operands[: operands.index(it)] if it in operands else []
        beside = next((other for other in before if other.loop == it.loop), None)
        if beside is not None:
            asked = self.pins.operand(it.key).ring is not None
            return f"shares a slot with {beside.argument}" + ", which feeds the same dots" * (not asked)
        return f"reuses the ring of {_name(before[0].key)}, which is free by then" if before else ""

    def _store(self, it: StorePlan) -> Decision:
        asked = self.pins.store(it.key)
        path, usual = _PATHS[it.path or "pointers"]
        slices, buffers = it.of_slices
        slots = f" and stored by a warp of its own, through {_count(buffers, 'slot')}" if it.store_warp else ""
        staged = "staged" + slots + (f" in {slices} slices through {_count(buffers, 'buffer')}" if slices > 1 else "")
        value = _at(f"{path}, {staged if it.staged else 'waited for immediately'}", it.line)
        name = store_field(it.key)
        pinned = {asked.path, asked.staged, asked.slices, asked.buffers, asked.store_warp} != {None}
        made = self._made(name, value, pinned, "", "", ("stores",))
        return Decision(name, value, made.by, made.reason or usual)

    # -- loops, rings --------------------------------------------------------------------------------------------------

    def _loops(self) -> Iterator[Decision]:
        for it in self.plan.loops:
            yield from self._loop(it) if it.loop is not None else ()

    def _rings(self) -> Iterator[Decision]:
        yield from map(self._ring, self.plan.rings)

    def _loop(self, it: LoopPlan) -> Iterator[Decision]:
        asked = self.pins.loop(it.loop)
        name = f"loops.{it.loop}"
        if asked.mma_depth is None and any(part.role == "mma" for part in self.plan.partitions):
            made = Decision(name, _at("dots in the order of issue", it.line), "planner", _COMMITTED)
        elif it.schedule is not None:
            carried = Counter(tile.type for tile in it.schedule.carried)
            tiles = ", ".join(f"{count} x {type}" if count > 1 else type for type, count in carried.items())
            value = f"{_count(it.schedule.stages, 'stage')}, {it.schedule.ii_cycles} cycles per iteration"
            value += f", carries {tiles}" if tiles else ""
            for group, other in enumerate(it.others or (), 1):
                value += f"; {other.ii_cycles} in group {group}"
            bound = next(iter(it.schedule.bounds), None)
            usual = f"lower bound {bound.cycles} ({bound.what.partition(': ')[0]})" if bound else ""
            pinned = asked.stages is not None or asked.schedule is not None or bool(self.pins.schedules)
            keys = (f"{name}.stages", "loops.stages")
            made = self._made(name, _at(value, it.line), pinned, "", usual, keys)
        else:
            option = "mma_depth" if self.options.mma_depth == it.mma_depth else ""
            keys = (f"{name}.mma_depth", "loops.mma_depth")
            made = self._made(name, _at(f"P = {it.mma_depth}", it.line), asked.mma_depth is not None, option, "", keys)
            if it.mma_depth == 0 and made.reason in ("", IN_FLIGHT):
                made = Decision(name, made.value, made.by, _NOT_IN_FLIGHT)
        yield made
        if it.behind is not None:
            value = "dots of exchanged operands, by one iteration" if it.behind else "no"
            yield self._made(f"{name}.behind", value, asked.behind is not None)
        if it.chain is not None:
            value = f"{it.chain} iterations, each issues its dots before the results of the last are used"
            yield self._made(f"{name}.chain", value if it.chain > 1 else "no", asked.chain is not None)
        if asked.joined is not None:
            yield self._made(f"{name}.joined", "to the loop before it" if it.joined else "no", True)
        told = self.feedback.get("loops.kept")
        if it.kept or asked.kept is not None or (told is not None and told != made.reason):
            value = f"left operand of dot {', '.join(map(str, it.kept))}" if it.kept else "none"
            usual = "loop-invariant, so it stays in registers"
            yield self._made(f"{name}.kept", value, asked.kept is not None, "", usual, ("loops.kept",))

    def _ring(self, ring: RingPlan) -> Decision:
        payload = ", ".join(ring.tiles)
        copies = f", {ring.copies} copies" if (ring.copies or 1) > 1 else ""
        value = f"D = {ring.depth} of ({payload}), {size_of(ring)}{copies}"
        loaded = ring.is_loaded
        names = (ring.name, "") if loaded else (ring.name,)  # "": all rings of loaded tiles
        pinned = any(self.pins.ring(name).depth is not None for name in names)
        option = "aref_depth" if self.options.aref_depth == ring.depth and loaded else ""
        name = f"rings.{ring.name}"
        return self._made(name, value, pinned, option, "", (f"{name}.depth",))

    def _launches(self) -> Iterator[Decision]:
        """The restrictions on launches and what the user asked for; one row if every launch gets the kernel."""
        launches, asked = self.plan.launches, self.pins.launches or LaunchPlan()
        if launches is None:
            return
        found: list[Decision] = []
        if launches.conditions:
            limited = dict.fromkeys(re.split(" (?:>=|<=|==|%) ", it)[0].strip("()") for it in launches.conditions)
            usual = "sizes, strides and addresses must suit TMA; any other launch gets another kernel"
            value = f"limits on {', '.join(limited)}"
            found.append(self._made("launches.conditions", value, False, "", usual))
        if launches.choice != "always" or asked.choice is not None:
            form = "specialised form" if launches.choice == "specialised" else "form"
            usual = f"each launch gets the {form} that is predicted to be the fastest"
            found.append(self._made("launches.choice", str(launches.choice), asked.choice is not None, "", usual))
        yield from found or [Decision("launches", "all", "planner", "the kernel suits every launch")]


_TRANSPOSED: Mapping[Transposer, str] = {"converter": "by a converter", "registers": "in registers of the consumers"}


# -- words -------------------------------------------------------------------------------------------------------------


def operand_field(name: Name) -> str:
    """The name of an operand's field in reasons and decisions."""
    return f"operands.{_name(name)}"


def store_field(name: Name) -> str:
    """The name of a store's field in reasons and decisions."""
    return f"stores.{_name(name)}"


def rows_field(name: Name) -> str:
    """The name of the field of the order of an operand's rows."""
    return f"{operand_field(name)}.rows"


def size_of(ring: RingPlan) -> str:
    """The memory that a ring takes, in words."""
    if ring.is_exchanged and not ring.slot_bytes:
        return "tensor memory"
    return f"{ring.total_bytes / 1024:.4g} KiB" if ring.has_tiles else f"{ring.total_bytes} bytes"


def _name(name: Name) -> str:
    argument, loop, ordinal = name
    where = "" if loop is None else f", loop {loop}"
    return f"{argument}{where}" + (f", number {ordinal}" if ordinal else "")


def _words(value: str | None) -> str:
    return (value or "").replace("_", " ")


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _at(value: str, line: str) -> str:
    return f"{value} ({_place(line)})" if line else value


def _place(line: str) -> str:
    """``/home/me/fa.py:18`` → ``fa.py:18``."""
    return PurePath(line).name


def decision_of(data: Mapping[str, Any]) -> Decision:
    """The decision that `Decision.to_dict` wrote."""
    return Decision(data["field"], data["value"], data["by"], data["reason"])
