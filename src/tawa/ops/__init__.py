"""PyTorch operators on kernels of `tawa.kernels`, launched through `tawa.jit`. Importing this imports torch."""

from __future__ import annotations

from tawa.ops.attention_checks import ArgumentError
from tawa.ops.attention_op import attention

__all__ = ["ArgumentError", "attention"]
