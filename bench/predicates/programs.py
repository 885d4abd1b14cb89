"""A program: a producer fills a ring by TMA, a consumer reads it and releases slots where a predicate holds.

    producer:  for t in tiles: for k in trips: wait empty[s]; expect full[s]; copy to slot s
    consumer:  for t in tiles: for k in trips: wait full[s]; read slot s; arrive on empty[s] where the predicate holds

`text` is the program in MLIR's generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.predicates.terms import Term, number
from bench.predicates.writer import BOOL, INT, Writer

Position = Literal["count", "pair", "bit"]
"""How a partition writes slot and parity: from a running count, as a pair that it carries, or as a parity alone."""
ARGUMENTS = ("K", "T")
PROGRAM, PROGRAMS, LOADED, IN_MEMORY = "pid", "programs", "m", "memory"
COUNT, INNER, OUTER = "i", "k", "t"
_ADD = " <{overflowFlags = #arith.overflow<none>}>"


@dataclass(frozen=True, slots=True)
class Loop:
    """``for … in range(lower, upper, step)``."""

    lower: Term
    upper: Term
    step: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        """The bounds and the step."""
        return self.lower, self.upper, self.step

    def __str__(self) -> str:
        return f"range({self.lower}, {self.upper}, {self.step})"


@dataclass(frozen=True, slots=True)
class Load:
    """A number from memory, at an address: where the mask holds (None: always), and else `other`."""

    at: Term
    mask: Term | None = None
    other: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    outer: the loop over tiles; None: there is none. releases: the predicates of the arrivals of an iteration. late:
    whether an iteration releases the slot of the one before, and the last slot of a tile is released behind the loop,
    where `tail` holds. kind: the kind of predicate. right: whether it is right by construction.
    """

    depth: int
    outer: Loop | None
    inner: Loop
    positions: tuple[Position, Position]
    releases: tuple[Term, ...]
    kind: str
    load: Load | None = None
    late: bool = False
    tail: Term | None = None
    right: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms of the program."""
        loops = [it for loop in (self.outer, self.inner) if loop for it in loop.terms]
        load = [it for it in (self.load.at, self.load.mask) if it] if self.load else []
        return (*loops, *self.releases, *([self.tail] if self.tail else []), *load)

    def variables(self) -> set[str]:
        """The names of the variables that the program depends on."""
        return set[str]().union(*(it.variables() for it in self.terms))

    def __str__(self) -> str:
        tiles = f"t in {self.outer}, " if self.outer else ""
        when = "; ".join(map(str, self.releases))
        late = f", the slot before; behind the loop where {self.tail}" if self.late else ""
        load = self.load
        masked = f" where {load.mask}, else {load.other}" if load and load.mask else ""
        memory = f", m = memory[{load.at}]{masked}" if load else ""
        return f"D = {self.depth}, {tiles}k in {self.inner}{memory}: release where {when}{late}"


# --- text -------------------------------------------------------------------------------------------------------------

_LAYOUT = "#blocked"
_TILE = f"tensor<64x64xf16, {_LAYOUT}>"
_HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory"""
_TAIL = (
    '{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}'
)
_BARRIER = "!ttg.memdesc<1xi64, #shared1, #smem, mutable>"
_SLOT = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
_DESCRIPTOR = "!tt.tensordesc<tensor<64x64xf16, #shared>>"
_BYTES = 64 * 64 * 2
_PARAMETERS = {"a": _DESCRIPTOR, "rows": INT, "columns": INT, "row_stride": "i64", "column_stride": "i64",
               "o": "!tt.ptr<f16>", "p": "!tt.ptr<i32>", "K": INT, "T": INT}  # fmt: skip
_LOAD = (
    " <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = "
    "array<i32: 1, %d, %d>}>"
)


def _rings(depth: int) -> tuple[str, str]:
    return (f"!ttg.memdesc<{depth}x64x64xf16, #shared, #smem, mutable>",
            f"!ttg.memdesc<{depth}x1xi64, #shared1, #smem, mutable>")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ring:
    """The names of a ring in a partition."""

    slots: str
    full: str
    empty: str
    depth: int

    def barrier(self, out: Writer, array: str, slot: str) -> str:
        return out.op("ttg.memdesc_index", (array, slot), (_rings(self.depth)[1], INT), _BARRIER)

    def slot(self, out: Writer, slot: str) -> str:
        return out.op("ttg.memdesc_index", (self.slots, slot), (_rings(self.depth)[0], INT), _SLOT)


