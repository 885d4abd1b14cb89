"""A grouped GEMM through tables of addresses, in forms that differ in what Triton and Tawa can prove of them."""

import triton
import triton.language as tl


@triton.jit
def table_gemm(
    a_addresses, b_addresses, c_addresses, sizes_ptr, strides_ptr, GROUPS, N, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, HINT: tl.constexpr, WHERE: tl.constexpr, MASK: tl.constexpr,
    ASSUME: tl.constexpr,
):  # fmt: skip
    """Each program goes through its tiles of all groups; sizes: M and K of each group, strides: those of A and B.

    HINT: the alignment of rows in bytes. WHERE: the pointers of B are loaded for each tile or iteration; or the sign of
    a tile's position is unknown. ASSUME: strides are assumed to be positive.
    """
    for g in range(GROUPS):
        m = tl.load(sizes_ptr + g * 2)
        k = tl.load(sizes_ptr + g * 2 + 1)
        lda = tl.load(strides_ptr + g * 2)
        ldb = tl.load(strides_ptr + g * 2 + 1)
        if ASSUME:
            tl.assume(lda > 0)
            tl.assume(ldb > 0)
        a_ptr = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
        for tile in range(tl.program_id(0), tl.cdiv(m, BM), tl.num_programs(0)):
            b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            place = ((tile * 2) | 1) // 2 if WHERE == "unknown" else tile  # the same, but of unknown sign
            rows = place * BM + tl.arange(0, BM)
            columns = tl.arange(0, BN)
            ks = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * ldb + columns[None, :]
            if HINT:
                tl.multiple_of(a_ptrs, [HINT, HINT])
                tl.multiple_of(b_ptrs, [HINT, HINT])
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for i in range(tl.cdiv(k, BK)):
                if MASK == "diagonal":
                    a = tl.load(a_ptrs, mask=rows[:, None] >= ks[None, :], other=0.0)
                elif MASK == "rows":
                    a = tl.load(a_ptrs, mask=rows[:, None] < m, other=0.0)
                else:
                    a = tl.load(a_ptrs)
                if WHERE == "iteration":
                    b_ptr = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
                    b_ptrs = b_ptr + (i * BK + ks)[:, None] * ldb + columns[None, :]
                    tl.multiple_of(b_ptrs, [HINT, HINT])
                b = tl.load(b_ptrs)
                acc = tl.dot(a, b, acc)
                a_ptrs += BK
                b_ptrs += BK * ldb
            tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.float16), mask=rows[:, None] < m)
