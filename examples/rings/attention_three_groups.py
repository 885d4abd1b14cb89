"""Attention forward in Gluon: one producer, three groups of consumers of 64 rows each, which share keys and values.

While one group computes its softmax, the tensor cores work for the two others. q, k, v, o: float16, (heads * L, HD),
one head behind the other; no mask; L a multiple of 192 and of BN.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

from tawa.rings import Ring, StoreRing

GROUPS = gl.constexpr(3)
ROWS = gl.constexpr(64)
"""Of a group."""


@gluon.jit
def producer(queries, keys, values, q, k, v, L, BN: gl.constexpr):
    """One warp: the queries of all groups once, then a block of keys and one of values alternately."""
    first = gl.program_id(1) * L
    m = first + gl.program_id(0) * (GROUPS * ROWS)
    queries.put((q, q, q), ([m, 0], [m + ROWS, 0], [m + 2 * ROWS, 0]))
    for n in range(0, L, BN):
        keys = keys.put((k,), ([first + n, 0],))
        values = values.put((v,), ([first + n, 0],))


@gluon.jit
def consumer(queries, keys, values, out, o, scale, L, GROUP: gl.constexpr, BN: gl.constexpr, HD: gl.constexpr):
    """Four warps: 64 rows. scale: of the scores, in units of log2(e)."""
    of_scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    of_o: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HD, 16])
    of_p: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=of_o, k_width=2)
    rows: gl.constexpr = gl.SliceLayout(1, of_scores)
    rows_of_o: gl.constexpr = gl.SliceLayout(1, of_o)
    top = gl.full([ROWS], float("-inf"), gl.float32, rows)
    total = gl.full([ROWS], 0.0, gl.float32, rows)
    acc = gl.zeros([ROWS, HD], gl.float32, of_o)
    x, y, z, queries = queries.get()
    mine = x if GROUP == 0 else (y if GROUP == 1 else z)
    for _ in range(0, L, BN):
        block, keys = keys.get()
        scores = gl.zeros([ROWS, BN], gl.float32, of_scores)
        scores = warpgroup_mma(mine, block.permute((1, 0)), scores, use_acc=False, is_async=True)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        keys.consumed()
        above = gl.maximum(top, gl.max(scores, 1) * scale)
        weights = gl.exp2(scores * scale - above[:, None])
        shrink = gl.exp2(top - above)
        total = total * shrink + gl.sum(weights, 1)
        top = above
        acc = acc * gl.convert_layout(shrink, rows_of_o)[:, None]
        block, values = values.get()
        acc = warpgroup_mma(gl.convert_layout(weights.to(gl.float16), of_p), block, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        values.consumed()
    queries.consumed()
    acc = acc / gl.convert_layout(total, rows_of_o)[:, None]
    row = gl.program_id(1) * L + gl.program_id(0) * (GROUPS * ROWS) + GROUP * ROWS
    out.put(o, [row, 0], acc.to(o.dtype)).drain()


@gluon.jit
def attention(q, k, v, o, scale, L, BN: gl.constexpr, HD: gl.constexpr, D: gl.constexpr, num_warps: gl.constexpr):
    """192 rows of a head. Grid: (L / 192, heads)."""
    queries = Ring.like((q, q, q), 1, readers=GROUPS)
    keys, values = Ring.like((k,), D, readers=GROUPS), Ring.like((v,), D, readers=GROUPS)
    first, second, third = StoreRing.like(o, 1), StoreRing.like(o, 1), StoreRing.like(o, 1)
    gl.warp_specialize(
        [
            (consumer, (queries, keys, values, first, o, scale, L, 0, BN, HD)),
            (consumer, (queries, keys, values, second, o, scale, L, 1, BN, HD)),
            (consumer, (queries, keys, values, third, o, scale, L, 2, BN, HD)),
            (producer, (queries, keys, values, q, k, v, L, BN)),
        ],
        [4, 4, 1],
        [152, 152, 24],
    )
