"""An executable model of the aref protocol: runs a specialised program on scalars only.

Scalars are computed, tiles are not. Partitions are coroutines; a partition yields while it waits for a slot or a
barrier. Both levels are supported:

    aref      slots as ⟨F, E⟩; events put / get / consumed with the running count, dots in flight with what they read
    barrier   mbarriers with phase, arrivals and bytes; events with (slot, parity)

`run` returns a `Trace`; `violations` lists its protocol violations as text. A deadlock is the violation "deadlock".
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from tawa.dialects.aref import CreateOp, GetOp, PutOp, RingType
from tawa.dialects.ttg import VIEWS, WarpSpecializeOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, MemDescType, Module, Operation, Value, parse_type
from tawa.ir.attributes import read_int

Run = Generator[None, None, list[Any]]
"""A coroutine: yields at each wait that blocks, returns the operands of its block's terminator."""


@dataclass(frozen=True, slots=True)
class Event:
    """One step of the protocol. `place` is the running count, or (slot, parity) at the barrier level."""

    kind: str
    ring: str
    place: Any


@dataclass(frozen=True, slots=True)
class View:
    """A slot of a ring or of a buffer, as a wgmma or a copy sees it."""

    ring: str
    place: Any


@dataclass(slots=True)
class Barrier:
    """One mbarrier with an arrival count of one."""

    phase: int = 0
    pending: int = 1
    bytes: int = 0

    def settle(self) -> None:
        """Completes the phase when no arrivals and no bytes are pending."""
        if self.pending == 0 and self.bytes == 0:
            self.phase ^= 1
            self.pending = 1


@dataclass(slots=True)
class Trace:
    """The events of a run. wrong: violations found during the run."""

    events: list[Event] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    most_borrowed: int = 0
    most_in_flight: int = 0
    stores: int = 0

    def places(self, kind: str, ring: str) -> list[Any]:
        """The places of all accesses of one kind to a ring, in order."""
        return [event.place for event in self.events if event.kind == kind and event.ring == ring]

    def rings(self) -> list[str]:
        """The names of the rings that have events."""
        return sorted({event.ring for event in self.events})


def run(module: Module, numbers: dict[str, int], most_steps: int = 200_000) -> Trace:
    """Runs the kernel with the integer arguments `numbers` (by name)."""
    machine = _Machine()
    (function,) = [op for op in module.body.ops if op.name == "tt.func"]
    body = function.regions[0].block
    values: dict[Value, Any] = {arg: numbers.get(arg.hint) for arg in body.args}
    machine.most_steps = most_steps
    try:
        for _ in machine.block(body, values, machine.main):
            raise _Stuck("deadlock before the partitions start")
        machine.join(values)
    except _Stuck as stuck:
        machine.trace.wrong.append(str(stuck))
    for name, slots in machine.slots.items():
        machine.trace.wrong += [f"{name}[{slot}] is not empty at the end" for slot, it in slots.items() if it != "E"]
    return machine.trace


