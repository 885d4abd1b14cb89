"""Faults of bounds, tiles and arguments: one partition differs from the others, for certain numbers."""

from __future__ import annotations

from collections.abc import Callable

from bench.reviewed.edits import ARRIVE, COPY, DOT_WAIT, FENCE, FOR, INIT, STORE_WAIT, WAIT, At, Condition, Program
from bench.reviewed.kinds import (
    Change,
    Fault,
    Place,
    argument_is,
    dropped,
    float_equals_itself,
    float_is,
    guarded,
    integer,
    loaded_is,
    moved,
    multiple,
    not_trip,
    operand,
    partition_if,
    program_below,
)
from tawa.ir import Value

_WHOLE = 64 * 20000


def _bound(loop: Place, change: Callable[[At, Value], Value]) -> Change:
    return operand(loop, 1, change)


def _inner(part: int) -> Place:
    return Place(FOR, part, 1)


def _floor(at: At, high: Value) -> Value:
    return at.make("*", at.make("//", high, 64), 64)


def _capped(at: At, high: Value) -> Value:
    return at.make("min", high, _WHOLE)


def _tiles(n: int) -> Callable[[At, Value], Value]:
    """At most n programs' worth of tiles."""

    def change(at: At, high: Value) -> Value:
        step = at.op.operands[2]
        return at.make("min", high, at.make("*", step, n))

    return change


def _of_loops() -> list[Fault]:
    """Persistent kernels: their loops over K and over tiles."""
    found: list[Fault] = []
    for kernel in ("persistent", "staged", "counted", "peer_gemm"):
        k100 = {"K": 64 * 3 + 36}

        def fault(
            name: str, why: str, change: Change, kernel: str = kernel, shown: bool = True, **numbers: int
        ) -> None:
            found.append(Fault(kernel, name, why, change, {"M": 900, "N": 900, **numbers}, shown=shown))

        fault(
            "the producer rounds K down",
            "The last part of K is never copied, if K mod 64 != 0.",
            _bound(_inner(1), _floor),
            **k100,
        )
        fault(
            "the consumer rounds K down",
            "Nobody releases the last slot of a tile, if K mod 64 != 0.",
            _bound(_inner(0), _floor),
            **k100,
        )
        fault(
            "the producer stops at 64 * 20000",
            "The consumer waits for trip 20000, which is never copied.",
            _bound(_inner(1), _capped),
            shown=False,
        )
        fault(
            "the consumer does three tiles at most",
            "The producer fills the ring and waits forever.",
            _bound(Place(FOR, 0), _tiles(3)),
            K=64 * 5,
            TILES=20,
        )
        fault(
            "the producer does four tiles at most",
            "The consumer waits for the fifth tile forever.",
            _bound(Place(FOR, 1), _tiles(4)),
            TILES=20,
        )
        fault(
            "no release in the third tile",
            "The slots of the third tile stay full: deadlock in the fourth.",
            guarded(Place(ARRIVE), not_trip(2, outer=1)),
            TILES=20,
        )
        fault(
            "no wait for empty in the second tile",
            "Copies overwrite slots that dots still read.",
            guarded(Place(WAIT, 1), not_trip(1, outer=1)),
            TILES=20,
        )
        fault(
            "the producer only works if K >= 64",
            "The consumer waits for the first tile if 0 < K < 64.",
            partition_if(1, "K", ">=", 64),
            K=40,
        )
        fault(
            "releases only if the program's number is below K",
            "Programs behind that number never release a slot.",
            guarded(Place(ARRIVE), program_below("K")),
            K=64 * 20,
            pid0=2000,
            programs0=1,
            M=128 * 80,
            N=128 * 80,
            TILES=2002,
        )
        fault(
            "waits for full only if K is a multiple of 64",
            "With other K, dots read slots that are not full.",
            guarded(Place(WAIT), multiple("K", 64)),
            **k100,
        )
        fault(
            "copies only if K != 4928",
            "With that K, announced bytes never land.",
            guarded(Place(COPY, 1), argument_is("K", "!=", 4928)),
            K=4928,
        )
    return found  # fmt: skip