def text(program: Program) -> str:
    """The program in MLIR's generic form."""
    out = Writer()
    names = {name: f"%{name}" for name in _PARAMETERS}
    kinds = ", ".join(_PARAMETERS.values())
    out.lines += [_HEAD, '"builtin.module"() ({']
    out.line(f'"tt.func"() <{{function_type = ({kinds}) -> (), sym_name = "kernel", sym_visibility = "public"}}> ({{')
    out.line("^bb0(" + ", ".join(f'%{name}: {kind} loc("{name}")' for name, kind in _PARAMETERS.items()) + "):")
    out.depth += 1
    with out.isolated():
        _body(program, out, names)
        out.op("tt.return", (), ())
    out.depth -= 1
    out.line("}) {noinline = false} : () -> ()")
    out.lines.append(f"}}) {_TAIL} : () -> ()")
    return "\n".join(out.lines) + "\n"


def _body(program: Program, out: Writer, names: Mapping[str, str]) -> None:
    slots, array = _rings(program.depth)
    made, full, empty = (out.op("ttg.local_alloc", (), (), kind) for kind in (slots, array, array))
    ring = _Ring(made, full, empty, program.depth)
    for slot in range(program.depth):
        for barriers in (ring.full, ring.empty):
            barrier = ring.barrier(out, barriers, out.constant(slot))
            out.op("ttng.init_barrier", (barrier,), (_BARRIER,), attributes=" <{count = 1 : i32}>")
    given = {"a": _DESCRIPTOR, ring.slots: slots, ring.full: array, ring.empty: array,
             **{name: _PARAMETERS[name] for name in ("p", *ARGUMENTS)}}  # fmt: skip
    operands = [names.get(it, it) for it in given]
    out.line(f'"ttg.warp_specialize"({", ".join(operands)}) '
             "<{partitionNumWarps = array<i32: 1>, requestedRegisters = array<i32: 24>}> ({")  # fmt: skip
    out.depth += 1
    _consume(program, out, names, ring)
    out.op("ttg.warp_yield", (), ())
    out.depth -= 1
    out.line("}, {")
    out.depth += 1
    out.line('"ttg.warp_specialize.partitions"() ({')
    own = [out.name() for _ in given]
    out.line("^bb1(" + ", ".join(f"{name}: {kind}" for name, kind in zip(own, given.values(), strict=True)) + "):")
    out.depth += 1
    with out.isolated():
        inside = {"a": own[0], "p": own[4], "K": own[5], "T": own[6]}
        _produce(program, out, inside, _Ring(own[1], own[2], own[3], program.depth))
        out.op("ttg.warp_return", (), ())
    out.depth -= 1
    out.line("}) : () -> ()")
    out.depth -= 1
    out.line(f"}}) : ({', '.join(given.values())}) -> ()")


def _consume(program: Program, out: Writer, names: Mapping[str, str], ring: _Ring) -> None:
    zeros = out.constant("dense<0.000000e+00>", _TILE)
    known = _scalars(program, out, names, {it for term in program.terms for it in term.variables()})
    position = _Position(program.positions[1], program.depth, program.late or COUNT in program.variables())

    def iteration(at: Mapping[str, str], carried: Sequence[str]) -> list[str]:
        total, *place = carried
        slot, parity = position.slot_and_parity(out, place)
        full = ring.barrier(out, ring.full, slot)
        _wait(out, full, parity)
        tile = out.op("ttg.local_load", (ring.slot(out, slot),), (_SLOT,), _TILE)
        flags = " <{fastmath = #arith.fastmath<none>}>"
        total = out.op("arith.addf", (total, tile), (_TILE, _TILE), _TILE, flags)
        out.op("ttng.fence_async_shared", (), (), attributes=" <{bCluster = false}>")
        here = {**at, COUNT: position.count(place)}
        freed = _slot_before(out, program.depth, here[COUNT]) if program.late else slot
        for release in program.releases:
            _arrive(out, ring.barrier(out, ring.empty, freed), out.term(release, here))
        return [total, *position.following(out, place)]

    def behind(at: Mapping[str, str], carried: Sequence[str]) -> None:
        if program.tail is not None:
            freed = _slot_before(out, program.depth, position.count(carried[1:]))
            _arrive(out, ring.barrier(out, ring.empty, freed), out.term(program.tail, at))

    kinds = [_TILE, *[INT] * position.carried]
    last = _loops(program, out, known, kinds, [zeros, *position.start(out)], iteration, behind)
    _store(out, names["o"], last[0])


