"""Gluon kernels at which Triton ends the process, and the GPU that a kernel is for."""

from __future__ import annotations

import inspect

import pytest

from tawa.bridge.gluon.compile import compile_gluon, lower_gluon
from tawa.bridge.triton.signature import Signature
from tawa.errors import CompileError, TargetError
from tawa.machine.machines import SM_90, SM_100, machine_of_module
from tests.bridge.faulty_gluon import assembly, tensor_memory, wgmma


@pytest.mark.contract
def test_a_kernel_with_tensor_memory_is_refused_with_its_place() -> None:
    with pytest.raises(CompileError, match=r"Triton cannot compile the kernel tensor_memory: .*tcgen05") as refused:
        compile_gluon(tensor_memory, Signature({"out": "*fp32"}, {}, {}), num_warps=4)
    lines, first = inspect.getsourcelines(tensor_memory.fn)
    place = refused.value.location
    assert place is not None and place.file == __file__.replace("gluon/test_compile", "faulty_gluon")
    assert first < place.line < first + len(lines)


OUT = Signature({"out": "*fp32"}, {}, {})


@pytest.mark.contract
@pytest.mark.parametrize("kernel, target", [(tensor_memory, SM_100), (wgmma, SM_90)], ids=["tensor memory", "wgmma"])
def test_the_target_follows_from_the_operations(kernel, target) -> None:
    for asked in (None, target):
        found, module = lower_gluon(kernel, OUT, asked, num_warps=4)
        assert found is machine_of_module(module) is target
    other = SM_90 if target is SM_100 else SM_100
    with pytest.raises(TargetError, match=rf"cannot be compiled for {other.name} .* is an operation of {target.name} "):
        lower_gluon(kernel, OUT, other, num_warps=4)


@pytest.mark.contract
def test_a_kernel_is_lowered_although_llvm_ends_the_process_at_it() -> None:
    pointer = Signature({"p": "*i32"}, {}, {})
    for asked, target in ((None, SM_90), (SM_100, SM_100)):
        assert lower_gluon(assembly, pointer, asked, num_warps=4)[0] is target
        with pytest.raises(CompileError, match=r"it ends the process \(SIGABRT: LLVM ERROR: Invalid \$ operand number"):
            compile_gluon(assembly, pointer, num_warps=4, target=target)


@pytest.mark.contract
def test_what_no_target_takes_is_refused_by_the_first() -> None:
    with pytest.raises(CompileError, match=r"Triton cannot compile the kernel tensor_memory: "):
        lower_gluon(tensor_memory, Signature({"out": "i32"}, {}, {}), None, num_warps=4)
