"""Named barriers in inline assembly, as events; which of them Triton's back end uses itself, and which are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tawa.dialects import ttg
from tawa.dialects.inline.effects import NAMED_BARRIERS, NamedBarrier, Unlisted, effects_of
from tawa.dialects.ttg import warps_of, warps_of_cta, warps_of_partitions
from tawa.ir import Operation, Value
from tawa.machine.nvidia import WARP
from tawa.verify.run.events import Act
from tawa.verify.run.places import NotUnderstood

_STARTS = 1
_FIRST_PARTITION = 2


class _Compiler(Protocol):
    """What the events need of the compiler of the skeleton."""

    def use(self, value: Value) -> int: ...
    def act(self, act: Act, *conditions: Value | None) -> None: ...
    def constant(self, number: Any) -> int: ...


def most_partitions(forks: Iterable[Operation]) -> int:
    """The most partitions that one of them starts, besides the default one."""
    return max((len(warps_of_partitions(fork)) for fork in forks), default=0)


def free_barriers(partitions: int) -> str:
    """Which named barriers a program may use: ``use one of 4 … 15``."""
    first = _FIRST_PARTITION + partitions if partitions else 1
    if first >= NAMED_BARRIERS:
        return "use fewer partitions; no named barrier is free"
    return f"use one of {first} … {NAMED_BARRIERS - 1}"


def _home(op: Operation) -> int:
    """The barrier that Triton uses for the warps which execute `op`."""
    partition = ttg.partition_of(op)
    return 0 if partition is None else _FIRST_PARTITION + partition[1]


def assembly(self: _Compiler, op: Operation, forks: Sequence[Operation]) -> None:
    """The events of inline assembly, in the order of its instructions.

    Triton's back end uses named barriers too: number 0 for the warps of the default partition (of the kernel, if it has
    no partitions), 1 to start and end the partitions, 2 + i for the warps of partition i. A program may wait at a
    barrier of its own partition, with all of its threads: that is what Triton does there.

    Source: PTX ISA, "bar, barrier"; Triton's lowering of ``ttg.warp_specialize`` (its barrier indices).
    """
    effects = effects_of(op)
    assert not isinstance(effects, Unlisted)
    for effect in effects:
        if not isinstance(effect, NamedBarrier):
            self.act(Act("fence", op))
            continue
        try:
            own, everything = warps_of(op) * WARP, warps_of_cta(op) * WARP
        except ValueError:
            raise NotUnderstood(
                "a named barrier in a module without the number of its warps (ttg.num-warps)", op
            ) from None
        number, threads = effect.number, everything if effect.threads is None else effect.threads
        place = self.use(number) if isinstance(number, Value) else self.constant(number)
        of = self.use(threads) if isinstance(threads, Value) else -1
        for kind in ("arrive at", "wait at") if effect.waits else ("arrive at",):
            check = _checked(kind, own, effect.waits, forks)
            reads = (place,) if of < 0 else (place, of)
            amount = threads if isinstance(threads, int) else 0
            self.act(Act(kind, op, barrier=place, amount=own, of=amount, threads=of, reads=reads, check=check))


def _checked(kind: str, own: int, waits: bool, forks: Sequence[Operation]) -> Callable[[Operation, int, int], str]:
    partitions = most_partitions(forks)

    def check(op: Operation, place: int, threads: int) -> str:
        if not 0 <= place < NAMED_BARRIERS:
            raise NotUnderstood(f"named barrier {place}: there are 0 … {NAMED_BARRIERS - 1}", op)
        if threads <= 0 or threads % WARP:
            raise NotUnderstood(f"a named barrier of {threads} threads: they must be whole warps of {WARP}", op)
        if place == _STARTS and forks:
            return "reserved"
        if ((forks and place < _FIRST_PARTITION + partitions) or place == 0) and (
            place != _home(op) or threads != own or not waits
        ):
            raise NotUnderstood(_reserved(place, partitions), op)
        return kind

    return check


def _reserved(place: int, partitions: int) -> str:
    owner = f"partition{place - _FIRST_PARTITION}" if place >= _FIRST_PARTITION else "the default partition"
    return (
        f"named barrier {place} belongs to {owner if partitions else 'the kernel'}: Triton's back end synchronises its "
        f"warps with it. Cure: {free_barriers(partitions)}"
    )
