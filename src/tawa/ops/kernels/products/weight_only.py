"""Y = X @ W^T + bias for weights in few bits, widened in the kernel before the dot. Plain Triton.

Letters: X (M, K); weights W (N, K), packed in words of 32 bits; scales and zeros (K / SPAN, N); Y (M, N). Blocks of
BN x BM. The weights are the left operand of the dot, which wgmma reads from registers: with few tokens, no rows of a
wgmma are lost, and widened weights need no shared memory.

A block of K has 32 words of each row of W. A word has as many weights in its lower half as in its upper half: one shift
and one mask make two neighbours of K in the two halves of a register, as wgmma takes 16-bit operands. A shift of all
words is a plane, 64 elements of K. Element `64 * plane + 2 * word + half` of a block is thus at bit
``16 * half + bits * plane`` of its word. That packing is made by `tawa.ops.products.weight_only_packing`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.ops.kernels.products.split import arrive, sum_parts, write_part

INT4 = tl.constexpr(0)
INT8 = tl.constexpr(1)
E4M3 = tl.constexpr(2)
E5M2 = tl.constexpr(3)


@triton.jit
def halves_of(pairs, dtype: tl.constexpr):
    """The two 16-bit numbers of each word (BN, 32), as (BN, 32, 2)."""
    low, high = (pairs & 0xFFFF).to(tl.int16), (pairs >> 16).to(tl.int16)
    return tl.join(low.to(dtype, bitcast=True), high.to(dtype, bitcast=True))


@triton.jit
def float_codes(words, SHIFT: tl.constexpr, KIND: tl.constexpr, dtype: tl.constexpr):
    """The weights of 8-bit floating point at two places of each word, (BN, 32, 2)."""
    bytes = tl.join(((words >> SHIFT) & 255).to(tl.int8), ((words >> (SHIFT + 16)) & 255).to(tl.int8))
    if KIND == E4M3:
        return bytes.to(tl.float8e4nv, bitcast=True).to(dtype)
    else:
        return bytes.to(tl.float8e5, bitcast=True).to(dtype)


@triton.jit
def codes_of(words, place: tl.constexpr, KIND: tl.constexpr, dtype: tl.constexpr):
    """The weights of a plane without scales, (BN, 32, 2): exact, with an offset that the caller knows.

    Integers are put into the mantissa of a power of two: converting them would take longer than reading them.
    """
    if KIND == INT4:
        if dtype == tl.float16:  # 1024 + code
            return halves_of(((words >> (4 * place)) & 0x000F000F) | 0x64006400, dtype)
        else:  # 128 + code
            return halves_of(((words >> (4 * place)) & 0x000F000F) | 0x43004300, dtype)
    elif KIND == INT8:
        if dtype == tl.float16:
            return halves_of(((words >> (8 * place)) & 0x00FF00FF) | 0x64006400, dtype)
        else:  # 2 ** 23 + code, which bfloat16 cannot hold
            low, high = (words >> (8 * place)) & 255, (words >> (8 * place + 16)) & 255
            wide = tl.join(low | 0x4B000000, high | 0x4B000000).to(tl.float32, bitcast=True)
            return (wide - 8388608.0).to(dtype)
    else:
        return float_codes(words, 8 * place, KIND, dtype)


@triton.jit
def of_plane(values, k, rows, N, K, SPAN: tl.constexpr):
    """The scales, or zeros, of the plane that begins at element k: (BN, 1, 1), or one for each word, (BN, 32, 1)."""
    if SPAN % 64 == 0:
        found = tl.load(values + k // SPAN * N + rows, mask=(rows < N) & (k < K), other=0.0)[:, None, None]
    else:
        ks = k + 2 * tl.arange(0, 32)
        at = values + ks[None, :] // SPAN * N + rows[:, None]
        found = tl.load(at, mask=(rows < N)[:, None] & (ks < K)[None, :], other=0.0)[:, :, None]
    return found


@triton.jit
def weight_only(
    w, x, y, scales, zeros, bias, parts, semaphores, M, N, K, BN: tl.constexpr, BM: tl.constexpr, SPAN: tl.constexpr,
    KIND: tl.constexpr, ZEROS: tl.constexpr, ZERO: tl.constexpr, BIAS: tl.constexpr, SPLIT: tl.constexpr,
    Y_TMA: tl.constexpr,
):  # fmt: skip
    """One tile of Y, or of its partial sums. SPAN: elements of K that share a scale, an even number.

    ZEROS: each group has its own zero; else all have ZERO. SPLIT: programs that share a tile. Y_TMA: Y is a descriptor.
    """
    dtype: tl.constexpr = x.dtype
    WORDS: tl.constexpr = 32  # of a row in a block
    PLANE: tl.constexpr = 64  # elements of K
    PLANES: tl.constexpr = 4 if KIND == INT4 else 2
    BK: tl.constexpr = PLANES * PLANE
    HALF: tl.constexpr = 1024.0 if KIND <= INT8 else 0.0
    BRAIN: tl.constexpr = 128.0 if KIND == INT4 else 0.0
    OFFSET: tl.constexpr = HALF if dtype == tl.float16 else BRAIN  # of `codes_of`
    tile, piece = tl.program_id(0) // SPLIT, tl.program_id(0) % SPLIT
    across = tl.cdiv(M, BM)
    n, m = tile // across * BN, tile % across * BM
    rows = n + tl.arange(0, BN)
    steps = tl.cdiv(K, BK)
    first, last = piece * steps // SPLIT, (piece + 1) * steps // SPLIT
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for step in range(first, last):
        words = w.load([n, step * WORDS])
        planes = ()
        zero = tl.full((BN, 1, 1), OFFSET + ZERO, dtype=dtype)
        scale = zero
        for place in tl.static_range(PLANES):
            k = step * BK + place * PLANE
            # The first plane, and each that may begin a group.
            if place == 0 or (SPAN % BK != 0 and (BK % SPAN != 0 or place * PLANE % SPAN == 0)):
                scale = of_plane(scales, k, rows, N, K, SPAN).to(dtype)
                if ZEROS:
                    zero = of_plane(zeros, k, rows, N, K, SPAN).to(dtype) + OFFSET
            codes = codes_of(words, place, KIND, dtype)
            if KIND <= INT8:
                codes -= zero
            planes = planes + (codes * scale,)  # noqa: RUF005 (Triton has no starred tuples)
        if PLANES == 4:
            joined = tl.join(tl.join(planes[0], planes[2]), tl.join(planes[1], planes[3]))
            weights = joined.permute(0, 3, 4, 1, 2).reshape(BN, BK)
        else:
            weights = tl.join(planes[0], planes[1]).permute(0, 3, 1, 2).reshape(BN, BK)
        acc = tl.dot(weights, x.load([m, step * BK]).T, acc)
    if SPLIT > 1:
        write_part(parts, acc, tile, piece, SPLIT)
        if arrive(semaphores, tile, SPLIT):
            acc = sum_parts(parts, tile, 0, BN, BM, BM, SPLIT)
            put_transposed(y, acc, bias, m, n, M, N, BN, BM, BIAS, Y_TMA)
    else:
        put_transposed(y, acc, bias, m, n, M, N, BN, BM, BIAS, Y_TMA)


@triton.jit
def put_transposed(
    y, acc, bias, m, n, M, N, BN: tl.constexpr, BM: tl.constexpr, BIAS: tl.constexpr, Y_TMA: tl.constexpr
):
    """Adds the bias and stores a block (BN, BM) of Y^T into Y. Y_TMA: by a descriptor; else Y points to rows."""
    rows, columns = n + tl.arange(0, BN), m + tl.arange(0, BM)
    if BIAS:
        acc += tl.load(bias + rows, mask=rows < N, other=0.0).to(tl.float32)[:, None]
    if Y_TMA:
        y.store([m, n], acc.T.to(y.dtype))
    else:
        at = y + columns.to(tl.int64)[None, :] * N + rows[:, None]
        tl.store(at, acc.to(y.dtype.element_ty), mask=(rows < N)[:, None] & (columns < M)[None, :])
