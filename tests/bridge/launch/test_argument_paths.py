"""Where a launch passes each argument of the kernel's function."""

from __future__ import annotations

from types import SimpleNamespace

from tawa.bridge.launch.argument_paths import argument_paths, plain_value, values_at


def test_constants_have_no_path_and_tuples_have_longer_ones() -> None:
    types = ("*fp16", "constexpr", "i32", ("i32", "constexpr", ("fp32",)))
    assert argument_paths(types) == [(0,), (2,), (3, 0), (3, 2, 0)]


def test_a_descriptor_becomes_itself_its_shape_and_its_strides() -> None:
    assert argument_paths(("tensordesc<fp16[64,32]>", "i32")) == [()] * 5 + [(1,)]
    assert argument_paths(("tensordesc<fp16[64]>",)) == [()] * 3


def test_values_are_numbers_and_addresses() -> None:
    tensor = SimpleNamespace(data_ptr=lambda: 4096)
    assert values_at([(0,), (), (1, 0)], [tensor, (7, None)]) == [4096, 0, 7]
    assert plain_value(tensor) == 4096 and plain_value(0.5) == 0.5
