"""A Gluon kernel for Blackwell. Many versions of Triton end the process if it is compiled for Hopper."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout, allocate_tensor_memory


@gluon.jit
def tensor_memory(out):
    layout: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    registers: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [1, 0])
    memory = allocate_tensor_memory(gl.float32, [128, 64], layout)
    memory.store(gl.full([128, 64], 1.0, gl.float32, registers))
    gl.store(out, gl.sum(gl.sum(memory.load(registers), 0), 0))
