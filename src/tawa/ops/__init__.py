"""PyTorch operators on the kernels of `tawa.ops.kernels`, launched through `tawa.jit`.

The first use of an operator imports torch; importing this package, or the kernels alone, does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.ops.attention_ops.decode_op import attention_decode
    from tawa.ops.attention_ops.op import attention
    from tawa.ops.attention_ops.varlen_op import attention_varlen
    from tawa.ops.calls.checks import ArgumentError
    from tawa.ops.convolution.op import conv2d

__all__ = ["ArgumentError", "attention", "attention_decode", "attention_varlen", "conv2d"]


def __getattr__(name: str) -> Any:
    if name == "ArgumentError":
        from tawa.ops.calls.checks import ArgumentError

        return ArgumentError
    if name == "attention":
        from tawa.ops.attention_ops.op import attention

        return attention
    if name == "attention_varlen":
        from tawa.ops.attention_ops.varlen_op import attention_varlen

        return attention_varlen
    if name == "attention_decode":
        from tawa.ops.attention_ops.decode_op import attention_decode

        return attention_decode
    if name == "conv2d":
        from tawa.ops.convolution.op import conv2d

        return conv2d
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
