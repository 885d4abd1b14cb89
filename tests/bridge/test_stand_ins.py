"""Stand-ins for tensors are to Triton what tensors are."""

from __future__ import annotations

from triton._C.libtriton import native_specialize_impl
from triton.backends.nvidia.compiler import CUDABackend

from tests.bridge.kernels import tensor_of


def type_of(element: str) -> str:
    """The type that a launch finds for a tensor that is gone afterwards."""
    return native_specialize_impl(CUDABackend, tensor_of(element), False, True, True)[0]


def test_a_tensor_at_the_address_of_an_earlier_one_has_its_own_type() -> None:
    found = {(type_of("float16"), type_of("float32")) for _ in range(200)}
    assert found == {("*fp16", "*fp32")}
