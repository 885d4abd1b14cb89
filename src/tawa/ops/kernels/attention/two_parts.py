"""Forward attention whose head dimension is taken in two boxes: 192 = 128 + 64, 96 = 64 + 32.

The columns of a box are a power of two. In one box a head dimension of 192 needs 256 columns: a third more wgmmas,
shared memory and registers, all for zeros. In two boxes

    S = Q1 @ K1^T + Q2 @ K2^T      O1 = P @ V1      O2 = P @ V2

so that the scores are one tile, to which two dots add, and the output has two accumulators. V and O may have one box
all the same: V may have fewer columns than Q and K (192 and 128 in DeepSeek's models), and 32 columns more in one dot
may cost less than a dot of their own.

Both descriptors of a tensor are over the whole of it: the second box begins where the first ends. Plain Triton;
letters, layouts and masks as in `parts.py`, the loops as in `forward.py`.
"""

import triton
import triton.language as tl

from tawa.ops.kernels.attention.forward import attention_tile
from tawa.ops.kernels.attention.parts import longest_first


@triton.jit
def attention_two_parts(
    q_desc, k_desc, v_desc, o_desc, q2_desc, k2_desc, v2_desc, o2_desc, lse_ptr, slopes_ptr, together, H, SQ, SK,
    diagonal, scale, softcap, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    D2: tl.constexpr, V1: tl.constexpr, V2: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, SOFTCAP: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """As `attention_two_loops`. V2: 0 if V and O have one box, of V1 columns; `v2_desc` and `o2_desc` are None then."""
    head, tile = longest_first(together)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile
    b, h = head // H, head % H
    attention_tile(q_desc, k_desc, v_desc, o_desc, lse_ptr, slopes_ptr, tile, b, b, h, head, SQ, SQ, SK, diagonal,
                   scale, softcap, GROUP, BM, BN, D, False, CAUSAL, WINDOW, ALIBI, SOFTCAP, EVEN, q2_desc, k2_desc,
                   v2_desc, o2_desc, D2, V1, V2)  # fmt: skip
