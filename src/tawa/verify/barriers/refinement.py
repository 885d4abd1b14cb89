"""Refinement: the barrier level makes the accesses of the aref level, per partition and in the same order.

    aref level                    barrier level
    put r[i]          →           wait empty[s], p ^ 1 (unless fresh); expect full[s]; one copy per buffer[s]
      by cp.async     →           wait empty[s], p ^ 1; one cp.async per buffer[s]; copies arrive full[s]
      from registers, →           wait empty[s], p ^ 1; one write per buffer[s]; arrive full[s]
      of a number
      by its stores   →           wait empty[s], p ^ 1; the accesses of its region, on buffer[s]; arrive full[s]
    put of a token    →           wait empty[s], p ^ 1; arrive full[s]
    get r[i]          →           wait full[s], p
    consumed r[i]     →           arrive empty[s]
    landed r[i]       →           wait full[t], the parity of the last put into it, for each slot t
    dot reads r[i]    →           dot reads buffer[s]

with s = i mod D and p = (i div D) mod 2, in every partition and for every choice of trip counts that is tried. A ring
with `implied_empty` has neither the wait for an empty slot nor the arrival that it waits for. Barriers and buffers are
identified by the names that the lowering gives them: `<ring>_full`, `<ring>_empty`, and `<ring>` for the buffers, in
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tawa.dialects.aref import (
    AccessOp,
    AdvanceOp,
    ConsumedOp,
    CreateOp,
    Fill,
    FirstOp,
    GetOp,
    LandedOp,
    PutOp,
    RingType,
)
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.warp import GroupOp
from tawa.ir import Module, Operation, Value, source_of
from tawa.verify.barriers.inputs.choices import BUDGET, choices, read_facts, trips_to_try, vectors
from tawa.verify.barriers.inputs.fingerprint import Fingerprint, Fingerprints
from tawa.verify.barriers.program.kernel import BarrierProgram, Memory, NotUnderstood
from tawa.verify.barriers.program.operations import holds, number
from tawa.verify.barriers.run.events import Environment, Event, Trace, Undefined
from tawa.verify.barriers.run.trace import Handler, Unrolled, unroll
from tawa.verify.data_dependent_loops import PREFIX
from tawa.verify.effort import Effort
from tawa.verify.verdict import Checked, Refuted, Step, Unknown, Verdict, Witness

_PER_RING = 64
"""The allocation numbers reserved for the payload of each ring at the aref level."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access, in terms common to both levels."""

    kind: str
    ring: str
    slot: int = 0
    parity: int | None = None
    entry: int | None = None

    def __str__(self) -> str:
        parity = "" if self.parity is None else f", parity {self.parity}"
        return f"{self.kind} {self.ring}[{self.slot}]{parity}"


def check_refinement(
    aref_module: Module,
    barrier_module: Module,
    *,
    arguments: Mapping[str, int] | None = None,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    max_trips: int | None = None,
    budget_states: int | None = None,
) -> Verdict:
    """Compares the two levels of one kernel; see `tawa.verify.barriers.check.check_barriers` for the options."""
    try:
        high, low = BarrierProgram(aref_module, AREF_HANDLERS), BarrierProgram(barrier_module)
        budget = BUDGET[effort] if budget_states is None else budget_states
        facts = read_facts(low, assume)
        trips = trips_to_try(low, effort, max_trips)
        found, others = choices(low, arguments or {}, facts, trips), _OneProgram(max(trips))
        used = tuple(dict.fromkeys(fact for choice in found for fact in choice.facts))
        undefined: dict[str, None] = {}
        above, below = Fingerprints(high), Fingerprints(low)
        done: set[tuple[Fingerprint | None, Fingerprint | None]] = set()
        steps, runs = 0, 0
        left = list(vectors(found, effort))
        total, occurred = len(left), set[tuple[Value, int]]()
        for numbers in left:
            if steps >= budget:
                break
            occurred |= set(numbers.items())
            upper = {high.entry.args[value.index]: given for value, given in numbers.items()}
            known = (above.of(upper, others), below.of(numbers, others))
            if None not in known and known in done:
                runs += 1
                continue
            try:
                wanted = unroll(high, upper, others, AREF_HANDLERS)
                unrolled = unroll(low, numbers, others)
            except Undefined as stop:
                place = source_of(aref_module, stop.op)
                undefined |= {f"{stop.taken}{f' at {place}' if place else ''}": None}
                continue
            done.add(known)
            steps, runs = steps + wanted.count + unrolled.count, runs + 1
            inputs = {choice.name: numbers[choice.argument] for choice in found}
            refuted = _compare(high, wanted, low, unrolled, inputs)
            if refuted is not None:
                return Refuted(refuted.witness, used)
        if not runs:
            return Unknown("no choice of numbers satisfies the assumptions", None, (*used, *undefined))
        if 2 * len(occurred) < sum(len(choice.numbers) for choice in found):
            return Unknown(f"the budget of {budget} steps ended after {runs} of {total} choices of numbers", None, used)
        names = ", ".join(choice.name for choice in found) or "no argument"
        count = f"{runs} of {total}" if steps >= budget and runs < total else str(runs)
        bound = f"the same accesses in the same order for {count} choices of {names}"
        return Checked(bound, "choices of other numbers", None, (*used, *undefined))
    except NotUnderstood as stop:
        return Unknown(f"not understood: {stop.reason}", source_of(barrier_module, stop.op))


