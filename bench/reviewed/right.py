"""Harmless edits: programs that are as right as the kernel, although they look different. None may be refuted."""

from __future__ import annotations

from collections.abc import Iterator

from bench.reviewed.edits import ARRIVE, DOT_WAIT, EXPECT, FENCE, INIT, WAIT, At, Program
from bench.reviewed.faults_rings import RINGS
from bench.reviewed.kinds import Change, Fault, Place, both, doubled, guarded, integer, partition_if
from bench.reviewed.rings import RingOf
from tawa.dialects.ttg import whole_of
from tawa.ir import Value

# -- edits -------------------------------------------------------------------------------------------------------------


def bound(place: Place, change: str) -> Change:
    """The bound of a loop, written in another way. change: the expression, over K."""

    def edit(program: Program) -> None:
        at = At(program, place.of(program).loops()[0], place.part)

        def other(here: At, high: Value) -> Value:
            match change:
                case "K + 0":
                    return here.make("+", high, 0)
                case "min(K, K)":
                    return here.make("min", high, high)
                case "1 * K":
                    return here.make("*", here.number(1, high.type), high)
                case "K ^ 0":
                    return here.make("^", high, 0)
                case "min(K, 64 * 20000)":
                    return here.make("min", high, 64 * 20000)
                case "K + (K + 64)":
                    return here.make("+", high, here.make("+", high, 64))
                case "(K + K) + 64":
                    return here.make("+", here.make("+", high, high), 64)
                case _:
                    raise ValueError(change)

        at.operand(1, other)

    return edit


def halves(place: Place) -> Change:
    """The bytes of a ring are announced in two parts everywhere, and the mbarriers count one arrival more."""

    def edit(program: Program) -> None:
        ring = ring_of(program, place.of(program).op.operands[0], place.part)
        for part in range(-1, len(program.partitions)):
            for op in program.all(EXPECT, part):
                if ring_of(program, op.operands[0], part) is ring:
                    at = At(program, op, part)
                    At(program, at.copy(), part).integer("size", lambda size: size // 2)
                    at.integer("size", lambda size: size - size // 2)
        counts(program, ring, 1)

    return edit


def twice(place: Place) -> Change:
    """A release by two arrivals, and mbarriers that count twice as many."""

    def edit(program: Program) -> None:
        at = place.of(program)
        at.copy()
        counts(program, ring_of(program, at.op.operands[0], place.part), 1)

    return edit


def ring_of(program: Program, view: Value, part: int) -> Value:
    """The allocation of the mbarriers of a ring."""
    ring = whole_of(view)
    if part > 0:
        owner = program.fork if program.fork.operands else program.holder
        ring = owner.operands[program.partitions[part].args.index(ring)]
    return ring


def counts(program: Program, ring: Value, more: int) -> None:
    """Adds to the count of arrivals of all mbarriers of a ring."""
    for init in program.all(INIT, -1):
        if whole_of(init.operands[0]) is ring:
            At(program, init, -1).integer("count", lambda count: count + more)


def everywhere(argument: str, least: int) -> Change:
    """All partitions do their work only if an argument is large enough."""

    def edit(program: Program) -> None:
        for part in range(1, len(program.partitions)):
            partition_if(part, argument, ">=", least)(program)

    return edit


# -- programs ----------------------------------------------------------------------------------------------------------


def of_ring(it: RingOf) -> Iterator[Fault]:
    """What is harmless for every ring."""

    def right(name: str, why: str, change: Change) -> Fault:
        return it.fault(name, why, change)

    yield right(
        "released if j > -1",
        "A number of iterations is never negative.",
        guarded(it.release, lambda at: at.compare(at.trip(), ">", -1)),
    )
    yield right(
        "waits for full if j >= 0",
        "A number of iterations is never negative.",
        guarded(it.get, lambda at: at.compare(at.trip(), ">=", 0)),
    )
    yield right(
        "released if a carried flag is set",
        "The flag is set before the loop and never changes.",
        guarded(it.release, lambda at: at.carried(1, lambda end, flag: flag, "i1")),
    )
    yield right("waits for full twice", "The phase cannot end before the slot is released.", doubled(it.get))
    yield right("waits for empty twice", "The phase cannot end before the slot is filled.", doubled(it.acquire))
    if it.announce is not None:
        yield right(
            "bytes announced in two parts",
            "The mbarriers count both arrivals, and all bytes are announced before the copies.",
            halves(it.announce),
        )


def bounds(it: RingOf, words: str, two: tuple[str, str]) -> Iterator[Fault]:
    """Loops whose bounds are written differently in two partitions."""
    yield it.fault(f"the producer's loop ends at {words}", "That is the same number.", bound(it.acquire, words))
    first, second = two
    yield it.fault(
        f"loops end at {first} and at {second}",
        "Both partitions make the same number of iterations.",
        both(*(bound(Place(WAIT, part), first) for part in range(it.acquire.part)), bound(it.acquire, second)),
    )


_WORDS = ("K + 0", "min(K, K)", "1 * K", "K ^ 0")
_TWO = (("min(K, 64 * 20000)", "min(K, 64 * 20000)"), ("K + (K + 64)", "(K + K) + 64"))
_SINGLE_LOOP = frozenset(RINGS) - {"split_k", "two_loops", "experts", "stride2", "converter"}


def _all() -> Iterator[Fault]:
    for number, it in enumerate(RINGS.values()):
        yield from of_ring(it)
        if it.kernel in _SINGLE_LOOP:
            yield from bounds(it, _WORDS[number % 4], _TWO[number % 2])


def _others() -> Iterator[Fault]:
    """The kernels without a ring of `RINGS`."""
    producers = {"grouped": 1, "joined": 2, "ping_pong": 2, "three": 3, "attention": 2, "tickets": 2}
    for kernel, producer in producers.items():
        yield Fault(
            kernel, "waits for full twice", "The phase cannot end before the slot is released.", doubled(Place(WAIT))
        )
        yield Fault(
            kernel,
            "waits for empty twice",
            "The phase cannot end before the slot is filled.",
            doubled(Place(WAIT, producer, 4 if kernel == "grouped" else 0)),
        )
        yield Fault(kernel, "released if the program's number is not negative", "It never is.",
                    guarded(Place(ARRIVE), lambda at: at.compare(at.program_id(), ">=", 0)))  # fmt: skip


RIGHT = (
    *_all(),
    *_others(),
    Fault("tickets_sum", "as it is", "It is `tickets`, where the sum of one number is that number.", lambda it: None),
    Fault("pairs", "P = 0", "The consumers wait for each wgmma before they go on.", both(
        integer(Place(DOT_WAIT, 0), "pendings", lambda _: 0), integer(Place(DOT_WAIT, 1), "pendings", lambda _: 0))),
    Fault("staged", "a fence more", "Fences order more, not less.", doubled(Place(FENCE))),
    Fault("persistent", "released by two arrivals", "The mbarriers count both.", both(
        twice(Place("ttng.arrive_barrier", 0, 0)), lambda p: p.find("ttng.arrive_barrier", 0, 2).copy() and None)),
)  # fmt: skip
