"""Descriptors of the user's: encoded once for each tensor, wherever they stand; otherwise left to Triton."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch import descriptors
from tawa.bridge.launch.descriptors import EncodingLauncher, encoded_signature, encoding
from tawa.bridge.launch.launch_key import Memory

TILE = "tensordesc<fp16[64,32]>"
ABOUT: dict[str, Any] = {"swizzle": 3}


@dataclass
class Descriptor:
    base: Memory
    shape: tuple[int, ...] = (100, 48)
    strides: tuple[int, ...] = (48, 1)
    padding: str = "zero"
    round_f32_to_tf32: bool = False


ONE = Descriptor(Memory(4096))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was encoded; an encoding is its number."""
    found: list[Any] = []

    def encode(descriptor: Any, about: Any) -> list[Any]:
        found.append(descriptor)
        return [f"map {len(found)}", *descriptor.shape]

    monkeypatch.setattr(descriptors, "_encoded", encode)
    return found


def test_the_types_are_those_that_triton_expands_a_descriptor_to() -> None:
    signature = {"a": TILE, "n": "i32", "p": ("i32", "*fp16")}
    types = ["nvTmaDesc", "i32", "i32", "i64", "i64", "i32", ("i32", "*fp16")]
    assert list(encoded_signature(signature).values()) == types


@pytest.mark.parametrize("message", ["invalid device context", "invalid argument"])
def test_a_thread_without_a_context_gets_one(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has not called CUDA's runtime has no context, without which Triton encodes no descriptor."""
    from triton.backends.nvidia import driver
    from triton.runtime import driver as drivers

    calls = list[str]()

    def make(descriptor: Any, about: Any) -> list[Any]:
        calls.append("make")
        if "memory" not in calls:
            raise RuntimeError(f"Triton Error [CUDA]: {message}")
        return [descriptor, about]

    runtime = SimpleNamespace(mem_get_info=lambda: calls.append("memory"))
    monkeypatch.setattr(driver, "make_tensordesc_arg", make)
    monkeypatch.setattr(drivers, "_active", SimpleNamespace(get_device_interface=lambda: runtime))
    if message == "invalid argument":
        with pytest.raises(RuntimeError, match=message):
            descriptors.encoder([ABOUT])(0, ONE)  # type: ignore[arg-type]
    else:
        assert descriptors.encoder([ABOUT])(0, ONE) == [ONE, ABOUT]  # type: ignore[arg-type]
        assert calls == ["make", "memory", "make"]


def test_equal_descriptors_are_encoded_once(encoded: list[Any]) -> None:
    passed = encoding(("i32", TILE, "constexpr", TILE, "*fp16"), (ABOUT, ABOUT))
    assert passed is not None
    for _ in range(2):
        made = passed((7, ONE, 8, Descriptor(Memory(4096)), 9))
        assert list(made) == [7, "map 1", 100, 48, 8, "map 2", 100, 48, 9]  # each parameter by itself
    assert len(encoded) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"base": Memory(8192)},
        {"shape": (104, 48)},
        {"strides": (56, 1)},
        {"padding": "nan"},
        {"round_f32_to_tf32": True},
    ],
    ids=str,
)
def test_a_descriptor_that_was_changed_is_encoded_again(encoded: list[Any], change: dict[str, Any]) -> None:
    passed = encoding((TILE,), (ABOUT,))
    assert passed is not None
    descriptor = replace(ONE)
    passed((descriptor,))
    for name, value in change.items():
        setattr(descriptor, name, value)
    assert passed((descriptor,))[0] == "map 2"


@pytest.mark.parametrize(
    ("types", "about"),
    [
        (("i32",), ()),
        ((TILE,), ()),
        ((TILE,), (None,)),
        ((TILE,), ({"is_im2col": True},)),
        (((TILE,), TILE), (ABOUT, ABOUT)),
    ],
)
def test_triton_encodes_what_is_not_known(types: tuple[Any, ...], about: tuple[Any, ...]) -> None:
    assert encoding(types, about) is None


def test_a_launch_passes_the_encoded_arguments(encoded: list[Any]) -> None:
    made: list[Any] = []
    passed = encoding((TILE, "i32"), (ABOUT,))
    assert passed is not None
    EncodingLauncher(passed, lambda *args: made.extend(args))(1, 2, 3, 0, 7, "packed", None, None, None, ONE, 5)
    assert made == [1, 2, 3, 0, 7, "packed", None, None, None, "map 1", 100, 48, 5]
