"""Gluon kernels at which Triton ends the process."""

from __future__ import annotations

import inspect

import pytest

from tawa.bridge.gluon.compile import compile_gluon
from tawa.bridge.triton.signature import Signature
from tawa.errors import CompileError
from tests.bridge.faulty_gluon import tensor_memory


@pytest.mark.contract
def test_a_kernel_with_tensor_memory_is_refused_with_its_place() -> None:
    with pytest.raises(CompileError, match=r"Triton cannot compile the kernel tensor_memory: .*tcgen05") as refused:
        compile_gluon(tensor_memory, Signature({"out": "*fp32"}, {}, {}), num_warps=4)
    lines, first = inspect.getsourcelines(tensor_memory.fn)
    place = refused.value.location
    assert place is not None and place.file == __file__.replace("gluon/test_compile", "faulty_gluon")
    assert first < place.line < first + len(lines)
