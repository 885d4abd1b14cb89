"""What the kernels with tensor memory share: rings of barriers, counted by slot and parity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import mbarrier, tma

from tawa.bridge.gluon.compile import with_layout
from tawa.bridge.triton.read_module import read_final
from tawa.ir import Module
from tests.support.back_end import without_ptx

fence = blackwell.fence_async_shared
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
SM_100 = GPUTarget("cuda", 100, 32)


@gluon.jit
def barriers(SLOTS: gl.constexpr):
    """One barrier for each slot, which one arrival completes."""
    row = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(row.index(slot), count=1)
    return row


@gluon.jit
def following(slot, parity, SLOTS: gl.constexpr):
    """Slot and parity of the next step."""
    last = slot == SLOTS - 1
    return gl.where(last, 0, slot + 1), gl.where(last, parity ^ 1, parity)


def compiled(
    kernel: Any, boxes: Mapping[str, list[int]], constants: Mapping[str, int], scalars: Mapping[str, str]
) -> Module:
    """The final TTGIR of a Gluon kernel for sm_100. boxes: of its fp16 descriptors."""
    types = {name: with_layout(f"tensordesc<fp16[{','.join(map(str, box))}]>") for name, box in boxes.items()}
    types |= dict(scalars) | dict.fromkeys(constants, "constexpr")
    source = GluonASTSource(kernel, {name: types[name] for name in kernel.arg_names}, dict(constants))
    with without_ptx():
        return read_final(triton.compile(source, target=SM_100, options={"num_warps": 4}))
