"""V of fp8 attention, transposed and reordered: with its keys innermost, in the order that suits the weights.

wgmma takes eight-bit operands only K-major, which for ``P @ V`` means V with its keys innermost. P is the result of a
dot, and becomes the left operand of the next one. As a result, thread q of the four that share a row holds the columns
8j + 2q + c of each 16 (j, c = 0, 1); as an operand it needs four neighbours, 4q + 2j + c. In the order of the keys the
threads would exchange half of their registers for each block. A sum over keys may take them in any order. So V is
reordered such that place 4q + 2j + c of each 16 has key 8j + 2q + c, and P becomes the operand without an exchange
(`reorder_keys`).
"""

import triton
import triton.language as tl


@triton.jit
def reorder_keys(p, BM: tl.constexpr, BN: tl.constexpr):
    """The columns of P (BM x BN) in the order of the keys of a reordered V."""
    return p.reshape([BM, BN // 16, 2, 4, 2]).permute([0, 1, 3, 2, 4]).reshape([BM, BN])


@triton.jit
def reorder_values(
    v_ptr, reordered_ptr, HK, SK, PADDED, DIM, V_B, V_H, V_N, V_D, ROWS: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """Writes V (B, HK, SK, DIM), with these strides, as (B, HK, DIM, PADDED). Grid: blocks of ROWS keys, B * HK.

    Elements are bytes. PADDED is SK rounded up to a multiple of 16; what is behind SK becomes 0. D: a power of two from
    DIM on.
    """
    head = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    v_ptr += head // HK * V_B + head % HK * V_H
    v = tl.load(v_ptr + n[:, None].to(tl.int64) * V_N + d[None, :] * V_D, mask=(n < SK)[:, None] & (d < DIM)[None, :],
                other=0)  # fmt: skip
    v = v.reshape([ROWS // 16, 2, 4, 2, D]).permute([0, 2, 1, 3, 4]).reshape([ROWS, D])
    at = reordered_ptr + head * DIM * PADDED + d[:, None].to(tl.int64) * PADDED + n[None, :]
    tl.store(at, v.T, mask=(d < DIM)[:, None] & (n < PADDED)[None, :])