class _OneProgram(dict[str, int]):
    """Numbers for a grid of one program: loaded numbers are 1, data-dependent loops have `trips` trips."""

    def __init__(self, trips: int) -> None:
        super().__init__()
        self.trips = trips

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> int:
        if key.startswith(PREFIX):
            return self.trips
        return 0 if key.startswith("program_id") else 1


def _compare(
    high: BarrierProgram, wanted: Unrolled, low: BarrierProgram, unrolled: Unrolled, inputs: Mapping[str, int]
) -> Refuted | None:
    names = _names(high.module)
    # The first consumer's warps also run the code outside the partitions.
    main = {role: name for role, name in names.items() if role == "default"}
    above = _by_role([trace for segment in wanted.segments for trace in segment], main)
    below = _by_role([trace for segment in unrolled.segments for trace in segment], names)
    rings = {CreateOp(op).name: RingType.parse(op.result.type).depth for op in high.module.walk() if _is_ring(op)}
    implied = [CreateOp(op).name for op in high.module.walk() if _is_ring(op) and CreateOp(op).implied_empty]
    for role in above:
        asked = [it for it in _asked(above[role], list(rings), rings) if not _is_implied(it[0], implied)]
        made = _made(below.get(role, []), low, rings)
        for place in range(max(len(asked), len(made))):
            want = asked[place][0] if place < len(asked) else None
            have = made[place][0] if place < len(made) else None
            if want == have:
                continue
            none = "no further access"
            message = f"{role} makes {have or none} where the aref level has {want or none}"
            steps = tuple(_step(low, role, *access) for access in made[: place + 1])
            return Refuted(Witness("refinement", message, inputs, steps))
    return None


def _step(low: BarrierProgram, role: str, access: Access, event: Event) -> Step:
    return Step(role, access.kind, access.ring, access.slot, access.parity, source_of(low.module, event.op))


def _by_role(traces: list[Trace], names: Mapping[str, str]) -> dict[str, list[Event]]:
    """Events by partition, under the partition names of the aref level."""
    roles: dict[str, list[Event]] = {}
    for trace in traces:
        roles.setdefault(names.get(trace.partition, trace.partition), []).extend(trace.events)
    return roles


def _names(high: Module) -> dict[str, str]:
    """The aref-level names of the regions of ``ttg.warp_specialize``: first consumer, other consumers, and the others.

    Of the others, those with more warps come first; the producer is the last of those with as many.
    """
    groups = [group for op in high.walk() if (group := GroupOp.of(op))]
    consumers = [group.partition for group in groups if group.role == "consumer"]
    beside = [group for group in groups if group.role != "consumer"]
    beside.sort(key=lambda group: (-group.num_warps, group.role == "producer"))
    others = [*consumers[1:], *(group.partition for group in beside)]
    regions = {f"partition{number}": name for number, name in enumerate(others)}
    return regions | ({"default": consumers[0]} if consumers else {})


def _asked(events: list[Event], names: list[str], rings: Mapping[str, int]) -> list[tuple[Access, Event]]:
    """The accesses of the aref level, with counts as (slot, parity)."""
    found: list[tuple[Access, Event]] = []
    for event in events:
        for memory in event.memory:
            place = memory.alloc // _PER_RING - 1
            if place < 0:
                continue
            name = names[place]
            slot, parity = memory.path[0] % rings[name], memory.path[0] // rings[name] % 2
            match event.kind:
                case "put":
                    if event.parity:
                        found.append((Access("wait empty", name, slot, parity ^ 1), event))
                    if event.amount and _fill_of(event) == "stores":
                        continue  # followed by its accesses, and by "filled"
                    before, each, behind = _FILLING[_fill_of(event) if event.amount else "token"]
                    found += [(Access(before, name, slot), event)] if before else []
                    found += [(Access(each, name, slot, entry=entry), event) for entry in range(event.amount)]
                    found += [(Access(behind, name, slot), event)] if behind else []
                case "filled":
                    found.append((Access("arrive full", name, slot), event))
                case "get":
                    found.append((Access("get", name, slot, parity), event))
                case "consumed":
                    found.append((Access("consumed", name, slot), event))
                case "landed":
                    found += [(it, event) for it in _landings(name, memory.path[0], rings[name])]
                case _:
                    entry = memory.alloc % _PER_RING
                    found.append((Access(event.kind, name, slot, entry=entry), event))
    return found


