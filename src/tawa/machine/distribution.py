"""How a layout distributes a tile over threads: linear maps over bits, as in Triton's linear layouts.

    #mma, 64x128                      registers (0,1) (8,0) (0,8) … (0,64)
                                      lanes     (0,2) (0,4) (1,0) (2,0) (4,0)
                                      warps     (16,0) (32,0)

The element at a place is the sum (xor) of the bases of the bits that are set in its register, lane and warp. So a
reduction stays in the registers of a thread if no lane and no warp has a base along the axis; and a conversion is a
renaming of registers if each thread holds all that it needs already.

Source: K. Zhou et al., "Linear Layouts" (2025), https://arxiv.org/abs/2505.23819; the bases of wgmma from the PTX ISA,
"Register Fragments for wgmma.mma_async".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tawa.dialects.tt import ReduceOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Operation, TensorType, parse_type
from tawa.ir.attributes import read_int
from tawa.ir.encodings import aliases_at, fields_of, kind_of
from tawa.ir.text import print_dictionary, split_top_level

Base = tuple[int, ...]
_FIELD_BITS = 20
"""Bits of a coordinate in a packed base: more than any tile needs."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The bases of registers, lanes and warps; each has a coordinate for each dimension of the tile.

    A base of zeros means that two places hold the same element.
    """

    registers: tuple[Base, ...]
    lanes: tuple[Base, ...]
    warps: tuple[Base, ...]

    def in_threads(self, axis: int) -> bool:
        """Whether each thread holds all elements along an axis of every row that it has a part of."""
        return not any(base[axis] for base in (*self.lanes, *self.warps))

    def mapped(self, change: Callable[[Base], Base]) -> Distribution:
        """The distribution of the tile with other dimensions: `change` maps the coordinates of an element."""
        return Distribution(*(tuple(map(change, bases)) for bases in (self.registers, self.lanes, self.warps)))

    def to_encoding(self) -> str:
        """As the linear layout of Triton, written out."""
        named = (("register", self.registers), ("lane", self.lanes), ("warp", self.warps))
        fields = ", ".join(f"{name} = {[list(base) for base in bases]}" for name, bases in named)
        return f"#ttg.linear<{{{fields}, block = []}}>"

    def holds(self, other: Distribution) -> bool:
        """Whether each thread holds every element that it has in `other`, which has the same shape."""
        if len(self.lanes) != len(other.lanes) or len(self.warps) != len(other.warps):
            return False
        own = [_packed(base) for base in self.registers]
        places = zip((*self.lanes, *self.warps), (*other.lanes, *other.warps), strict=True)
        moved = [_packed(mine) ^ _packed(its) for mine, its in places]
        return _spans(own, [*moved, *(_packed(base) for base in other.registers)])

    # -- renaming: the same elements in the same places, under other coordinates -----------------------------------

    def reshaped(self, shape: Base, to: Base) -> Distribution:
        """The distribution after a reshape from one shape to another, both powers of two, row by row."""
        return self._each(lambda base: _unflattened(_flattened(base, shape), to))

    def transposed(self, order: Base) -> Distribution:
        """The distribution with the dimensions in another order: dimension i is `order[i]` of this one."""
        return self._each(lambda base: tuple(base[dim] for dim in order))

    def halved(self) -> Distribution:
        """The distribution of either half after a split of the last dimension, of two elements in one thread."""
        registers = tuple(base[:-1] for base in self.registers if not base[-1])
        return Distribution(registers, *(tuple(it[:-1] for it in kind) for kind in (self.lanes, self.warps)))

    def _each(self, function: Callable[[Base], Base]) -> Distribution:
        return Distribution(*(tuple(map(function, kind)) for kind in (self.registers, self.lanes, self.warps)))

    def __str__(self) -> str:
        """The encoding of this distribution, as a linear layout."""
        kinds = {"register": self.registers, "lane": self.lanes, "warp": self.warps}
        fields = {name: f"[{', '.join(str(list(base)) for base in kind)}]" for name, kind in kinds.items()}
        return f"#ttg.linear<{{{print_dictionary({**fields, 'block': '[]'})}}}>"


def distribution_at(op: Operation, type: str) -> Distribution | None:
    """The distribution of a tile that an operation reads or makes; None for scalars and layouts that are not known."""
    tile = parse_type(type)
    if not isinstance(tile, TensorType) or not tile.encoding:
        return None
    return distribution(aliases_at(op), tile.shape, tile.encoding)


def reduces_in_threads(reduce: Operation) -> bool:
    """Whether each thread reduces elements of its own only, as far as the layout is known."""
    found = distribution_at(reduce, ReduceOp(reduce).sources[0].type)
    return found is not None and found.in_threads(ReduceOp(reduce).axis)


def renames(convert: Operation) -> bool:
    """Whether a layout conversion only renames registers, as far as both layouts are known."""
    source = distribution_at(convert, ConvertLayoutOp(convert).source.type)
    target = distribution_at(convert, convert.result.type)
    return source is not None and target is not None and source.holds(target)


def distribution(aliases: Mapping[str, str], shape: tuple[int, ...], encoding: str) -> Distribution | None:
    """The distribution of a tile of this shape: mma, blocked and linear layouts, their slices, operands in registers.

    None for a layout that is not known.
    """
    layout = _bases(aliases, len(shape), encoding)
    return layout.on(shape) if layout is not None else None


@dataclass(slots=True)
class _Tile:
    """A layout while it is built; a new base lies behind all that are there."""

    registers: list[Base]
    lanes: list[Base]
    warps: list[Base]
    rank: int

    @staticmethod
    def empty(rank: int) -> _Tile:
        return _Tile([], [], [], rank)

    def size(self, dim: int) -> int:
        """The extent along a dimension."""
        return 2 * max((base[dim] for base in (*self.registers, *self.lanes, *self.warps)), default=0) or 1

    def add(self, kind: list[Base], dim: int, count: int) -> None:
        """`count` places (a power of two) along a dimension."""
        while count > 1:
            kind.append(tuple(self.size(dim) if it == dim else 0 for it in range(self.rank)))
            count //= 2

    def repeat(self, kind: list[Base], count: int) -> None:
        """`count` places that hold the same."""
        kind.extend([(0,) * self.rank] * (count.bit_length() - 1))

    def on(self, shape: tuple[int, ...]) -> Distribution:
        """Repeated in registers until the tile is full; places outside of it hold the elements from its start."""
        for dim, size in enumerate(shape):
            self.add(self.registers, dim, size // self.size(dim))

        def cut(bases: Iterable[Base]) -> tuple[Base, ...]:
            return tuple(tuple(at if at < size else 0 for at, size in zip(it, shape, strict=True)) for it in bases)

        return Distribution(cut(self.registers), cut(self.lanes), cut(self.warps))


def _bases(aliases: Mapping[str, str], rank: int, encoding: str) -> _Tile | None:
    fields = fields_of(aliases, encoding)
    match kind_of(aliases, encoding):
        case "#ttg.linear":
            return _Tile(_table(fields["register"]), _table(fields["lane"]), _table(fields["warp"]), rank)
        case "#ttg.blocked":
            return _blocked(fields, rank)
        case "#ttg.nvidia_mma":
            return _accumulator(fields) if rank == 2 else None
        case "#ttg.slice":
            return _slice(aliases, fields, rank)
        case "#ttg.dot_op":
            return _operand(aliases, fields) if rank == 2 else None
        case _:
            return None


def _blocked(fields: Mapping[str, str], rank: int) -> _Tile:
    tile, order = _Tile.empty(rank), _numbers(fields["order"])
    names = (("sizePerThread", tile.registers), ("threadsPerWarp", tile.lanes), ("warpsPerCTA", tile.warps))
    for name, kind in names:
        counts = _numbers(fields[name])
        for dim in order:
            tile.add(kind, dim, counts[dim])
    return tile


def _accumulator(fields: Mapping[str, str]) -> _Tile | None:
    """The result of wgmma or mma: pairs of neighbours, four threads in a row, eight rows, and again eight rows below.

    The warps of mma (version 2) lie along the columns first.
    """
    version, warps = read_int(fields["versionMajor"]), _numbers(fields["warpsPerCTA"])
    if version not in (2, 3) or len(warps) != 2:
        return None
    tile = _Tile.empty(2)
    tile.add(tile.registers, 1, 2)
    tile.add(tile.lanes, 1, 4)
    tile.add(tile.lanes, 0, 8)
    tile.add(tile.registers, 0, 2)
    tile.add(tile.registers, 1, _numbers(fields["instrShape"])[1] // 8)
    for dim in (0, 1) if version == 3 else (1, 0):
        tile.add(tile.warps, dim, warps[dim])
    return tile


def _operand(aliases: Mapping[str, str], fields: Mapping[str, str]) -> _Tile | None:
    """Operand A of wgmma in registers: as the result, but kWidth neighbours in place of two, and 32 bytes in a row."""
    parent = fields["parent"]
    if read_int(fields["opIdx"]) or kind_of(aliases, parent) != "#ttg.nvidia_mma" or "kWidth" not in fields:
        return None
    warps = _warps(fields_of(aliases, parent))
    if warps is None:
        return None
    tile = _Tile.empty(2)
    tile.add(tile.registers, 1, read_int(fields["kWidth"]))
    tile.add(tile.lanes, 1, 4)
    tile.add(tile.lanes, 0, 8)
    tile.add(tile.registers, 0, 2)
    tile.add(tile.registers, 1, 2)
    tile.add(tile.warps, 0, warps[0])
    tile.repeat(tile.warps, warps[1])
    return tile


def _warps(fields: Mapping[str, str]) -> Base | None:
    """Warps along rows and columns of the result of wgmma; None for another mma."""
    hopper = read_int(fields["versionMajor"]) == 3
    warps = _numbers(fields["warpsPerCTA"])
    return warps if hopper and len(warps) == 2 else None


def _slice(aliases: Mapping[str, str], fields: Mapping[str, str], rank: int) -> _Tile | None:
    dim = read_int(fields["dim"])
    whole = _bases(aliases, rank + 1, fields["parent"])
    if whole is None:
        return None

    def without(bases: Iterable[Base]) -> list[Base]:
        return [(*base[:dim], *base[dim + 1 :]) for base in bases]

    registers = [base for base in without(whole.registers) if any(base)]
    return _Tile(registers, without(whole.lanes), without(whole.warps), rank)


@functools.lru_cache(1024)
def _numbers(text: str) -> Base:
    return tuple(int(part) for part in split_top_level(text.strip()[1:-1]))


def _table(text: str) -> list[Base]:
    return [_numbers(part) for part in split_top_level(text.strip()[1:-1])]


def _flattened(base: Base, shape: Base) -> int:
    place = 0
    for at, size in zip(base, shape, strict=True):
        place = place * size + at
    return place


def _unflattened(place: int, shape: Base) -> Base:
    base: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        base.append(at)
    return tuple(reversed(base))


def _packed(base: Base) -> int:
    return sum(at << _FIELD_BITS * dim for dim, at in enumerate(base))


def _spans(bases: Iterable[int], vectors: Iterable[int]) -> bool:
    """Whether every vector is a sum (xor) of some bases."""
    reduced: list[int] = []

    def rest(vector: int) -> int:
        for it in reduced:
            vector = min(vector, vector ^ it)
        return vector

    for base in bases:
        left = rest(base)
        if left:
            reduced.append(left)
    return not any(rest(vector) for vector in vectors)
