"""What of a launch's arguments is compared: addresses and numbers, and whether two arguments are one tensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.launch_key import all_different, key_of, with_tensors
from tests.bridge.launch.test_launcher import TENSOR, memory


def view(of: int, at: int) -> SimpleNamespace:
    return SimpleNamespace(data_ptr=lambda: at, untyped_storage=lambda: memory(of))


ONE, OTHER = 1 << 40, 1 << 41


@pytest.mark.parametrize(
    ("arguments", "different"),
    [
        ((memory(ONE), memory(OTHER), 7, 7, None), True),
        ((memory(ONE), 3.0, memory(ONE)), False),
        ((memory(ONE), (7, (memory(ONE),))), False),
        ((view(ONE, ONE), view(ONE, ONE + 4096)), False),  # they may overlap
        ((view(ONE, ONE), view(OTHER, OTHER)), True),
        ((SimpleNamespace(base=view(ONE, ONE)), view(ONE, ONE)), False),  # a descriptor's tensor
        ((SimpleNamespace(base=view(ONE, ONE)), SimpleNamespace(base=view(OTHER, OTHER))), True),
        ((ONE, ONE), False),
    ],
)
def test_a_tensor_that_is_passed_twice_is_seen(arguments: tuple[Any, ...], different: bool) -> None:
    assert all_different(arguments) is different


def test_pointers_are_told_apart_by_address() -> None:
    types = ("*fp16", "constexpr", "i32", "tensordesc<fp16[64,32]>", "*fp16")
    read = key_of(types, frozenset({0, 1, 7}))
    arguments = (TENSOR, 1, 100, object(), SimpleNamespace(data_ptr=lambda: 8192))
    assert read(arguments) == read(with_tensors(types, (4096, 2, 100, object(), 8192))) == (4096, 8192, 100)


@pytest.mark.parametrize("pointers", range(8))
@pytest.mark.parametrize("numbers", range(3))
def test_a_key_has_every_argument_that_is_used_and_no_other(pointers: int, numbers: int) -> None:
    count = pointers + numbers
    types = ("*fp16",) * pointers + ("i32",) * (numbers + 1)
    read = key_of(types, frozenset(range(count)))
    arguments = [*(memory(1000 + at) for at in range(pointers)), *range(numbers), 77]
    key = read(arguments)
    hash(key)
    assert key == read(with_tensors(types, [*(1000 + at for at in range(pointers)), *range(numbers), 78]))
    for at in range(count):
        assert key != read([*arguments[:at], memory(5) if at < pointers else 55, *arguments[at + 1 :]])
