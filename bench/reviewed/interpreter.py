"""A small interpreter for TTGIR programs with partitions: which faults show in some runs with given numbers.

It is independent of `tawa.verify` and of `tawa.sim`. It runs the scalars of a program, not its tiles, and looks at what
the partitions do with shared memory, mbarriers and asynchronous copies (`bench.reviewed.machine`). `outcome` runs a
program in some orders of partitions and of landing copies. A program is wrong if one run deadlocks, races, reads an
accumulator that a wgmma may still write, or breaks a rule of mbarriers.

Memory of numbers: `tables` has lists by the name of the argument; other loads give 0. Tiles of one number (a splat)
keep it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.reviewed.machine import (
    NEVER,
    Access,
    Barrier,
    InFlight,
    Landing,
    Memory,
    NotModelled,
    Partition,
    View,
    Wrong,
    join,
)
from bench.reviewed.scalars import OPERATIONS
from bench.reviewed.steps import ENDS, HANDLERS
from tawa.ir import Block, Module, Operation, Value

End = tuple[str, int] | None
_SHAPES = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.unsplat", "tt.reshape"})


@dataclass
class Machine:
    """One run."""

    arguments: Mapping[str, Any]
    tables: Mapping[str, Sequence[int] | Callable[[int], int]]
    eager: bool

    def __post_init__(self) -> None:
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.landings: list[Landing] = []
        self.partitions: list[Partition] = []
        self.descriptors: dict[object, Memory] = {}
        self.counters: dict[object, int] = {}
        self.module_warps = 4

    # -- running ----------------------------------------------------------------------------------------------------

    def block(self, block: Block, env: dict[Value, Any], part: Partition) -> Iterator[object]:
        """Runs a block; returns the operands of its terminator."""
        for op in block.ops:
            if op is block.ops[-1] and op.name in ENDS:
                return [self.take(it, env, part, loose=True) for it in op.operands]
            found = HANDLERS.get(op.name)
            if found is None:
                self.plain(op, env, part)
                continue
            made = found(self, op, env, part)
            if made is not None:
                yield from made
        return []

    def take(self, value: Value, env: dict[Value, Any], part: Partition, loose: bool = False) -> Any:
        """The number or view of an operand. loose: an accumulator in flight may be handed on."""
        found = env[value]
        if isinstance(found, InFlight) and part.clock.get(found.end[0], 0) >= found.end[1]:
            return None
        if isinstance(found, InFlight) and not loose:
            raise Wrong(f"{part.name} uses an accumulator that a wgmma still writes")
        return found

    def number(self, value: Value, env: dict[Value, Any], part: Partition) -> Any:
        """An operand that must be a number."""
        found = self.take(value, env, part)
        if found is None:
            raise NotModelled(f"an operand of type {value.type} is not known")
        return found

    def plain(self, op: Operation, env: dict[Value, Any], part: Partition) -> None:
        """An operation without effects: a number where all operands are numbers."""
        taken = [self.take(it, env, part) for it in op.operands]
        for result in op.results:
            env[result] = None
        if op.name in _SHAPES:
            env[op.result] = taken[0] if not isinstance(taken[0], View) else None
        elif op.name in OPERATIONS and None not in taken:
            env[op.result] = OPERATIONS[op.name](op, taken)

    def holds(self, op: Operation, index: int, env: dict[Value, Any], part: Partition) -> bool:
        """Whether a predicate is there and false is not its value."""
        return index >= len(op.operands) or bool(self.number(op.operands[index], env, part))

    # -- memory -----------------------------------------------------------------------------------------------------

    def touch(self, view: View, part: Partition, who: str, writes: bool, end: End = None, proxy: bool = True) -> Access:
        """An access of the partition; `end` of an asynchronous one. proxy: such a one is of the async proxy."""
        ends = [end or (part.name, part.tick())]
        access = Access(f"{who} of {part.name}", writes, end is None or not proxy, view.where, ends)
        return view.memory.access(access, part.clock)

    def barrier(self, view: View, part: Partition, who: str) -> Barrier:
        """The mbarrier at a view, for an operation other than its initialisation."""
        found = self.barriers.get((id(view.memory), view.where[0][0]))
        if found is None:
            raise Wrong(f"{who} of {part.name} at an mbarrier of {view.memory.name} that is not initialised")
        for old in view.memory.accesses:
            if old.writes and old.where[0][0] == view.where[0][0] and not old.before(part.clock):
                raise Wrong(f"{who} of {part.name} is not ordered behind {old.who}")
        return found


# -- schedules ---------------------------------------------------------------------------------------------------------


def run_once(module: Module, arguments: Mapping[str, Any], tables: Mapping[str, Any], order: str, seed: int) -> None:
    """One run; raises Wrong. order: ``first N`` (partition N whenever it can), or ``random``."""
    machine = Machine(arguments, tables, eager=order.endswith("eager"))
    function = next(op for op in module.walk() if op.name == "tt.func" and op.regions and op.regions[0].blocks)
    entry = function.regions[0].block
    env: dict[Value, Any] = {}
    for number, arg in enumerate(entry.args):
        env[arg] = machine_argument(arg, number, arguments)
    warps = module.op.attributes.get("ttg.num-warps", "4 : i32")
    machine.module_warps = int(warps.split()[0])
    main = Partition("main", {"main": 1}, machine.module_warps * 32)
    main.steps = machine.block(entry, env, main)
    machine.partitions.append(main)
    chooser, numbered = random.Random(seed), re.match(r"first (\d)", order)
    preferred = int(numbered[1]) if numbered else -1
    while not all(it.over for it in machine.partitions):
        able = [it for it in machine.partitions if it.able()]
        if machine.landings and (machine.eager or not able or (preferred < 0 and chooser.random() < 0.2)):
            last = len(machine.landings) - 1
            machine.landings.pop(0 if machine.eager else chooser.randint(0, last)).land()
            continue
        if not able:
            stuck = [f"{it.name} at {it.waits[0].name}" for it in machine.partitions if not it.over and it.waits]
            raise Wrong(f"deadlock: {', '.join(stuck)}")
        part = chooser.choice(able)
        if preferred >= 0:
            part = min(able, key=lambda it: (machine.partitions.index(it) - preferred) % len(machine.partitions))
        advance(part, chooser.randint(1, 6) if preferred < 0 else NEVER)


def advance(part: Partition, steps: int) -> None:
    """Runs a partition until it waits, has ended, or has made some steps."""
    if part.waits is not None:
        join(part.clock, part.waits[0].done)
        part.waits = None
    for _ in range(steps):
        try:
            found = next(part.steps)
        except StopIteration:
            part.over = True
            return
        if isinstance(found, tuple):
            part.waits = found
            if not part.waits[0].passes(part.waits[1]):
                return
            join(part.clock, part.waits[0].done)
            part.waits = None


def machine_argument(arg: Value, number: int, arguments: Mapping[str, Any]) -> Any:
    """The value of an argument of the kernel."""
    if arg.type.startswith("!tt.ptr"):
        return (arg.hint, 0)
    if arg.type.startswith("!tt.tensordesc"):
        return ("descriptor", arg.hint, number)
    return arguments.get(arg.hint, 1)


ORDERS = ("first 0 eager", "first 0", "first 1", "first 1 eager", "first 2", "first 3", "random", "random", "random")


def outcome(module: Module, arguments: Mapping[str, Any], tables: Mapping[str, Any] | None = None) -> str:
    """What goes wrong in one of some runs; empty if nothing does."""
    for seed, order in enumerate(ORDERS):
        try:
            run_once(module, arguments, tables or {}, order, seed)
        except Wrong as error:
            return str(error)
    return ""
