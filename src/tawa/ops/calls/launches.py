"""Launches that are alike: what was decided for the first one is kept for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tawa.ops.attention_ops.tensors import TMA_BYTES


class Launches:
    """Launches of one kernel that differ in their first arguments only: descriptors, tensors, and lengths.

    kernel: gives it, for each launch. rest, constants: the other arguments. Of the first arguments, the same ones are
    None in all launches.
    """

    def __init__(self, kernel: Callable[[], Any], rest: tuple[Any, ...], constants: dict[str, Any]) -> None:
        self.kernel, self.rest, self.constants = kernel, rest, constants
        self.prepared: tuple[Any, Any] | None = None

    def __call__(
        self, grid: tuple[int, ...], first: tuple[Any, ...], given: tuple[torch.Tensor | None, ...] = ()
    ) -> None:
        """Launches the kernel. given: the tensors of `first` that may be at any address; the others are new."""
        kernel, like_before = self.kernel(), True
        for tensor in given:
            if tensor is not None and tensor.data_ptr() % TMA_BYTES:
                like_before = False
        if like_before and self.prepared is not None:
            of, prepared = self.prepared
            if of is kernel and prepared(grid, first):
                return
        kernel.run(*first, *self.rest, grid=grid, warmup=False, **self.constants)
        if like_before and hasattr(kernel, "prepared"):  # not in stock Triton, nor under its interpreter
            made = kernel.prepared((*first, *self.rest), self.constants, len(first))
            self.prepared = made and (kernel, made)
