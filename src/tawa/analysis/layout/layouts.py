"""Register layouts that pointer loads use: blocked layouts and their slices.

    #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
    #ttg.slice<{dim = 1, parent = #blocked}>

Other parameters of a layout (those for clusters of CTAs) are kept as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.ir import Module
from tawa.ir.attributes import read_int
from tawa.ir.encodings import fields_of, kind_of
from tawa.ir.text import print_dictionary, split_top_level

_BLOCKED, _SLICE = "#ttg.blocked", "#ttg.slice"
_FIELDS = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")


@dataclass(frozen=True, slots=True)
class BlockedLayout:
    """The distribution of a tile over registers, per dimension. order: the dimensions, fastest-varying first."""

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]
    more: tuple[tuple[str, str], ...] = ()

    @property
    def num_warps(self) -> int:
        """The number of warps that hold the tile."""
        return prod(self.warps)

    def __str__(self) -> str:
        numbers = (self.size_per_thread, self.threads_per_warp, self.warps, self.order)
        fields = {name: f"[{', '.join(map(str, values))}]" for name, values in zip(_FIELDS, numbers, strict=True)}
        return f"{_BLOCKED}<{{{print_dictionary({**fields, **dict(self.more)})}}}>"


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """The layout of a tile with one dimension less: the encoding `parent` without its dimension `dim`."""

    dim: int
    parent: str

    def __str__(self) -> str:
        return f"{_SLICE}<{{dim = {self.dim}, parent = {self.parent}}}>"


def blocked_layout(module: Module, encoding: str) -> BlockedLayout | None:
    """Parses a blocked layout; None for any other layout."""
    if kind_of(module.aliases, encoding) != _BLOCKED:
        return None
    fields = fields_of(module.aliases, encoding)
    sizes, threads, warps, order = (_numbers(fields.pop(name)) for name in _FIELDS)
    return BlockedLayout(sizes, threads, warps, order, tuple(fields.items()))


def slice_layout(module: Module, encoding: str) -> SliceLayout | None:
    """Parses a slice layout; None for any other layout."""
    if kind_of(module.aliases, encoding) != _SLICE:
        return None
    fields = fields_of(module.aliases, encoding)
    return SliceLayout(read_int(fields["dim"]), fields["parent"])


def origin(module: Module, encoding: str, dim: int = 0) -> tuple[str, int] | None:
    """The blocked layout that an encoding is, or is a slice of, and the dimension of it that `dim` maps to.

    None for other layouts.
    """
    cut = slice_layout(module, encoding)
    while cut is not None:
        dim += dim >= cut.dim
        encoding = cut.parent
        cut = slice_layout(module, encoding)
    return (encoding, dim) if blocked_layout(module, encoding) else None


def per_thread(module: Module, encoding: str, dim: int) -> int:
    """The number of contiguous elements that one thread holds along a dimension; 1 if the layout is unknown."""
    found = origin(module, encoding, dim)
    layout = blocked_layout(module, found[0]) if found else None
    return layout.size_per_thread[found[1]] if layout and found else 1


def tile_order(module: Module, encoding: str) -> tuple[int, ...]:
    """The dimensions of a tile in registers, fastest-varying first; empty if the layout is unknown."""
    cut = slice_layout(module, encoding)
    if cut is None:
        blocked = blocked_layout(module, encoding)
        return blocked.order if blocked else ()
    return tuple(dim - (dim > cut.dim) for dim in tile_order(module, cut.parent) if dim != cut.dim)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in split_top_level(text.strip()[1:-1]))
