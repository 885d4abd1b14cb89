"""What a launch costs the host, in functions called, against stock Triton's in the same process."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import tawa
from tests.bridge import kernels
from tests.bridge.launch.test_added_arguments import matmul
from tests.bridge.launching import Launching, calls_of

FORCED = {"only_if_faster": False}


def tensor(address: int) -> Any:
    return SimpleNamespace(data_ptr=partial(int, address), dtype=tl.float16)  # a function in C, as PyTorch's


def number(kernel: Any) -> Any:
    return kernel[(4,)](tensor(4096), 3)


def product(kernel: Any) -> Any:
    """Pointer loads, which are promoted to TMA: descriptors are added."""
    return kernel[(64, 64)](*map(tensor, (4096, 8192, 16384)), *6 * [4096], B=64, num_warps=4)


def small_product(kernel: Any) -> Any:
    """Too short to pay: the launcher takes the stock kernel."""
    return kernel[(2, 2)](*map(tensor, (4096, 8192, 16384)), *6 * [64], B=64, num_warps=4)


def described_product(kernel: Any) -> Any:
    """Descriptors of the user's."""
    return kernel[(1,)](*DESCRIPTORS, 64, BM=64, BN=64, BK=64, num_warps=4)


class Tensor:
    """As much of a tensor as a descriptor checks."""

    dtype = SimpleNamespace(itemsize=2, is_floating_point=True)

    def data_ptr(self) -> int:
        return 1 << 20


def described() -> Any:
    made = TensorDescriptor(Tensor(), [64, 64], [64, 1], [64, 64])
    made.base = tensor(1 << 20)
    return made


DESCRIPTORS = [described() for _ in range(3)]


@pytest.mark.parametrize(
    ("kernel", "launch", "options"),
    [
        (kernels.store_number, number, {}),
        (matmul, small_product, {}),
        (matmul, product, FORCED),
        (kernels.gemm_descriptors, described_product, FORCED),
    ],
)
def test_a_launch_under_tawa_jit_calls_no_more_than_stock_tritons(
    gpu: Launching, kernel: Any, launch: Any, options: dict[str, Any]
) -> None:
    stock, ours = triton.jit(kernel.fn), tawa.jit(triton.jit(kernel.fn), **options)
    assert calls_of(lambda: launch(ours)) <= calls_of(lambda: launch(stock))
    if options:
        assert ours.last_kernel.metadata.tawa["applied"], ours.last_kernel.metadata.tawa["reason"]


def test_a_launch_with_options_calls_no_more_than_stock_tritons(gpu: Launching) -> None:
    stock, ours = triton.jit(matmul.fn), tawa.jit(triton.jit(matmul.fn))
    arguments = (*map(tensor, (4096, 8192, 16384)), *6 * [4096])
    theirs = calls_of(lambda: stock[(64, 64)](*arguments, B=64, num_warps=4))
    options = {"aref_depth": 3, "persistent": False}
    assert calls_of(lambda: ours[(64, 64)](*arguments, B=64, num_warps=4, **options)) <= theirs


MORE_WHEN_INSTALLED = {number: 1, product: 4}
"""Triton's own `run` stays; the kernel's key has the request in it, and the launcher counts, and chooses the kernel."""


@pytest.mark.parametrize(("kernel", "launch"), [(kernels.store_number, number), (matmul, product)])
def test_a_launch_under_install_calls_little_more_than_stock_tritons(gpu: Launching, kernel: Any, launch: Any) -> None:
    stock, ours = triton.jit(kernel.fn), triton.jit(kernel.fn)
    theirs = calls_of(lambda: launch(stock))
    tawa.install(**(FORCED if launch is product else {}))
    try:
        counted = calls_of(lambda: launch(ours))
    finally:
        tawa.uninstall()
    assert counted <= theirs + MORE_WHEN_INSTALLED[launch]


def test_descriptors_are_encoded_once_for_each_tensor(gpu: Launching) -> None:
    ours = tawa.jit(triton.jit(kernels.gemm_descriptors.fn), enable_warp_specialization=False)
    stock = triton.jit(kernels.gemm_descriptors.fn)
    for kernel, wanted in ((ours, 3), (stock, 9)):
        gpu.encoded = 0
        for _ in range(3):
            described_product(kernel)
        assert gpu.encoded == wanted
    by_ours, by_stock = (str(gpu.launched[at]).partition("(1048576")[2].rstrip("])") for at in (2, -1))
    assert by_ours == by_stock != ""
