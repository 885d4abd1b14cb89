"""The function `launch` of an emitted file, with a kernel that notes its arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.emit.launch import Made, launch_source

MADE = Made(("a", "M", "BM"), {"BM": 128}, ("M",), {"a": [128, 64]})


class Kernel:
    """Notes what it is launched with."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.launches.append((grid, args, kwargs))


@pytest.fixture
def file() -> dict[str, Any]:
    text = launch_source(MADE, "gemm", ("a", "M"), {"num_warps": 4, "maxnreg": 128}, {"a": ([64, 64], "TILES")})
    names = {"gemm": Kernel(), "TILES": SimpleNamespace(value="layout"), "TensorDescriptor": lambda *it: it}
    exec(text, names)
    return names


def descriptor(block: list[int]) -> Any:
    return SimpleNamespace(base="memory", shape=(256, 64), strides=(64, 1), block_shape=block)


def test_a_descriptor_gets_the_block_of_the_emitted_kernel(file) -> None:
    file["launch"]((2,), descriptor([128, 64]), 256, BM=128)
    passed = (("memory", [256, 64], [64, 1], [64, 64], "layout"), 256)
    assert file["gemm"].launches == [((2,), passed, {"num_warps": 4, "maxnreg": 128})]


UNFIT = {
    "BM is 64, and the kernel was made for 128": (descriptor([128, 64]), 256, 64),
    "M is not divisible by 16": (descriptor([128, 64]), 250, 128),
    r"a has blocks of \[64, 64\]": (descriptor([64, 64]), 256, 128),
}


@pytest.mark.parametrize(("reason", "arguments"), UNFIT.items())
def test_what_the_kernel_was_not_made_for_is_an_error_or_the_fallback(file, reason: str, arguments: Any) -> None:
    with pytest.raises(ValueError, match=reason):
        file["launch"]((2,), *arguments)
    original = Kernel()
    file["launch"]((2,), *arguments, fallback=original)
    assert original.launches == [((2,), arguments, {})] and not file["gemm"].launches
