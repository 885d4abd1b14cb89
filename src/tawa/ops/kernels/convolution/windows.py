"""The transform to window order: for each output row, the rows under the filter are interleaved column by column.

``O[n, oh, w, kh * C + c] = x[n, c, oh * stride - top + kh * dilation, w - left]``, zero outside of x and for elements
from ``KH * C`` to LENGTH. The window of an output pixel is then one run of KW * LENGTH elements, and windows of
neighbours overlap in memory (im2win, arXiv 2306.14316). With KH = 1 it is a copy of the input with channels last; a
filter is laid out as an input with one output row.
"""

import triton
import triton.language as tl


@triton.jit
def window_order(
    x_ptr, o_ptr, sn, sc, sh, sw, H, W, OH, COLUMNS, PITCH, stride, dilation, top, left, KH: tl.constexpr,
    C: tl.constexpr, LENGTH: tl.constexpr, BW: tl.constexpr, BL: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Some elements of a block of columns of one output row.

    x (N, C, H, W) with strides sn, sc, sh, sw; O (N, OH, COLUMNS, LENGTH). PITCH: from one output row to the next, in
    units of 4 elements. TRANSPOSED: columns are neighbours among the threads that read, as suits few channels or
    channels first; else elements are.
    """
    row = tl.program_id(0)
    n = row // OH
    h = row % OH * stride - top
    w = tl.program_id(1) * BW + tl.arange(0, BW)
    source = x_ptr + n.to(tl.int64) * sn
    target = o_ptr + row.to(tl.int64) * PITCH * 4
    from_w = w - left
    in_w = (from_w >= 0) & (from_w < W)
    element = tl.program_id(2) * BL + tl.arange(0, BL)
    from_h = h + element // C * dilation
    inside = (element < KH * C) & (from_h >= 0) & (from_h < H)
    place = from_h.to(tl.int64) * sh + element % C * sc
    if TRANSPOSED:
        x = tl.load(source + place[:, None] + from_w[None, :] * sw, mask=inside[:, None] & in_w[None, :], other=0.0).T
    else:
        x = tl.load(source + place[None, :] + from_w[:, None] * sw, mask=inside[None, :] & in_w[:, None], other=0.0)
    to = target + w[:, None] * LENGTH + element[None, :]
    tl.store(to, x, mask=(w < COLUMNS)[:, None] & (element < LENGTH)[None, :])