def _landings(name: str, count: int, depth: int) -> list[Access]:
    """The waits for all puts before `count`. On a slot without a put, the wait for the preceding round passes."""
    rounds = [(count - 1 - slot) // depth for slot in range(depth)]
    return [Access("get", name, slot, number % 2) for slot, number in enumerate(rounds)]


_FILLING: Mapping[str, tuple[str, str, str]] = {
    "tma": ("expect", "copy", ""),
    "cp.async": ("", "cp.async", "copies arrive full"),
    "registers": ("", "write", "arrive full"),
    "number": ("", "write", "arrive full"),
    "token": ("", "", "arrive full"),
}
"""The accesses of a put at the barrier level: before filling the buffers, for each of them, and afterwards."""


def _fill_of(event: Event) -> Fill:
    create = CreateOp.of(PutOp(event.op).ring.defining_op)
    assert create is not None
    return create.fill


def _is_implied(access: Access, implied: list[str]) -> bool:
    return access.ring in implied and access.kind in ("wait empty", "consumed")


def _made(events: list[Event], low: BarrierProgram, rings: Mapping[str, int]) -> list[tuple[Access, Event]]:
    """The accesses of the barrier level, identified by the names that the lowering gave."""
    entries: dict[int, tuple[str, int]] = {}
    counts: dict[str, int] = {}
    for alloc, op in enumerate(low.allocations):
        name = op.result.hint
        if name in rings:
            entries[alloc] = (name, counts.setdefault(name, 0))
            counts[name] += 1
    found: list[tuple[Access, Event]] = []
    for event in events:
        if event.barrier is not None:
            access = _on_barrier(event, low.name_of(event.barrier), rings)
            if access is not None:
                found.append((access, event))
        kind = "copy" if event.kind == "copy in" else event.kind
        for memory in event.memory:
            if memory.alloc in entries and event.kind != "free":
                name, entry = entries[memory.alloc]
                found.append((Access(kind, name, memory.path[0] if memory.path else 0, entry=entry), event))
    return found


def _on_barrier(event: Event, name: str, rings: Mapping[str, int]) -> Access | None:
    ring, _, which = name.rpartition("_")
    if ring not in rings or event.barrier is None or not event.barrier.path:
        return None
    slot = event.barrier.path[0]
    match event.kind, which:
        case "wait", "full":
            return Access("get", ring, slot, event.parity)
        case "wait", _:
            return Access("wait empty", ring, slot, event.parity)
        case "arrive", "empty":
            return Access("consumed", ring, slot)
        case "expect", "full":
            return Access("expect", ring, slot)
        case (("expect" | "arrive" | "copies arrive"), _):
            return Access(f"{event.kind} {which}", ring, slot)
        case _:
            return None


# -- the aref level, unrolled ------------------------------------------------------------------------------------------


def _is_ring(op: Operation) -> bool:
    return CreateOp.matches(op)


def _create(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    rings = [other for other in self.program.module.walk() if _is_ring(other)]
    env[op.result] = Memory((rings.index(op) + 1) * _PER_RING)


def _first(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    env[op.result] = 0


def _advance(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    env[op.result] = number(op, AdvanceOp(op).index, env, "the count") + 1


def _count(access: AccessOp, env: Environment) -> Memory:
    ring = env.get(access.ring)
    assert isinstance(ring, Memory)
    return ring._replace(path=(number(access.op, access.index, env, "the count"),))


def _put(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    put = PutOp(op)
    payload, memory = len(put.type.payload), _count(put, env)
    self.emit(trace, Event("put", op, (memory,), amount=payload, parity=int(not put.fresh)))
    if put.body.args:
        for entry, argument in enumerate(put.body.args):
            env[argument] = memory._replace(alloc=memory.alloc + entry)
        self.run(put.body, env, trace)
        self.emit(trace, Event("filled", op, (memory,)))
    elif op in self.program.crossed.stores:
        self.numbers.send(memory, env.get(self.program.crossed.stores[op]))


def _get(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = _count(GetOp(op), env)
    self.emit(trace, Event("get", op, (memory,)))
    for entry, result in enumerate(op.results):
        env[result] = memory._replace(alloc=memory.alloc + entry)


def _consumed(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    consumed = ConsumedOp(op)
    if holds(op, consumed.condition, env):
        self.emit(trace, Event("consumed", op, (_count(consumed, env),)))


def _landed(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("landed", op, (_count(LandedOp(op), env),)))


def _group(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    name = op.properties["partition"].strip('"')
    self.segments.append([Trace(trace.partition, trace.events)])
    trace.events = []
    mine = Trace(name, issued=trace.issued, done=trace.done)
    results = self.run(op.regions[0].block, dict(env), mine)
    self.segments.append([mine])
    if name == _names(self.program.module).get("default"):
        trace.issued, trace.done = mine.issued, mine.done
    env.update(zip(op.results, results, strict=True))


AREF_HANDLERS: Mapping[str, Handler] = by_name(
    {
        CreateOp: _create,
        FirstOp: _first,
        AdvanceOp: _advance,
        PutOp: _put,
        GetOp: _get,
        ConsumedOp: _consumed,
        LandedOp: _landed,
        GroupOp: _group,
    }
)
