"""Axes: the directions in memory in which a tile extends, each of which becomes a dimension of its box.

    rows[:, None]·s + ks[None, :]                          dimension 0: stride s; dimension 1: stride 1
    (r // 4)[:, None]·st + (r % 4)[:, None]·sh + ks        dimension 0: number of the run, stride st, and position in
                                                           the run, stride sh; dimension 1: stride 1

A dimension of the tile has one axis, or two if it counts two things at once, as tokens and the heads of each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.tma.accesses import NotABox
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine_tile import AffineTile, Bound
from tawa.symbolic.polynomial import ONE, Poly


@dataclass(frozen=True, slots=True)
class Axis:
    """dim: the dimension of the tile. stride: in elements. block: the number of positions.

    low: whether it is the position in a run. run: how many neighbouring elements of the tile have the same position.
    """

    dim: int
    stride: Poly
    block: int
    low: bool = False
    run: int = 1

    def has(self, bound: Bound) -> bool:
        """Whether a bound of the mask is one of this axis."""
        return bound.kind != "uniform" and bound.dim == self.dim and bool(bound.low) == self.low

    @property
    def rank(self) -> tuple[bool, int]:
        """The order in which axes claim terms of the address: symbolic strides first, then the greatest constants."""
        number = self.stride.number
        return number is not None, -(number or 0)


def axes_of(address: AffineTile, shape: Sequence[int], width: int) -> list[Axis]:
    """The axes of a tile, the contiguous one last; raises NotABox. width: bytes of an element."""
    axes = [axis for dim, size in enumerate(shape) if size > 1 for axis in _of_dim(address, dim, size)]
    inner = [axis for axis in axes if axis.stride == ONE]
    if len(inner) != 1:
        what = "no dimension" if not inner else "more than one dimension"
        reason = f"{what} of the tile is contiguous in memory (stride 1)"
        raise NotABox(reason, "pass the tensor with a stride of 1, known when the kernel is compiled, in one dimension")
    if inner[0].block * width < TMA_CHUNK_BYTES:
        reason = f"{inner[0].block} elements in a row are fewer than the {TMA_CHUNK_BYTES} bytes of a TMA box"
        raise NotABox(reason, "larger blocks")
    return [*(axis for axis in axes if axis is not inner[0]), inner[0]]


def _of_dim(address: AffineTile, dim: int, size: int) -> list[Axis]:
    lane, low, length = address.lanes.get(dim), address.within.get(dim), address.run(dim)
    if lane is None and low is None:
        raise NotABox(f"all elements along dimension {dim} of the tile have the same address", "load it once")
    if low is None:
        assert lane is not None
        return [Axis(dim, lane, size // length, run=length)]
    if any(guard.dim == dim for guard in address.guards):
        raise NotABox(f"dimension {dim} of the tile is taken apart, and its index wraps around or is clamped")
    if lane is None:
        reason = f"the addresses along dimension {dim} of the tile repeat after {length} elements"
        raise NotABox(reason, "load one period, and broadcast the tile")
    return [Axis(dim, lane, size // length, run=length), Axis(dim, low, length, low=True)]
