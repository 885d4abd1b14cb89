"""Compares the outputs of Plans on a GPU: which tensors a launch writes, and whether two launches write the same.

Before each run the written tensors are filled with a pattern that is NaN in every float type, so that an element that a
Plan forgets to write is seen. A kernel that reads what it writes gets what they held instead. Afterwards they hold that
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

MOST_BYTES = 1 << 32
"""Larger outputs are not compared: two copies of them are needed."""
_TOLERANCE = {8: 0.25, 16: 2e-2, 32: 1e-3, 64: 1e-8}
"""Of the largest number, by the bits of the type. Plans keep the order of sums, so differences are expected to be 0."""


def tensors_of(types: Sequence[Any], args: Sequence[Any]) -> dict[int, Any]:
    """The tensors among the arguments of a launch, by the number of the argument of the kernel's function.

    types: of the launch's arguments. A descriptor becomes several arguments; the first stands for its memory.
    """
    return {number: tensor for number, tensor in _numbered(types, args, 0)[1] if hasattr(tensor, "untyped_storage")}


def may_repeat(
    types: Sequence[Any],
    writes: Sequence[int] | None,
    otherwise: Callable[[Sequence[Any]], bool],
    args: Sequence[Any],
) -> bool:
    """Whether no tensor that the kernel writes shares memory with another argument.

    writes: the numbers of the written arguments of the kernel's function; None: not known. The kernel reads none of
    them, so a second run then finds what the first one found. Tensors that are only read may share memory, as the
    parts of a packed projection do. otherwise: decides for memory that is given by address, which has no known end.
    """
    known = tensors_of(types, args)
    if writes is None or any(index not in known for index in writes):
        return otherwise(args)
    places = [it.untyped_storage().data_ptr() for it in known.values()]
    return all(places.count(known[index].untyped_storage().data_ptr()) == 1 for index in writes)


def _numbered(types: Sequence[Any], args: Sequence[Any], first: int) -> tuple[int, list[tuple[int, Any]]]:
    found: list[tuple[int, Any]] = []
    for kind, arg in zip(types, args, strict=False):
        if isinstance(kind, tuple):
            first, inner = _numbered(kind, arg, first)
            found += inner
        elif kind.startswith("tensordesc"):
            rank = kind[kind.index("[") + 1 : kind.index("]")].count(",") + 1
            found.append((first, arg.base))
            first += 1 + 2 * rank
        elif kind != "constexpr":
            found.append((first, arg))
            first += 1
    return first, found


class OutputCheck:
    """Compares the outputs of launches with those of the first one."""

    def __init__(self, outputs: Sequence[Any], poison: bool = True) -> None:
        self.outputs, self.poison = list(outputs), poison
        self.expected: list[Any] | None = None

    def differs(self, launch: Callable[[], None]) -> str:
        """Runs a launch; how its outputs differ from those of the first one, or ""."""
        with _restored(self.outputs, self.poison):
            launch()
            if self.expected is None:
                self.expected = [it.clone() for it in self.outputs]
                return ""
            return next(filter(None, map(_difference, self.outputs, self.expected)), "")


def output_check(
    types: Sequence[Any], args: Sequence[Any], writes: Sequence[int] | None, poison: bool = True
) -> OutputCheck | None:
    """A check of the tensors that a kernel writes; None if they are not known, not tensors of PyTorch, or too large.

    writes: the numbers of the written arguments of the kernel's function; None: not known. poison: whether the kernel
    reads nothing of them.
    """
    known = tensors_of(types, args)
    if not writes or any(index not in known for index in writes):
        return None
    outputs = [known[index] for index in writes]
    return OutputCheck(outputs, poison) if sum(it.nbytes for it in outputs) <= MOST_BYTES else None


@contextmanager
def _restored(tensors: Sequence[Any], poison: bool) -> Iterator[None]:
    held = [it.clone() for it in tensors]
    try:
        for tensor in tensors if poison else ():
            _bits(tensor).fill_(-1)
        yield
    finally:
        for tensor, before in zip(tensors, held, strict=True):
            tensor.copy_(before)


def _bits(tensor: Any) -> Any:
    """The same memory as integers."""
    import torch

    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _difference(found: Any, expected: Any) -> str:
    """How two tensors differ; empty for the same bits, and for floats within the tolerance."""
    import torch

    if torch.equal(_bits(found), _bits(expected)):
        return ""
    if not found.dtype.is_floating_point:
        return f"integers of shape {tuple(found.shape)} differ"
    one, other = found.float() if found.itemsize < 4 else found, expected.float() if found.itemsize < 4 else expected
    if not torch.equal(one.isnan(), other.isnan()):
        return f"NaN, or elements that are not written, in other places of a tensor of shape {tuple(found.shape)}"
    one, other = one.nan_to_num(), other.nan_to_num()
    scale = other.abs().max().item()
    error = (one - other).abs().max().item()
    if error <= _TOLERANCE[8 * found.element_size()] * scale:
        return ""
    return f"largest error {error:.3g}, where the largest number is {scale:.3g}"
