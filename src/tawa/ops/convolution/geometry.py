"""The sizes of a convolution, and the forms in which the product kernel can compute it.

Nothing here needs torch. Letters: N images of C channels, H x W; CO filters of KH x KW; OH x OW the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.ops.calls.tables import blocks

Source = Literal["input", "copy", "windows"]
View = Literal["windows", "padded", "parities"]
TMA_BYTES = 16
PART_BYTES = 512 * 2**20
"""The most memory that a copy takes; more images are convolved in parts. Smaller parts, which would stay in the L2,
take longer: each ends with a wave that leaves SMs idle."""


def multiple(number: int, unit: int) -> int:
    """The next multiple of a unit."""
    return blocks(number, unit) * unit


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution without groups. Pairs are (rows, columns). bytes: of an element."""

    N: int
    C: int
    H: int
    W: int
    CO: int
    KH: int
    KW: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    bytes: int = 2

    @property
    def OH(self) -> int:
        """Rows of the output; not positive if the filter is larger than the padded input."""
        return (self.H + 2 * self.padding[0] - self.dilation[0] * (self.KH - 1) - 1) // self.stride[0] + 1

    @property
    def OW(self) -> int:
        """Columns of the output; see `OH`."""
        return (self.W + 2 * self.padding[1] - self.dilation[1] * (self.KW - 1) - 1) // self.stride[1] + 1

    @property
    def unit(self) -> int:
        """Elements of 16 bytes: strides of TMA are multiples of it."""
        return TMA_BYTES // self.bytes

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * self.N * self.OH * self.OW * self.CO * self.C * self.KH * self.KW

    def padded_length(self, length: int) -> int:
        """The least number of elements of a column, at least `length`, with which windows begin at 16 bytes.

        With two bytes: 33 -> 34 with stride 4, 21 -> 24 with stride 2, 9 -> 16 with stride 1.
        """
        while length * self.stride[1] % self.unit:
            length += 1
        return length


@dataclass(frozen=True, slots=True)
class Form:
    """One way to compute a convolution: where the product reads the pixels, and as what.

    source: the input itself ("direct"), a copy of it with padded edges and channels ("copy"), or the input in window
    order ("windows": im2win). view: how the kernel sees it (`tawa.ops.kernels.convolution.product`). taps, length: of
    a pixel. rows, columns, elements: of the copy, which has `elements` for each column and `pitch` elements from row to
    row. together: rows of the filter that a column of the copy has.
    """

    source: Source
    view: View
    taps: int
    length: int
    rows: int = 0
    columns: int = 0
    elements: int = 0
    pitch: int = 0
    together: int = 1

    @property
    def name(self) -> str:
        """As users ask for it."""
        return {"input": "direct", "copy": "copy", "windows": "im2win"}[self.source]

    def extra_bytes(self, of: Geometry) -> int:
        """The memory of the copy of all images."""
        return of.N * self.rows * self.pitch * of.bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The strides of an input in elements: of images, rows and columns. Channels are contiguous in memory."""

    image: int
    row: int
    column: int


def dense(of: Geometry) -> Layout:
    """The layout of an input with channels last, without gaps."""
    return Layout(of.H * of.W * of.C, of.W * of.C, of.C)


def in_windows(of: Geometry) -> Form | None:
    """im2win: the rows under the filter are interleaved column by column. None with dilated columns."""
    if of.dilation[1] > 1:
        return None
    length = of.padded_length(of.KH * of.C)
    columns = (of.OW - 1) * of.stride[1] + of.KW
    pitch = multiple(columns * length, of.unit)
    return Form("windows", "windows", 1, of.KW * length, of.OH, columns, length, pitch, of.KH)


def in_copy(of: Geometry) -> Form | None:
    """A copy with padded edges and channels, seen as windows. None with dilated columns."""
    if of.dilation[1] > 1:
        return None
    length = of.padded_length(of.C)
    rows = (of.OH - 1) * of.stride[0] + (of.KH - 1) * of.dilation[0] + 1
    columns = (of.OW - 1) * of.stride[1] + of.KW
    return Form("copy", "windows", of.KH, of.KW * length, rows, columns, length, multiple(columns * length, of.unit))


def directly(of: Geometry, at: Layout) -> Form | None:
    """The input itself, without a copy; None where TMA cannot read it so."""
    unit = of.unit
    if at.image % unit or at.row % unit:
        return None
    gapless = at.column == of.C
    windows = of.KW == 1 or (of.dilation[1] == 1 and gapless)
    if of.padding == (0, 0) and windows and at.column * of.stride[1] % unit == 0:
        return Form("input", "windows", of.KH, of.KW * of.C)
    if of.stride == (1, 1) and at.column % unit == 0:
        return Form("input", "padded", of.KH * of.KW, of.C)
    even = of.H % 2 == 0 and of.W % 2 == 0
    if of.stride == (2, 2) and even and gapless and of.C % (4 * unit) == 0:
        return Form("input", "parities", of.KH * of.KW, of.C)
    return None


def forms_of(of: Geometry, at: Layout | None) -> tuple[Form, ...]:
    """The forms that can compute a convolution. at: of the input; None if its channels are not contiguous."""
    found = (directly(of, at) if at is not None else None, in_copy(of), in_windows(of))
    return tuple(form for form in found if form is not None)


def images_at_a_time(of: Geometry, form: Form) -> int:
    """How many images are copied and convolved at a time: all, unless their copy is larger than the L2 cache holds."""
    if form.source == "input":
        return of.N
    parts = max(1, min(of.N, round(form.extra_bytes(of) / PART_BYTES)))
    return blocks(of.N, parts)
