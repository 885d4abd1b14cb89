"""What `faulty_kernels` calls in another file."""

from __future__ import annotations

import triton
import triton.language as tl


def decorated(function):
    """Puts lines between the first line that Python knows and the ``def``."""
    return function


@decorated
@triton.jit
def needs_many(BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 128 == 0, "BLOCK must be a multiple of 128")  # asserts: the mistake
