"""Convolution as a product: tiles of output pixels by output channels, summed over taps and their elements.

``O[n, oh, ow, co] = act(sum over tap, k of A[n, oh, ow, tap, k] * B[co, tap, k] + bias[co])``. A is a view of the input
(or of its window order) that TMA reads in boxes of images, rows and columns; nothing is copied. Letters: BB, BH, BW are
the images, rows and columns of a tile, BM = BB * BH * BW its pixels, BC its output channels, BK the elements of a step.

The three views (VIEW):

- WINDOWS: A (N, OH, OW, taps, length), whose windows may overlap in memory: a convolution without padding. A tap is a
  row of the filter, `length` is KW * C; over an input in window order there is one tap of KW * KH * C elements.
- PADDED: A is the input (N, H, W, C), with stride 1. A tap is an element of the filter; what lies outside is zero.
- PARITIES: A is the input with stride 2, H and W even, as (N, H / 2, 2, W / 2, 2 * C): the parity of a row is an axis,
  that of a column a half of the last axis. C is a multiple of BK.
"""

import triton
import triton.language as tl

WINDOWS = tl.constexpr(0)
PADDED = tl.constexpr(1)
PARITIES = tl.constexpr(2)


@triton.jit
def pixels_of(a_desc, n, oh, ow, tap, k, KW, down, across, top, left, C, BM: tl.constexpr, BK: tl.constexpr,
              VIEW: tl.constexpr):  # fmt: skip
    """The elements k .. k + BK - 1 of a tap, for each pixel of the tile: (BM, BK)."""
    if VIEW == WINDOWS:
        a = a_desc.load([n, oh, ow, tap, k])
    else:
        h = tap // KW * down - top
        w = tap % KW * across - left
        if VIEW == PADDED:
            a = a_desc.load([n, oh + h, ow + w, k])
        else:
            a = a_desc.load([n, oh + (h >> 1), h & 1, ow + (w >> 1), (w & 1) * C + k])
    return a.reshape(BM, BK)


@triton.jit
def convolve(
    a_desc, b_desc, o_desc, o_ptr, bias_ptr, N, OH, OW, CO, TAPS, LENGTH, KW, down, across, top, left, ROW_TILES,
    COLUMN_TILES, CHANNEL_TILES, BB: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr, BC: tl.constexpr,
    BK: tl.constexpr, VIEW: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """One tile of the output: all channel tiles of some pixels follow one another.

    b_desc: the filter (CO, TAPS, LENGTH) in boxes (BC, 1, BK). o_desc: the output (N, OH, OW, CO) in boxes
    (BB, BH, BW, BC); None: it is written through o_ptr. bias_ptr: of CO, or None. down, across: the dilation of rows
    and columns. top, left: the padding.
    """
    BM: tl.constexpr = BB * BH * BW
    tile = tl.program_id(0)
    co = tile % CHANNEL_TILES * BC
    tile = tile // CHANNEL_TILES
    ow = tile % COLUMN_TILES * BW
    tile = tile // COLUMN_TILES
    oh = tile % ROW_TILES * BH
    n = tile // ROW_TILES * BB
    blocks = tl.cdiv(LENGTH, BK)
    acc = tl.zeros([BM, BC], tl.float32)
    for step in range(TAPS * blocks):
        tap = step // blocks
        k = step % blocks * BK
        a = pixels_of(a_desc, n, oh, ow, tap, k, KW, down, across, top, left, LENGTH, BM, BK, VIEW)
        b = b_desc.load([co, tap, k]).reshape(BC, BK)
        acc = tl.dot(a, b.T, acc)
    channels = co + tl.arange(0, BC)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + channels, mask=channels < CO, other=0.0)
        acc += bias.to(tl.float32)[None, :]
    if RELU:
        acc = tl.where(acc < 0.0, 0.0, acc)  # a NaN stays one
    if o_desc is not None:
        o_desc.store([n, oh, ow, co], acc.to(o_desc.dtype).reshape(BB, BH, BW, BC))
    else:
        pixel = tl.arange(0, BM)
        pn = n + pixel // (BH * BW)
        ph = oh + pixel // BW % BH
        pw = ow + pixel % BW
        row = (pn.to(tl.int64) * OH + ph) * OW + pw
        inside = (pn < N) & (ph < OH) & (pw < OW)
        place = o_ptr + row[:, None] * CO + channels[None, :]
        tl.store(place, acc.to(o_ptr.dtype.element_ty), mask=inside[:, None] & (channels < CO)[None, :])
