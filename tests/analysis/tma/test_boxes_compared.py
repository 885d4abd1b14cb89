"""Random addresses and masks, element by element: a box holds what the load reads, wherever a launch may have it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.boxes import Box, BoxDim, BoxFinder
from tawa.analysis.tma.host_sizes import HostSizes
from tawa.ir import Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Poly
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL, TileProgram

SHAPE = ROWS, COLUMNS = 16, 32
SIZES = {
    "m": (1, 16, 20, 32, 48, 64),
    "k": (8, 16, 32, 40, 64),
    "s": (8, 16, 24, 64, 100),
    "o": (0, 1, 8, 16, -8, 32),
    "z": (16, 256, 1000, 1024),
    "h": (8, 32, 64, 512),
}
COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "minsi": np.minimum, "remsi": np.fmod,
    "andi": np.bitwise_and,
    "divsi": lambda left, right: np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right)),
    "shrsi": np.right_shift,
    "cmpi 2": np.less, "cmpi 3": np.less_equal, "cmpi 4": np.greater, "cmpi 5": np.greater_equal,
}  # fmt: skip


@dataclass
class Program:
    """A program whose values are known: what `number` says of a scalar or a tile."""

    lot: random.Random
    p: TileProgram = field(init=False)
    number: dict[Value, Any] = field(default_factory=dict[Value, Any])

    def __post_init__(self) -> None:
        divisible = [name for name in SIZES if self.lot.random() < 0.4]
        self.p = TileProgram(("a", *divisible), a="!tt.ptr<f16>", **dict.fromkeys(SIZES, "i32"))
        for name, sizes in SIZES.items():
            chosen = [size for size in sizes if size % 16 == 0 or name not in divisible]
            self.number[self.p.args[name]] = self.lot.choice(chosen)

    def note(self, value: Value, number: Any) -> Value:
        self.number[value] = number
        return value

    def of(self, number: int) -> Value:
        return self.note(self.p.number(number), number)

    def binary(self, name: str, left: Value, right: Value) -> Value:
        return self.note(self.p.binary(name, left, right), COMPUTE[name](self.number[left], self.number[right]))

    def splat(self, value: Value, *shape: int) -> Value:
        return self.note(self.p.splat(value, *shape), np.full(shape, self.number[value]))

    def spread(self, value: Value, axis: int) -> Value:
        number = np.broadcast_to(np.expand_dims(self.number[value], axis), SHAPE)
        return self.note(self.p.spread(value, axis, *SHAPE), number)

    def below(self, value: Value, bound: Value) -> Value:
        """A comparison, mostly ``value < bound``, written in one of several ways."""
        bound = self.splat(bound, *np.shape(self.number[value]))
        predicate = self.lot.choice([LESS] * 8 + [LESS_EQUAL, GREATER_EQUAL, GREATER])
        left, right = (bound, value) if predicate == GREATER else (value, bound)
        number = COMPUTE[f"cmpi {predicate}"](self.number[left], self.number[right])
        return self.note(self.p.compare(left, right, predicate), number)

    def some(self, *names: str) -> Value:
        return self.p.args[self.lot.choice(names)]

    def remainder(self, counted: Value) -> Value:
        """A program id taken apart: what a quotient leaves, as a difference; or the id as it is."""
        if self.lot.random() < 0.7:
            return counted
        divisor = self.lot.choice([self.of(2), self.some("m", "k", "o")])
        if not self.number[divisor]:
            return counted
        factor = divisor if self.lot.random() < 0.8 else self.some("m")
        taken = self.binary("muli", self.binary("divsi", counted, divisor), factor)
        return self.binary("subi", counted, taken)

    def limit(self, pid: Value, *names: str) -> Value:
        """An argument, or the least of two numbers: the length of a chunk, and what is left of the whole."""
        if self.lot.random() < 0.6:
            return self.some(*names)
        left = self.binary("subi", self.some(*names), self.binary("muli", pid, self.some("m", "k")))
        chunk = self.lot.choice([self.some(*names), self.of(self.lot.choice([16, 32, 48]))])
        return self.binary("minsi", chunk, left)

    def places(self, size: int, counted: Value) -> Value:
        """The rows or columns of a block, moved by something or by nothing."""
        counted = self.remainder(counted)
        first = self.binary("muli", counted, self.of(self.lot.choice([size, size, 4])))
        if self.lot.random() < 0.3:
            first = self.binary(self.lot.choice(["addi", "subi"]), first, self.some("o"))
        numbers = self.note(self.p.range(size), np.arange(size))
        return self.binary("addi", self.splat(first, size), numbers)

    def changed(self, places: Value) -> Value:
        """Places that wrap around, are clamped, or chosen; several times, or not at all."""
        size, before = len(self.number[places]), [places]
        while self.lot.random() < 0.6:
            bound = self.some("m", "k")
            match self.lot.randrange(5):
                case 0 | 1:
                    places = self.binary("remsi", places, self.splat(bound, size))
                case 2:
                    places = self.binary("minsi", places, self.splat(bound, size))
                case 3:
                    inside, other = self.below(places, bound), self.splat(self.of(100), size)
                    places = self.lot.choice(before)
                    number = np.where(self.number[inside], self.number[places], 100)
                    places = self.note(self.p.op("arith.select", [inside, places, other], places.type), number)
                case _:
                    places = self.binary("addi", places, self.splat(self.some("o"), size))
            before.append(places)
        return places

    def shared(self, places: Value) -> Value:
        """Places of which several next to each other are one, as in packed weights; or as they are."""
        size = len(self.number[places])
        match self.lot.randrange(6):
            case 0:
                return self.binary("divsi", places, self.splat(self.of(self.lot.choice([2, 4, 8])), size))
            case 1:
                return self.binary("shrsi", places, self.splat(self.of(self.lot.choice([1, 2])), size))
            case _:
                return places

    def apart(self, places: Value) -> tuple[Value, Value]:
        """The numbers of runs of places, and the positions in them: tokens and heads."""
        size, length = len(self.number[places]), self.lot.choice([2, 4, 8, 16])
        number = self.splat(self.of(length), size)
        if self.lot.random() < 0.5:
            return self.binary("divsi", places, number), self.binary("remsi", places, number)
        shift, ones = (self.splat(self.of(it), size) for it in (length.bit_length() - 1, length - 1))
        return self.binary("shrsi", places, shift), self.binary("andi", places, ones)

    def numbers(self, mask: Value) -> Value:
        """A mask as it is, or as ``where(mask, 1, 0) != 0``."""
        if self.lot.random() < 0.7:
            return mask
        shape = np.shape(self.number[mask])
        one, zero = (self.splat(self.of(number), *shape) for number in (1, 0))
        chosen = self.note(self.p.op("arith.select", [mask, one, zero], one.type), self.number[mask].astype(int))
        return self.note(self.p.compare(chosen, zero, NOT_EQUAL), self.number[mask])

    def load(self, step: Value) -> tuple[Value, Value, Value | None]:
        """A load, its addresses and its mask."""
        pid, batch = (self.note(self.p.pid(axis), self.lot.randrange(3)) for axis in range(2))
        rows, columns = self.places(ROWS, pid), self.places(COLUMNS, step)
        read = self.changed(self.shared(rows))
        masked = [rows, read, self.changed(rows)]
        if self.lot.random() < 0.25:
            tokens, heads = self.apart(rows)
            scaled = [(tokens, "s"), (heads, "h")]
            parts = [self.spread(self.binary("muli", it, self.splat(self.some(by), ROWS)), 1) for it, by in scaled]
            masked = [rows, tokens, tokens, heads]
        else:
            parts = [self.spread(self.binary("muli", read, self.splat(self.some("s"), ROWS)), 1)]
        shared = self.shared(columns)
        parts.append(self.spread(shared if self.lot.random() < 0.7 else self.changed(shared), 0))
        if self.lot.random() < 0.5:
            parts.append(self.splat(self.binary("muli", self.lot.choice([batch, step]), self.some("z", "s")), *SHAPE))
        at = self.note(self.p.splat(self.p.args["a"], *SHAPE), np.zeros(SHAPE, int))
        for part in parts:
            at = self.note(self.p.add(at, part), self.number[at] + self.number[part])
        masks = [self.spread(self.numbers(self.below(self.lot.choice(masked), self.limit(pid, "m", "k"))), 1)]
        masks.append(self.spread(self.below(columns, self.limit(pid, "k")), 0))
        masks.append(self.splat(self.below_scalar(batch), *SHAPE))
        mask = None
        for each in masks:
            if self.lot.random() < 0.6:
                both = mask and self.note(self.p.both(mask, each), self.number[mask] & self.number[each])
                mask = both or each
        return self.p.load(at, mask, None if mask is None else self.p.zeros(at)), at, mask

    def below_scalar(self, value: Value) -> Value:
        bound = self.some("o")
        return self.note(self.p.compare(value, bound), self.number[value] < self.number[bound])


def same(program: Program, box: Box, spec: tuple[int, tuple[int, ...], tuple[int, ...]], affine: Affine) -> Any:
    """What a box holds: whether there is anything, where, and where the box is as good as the load."""

    def value(poly: Poly) -> int:
        total = 0
        for monomial, factor in poly.terms:
            for index in monomial:
                atom = affine.atoms[index]
                assert isinstance(atom, Value)
                factor *= int(program.number[atom])
            total += factor
        return total

    start, sizes, strides = spec
    place, holds, sure = np.full(SHAPE, start), np.ones(SHAPE, bool), np.ones(SHAPE, bool)
    for dim, size, stride in zip(box.dims, sizes, strides, strict=True):
        index = value(dim.index) + position(box, dim)
        place, holds = place + stride * index, holds & (index >= 0) & (index < size)
        for guard in dim.guards:
            sure &= np.indices(SHAPE)[guard.dim] < value(guard.room)
    assert (start * 2) % 16 == 0
    assert value(box.dims[-1].index) * 2 % 16 == 0
    return place, holds & all(value(gate) > 0 for gate in box.gates), sure


def position(box: Box, dim: BoxDim) -> Any:
    """The position in the box of each element of the tile."""
    if dim.tile is None:
        return 0
    length = max(other.run for other in box.dims if other.tile == dim.tile)
    return np.indices(SHAPE)[dim.tile] % length if dim.low else np.indices(SHAPE)[dim.tile] // length


def compared(seed: int) -> Box | None:
    """The box that a random load is at a random launch, if it is one; it is then the same one."""
    program = Program(random.Random(seed))
    found: list[tuple[Value, Value, Value | None]] = []

    def body(carried: list[Value]) -> list[Value]:
        found.append(program.load(program.note(carried[0], program.lot.randrange(3))))
        return []

    program.p.loop((program.of(0), program.of(8), program.of(1)), [], body)
    module, ((load, at, mask),) = program.p.finish(), found
    affine = Affine()
    facts, host = ValueRanges(program.p.function, affine), HostSizes(module, program.p.function, affine)
    try:
        assert load.defining_op is not None
        box = BoxFinder(affine, facts, host.in_size, host.in_offset).find(load.defining_op)
        conditions = host.conditions(box, facts)
    except NotABox:
        return None
    given = [0, *(int(program.number[program.p.args[name]]) for name in SIZES)]
    if not all(condition.holds(given) for condition in conditions):
        return None
    address, sizes, strides = host.spec(box).evaluate(given)
    place, holds, sure = same(program, box, (address // 2, sizes, strides), affine)
    wanted = np.ones(SHAPE, bool) if mask is None else program.number[mask]
    assert (holds == wanted)[sure].all()
    assert (place == program.number[at])[sure & wanted].all()
    return box


@pytest.mark.parametrize("lot", range(4))
def test_a_box_holds_what_the_load_reads(lot: int) -> None:
    found = [box for seed in range(150) if (box := compared(1000 * lot + seed)) is not None]
    assert len(found) >= 12
    assert any(dim.run > 1 for box in found for dim in box.dims)
    assert any(dim.low for box in found for dim in box.dims) or lot
