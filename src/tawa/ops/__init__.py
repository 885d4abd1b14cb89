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
    from tawa.ops.products.batched_op import batched_mm
    from tawa.ops.products.scaled_op import scaled_mm
    from tawa.ops.products.weight_only_op import weight_only_mm
    from tawa.ops.products.weight_only_packing import pack_weights, repack

__all__ = [
    "ArgumentError",
    "attention",
    "attention_decode",
    "attention_varlen",
    "batched_mm",
    "pack_weights",
    "repack",
    "scaled_mm",
    "weight_only_mm",
]


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
    if name == "batched_mm":
        from tawa.ops.products.batched_op import batched_mm

        return batched_mm
    if name == "scaled_mm":
        from tawa.ops.products.scaled_op import scaled_mm

        return scaled_mm
    if name == "weight_only_mm":
        from tawa.ops.products.weight_only_op import weight_only_mm

        return weight_only_mm
    if name in ("pack_weights", "repack"):
        from tawa.ops.products import weight_only_packing

        return getattr(weight_only_packing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
