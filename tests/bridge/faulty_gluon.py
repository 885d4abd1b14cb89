"""Gluon kernels for one GPU each. Many versions of Triton end the process if they are compiled for the other."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout, allocate_tensor_memory
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def tensor_memory(out):
    layout: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    registers: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [1, 0])
    memory = allocate_tensor_memory(gl.float32, [128, 64], layout)
    memory.store(gl.full([128, 64], 1.0, gl.float32, registers))
    gl.store(out, gl.sum(gl.sum(memory.load(registers), 0), 0))


@gluon.jit
def wgmma(out):
    tiles: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    registers: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    tile = gl.allocate_shared_memory(gl.float16, [64, 64], tiles)
    sums = gl.zeros([64, 64], gl.float32, registers)
    sums = warpgroup_mma_wait(0, deps=[warpgroup_mma(tile, tile, sums, is_async=True)])
    gl.store(out, gl.sum(gl.sum(sums, 0), 0))


@gluon.jit
def assembly(p):
    value = gl.inline_asm_elementwise("mov.b32 $0, $7;", "=r,r", [gl.load(p)], dtype=gl.int32, is_pure=True, pack=1)
    gl.store(p, value)
