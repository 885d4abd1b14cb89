"""A kernel that reads two tensors and writes next to nothing: the rate of the memory."""

import triton
import triton.language as tl


@triton.jit
def read_both(a_ptr, b_ptr, out_ptr, COUNT, BLOCK: tl.constexpr):
    """Sums the elements of two tensors of COUNT elements each. Grid: any number of programs, one float each."""
    total = tl.zeros([BLOCK], tl.float32)
    for n in range(tl.program_id(0) * BLOCK, COUNT, tl.num_programs(0) * BLOCK):
        at = n + tl.arange(0, BLOCK)
        total += tl.load(a_ptr + at).to(tl.float32) + tl.load(b_ptr + at).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))
