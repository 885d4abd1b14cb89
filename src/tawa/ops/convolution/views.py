"""How the product reads pixels and filters: shapes, strides and boxes of its descriptors, in elements.

Nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.ops.convolution.geometry import Form, Geometry, Layout, multiple
from tawa.ops.convolution.tiles import Tile


def view_of(of: Geometry, form: Form, at: Layout, tile: Tile) -> tuple[list[int], list[int], list[int]]:
    """Shape, strides and box of the pixels' descriptor. at: of the input; that of a copy follows from the form."""
    sh, sw = of.stride
    if form.source == "windows":
        at = Layout(form.rows * form.pitch, form.pitch, form.elements)
        image, row, column, tap = at.image, at.row, sw * at.column, of.unit
    elif form.view == "windows":
        if form.source == "copy":
            at = Layout(form.rows * form.pitch, form.pitch, form.elements)
        image, row, column, tap = at.image, sh * at.row, sw * at.column, of.dilation[0] * at.row
    elif form.view == "padded":
        return [of.N, of.H, of.W, of.C], [at.image, at.row, at.column, 1], [tile.BB, tile.BH, tile.BW, tile.BK]
    else:
        shape = [of.N, of.H // 2, 2, of.W // 2, 2 * of.C]
        return shape, [at.image, 2 * at.row, at.row, 2 * at.column, 1], [tile.BB, tile.BH, 1, tile.BW, tile.BK]
    shape = [of.N, of.OH, of.OW, form.taps, form.length]
    return shape, [image, row, column, tap, 1], [tile.BB, tile.BH, tile.BW, 1, tile.BK]


@dataclass(frozen=True, slots=True)
class Lines:
    """A filter in memory: `rows` lines of KW columns of `elements`, which begin `pitch` elements apart.

    of_tap: elements from one tap of the product to the next.
    """

    rows: int
    elements: int
    pitch: int
    of_tap: int


def filter_lines(of: Geometry, form: Form) -> Lines:
    """The lines of a filter as the product needs them; with the filter's own numbers, it may be read in place."""
    if form.source == "windows":
        pitch = multiple(of.KW * form.elements, of.unit)
        return Lines(1, form.elements, pitch, pitch)
    if form.view == "windows":
        elements = form.elements or of.C
        pitch = multiple(of.KW * elements, of.unit)
        return Lines(of.KH, elements, pitch, pitch)
    elements = multiple(of.C, of.unit)
    return Lines(of.KH, elements, of.KW * elements, elements)
