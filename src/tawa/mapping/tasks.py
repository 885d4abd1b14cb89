"""What each task reads and writes, inferred from the program and its Plan.

A task is the part of a loop that one partition executes. What it may touch is not written in a mapping: it follows.

    producer, loop n: reads k, v; writes the rings ring1, ring2
    consumer0, loop n: reads the rings ring1, ring2
    consumer0, outside of loops: reads the rings ring0; writes o
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tawa.mapping.program import Access, Program
from tawa.plan.fields import PartitionPlan
from tawa.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Task:
    """The part of a loop that a partition executes.

    loop: its name in a mapping; empty outside of loops with dots. reads, writes: arguments. gets, puts: rings.
    """

    partition: str
    loop: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    gets: tuple[str, ...] = ()
    puts: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{verb} {text}"
            for verb, text in (
                ("reads", _all(self.reads, self.gets)),
                ("writes", _all(self.writes, self.puts)),
            )
            if text
        ]
        return f"{self.partition}, {f'loop {self.loop}' if self.loop else 'outside of loops'}: {'; '.join(parts)}"


def tasks_of(plan: Plan, program: Program) -> tuple[Task, ...]:
    """The tasks that touch memory, by partition, in program order."""
    loops = dict.fromkeys([None, *(it.number for it in program.loops)])
    touched = [*program.loads, *program.stores]
    others = dict.fromkeys(it.key[1] for it in touched if it.key[1] not in loops)
    found: list[Task] = []
    for part in plan.partitions:
        for loop in (*loops, *others, *_loops_of_atomics(program, {*loops, *others})):
            task = _task(plan, program, part, loop)
            if task.reads or task.writes or task.gets or task.puts:
                found.append(task)
    return tuple(_joined(found))


def _task(plan: Plan, program: Program, part: PartitionPlan, loop: int | None) -> Task:
    named = program.loop(loop)
    text = named.text if named is not None else ""
    loads = [it for it in program.loads if it.key[1] == loop]
    rings = {it.key: it.ring for it in plan.operands if it.ring is not None}
    by_ring = _unique(rings[it.key] for it in loads if it.key in rings)
    transposed = [f"{ring}_transposed" for ring in by_ring if f"{ring}_transposed" in {it.name for it in plan.rings}]
    match part.role:
        case "producer":
            return Task(part.name, text, _unique(str(it.key[0]) for it in loads if it.key in rings), puts=by_ring)
        case "converter":
            own = tuple(it.removesuffix("_transposed") for it in transposed)
            return Task(part.name, text, gets=own, puts=tuple(transposed))
        case "mma":
            return Task(part.name, text, gets=by_ring)
        case "correction":  # which results follow from the accumulators that it rewrites is not known here
            stored = (str(it.key[0]) for it in program.stores if it.key[1] == loop)
            return Task("consumer or correction", text, writes=_unique(stored))
        case "storer":
            stored = (str(it.key[0]) for it in program.stores if _handed(plan, it, loop))
            return Task(part.name, text, writes=_unique(stored))
        case "consumer":
            ours = () if any(it.role == "mma" for it in plan.partitions) else by_ring
            gets = tuple(f"{it}_transposed" if f"{it}_transposed" in transposed else it for it in ours)
            atomics = [it.argument for it in program.atomics if it.loop == loop]
            reads = _unique([str(it.key[0]) for it in loads if it.key not in rings] + atomics)
            writes = _unique(
                [
                    str(it.key[0])
                    for it in program.stores
                    if it.key[1] == loop and not plan.store(it.key).store_warp and not plan.correction
                ]
                + atomics
            )
            return Task(part.name, text, reads, writes, gets)


def _handed(plan: Plan, store: Access, loop: int | None) -> bool:
    """Whether the store warp issues a store of a loop."""
    return store.key[1] == loop and plan.store(store.key).store_warp is True


def _joined(tasks: Iterable[Task]) -> Iterable[Task]:
    """Tasks of one partition outside of loops with dots are one."""
    found: dict[tuple[str, str], Task] = {}
    for it in tasks:
        before = found.get((it.partition, it.loop))
        found[it.partition, it.loop] = it if before is None else _both(before, it)
    return found.values()


def _both(first: Task, second: Task) -> Task:
    def of(name: str) -> tuple[str, ...]:
        return _unique([*getattr(first, name), *getattr(second, name)])

    return Task(first.partition, first.loop, of("reads"), of("writes"), of("gets"), of("puts"))


def _loops_of_atomics(program: Program, known: set[int | None]) -> list[int | None]:
    return [it for it in dict.fromkeys(other.loop for other in program.atomics) if it not in known]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _all(arguments: tuple[str, ...], rings: tuple[str, ...]) -> str:
    of_rings = f"the ring{'s' * (len(rings) > 1)} {', '.join(rings)}" if rings else ""
    return " and ".join(filter(None, (", ".join(arguments), of_rings)))
