"""The backward pass of a linear layer fused with its cross-entropy loss: the logits are never in memory.

Plain Triton. A program has a tile of tokens by words: it computes the logits once more, and from them their gradient,
whose products with W and with X it adds to those of the other programs. X is (M, K), W (V, K); the logits are
`scale` · X · Wᵀ. The sums dX and dW are fp32 and zero at first. `lse` has the logarithms of the tokens' sums in base 2,
`target` their words.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def linear_loss_gradients(
    x_desc, w_desc, dx_desc, dw_desc, lse_ptr, target_ptr, M, K, scale,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows, words = m + tl.arange(0, BM), n + tl.arange(0, BN)
    logits = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        logits = tl.dot(x_desc.load([m, k]), w_desc.load([n, k]).T, logits)
    p = tl.exp2(logits * (scale * LOG2_E) - tl.load(lse_ptr + rows, mask=rows < M, other=float("inf"))[:, None])
    hit = words[None, :] == tl.load(target_ptr + rows, mask=rows < M, other=-1)[:, None]
    d = (tl.where(hit, p - 1.0, p) * scale).to(x_desc.dtype)
    for k in range(0, K, BK):
        dx_desc.atomic_add([m, k], tl.dot(d, w_desc.load([n, k])))
        dw_desc.atomic_add([n, k], tl.dot(d.T, x_desc.load([m, k])))
