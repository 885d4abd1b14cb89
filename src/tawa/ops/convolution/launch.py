"""Launching the convolution kernels on PyTorch tensors: the copies that a form needs, and the product.

A form with a copy of the input works on some images at a time, as many as keep the copy in the L2 cache: it is written
and read there, and its memory is used again for the next images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch

from tawa.ops.calls.devices import multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import TMA_BYTES, Box, unwritten
from tawa.ops.convolution.geometry import Form, Geometry, Layout, dense, images_at_a_time, multiple
from tawa.ops.convolution.tiles import Tile
from tawa.ops.convolution.views import filter_lines, view_of
from tawa.ops.kernels.convolution import product, windows

SIZES = (
    "N", "OH", "OW", "CO", "TAPS", "LENGTH", "KW", "down", "across", "top", "left", "ROW_TILES", "COLUMN_TILES",
    "CHANNEL_TILES", "H", "W", "COLUMNS", "PITCH", "stride", "dilation",
)  # fmt: skip
convolve: Any = once_for_all(product.convolve, SIZES, only_if_faster=False)
window_order: Any = once_for_all(windows.window_order, SIZES)
SLICED: dict[int, Any] = {
    slices: once_for_all(product.convolve, SIZES, plan={"form": "persistent", "stores": [{"slices": slices}]})
    for slices in (2, 4, 8)
}
"""The kernel that loops over tiles and stores them in slices: a ring for large tiles keeps four slots beside them."""
LARGE = 128 * 256
"""Elements of such a tile."""
VIEWS = {"windows": product.WINDOWS.value, "padded": product.PADDED.value, "parities": product.PARITIES.value}
PITCH_UNIT = 4
"""Elements in which the kernel takes a pitch."""
MOST_ELEMENTS, IN_A_BLOCK = 64, 4096
"""Of a column, and all of them, in a block of the transform."""


class WindowOrder:
    """Transforms of tensors (N, C, H, W) with the same shape and strides, into (N, rows, columns, elements).

    together: rows under the filter that become one column. Rows of the result begin `pitch` elements apart.
    """

    def __init__(
        self, x: torch.Tensor, rows: int, columns: int, elements: int, pitch: int, together: int, stride: int,
        dilation: int, top: int, left: int,
    ) -> None:  # fmt: skip
        images, channels, height, width = x.shape
        sn, sc, sh, sw = x.stride()
        of_block = min(MOST_ELEMENTS, 1 << (elements - 1).bit_length())
        most_columns = min(256, IN_A_BLOCK // of_block)
        columns_of_block = max(16, min(most_columns, 1 << (columns - 1).bit_length()))
        unit = TMA_BYTES // x.element_size()
        rest = (
            sn, sc, sh, sw, height, width, rows, columns, pitch // PITCH_UNIT, stride, dilation, top, left
        )  # fmt: skip
        constants = {
            "KH": together,
            "C": channels,
            "LENGTH": elements,
            "BW": columns_of_block,
            "BL": of_block,
            "TRANSPOSED": sc != 1 or channels % unit != 0,
            "num_warps": 4,
        }
        self.launch = Launches(lambda: window_order, (), rest, constants)
        self.grid = images * rows, blocks(columns, columns_of_block), blocks(elements, of_block)
        self.elements = images * rows * pitch

    def __call__(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """Fills `target`, at least `elements` elements."""
        self.launch(self.grid, (x, target), (x,))


class Filter:
    """Filters (CO, C, KH, KW) of one shape and layout as the product reads them, transformed if they have to be."""

    def __init__(self, weight: torch.Tensor, of: Geometry, form: Form) -> None:
        unit, lines = of.unit, filter_lines(of, form)
        self.order: WindowOrder | None = None
        self.shape = [of.CO, form.taps, form.length]
        self.strides = [lines.rows * lines.pitch, lines.of_tap, 1]
        image, channel, row, column = weight.stride()
        gapless = (channel == 1 or of.C == 1) and (column == of.C or of.KW == 1) and (row == of.KW * of.C or of.KH == 1)
        whole = of.C * of.KH * of.KW
        aligned = lines.pitch == of.KW * of.C and whole % unit == 0 and (image == whole or of.CO == 1)
        if not (lines.rows == of.KH and lines.elements == of.C and gapless and aligned):
            self.order = WindowOrder(
                weight, lines.rows, of.KW, lines.elements, lines.pitch, form.together, 1, 1, 0, 0
            )  # fmt: skip

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        """The filters, at an address that is a multiple of 16 bytes."""
        if self.order is None:
            return weight if weight.data_ptr() % TMA_BYTES == 0 else weight.clone()
        target = unwritten(weight, (self.order.elements,), weight.dtype)
        self.order(weight, target)
        return target


class Product:
    """Products of pixels and filters of one shape and layout, into an output (N, OH, OW, CO)."""

    def __init__(
        self, pixels: torch.Tensor, filters: torch.Tensor, of_filter: Filter, of: Geometry, form: Form, at: Layout,
        tile: Tile, relu: bool, kernel: Callable[[], Any],
    ) -> None:  # fmt: skip
        of_pixels = Box.over(pixels, *view_of(of, form, at, tile))
        of_filters = Box.over(filters, of_filter.shape, of_filter.strides, [tile.BC, 1, tile.BK])
        of_output = None
        if of.CO % of.unit == 0:
            shape = [of.N, of.OH, of.OW, of.CO]
            strides = [of.OH * of.OW * of.CO, of.OW * of.CO, of.CO, 1]
            block = [tile.BB, tile.BH, tile.BW, tile.BC]
            of_output = Box.over(pixels.new_empty((0,)), shape, strides, block)
        images, rows, columns, channels = tile.tiles(of)
        self.grid = (images * rows * columns * channels,)
        rest = (
            of.N, of.OH, of.OW, of.CO, form.taps, form.length, of.KW, *of.dilation, *of.padding, rows, columns,
            channels,
        )  # fmt: skip
        constants = {
            "BB": tile.BB,
            "BH": tile.BH,
            "BW": tile.BW,
            "BC": tile.BC,
            "BK": tile.BK,
            "VIEW": VIEWS[form.view],
            "RELU": relu,
            "num_warps": tile.warps,
            "num_stages": 4,
        }
        self.boxed = of_output is not None
        self.launch = Launches(kernel, (of_pixels, of_filters, of_output), rest, constants)

    def __call__(
        self, pixels: torch.Tensor, filters: torch.Tensor, output: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        """Launches the kernel; all addresses but that of `bias` are multiples of 16 bytes."""
        written, given = ((output, None), (bias,)) if self.boxed else ((None, output), (bias, output))
        self.launch(self.grid, (pixels, filters, *written, bias), given)


def layout_of(x: torch.Tensor, of: Geometry) -> Layout | None:
    """The layout of an input in memory; None if its channels are not contiguous."""
    image, channel, row, column = x.stride()
    wanted = dense(of)
    column = column if of.W > 1 else wanted.column
    row = row if of.H > 1 else max(wanted.row, of.W * column)
    image = image if of.N > 1 else max(wanted.image, of.H * row)
    return Layout(image, row, column) if (channel == 1 or of.C == 1) and min(column, row, image) > 0 else None


def kernel_for(of: Geometry, tile: Tile, processors: int) -> Callable[[], Any]:
    """Gives the product kernel for a tile: the sliced one for large tiles, if each SM has several of them."""
    slices = 2 if of.bytes == 2 else 8 if tile.BC == 256 else 4
    large = tile.pixels * tile.BC >= LARGE and of.CO % of.unit == 0
    if large and prod(tile.tiles(of)) >= 2 * processors:
        return lambda: SLICED[slices]
    return lambda: convolve


class Convolution:
    """Convolutions of tensors that differ in their addresses only, in one form.

    form, tile: of the choice. kernel: gives the product kernel; None: `kernel_for`. Neither the output nor the input is
    empty. The input has the layout for which the form was made; its address is a multiple of 16 bytes if the form reads
    it directly.
    """

    def __init__(
        self, x: torch.Tensor, weight: torch.Tensor, of: Geometry, form: Form, tile: Tile, relu: bool,
        kernel: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.of, self.form, self.device = of, form, x.device.index
        self.shape = of.N, of.OH, of.OW, of.CO
        at = layout_of(x, of) or dense(of)
        self.filter = Filter(weight, of, form)
        self.each = min(of.N, multiple(images_at_a_time(of, form), tile.BB))
        filters = x.new_empty((0,)) if self.filter.order else weight
        self.parts: dict[int, tuple[WindowOrder | None, Product]] = {}
        for images in {self.each, of.N % self.each or self.each}:
            some = replace(of, N=images)
            order, pixels = None, x
            if form.source != "input":
                order, pixels = self._order(x[:images], some), x.new_empty((0,))
            made = Product(
                pixels,
                filters,
                self.filter,
                some,
                form,
                at,
                tile,
                relu,
                kernel or kernel_for(some, tile, multiprocessors(x.device)),
            )
            self.parts[images] = order, made
        self.copied = self.each * form.rows * form.pitch

    def _order(self, x: torch.Tensor, of: Geometry) -> WindowOrder:
        form = self.form
        stride, dilation = (of.stride[0], of.dilation[0]) if form.source == "windows" else (1, 1)
        return WindowOrder(
            x, form.rows, form.columns, form.elements, form.pitch, form.together, stride, dilation, *of.padding
        )  # fmt: skip

    @property
    def extra_bytes(self) -> int:
        """Memory beside input, filter and output, while a call runs: the copy of the input."""
        return self.copied * self.of.bytes

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """O (N, CO, OH, OW) with channels last in memory."""
        output = unwritten(x, self.shape, x.dtype)
        on_device(self.device, self._run, x, weight, bias, output)
        return output.permute(0, 3, 1, 2)

    def _run(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, output: torch.Tensor) -> None:
        filters = self.filter(weight)
        if self.form.source == "input":
            self.parts[self.of.N][1](x, filters, output, bias)
            return
        copy = unwritten(x, (self.copied,), x.dtype)
        for first in range(0, self.of.N, self.each):
            images = min(self.each, self.of.N - first)
            order, made = self.parts[images]
            assert order is not None
            order(x[first : first + images], copy)
            made(copy, filters, output[first : first + images], bias)