def violations(trace: Trace, depth: int, mma_depth: int, total: int | dict[str, int], level: str = "aref") -> list[str]:
    """Violations of a run in which every ring (or each ring by name) must be filled `total` times."""
    wrong = list(trace.wrong)
    totals = dict.fromkeys(trace.rings(), total) if isinstance(total, int) else total
    for ring, count in totals.items():
        for kind in ("put", "get", "consumed"):
            wanted: list[Any] = list(range(count))
            found = trace.places(kind, ring)
            if level == "barrier":
                wanted = [(index % depth, index // depth % 2) for index in range(count)]
                if kind == "consumed":
                    wanted = [slot for slot, _ in wanted]
            if found != wanted:
                wrong.append(f"{ring}: {kind} at {found}, not {wanted}")
    if total and not totals:
        wrong.append("no ring was touched")
    if trace.most_borrowed > mma_depth + 1:
        wrong.append(f"{trace.most_borrowed} slots borrowed at once with P = {mma_depth}")
    return wrong


class _Stuck(Exception):
    """The run cannot go on."""


class _Machine:
    def __init__(self) -> None:
        self.trace = Trace()
        self.main = _Group("main")
        self.groups: list[_Group] = []
        self.started: list[_Group] = []
        self.steps = 0
        self.most_steps = 0
        self.slots: dict[str, dict[int, Any]] = {}
        self.depth: dict[str, int] = {}
        self.sent: dict[View, int | None] = {}  # the numbers in slots
        self.counter = 0  # in memory: the only one that atomics change

    # -- running ---------------------------------------------------------------------------------------------------

    def join(self, values: dict[Value, Any]) -> None:
        """Runs the partitions round robin until all end or all are blocked; writes their results to `values`."""
        running, self.started = self.started, []
        while running:
            before = self.steps
            running = [member for member in running if not member.step(values)]
            if running and self.steps == before:
                raise _Stuck(f"deadlock: {', '.join(member.name for member in running)} wait")
            if self.steps > self.most_steps:
                raise _Stuck("the run does not end")
        self.trace.wrong += [f"{member.name} ends with wgmmas in flight" for member in self.groups if member.in_flight]

    def start(self, name: str, block: Block, values: dict[Value, Any], results: list[Value]) -> None:
        member = _Group(name, results)
        member.code = self.block(block, values, member)
        self.groups.append(member)
        self.started.append(member)

    def block(self, block: Block, values: dict[Value, Any], group: _Group) -> Run:
        for op in block.ops[:-1]:
            yield from self.op(op, values, group)
        return [values.get(operand) for operand in block.terminator.operands]

    def op(self, op: Operation, values: dict[Value, Any], group: _Group) -> Run:
        if group is self.main and self.started and op.name != "warp.group":
            self.join(values)
        inputs = [values.get(operand) for operand in op.operands]
        self.steps += 1
        outputs: list[Any] = [None] * len(op.results)
        match op.name:
            case "scf.for":
                outputs = yield from self.loop(op, inputs, values, group)
            case "scf.if":
                assert inputs[0] is not None, "the condition of a branch is not a number"
                region = op.regions[0 if inputs[0] else 1]
                if region.blocks and region.blocks[0].ops:
                    outputs = yield from self.block(region.block, values, group)
            case "scf.while":
                outputs = yield from self.repeat(op, inputs, values, group)
            case "warp.group":
                self.start(op.properties["partition"].strip('"'), op.regions[0].block, dict(values), op.results)
                return []
            case "ttg.warp_specialize":
                self.fork(op, inputs, values)
                return []
            case _ if op.name.startswith("aref."):
                outputs = yield from self.aref(op, inputs, values, group)
            case _ if op.name.startswith(("ttg.", "ttng.", "tt.")):
                outputs = yield from self.tile(op, inputs, group)
            case _:
                outputs = _compute(op, inputs)
        values.update(zip(op.results, outputs, strict=True))
        return []

    def loop(self, op: Operation, inputs: list[Any], values: dict[Value, Any], group: _Group) -> Run:
        lower, upper, step, *carried = inputs
        assert None not in (lower, upper, step), "the bounds of a loop are not numbers"
        body = op.regions[0].block
        for induction in range(lower, upper, step):
            values.update(zip(body.args, (induction, *carried), strict=True))
            carried = yield from self.block(body, values, group)
        return carried

    def repeat(self, op: Operation, inputs: list[Any], values: dict[Value, Any], group: _Group) -> Run:
        before, after = op.regions[0].block, op.regions[1].block
        carried = inputs
        while True:
            values.update(zip(before.args, carried, strict=True))
            more, *handed = yield from self.block(before, values, group)
            if not more:
                return handed
            values.update(zip(after.args, handed, strict=True))
            carried = yield from self.block(after, values, group)

    def fork(self, op: Operation, inputs: list[Any], values: dict[Value, Any]) -> None:
        view = WarpSpecializeOp(op)
        self.start("default", view.default, dict(values), op.results)
        for number, block in enumerate(view.partitions):
            mine = dict(zip(block.args, inputs, strict=True))  # isolated from above: only explicit captures are visible
            self.start(f"partition{number}", block, mine, [])

    # -- the aref level ----------------------------------------------------------------------------------------------

    def aref(self, op: Operation, inputs: list[Any], values: dict[Value, Any], group: _Group) -> Run:
        match op.name:
            case "aref.create":
                name, depth = CreateOp(op).name, RingType.parse(op.result.type).depth
                readers = list(dict.fromkeys(_reader(user) for user in op.result.users if GetOp.of(user)))
                names = {reader: f"{name}@{reader}" if len(readers) > 1 else name for reader in readers or [""]}
                for own in names.values():
                    self.slots[own] = dict.fromkeys(range(depth), "E")
                    self.depth[own] = depth
                return [names]
            case "aref.first":
                return [0]
            case "aref.advance":
                return [inputs[0] + 1]
        names, count, *condition = inputs
        if condition and not condition[0]:
            return []
        if op.name == "aref.put":
            for ring in names.values():  # one after the other: none is filled before all are empty
                slots, slot = self.slots[ring], count % self.depth[ring]
                if PutOp(op).fresh and slots[slot] != "E":
                    self.trace.wrong.append(f"fresh put {count}: {ring}[{slot}] is not empty")
                while slots[slot] != "E":
                    yield
            sent = [values.get(nested.operands[0]) for nested in PutOp(op).body.ops if nested.name == "tt.splat"]
            for ring in names.values():
                self.slots[ring][count % self.depth[ring]] = count
                self.sent[View(ring, count)] = sent[0] if sent else None
                self.event("put", ring, count)
            return []
        if op.name not in ("aref.get", "aref.consumed"):
            return []
        ring = names[_reader(op)] if len(names) > 1 else next(iter(names.values()))
        slots, slot = self.slots[ring], count % self.depth[ring]
        match op.name:
            case "aref.get":
                while slots[slot] in ("E", "borrowed"):
                    yield
                if slots[slot] != count:
                    self.trace.wrong.append(f"get {count} of {ring} finds put {slots[slot]}")
                slots[slot] = "borrowed"
                self.event("get", ring, count)
                group.borrowed.append((ring, count))
                borrowed = sum(owner == ring for owner, _ in group.borrowed)
                self.trace.most_borrowed = max(self.trace.most_borrowed, borrowed)
                return [View(ring, count) for _ in op.results]
            case "aref.consumed":
                if slots[slot] != "borrowed":
                    self.trace.wrong.append(f"consumed {count}: {ring}[{slot}] is not borrowed")
                if any(View(ring, count) in reads for reads in group.in_flight):
                    self.trace.wrong.append(f"consumed {count} of {ring} while a wgmma reads it")
                slots[slot] = "E"
                self.event("consumed", ring, count)
                if (ring, count) in group.borrowed:
                    group.borrowed.remove((ring, count))
        return []

    # -- tiles, wgmmas, barriers ---------------------------------------------------------------------------------------

    def tile(self, op: Operation, inputs: list[Any], group: _Group) -> Run:
        if op.name in VIEWS and op.name != "ttg.memdesc_index":
            return [inputs[0]]
        for view in inputs:
            if isinstance(view, View) and view.ring in self.slots and (view.ring, view.place) not in group.borrowed:
                self.trace.wrong.append(f"{op.name} reads {view.place} of {view.ring}, which is not borrowed")
        match op.name:
            case "tt.get_program_id":
                return [0]
            case "tt.get_num_programs":
                return [1]
            case "ttng.warp_group_dot":
                if op.properties.get("isAsync") == "true":
                    group.in_flight.append({it for it in inputs if isinstance(it, View)})
                    self.trace.most_in_flight = max(self.trace.most_in_flight, len(group.in_flight))
            case "ttng.warp_group_dot_wait":
                group.in_flight = group.in_flight[max(len(group.in_flight) - read_int(op.properties["pendings"]), 0) :]
                return inputs
            case "tt.store" | "tt.descriptor_store" | "ttg.local_store":
                self.trace.stores += 1
                members = [group] if group in self.groups else self.groups  # behind the groups, all have ended
                borrowed = [slot for member in members for slot in member.borrowed]
                if borrowed:
                    self.trace.wrong.append(f"a store while {borrowed} are borrowed")
            case "tt.splat" | "tt.unsplat":
                return [inputs[0]]
            case "ttg.local_load":
                return [self.sent.get(inputs[0])] if isinstance(inputs[0], View) else [None]
            case "tt.atomic_rmw":
                old, adds = self.counter, read_int(op.properties["atomic_rmw_op"]) == 4
                if inputs[2]:
                    self.counter = old + inputs[1] if adds else inputs[1]
                return [old]
            case "ttg.local_alloc":
                return [self.allocate(op)]
            case "ttg.memdesc_index":
                if isinstance(inputs[0], list):
                    return [(op.operands[0].owner, inputs[0], inputs[1])]
                return [View(inputs[0].ring, inputs[1])]
            case _ if op.name.startswith("ttng."):
                yield from self.barrier(op, inputs)
        return [None] * len(op.results)

    def allocate(self, op: Operation) -> Any:
        type = parse_type(op.result.type)
        assert isinstance(type, MemDescType)
        if type.element == "i64":
            return _Row(op.result.hint, [None] * type.shape[0])
        return View(op.result.hint, "all")

    def barrier(self, op: Operation, inputs: list[Any]) -> Run:
        barriers = [it for it in inputs if isinstance(it, tuple)]
        if not barriers:
            return []
        _, row, slot = barriers[0]
        name = re.sub(r"_(full|empty)$", "", row.name)
        full = row.name.endswith("_full")
        match op.name:
            case "ttng.init_barrier":
                if row[slot] is not None:
                    self.trace.wrong.append(f"{row.name}[{slot}] is initialised twice")
                row[slot] = Barrier(pending=read_int(op.properties["count"]))
            case "ttng.wait_barrier":
                parity = inputs[1]
                while row[slot].phase == parity:
                    yield
                if full:
                    self.event("get", name, (slot, parity))
                else:
                    row.waited = (slot, parity ^ 1)
            case "ttng.barrier_expect":
                row[slot].bytes += read_int(op.properties["size"])
                row[slot].pending -= 1
                parity = row[slot].phase
                self.event("put", name, (slot, parity))
                row[slot].settle()
            case "ttng.arrive_barrier":
                if len(inputs) > 1 and not inputs[1]:
                    return []
                row[slot].pending -= 1
                if row[slot].pending < 0:
                    self.trace.wrong.append(f"{row.name}[{slot}]: one arrival too many")
                row[slot].settle()
                self.event("consumed", name, slot)
            case "ttng.async_tma_copy_global_to_local":
                target = op.operands[-2]
                view = parse_type(target.type)
                assert isinstance(view, MemDescType)
                row[slot].bytes -= view.bytes
                row[slot].settle()
        return []

    def event(self, kind: str, ring: str, place: Any) -> None:
        self.trace.events.append(Event(kind, ring, place))


class _Row(list[Any]):
    """The mbarriers of one ring, full or empty."""

    def __init__(self, name: str, barriers: list[Any]) -> None:
        super().__init__(barriers)
        self.name = name
        self.waited: tuple[int, int] | None = None


class _Group:
    """One partition: its borrowed slots, its wgmmas in flight, and its results."""

    def __init__(self, name: str, results: list[Value] | None = None) -> None:
        self.name = name
        self.results = results or []
        self.code: Run = iter(())  # type: ignore[assignment]
        self.borrowed: list[tuple[str, int]] = []
        self.in_flight: list[set[View]] = []

    def step(self, values: dict[Value, Any]) -> bool:
        """Runs to the next wait that blocks; True if the partition has ended."""
        try:
            next(self.code)
        except StopIteration as end:
            values.update(zip(self.results, end.value or (), strict=True))
            return True
        return False


def _compute(op: Operation, inputs: list[Any]) -> list[Any]:
    if op.name == "arith.constant":
        try:
            return [read_int(op.properties["value"])]
        except ValueError:
            return [None]
    if op.name == "arith.select" and inputs[0] is not None:
        return [inputs[1] if inputs[0] else inputs[2]]
    if None in inputs or op.name not in _ARITH:
        return [None] * len(op.results)
    if op.name == "arith.cmpi":
        return [int(_COMPARE[read_int(op.properties["predicate"])](*inputs))]
    return [int(_ARITH[op.name](*inputs))]


def _reader(op: Operation) -> str:
    """The partition that contains an operation; empty outside of partitions."""
    return next((group.partition for outer in op.ancestors() if (group := GroupOp.of(outer))), "")


_COMPARE = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
    4: lambda a, b: a > b,
    5: lambda a, b: a >= b,
    8: lambda a, b: a % 2**32 > b % 2**32,
}

_ARITH: dict[str, Any] = {
    "arith.cmpi": None,
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: a // b,
    "arith.remsi": lambda a, b: a % b,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.extui": lambda a: a,
    "arith.extsi": lambda a: a,
    "arith.index_cast": lambda a: a,
}