def _produce(program: Program, out: Writer, names: Mapping[str, str], ring: _Ring) -> None:
    loops = [loop for loop in (program.outer, program.inner) if loop]
    needed = {it for loop in loops for term in loop.terms for it in term.variables()}
    known = _scalars(program, out, names, needed)
    position = _Position(program.positions[0], program.depth)

    def iteration(at: Mapping[str, str], place: Sequence[str]) -> list[str]:
        slot, parity = position.slot_and_parity(out, place)
        other = out.op("arith.xori", (parity, out.constant(1)), (INT, INT), INT)
        _wait(out, ring.barrier(out, ring.empty, slot), other)
        full = ring.barrier(out, ring.full, slot)
        always = out.constant("true", BOOL)
        size = f" <{{size = {_BYTES} : i32}}>"
        out.op("ttng.barrier_expect", (full, always), (_BARRIER, BOOL), attributes=size)
        row = out.op("arith.muli", (at[INNER], out.constant(64)), (INT, INT), INT, _ADD)
        out.op("ttng.async_tma_copy_global_to_local",
               (names["a"], out.constant(0), row, full, ring.slot(out, slot), always),
               (_DESCRIPTOR, INT, INT, _BARRIER, _SLOT, BOOL),
               attributes=" <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}>")  # fmt: skip
        return position.following(out, place)

    _loops(program, out, known, [INT] * position.carried, position.start(out), iteration, lambda at, place: None)


def _loops(
    program: Program,
    out: Writer,
    known: Mapping[str, str],
    kinds: Sequence[str],
    start: Sequence[str],
    iteration: Callable[[Mapping[str, str], Sequence[str]], list[str]],
    behind: Callable[[Mapping[str, str], Sequence[str]], None],
) -> list[str]:
    """The loop over tiles, if there is one, around the inner loop and what stands behind it."""

    def inner(at: Mapping[str, str], carried: Sequence[str]) -> list[str]:
        found = _loop(out, program.inner, INNER, at, kinds, carried, iteration)
        behind(at, found)
        return found

    return _loop(out, program.outer, OUTER, known, kinds, start, inner) if program.outer else inner(known, start)


def _loop(
    out: Writer,
    loop: Loop,
    variable: str,
    at: Mapping[str, str],
    kinds: Sequence[str],
    start: Sequence[str],
    body: Callable[[Mapping[str, str], Sequence[str]], list[str]],
) -> list[str]:
    bounds = [out.term(it, at) for it in loop.terms]
    made = out.name()
    many = f":{len(kinds)}" if len(kinds) > 1 else ""
    out.line(f'{made}{many} = "scf.for"({", ".join([*bounds, *start])}) ({{')
    counter, inside = out.name(), [out.name() for _ in kinds]
    args = ", ".join(f"{name}: {kind}" for name, kind in zip([counter, *inside], [INT, *kinds], strict=True))
    out.line(f"^bb{out.depth}({args}):")
    out.depth += 1
    out.op("scf.yield", body({**at, variable: counter}, inside), kinds)
    out.depth -= 1
    results = ", ".join(kinds)
    out.line(f"}}) : ({', '.join([INT] * 3 + list(kinds))}) -> {f'({results})' if many else results}")
    return [f"{made}#{number}" for number in range(len(kinds))] if many else [made]


def _scalars(program: Program, out: Writer, names: Mapping[str, str], needed: set[str]) -> dict[str, str]:
    """The names of the numbers that are known before the loops."""
    known = {name: names[name] for name in ARGUMENTS}
    load = program.load if LOADED in needed else None
    if load is not None:
        needed = needed | load.at.variables() | (load.mask.variables() if load.mask else set())
    if PROGRAM in needed:
        known[PROGRAM] = out.op("tt.get_program_id", (), (), INT, " <{axis = 0 : i32}>")
    if PROGRAMS in needed:
        known[PROGRAMS] = out.op("tt.get_num_programs", (), (), INT, " <{axis = 0 : i32}>")
    if load is not None:
        pointer = "!tt.ptr<i32>"
        at = out.op("tt.addptr", (names["p"], out.term(load.at, known)), (pointer, INT), pointer)
        masked = [] if load.mask is None else [out.term(load.mask, known), out.constant(load.other)]
        types = [pointer, BOOL, INT][: 1 + len(masked)]
        attributes = _LOAD % ((1, 1) if masked else (0, 0))
        known[LOADED] = out.op("tt.load", (at, *masked), types, INT, attributes)
    return known


