"""TMA descriptors in the form that the hardware reads, encoded once for each tensor.

Triton's launcher encodes the descriptors of a launch each time. Here the user's descriptors and those that a launcher
adds are kept: equal addresses, shapes and strides give the same encoding, whichever tensor is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tawa.bridge.launch.launch_key import Memory
from tawa.bridge.launch.straight import straight
from tawa.symbolic.host.launch_spec import DescriptorSpec

_MOST_KNOWN = 1024


@dataclass(slots=True)
class MadeDescriptor:
    """Stands for Triton's `TensorDescriptor`. It needs no checks: the spec's conditions cover them."""

    base: Memory
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


Encoder = Callable[[int, MadeDescriptor], Sequence[Any]]


def made_descriptor(spec: DescriptorSpec, values: Sequence[int]) -> MadeDescriptor:
    """The descriptor that a launch adds. values: of its arguments."""
    address, shape, strides = spec.evaluate(values)
    return MadeDescriptor(Memory(address), list(shape), list(strides), list(spec.block))


def encoder(about: Sequence[Any]) -> Encoder:
    """Returns a function that turns added descriptor `number` into arguments of Triton's launcher.

    about: Triton's metadata of each.
    """
    return lambda number, descriptor: _encoded(descriptor, about[number])


_NO_CONTEXT = "invalid device context"
"""What CUDA's driver says in a thread that has not called the CUDA runtime yet."""


def _encoded(descriptor: Any, about: Any) -> Sequence[Any]:
    from triton.backends.nvidia import driver
    from triton.runtime import driver as drivers

    make: Any = driver.make_tensordesc_arg
    given = (descriptor, about, *[()] * (_parameters(make) - 2))
    try:
        return make(*given)
    except RuntimeError as error:
        if _NO_CONTEXT not in str(error):
            raise
        active: Any = drivers.active
        active.get_device_interface().mem_get_info()  # any call of the CUDA runtime
        return make(*given)


@cache
def _parameters(make: Any) -> int:
    """Later releases of Triton also pass the leading arguments of the launch; only the AMD backend reads them."""
    return len(inspect.signature(make).parameters)


class Passed:
    """Encodes the descriptors among the arguments of a launch, each tensor once. kept: their encodings by position."""

    def __init__(self, kept: Mapping[int, Callable[[Any], Sequence[Any]]]) -> None:
        self.kept = kept
        self.in_order = tuple(kept.items())

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of Triton's launcher."""
        found: list[Any] = []
        begin = 0
        for at, encoded in self.in_order:
            found += args[begin:at]
            found += encoded(args[at])
            begin = at + 1
        found += args[begin:]
        return found


def encoded_signature(signature: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the arguments that Triton's launcher takes if descriptors are encoded already."""
    found: dict[str, Any] = {}
    for name, type in signature.items():
        if _is_descriptor(type):
            found |= encoded_types(name, type.partition("[")[2].partition("]")[0].count(",") + 1)
        else:
            found[name] = type
    return found


def encoded_types(name: str, rank: int) -> dict[str, str]:
    """The arguments that one encoded descriptor becomes, with their types."""
    sizes = {f"{name}_size_{dim}": "i32" for dim in range(rank)}
    return {name: "nvTmaDesc", **sizes, **{f"{name}_stride_{dim}": "i64" for dim in range(rank)}}


def encoding(types: Sequence[Any], about: Sequence[Any]) -> Passed | None:
    """What encodes the user's descriptors among the arguments of a launch.

    types: of the arguments. about: Triton's metadata of each descriptor. None if Triton's launcher has to encode them:
    one is inside a tuple, or of a kind that this function does not know.
    """
    places = [at for at, type in enumerate(types) if _is_descriptor(type)]
    plain = len(places) == len(about) and all(it is not None and not it.get("is_im2col") for it in about)
    if not places or not plain:
        return None
    return Passed({at: _Kept(metadata) for at, metadata in zip(places, about, strict=True)})


class EncodingLauncher:
    """A launcher that hands encoded arguments to `inner`, Triton's launcher for them."""

    def __init__(self, passed: Passed, inner: Callable[..., None]) -> None:
        self.passed, self.inner = passed, straight(inner)

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        """Launches."""
        self.inner(grid_0, grid_1, grid_2, stream, function, packed, metadata, enter, leave, *self.passed(args))


def _is_descriptor(type: Any) -> bool:
    return isinstance(type, str) and type.startswith("tensordesc")


class _Kept:
    """The encodings of one parameter. A `TensorDescriptor` can be changed, so its fields are compared."""

    __slots__ = ("about", "known")

    def __init__(self, about: Any) -> None:
        self.about = about
        self.known: dict[Any, Sequence[Any]] = {}

    def __call__(self, descriptor: Any) -> Sequence[Any]:
        key = (
            descriptor.base.data_ptr(), *descriptor.shape, *descriptor.strides, descriptor.padding,
            getattr(descriptor, "round_f32_to_tf32", False),
        )  # fmt: skip
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            found = self.known[key] = _encoded(descriptor, self.about)
        return found
