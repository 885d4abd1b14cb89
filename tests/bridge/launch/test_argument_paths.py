"""Where a launch passes each argument of the kernel's function."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.argument_paths import argument_paths, plain_value, values_at


def test_constants_have_no_path_and_tuples_have_longer_ones() -> None:
    types = ("*fp16", "constexpr", "i32", ("i32", "constexpr", ("fp32",)))
    assert argument_paths(types) == [(0,), (2,), (3, 0), (3, 2, 0)]


def test_a_descriptor_becomes_itself_its_shape_and_its_strides() -> None:
    shape, strides = [(0, "shape", 0), (0, "shape", 1)], [(0, "strides", 0), (0, "strides", 1)]
    assert argument_paths(("tensordesc<fp16[64,32]>", "i32")) == [(0, "base"), *shape, *strides, (1,)]
    assert argument_paths(("i32", ("tensordesc<fp16[64]>",)))[1:] == [
        (1, 0, "base"), (1, 0, "shape", 0), (1, 0, "strides", 0),
    ]  # fmt: skip


def descriptor(**changes: Any) -> SimpleNamespace:
    tensor = SimpleNamespace(data_ptr=lambda: 4096)
    return SimpleNamespace(**{"base": tensor, "shape": [100, 64], "strides": [64, 1], "padding": "zero", **changes})


def test_values_are_numbers_and_addresses() -> None:
    tensor = SimpleNamespace(data_ptr=lambda: 4096)
    assert values_at([(0,), (1, 0)], [tensor, (7, None)]) == [4096, 7]
    assert plain_value(tensor) == 4096 and plain_value(0.5) == 0.5


@pytest.mark.parametrize("types", [("tensordesc<fp8e4nv[64,32]>",), (("tensordesc<fp8e4nv[64,32]>",),)])
def test_a_descriptor_has_its_address_sizes_and_strides(types: tuple[Any, ...]) -> None:
    args = (descriptor(),) if isinstance(types[0], str) else ((descriptor(),),)
    assert values_at(argument_paths(types), args) == [4096, 100, 64, 64, 1]


@pytest.mark.parametrize("change", [{"padding": "nan"}, {"round_f32_to_tf32": True}])
def test_a_descriptor_that_does_not_read_elements_as_they_are_has_no_address(change: dict[str, Any]) -> None:
    assert values_at([(0, "base"), (0, "shape", 0)], [descriptor(**change)]) == [0, 100]