@dataclass(frozen=True, slots=True)
class _Position:
    """The numbers of slot and parity that a partition carries. counted: it carries a count beside them."""

    form: Position
    depth: int
    counted: bool = False

    @property
    def carried(self) -> int:
        return {"count": 1, "pair": 2, "bit": 1}[self.form] + (self.counted and self.form != "count")

    def start(self, out: Writer) -> list[str]:
        return [out.constant(0)] * self.carried

    def count(self, place: Sequence[str]) -> str:
        return place[-1]

    def slot_and_parity(self, out: Writer, place: Sequence[str]) -> tuple[str, str]:
        if self.form == "pair":
            return place[0], place[1]
        if self.form == "bit":
            return out.constant(0), place[0]
        depth = out.constant(self.depth)
        slot = out.op("arith.remsi", (place[0], depth), (INT, INT), INT)
        rounds = out.op("arith.divsi", (place[0], depth), (INT, INT), INT)
        return slot, out.op("arith.andi", (rounds, out.constant(1)), (INT, INT), INT)

    def following(self, out: Writer, place: Sequence[str]) -> list[str]:
        one = out.constant(1)

        def more(name: str) -> str:
            return out.op("arith.addi", (name, one), (INT, INT), INT, _ADD)

        beside = [more(place[-1])] if self.counted and self.form != "count" else []
        if self.form == "count":
            return [more(place[0])]
        if self.form == "bit":
            return [out.op("arith.xori", (place[0], one), (INT, INT), INT), *beside]
        slot, depth = more(place[0]), out.constant(self.depth)
        last = out.op("arith.cmpi", (slot, depth), (INT, INT), BOOL, " <{predicate = 0 : i64}>")
        flipped = out.op("arith.xori", (place[1], one), (INT, INT), INT)
        kinds = (BOOL, INT, INT)
        return [
            out.op("arith.select", (last, out.constant(0), slot), kinds, INT),
            out.op("arith.select", (last, flipped, place[1]), kinds, INT),
            *beside,
        ]


def _slot_before(out: Writer, depth: int, count: str) -> str:
    """The slot of the iteration before the one with this count."""
    back = out.op("arith.addi", (count, out.constant(depth - 1)), (INT, INT), INT, _ADD)
    return out.op("arith.remsi", (back, out.constant(depth)), (INT, INT), INT)


def _wait(out: Writer, barrier: str, parity: str) -> None:
    always = out.constant("true", BOOL)
    out.op("ttng.wait_barrier", (barrier, parity, always), (_BARRIER, INT, BOOL),
           attributes=" <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}>")  # fmt: skip


def _arrive(out: Writer, barrier: str, where: str) -> None:
    out.op("ttng.arrive_barrier", (barrier, where), (_BARRIER, BOOL), attributes=" <{count = 1 : i32}>")


def _store(out: Writer, pointer: str, tile: str) -> None:
    rows, columns = (f"#ttg.slice<{{dim = {dim}, parent = {_LAYOUT}}}>" for dim in (1, 0))
    span = " <{end = 64 : i32, start = 0 : i32}>"

    def line(layout: str, axis: int, shape: str) -> str:
        made = out.op("tt.make_range", (), (), f"tensor<64xi32, {layout}>", span)
        kind = f"tensor<{shape}xi32, {_LAYOUT}>"
        return out.op("tt.expand_dims", (made,), (f"tensor<64xi32, {layout}>",), kind, f" <{{axis = {axis} : i32}}>")

    tall, wide, square = (f"tensor<{shape}xi32, {_LAYOUT}>" for shape in ("64x1", "1x64", "64x64"))
    down = out.op("arith.muli", (line(rows, 1, "64x1"), out.constant("dense<64>", tall)), (tall, tall), tall, _ADD)
    across = line(columns, 0, "1x64")
    both = [out.op("tt.broadcast", (it,), (kind,), square) for it, kind in ((down, tall), (across, wide))]
    offsets = out.op("arith.addi", both, (square, square), square, _ADD)
    pointers = f"tensor<64x64x!tt.ptr<f16>, {_LAYOUT}>"
    at = out.op("tt.splat", (pointer,), ("!tt.ptr<f16>",), pointers)
    at = out.op("tt.addptr", (at, offsets), (pointers, square), pointers)
    out.op("tt.store", (at, tile), (pointers, _TILE),
           attributes=" <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>")  # fmt: skip


def simple(upper: Term | int, step: int = 1) -> Loop:
    """A loop from 0."""
    return Loop(number(0), number(upper) if isinstance(upper, int) else upper, number(step))
