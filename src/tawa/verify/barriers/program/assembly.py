"""The protocol events of inline assembly: named barriers and fences.

    "bar.sync 8, 256;"     →   Event("arrive at", named barrier 8, 128 threads of 256); Event("wait at", …)
    "bar.arrive 8, 256;"   →   Event("arrive at", …)

Triton's back end uses named barriers too: number 0 for the warps of the default partition (of the kernel, if it has no
partitions), 1 to start and end the partitions, 2 + i for the warps of partition i. A program may wait at a barrier of
its own partition, with all of its threads: that is what Triton does there.

Source: PTX ISA, "bar, barrier"; Triton's lowering of ``ttg.warp_specialize`` (its barrier indices).
"""

from __future__ import annotations

from tawa.dialects.inline.effects import NAMED_BARRIERS, NamedBarrier, Unlisted, effects_of
from tawa.dialects.ttg import WarpSpecializeOp, partition_of, warps_of, warps_of_cta, warps_of_partitions
from tawa.ir import Operation, Value
from tawa.verify.barriers.program.kernel import NAMED, BarrierProgram, Memory, NotUnderstood
from tawa.verify.barriers.program.operations import number
from tawa.verify.barriers.run.events import Environment, Event, Opaque, Recorder, Trace

_WARP = 32
_STARTS = 1
_FIRST_PARTITION = 2


def act(self: Recorder, op: Operation, env: Environment, trace: Trace) -> None:
    """Records the events of inline assembly in the order of its instructions."""
    effects = effects_of(op)
    assert not isinstance(effects, Unlisted)
    for effect in effects:
        if isinstance(effect, NamedBarrier):
            _meet(self, op, effect, env, trace)
        else:
            self.emit(trace, Event("fence", op))
    for result in op.results:
        env[result] = Opaque(op)


def _meet(self: Recorder, op: Operation, effect: NamedBarrier, env: Environment, trace: Trace) -> None:
    place = _number(op, effect.number, env, "the number of a named barrier")
    forks = forks_of(self.program)
    try:
        own, everything = warps_of(op) * _WARP, warps_of_cta(op) * _WARP
    except ValueError:
        raise NotUnderstood("a named barrier in a module without the number of its warps (ttg.num-warps)", op) from None
    threads = everything if effect.threads is None else _number(op, effect.threads, env, "the threads")
    if not 0 <= place < NAMED_BARRIERS:
        raise NotUnderstood(f"named barrier {place}: there are 0 … {NAMED_BARRIERS - 1}", op)
    if threads <= 0 or threads % _WARP:
        raise NotUnderstood(f"a named barrier of {threads} threads: they must be whole warps of {_WARP}", op)
    partitions = most_partitions(forks)
    barrier = Memory(NAMED, (place,))
    if place == _STARTS and forks:
        self.emit(trace, Event("reserved", op, barrier=barrier))
        return
    if (forks and place < _FIRST_PARTITION + partitions) or place == 0:
        home = _home(op)
        if place != home or threads != own or not effect.waits:
            raise NotUnderstood(_reserved(place, partitions), op)
    self.emit(trace, Event("arrive at", op, (), barrier, own, of=threads))
    if effect.waits:
        self.emit(trace, Event("wait at", op, (), barrier, own, of=threads))


def _reserved(place: int, partitions: int) -> str:
    owner = f"partition{place - _FIRST_PARTITION}" if place >= _FIRST_PARTITION else "the default partition"
    if not partitions:
        owner = "the kernel"
    return (
        f"named barrier {place} belongs to {owner}: Triton's back end synchronises its warps with it. "
        f"Cure: {free_barriers(partitions)}"
    )


def forks_of(program: BarrierProgram) -> list[Operation]:
    """The operations that start partitions."""
    return [op for op in program.ops if WarpSpecializeOp.matches(op)]


def most_partitions(forks: list[Operation]) -> int:
    """The most partitions that one of them starts, besides the default one."""
    return max((len(warps_of_partitions(fork)) for fork in forks), default=0)


def free_barriers(partitions: int) -> str:
    """Which named barriers a program may use: ``use one of 4 … 15``."""
    first = _FIRST_PARTITION + partitions if partitions else 1
    if first >= NAMED_BARRIERS:
        return "use fewer partitions; no named barrier is free"
    return f"use one of {first} … {NAMED_BARRIERS - 1}"


def _number(op: Operation, value: int | Value, env: Environment, what: str) -> int:
    return value if isinstance(value, int) else number(op, value, env, what)


def _home(op: Operation) -> int:
    """The barrier that Triton uses for the warps which execute `op`."""
    partition = partition_of(op)
    return 0 if partition is None else _FIRST_PARTITION + partition[1]
