"""Cases of the convolution kernels: one geometry in one form, with the descriptors that the operator would make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tawa.ops.convolution.geometry import Form, Geometry, Layout, dense
from tawa.ops.convolution.tiles import Tile
from tawa.ops.convolution.views import filter_lines, view_of
from tawa.ops.kernels.convolution import product, windows
from tests.cases.attention.builders import SPECIALISED
from tests.cases.case import Absent, Argument, Descriptor, Number, Pointer, Specimen, Tensor

VIEWS = {"windows": product.WINDOWS.value, "padded": product.PADDED.value, "parities": product.PARITIES.value}


@dataclass(frozen=True)
class Problem:
    """A convolution in one form with one tile; `dtype` is Triton's name of the element type."""

    of: Geometry
    form: Form
    tile: Tile
    dtype: str = "fp16"
    relu: bool = False
    bias: bool = False

    @property
    def at(self) -> Layout:
        return dense(self.of)

    @property
    def pixel_elements(self) -> int:
        """Elements of what the product reads."""
        of, form = self.of, self.form
        return of.N * (form.rows * form.pitch or of.H * of.W * of.C)

    @property
    def filter_elements(self) -> int:
        lines = filter_lines(self.of, self.form)
        return self.of.CO * lines.rows * lines.pitch


def product_case(problem: Problem) -> Specimen:
    """The product of a problem."""
    of, form, tile = problem.of, problem.form, problem.tile
    shape, strides, box = view_of(of, form, problem.at, tile)
    lines = filter_lines(of, form)
    by_tma = of.CO % of.unit == 0
    tensors = {
        "a": Tensor((problem.pixel_elements,), problem.dtype),
        "b": Tensor((problem.filter_elements,), problem.dtype),
        "o": Tensor((of.N, of.OH, of.OW, of.CO), problem.dtype, "nan"),
        "bias": Tensor((of.CO,), problem.dtype),
    }
    of_filter = (of.CO, form.taps, form.length), (lines.rows * lines.pitch, lines.of_tap, 1)
    images, rows, columns, channels = tile.tiles(of)
    numbers = {
        "N": of.N, "OH": of.OH, "OW": of.OW, "CO": of.CO, "TAPS": form.taps, "LENGTH": form.length, "KW": of.KW,
        "down": of.dilation[0], "across": of.dilation[1], "top": of.padding[0], "left": of.padding[1],
        "ROW_TILES": rows, "COLUMN_TILES": columns, "CHANNEL_TILES": channels,
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        "a_desc": Descriptor("a", tuple(box), tuple(shape), tuple(strides)),
        "b_desc": Descriptor("b", (tile.BC, 1, tile.BK), *of_filter),
        "o_desc": Descriptor("o", (tile.BB, tile.BH, tile.BW, tile.BC)) if by_tma else Absent(),
        "o_ptr": Absent() if by_tma else Pointer("o"),
        "bias_ptr": Pointer("bias") if problem.bias else Absent(),
        **{name: Number(value) for name, value in numbers.items()},
    }
    constexprs = {"BB": tile.BB, "BH": tile.BH, "BW": tile.BW, "BC": tile.BC, "BK": tile.BK,
                  "VIEW": VIEWS[form.view], "RELU": problem.relu}  # fmt: skip
    sizes = {"PROGRAMS": images * rows * columns * channels}
    return Specimen(f"conv_{form.name}_{form.view}", product.convolve, arguments, tensors, constexprs, sizes,
                    "programs", "", SPECIALISED, num_warps=tile.warps, num_stages=4)  # fmt: skip


def windows_of(x: Any, of: Geometry, form: Form) -> Any:
    """A copy of x (N, C, H, W) as `window_order` writes it, with NaN between its rows."""
    made = np.full((of.N, form.rows, form.pitch), np.nan, x.dtype)
    columns = np.zeros((of.N, form.rows, form.columns, form.elements), x.dtype)
    stride, dilation = (of.stride[0], of.dilation[0]) if form.source == "windows" else (1, 1)
    for row in range(form.rows):
        for kh in range(form.together):
            h = row * stride - of.padding[0] + kh * dilation
            if not 0 <= h < of.H:
                continue
            first, last = max(0, of.padding[1]), min(form.columns, of.W + of.padding[1])
            columns[:, row, first:last, kh * of.C : (kh + 1) * of.C] = np.moveaxis(
                x[:, :, h, first - of.padding[1] : last - of.padding[1]], 1, 2
            )
    made[:, :, : form.columns * form.elements] = columns.reshape(of.N, form.rows, -1)
    return made


def filters_of(weight: Any, of: Geometry, form: Form) -> Any:
    """A filter (CO, C, KH, KW) as the product reads it, with NaN between its lines."""
    lines = filter_lines(of, form)
    made = np.full((of.CO, lines.rows, lines.pitch), np.nan, weight.dtype)
    elements = np.zeros((of.CO, lines.rows, of.KW, lines.elements), weight.dtype)
    if form.source == "windows":
        elements[..., : of.KH * of.C] = weight.transpose(0, 3, 2, 1).reshape(of.CO, 1, of.KW, of.KH * of.C)
    else:
        elements[..., : of.C] = weight.transpose(0, 2, 3, 1)
    made[..., : of.KW * lines.elements] = elements.reshape(of.CO, lines.rows, -1)
    return made


def exact(x: Any, weight: Any, of: Geometry) -> Any:
    """The convolution in float64, (N, OH, OW, CO)."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *((it, it) for it in of.padding)))
    made = np.zeros((of.N, of.OH, of.OW, of.CO))
    for kh in range(of.KH):
        for kw in range(of.KW):
            h, w = kh * of.dilation[0], kw * of.dilation[1]
            rows = slice(h, h + (of.OH - 1) * of.stride[0] + 1, of.stride[0])
            columns = slice(w, w + (of.OW - 1) * of.stride[1] + 1, of.stride[1])
            made += np.einsum("nchw,oc->nhwo", padded[:, :, rows, columns], weight[:, :, kh, kw].astype(np.float64))
    return made


def transform_case(of: Geometry, form: Form, dtype: str = "fp16") -> Specimen:
    """The transform of an input with channels last into the copy of a form."""
    at = dense(of)
    together = form.together
    stride, dilation = (of.stride[0], of.dilation[0]) if form.source == "windows" else (1, 1)
    tensors = {
        "x": Tensor((of.N, of.H, of.W, of.C), dtype),
        "o": Tensor((of.N, form.rows, form.pitch), dtype, "nan"),
    }
    values = (at.image, 1, at.row, at.column, of.H, of.W, form.rows, form.columns, form.pitch // 4, stride, dilation,
              *of.padding)  # fmt: skip
    names = ("sn", "sc", "sh", "sw", "H", "W", "OH", "COLUMNS", "PITCH", "stride", "dilation", "top", "left")
    arguments: dict[str, Argument] = {"x_ptr": Pointer("x"), "o_ptr": Pointer("o")}
    arguments |= {name: Number(value) for name, value in zip(names, values, strict=True)}
    block = min(64, 1 << (form.elements - 1).bit_length())
    constexprs = {"KH": together, "C": of.C, "LENGTH": form.elements, "BW": 32, "BL": block,
                  "TRANSPOSED": of.C % of.unit != 0}  # fmt: skip
    return Specimen("window_order", windows.window_order, arguments, tensors, constexprs, {"PROGRAMS": 1}, "programs",
                    "", SPECIALISED)  # fmt: skip
