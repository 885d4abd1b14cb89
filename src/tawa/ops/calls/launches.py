"""Kernels under `tawa.jit`, and launches that are alike: what was decided for the first is kept for the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from typing import Any

import torch
import triton

import tawa
from tawa.ops.calls.tensors import TMA_BYTES, Box
from tawa.runtime.pytorch.scratch import allocate


def once_for_all(kernel: Any, sizes: Collection[str], **options: Any) -> Any:
    """The kernel under `tawa.jit`, compiled once for all values of the arguments named in `sizes`.

    Triton would compile again whenever such a number becomes, or stops being, 1 or a multiple of 16. That is useless
    where it only bounds loops and masks. options: those of `tawa.jit`.
    """
    known = [it.name for it in getattr(kernel, "params", ()) if it.name in sizes and not it.is_constexpr]
    return tawa.jit(kernel.fn, do_not_specialize=known, **options)


class Launches:
    """Launches of one kernel that differ in their first arguments only: tensors, and lengths.

    kernel: gives it, for each launch. boxes: for each of the first arguments that becomes a descriptor, how it is made;
    None for the others, and not given for the last. rest, constants: the other arguments. Of the first arguments, the
    same ones are None in all launches. scratch: whether the kernel makes descriptors, in memory of the GPU, which
    PyTorch gives.
    """

    def __init__(
        self, kernel: Callable[[], Any], boxes: Sequence[Box | None], rest: tuple[Any, ...], constants: dict[str, Any],
        scratch: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.boxes, self.rest, self.constants = kernel, tuple(boxes), rest, constants
        self.scratch = scratch
        self.of: Any = None
        self.prepared: Any = None
        """The kernel of the launches that were prepared."""

    def __call__(
        self, grid: tuple[int, ...], first: tuple[Any, ...], given: tuple[torch.Tensor | None, ...] = ()
    ) -> None:
        """Launches the kernel. given: the tensors of `first` without a box that may be at any address."""
        if self.scratch:
            copy_context().run(self._with_scratch, grid, first, given)
        else:
            self._launch(grid, first, given)

    def _with_scratch(self, *launch: Any) -> None:
        triton.set_allocator(allocate)  # in this context only
        self._launch(*launch)

    def _launch(self, grid: tuple[int, ...], first: tuple[Any, ...], given: tuple[torch.Tensor | None, ...]) -> None:
        kernel, like_before = self.kernel(), True
        for tensor in given:
            if tensor is not None and tensor.data_ptr() % TMA_BYTES:
                like_before = False
        if like_before and self.of is kernel and self.prepared is not None and self.prepared(grid, first):
            return
        boxes = (*self.boxes, *[None] * (len(first) - len(self.boxes)))
        described = (it if box is None or it is None else box.around(it) for it, box in zip(first, boxes, strict=True))
        args = (*described, *self.rest)
        kernel.run(*args, grid=grid, warmup=False, **self.constants)
        if like_before and hasattr(kernel, "prepared"):  # not in stock Triton, nor under its interpreter
            describe = [box and box.around for box in boxes]
            self.of, self.prepared = kernel, kernel.prepared(args, self.constants, describe)