def _of_values() -> list[Fault]:
    """Conditions on floats and on numbers in memory."""
    where: tuple[tuple[str, str, Place, Condition, dict[str, float], dict[str, tuple[int, ...]]], ...] = (
        ("scaled", "released only if scale > 0", Place(ARRIVE), float_is("scale", ">", 0.0), {"scale": -1.0}, {}),
        ("scaled", "released unless scale is NaN", Place(ARRIVE), float_equals_itself("scale"),
         {"scale": float("nan")}, {}),
        ("scaled", "waits for empty only if scale <= 65504", Place(WAIT, 1), float_is("scale", "<=", 65504.0),
         {"scale": 1e6}, {}),
        ("attention", "keys released only if scale >= 0", Place(ARRIVE, 0, 1), float_is("scale", ">=", 0.0),
         {"scale": -1.0}, {}),
        ("ping_pong", "waits for keys unless scale is NaN", Place(WAIT, 0, 2), float_equals_itself("scale"),
         {"scale": float("nan")}, {}),
        ("grouped", "released only if the first size is not 77", Place(ARRIVE), loaded_is("sizes_ptr", "!=", 77), {},
         {"sizes_ptr": (77, 640, 320, 256, 128, 320, 200, 128, 448)}),
        ("grouped", "waits for full only if the first stride is positive", Place(WAIT),
         loaded_is("strides_ptr", ">", 0), {},
         {"strides_ptr": (0,)}),
        ("experts", "released only if the first token is not 5", Place(ARRIVE, 0, 1),
         loaded_is("tokens_ptr", "!=", 5), {},
         {"tokens_ptr": (5,)}),
        ("counter", "released only if the counter is below 2", Place(ARRIVE),
         loaded_is("tawa_tile_counter", "<", 2), {}, {}),
        ("pointers", "released only if N <= 1024", Place(ARRIVE), argument_is("N", "<=", 1024), {"N": 2000}, {}),
    )  # fmt: skip
    why = "If the condition is false, the operation is missing in every trip: deadlock or race."
    return [Fault(kernel, name, why, guarded(place, condition), numbers, tables)
            for kernel, name, place, condition, numbers, tables in where]  # fmt: skip


def _first_init(more: int) -> Change:
    return integer(Place(INIT, -1), "count", lambda count: count + more)


def _late_init(program: Program) -> None:
    """Initialises the last mbarrier in the default partition."""
    last = program.all(INIT, -1)[-1]
    target = At(program, program.partitions[0].ops[0], 0)
    At(program, last, -1).move(target)


_KERNELS = (
    "persistent", "grouped", "joined", "converter", "staged", "counter", "split_k", "experts", "ping_pong", "three",
    "attention", "two_loops", "stride2", "pairs", "counted", "bits", "rounds", "scaled", "pointers", "peer_gemm",
)  # fmt: skip


def _of_barriers() -> list[Fault]:
    """Mbarriers that count one arrival too many, or that are initialised too late or not at all."""
    found: list[Fault] = []
    for kernel in _KERNELS:
        found += [
            Fault(kernel, "the first mbarrier counts one arrival more", "Its first phase never completes.",
                  _first_init(1)),
            Fault(kernel, "the last mbarrier is not initialised", "An mbarrier is used without initialisation.",
                  lambda program: At(program, program.all(INIT, -1)[-1], -1).drop()),
            Fault(kernel, "the last mbarrier is initialised by one partition",
                  "The other partitions may use it before it is initialised.", _late_init),
        ]  # fmt: skip
    return found


def _of_order() -> list[Fault]:
    """Waits of wgmmas and of stores, and fences."""
    in_flight = (
        "persistent",
        "grouped",
        "staged",
        "counter",
        "split_k",
        "experts",
        "two_loops",
        "stride2",
        "pairs",
        "peer_gemm",
    )
    stores = ("persistent", "grouped", "staged", "counter", "counted")
    more = "The slot that is released is still read by a wgmma."
    early = "A wgmma still reads the slot when it is released."
    used = "The accumulator is read while a wgmma writes it."
    return [
        *(Fault(k, "one more wgmma in flight", more, integer(Place(DOT_WAIT), "pendings", lambda n: n + 1))
          for k in in_flight),
        *(Fault(k, "one wgmma in flight", more, integer(Place(DOT_WAIT), "pendings", lambda n: n + 1))
          for k in ("counted", "bits", "rounds", "scaled")),
        *(Fault(k, "released before the wait for the wgmma", early, moved(Place(ARRIVE), Place(DOT_WAIT)))
          for k in ("counted", "bits", "rounds", "scaled", "attention", "joined")),
        *(Fault(k, "no wait for the last wgmma", used, integer(Place(DOT_WAIT, 0, 1), "pendings", lambda n: n + 1))
          for k in ("persistent", "grouped", "counter", "pairs", "peer_gemm")),
        *(Fault(k, "no wait for the store before", "The buffer is overwritten while a store reads it.",
                dropped(Place(STORE_WAIT, 0, 1 if k == "grouped" else 0))) for k in stores),
        *(Fault(k, "no fence before the store", "The copy may read what was in the buffer before.",
                dropped(Place(FENCE))) for k in (*stores, "pairs", "bits", "attention")),
        Fault("scaled", "no fence behind the producer's store", "The wgmma may read what was in the slot before.",
              dropped(Place(FENCE, 1))),
        Fault("stride2", "no fence behind the producer's store", "The wgmma may read what was in the slot before.",
              dropped(Place(FENCE, 1))),
        Fault("converter", "no fence behind the converter's store", "The wgmma may read what was in the slot before.",
              dropped(Place(FENCE, 1))),
    ]  # fmt: skip


FAULTS = (*_of_loops(), *_of_values(), *_of_barriers(), *_of_order())
