"""PyTorch operators on the kernels of `tawa.ops.kernels`, launched through `tawa.jit`.

The first use of an operator imports torch; importing this package, or the kernels alone, does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.ops.attention_ops.decode_op import attention_decode
    from tawa.ops.attention_ops.op import attention
    from tawa.ops.attention_ops.varlen_op import attention_varlen
    from tawa.ops.calls.checks import ArgumentError
    from tawa.ops.convolution.op import conv2d
    from tawa.ops.grouped.moe_op import moe
    from tawa.ops.grouped.op import grouped_mm
    from tawa.ops.products.batched_op import batched_mm
    from tawa.ops.products.matmul_op import linear, matmul
    from tawa.ops.products.scaled_op import scaled_mm
    from tawa.ops.products.weight_only_op import weight_only_mm
    from tawa.ops.products.weight_only_packing import pack_weights, repack

__all__ = [
    "ArgumentError",
    "attention",
    "attention_decode",
    "attention_varlen",
    "batched_mm",
    "conv2d",
    "grouped_mm",
    "linear",
    "matmul",
    "moe",
    "pack_weights",
    "repack",
    "scaled_mm",
    "weight_only_mm",
]
_HOMES = {
    "ArgumentError": "calls.checks",
    "attention": "attention_ops.op",
    "attention_decode": "attention_ops.decode_op",
    "attention_varlen": "attention_ops.varlen_op",
    "batched_mm": "products.batched_op",
    "conv2d": "convolution.op",
    "grouped_mm": "grouped.op",
    "linear": "products.matmul_op",
    "matmul": "products.matmul_op",
    "moe": "grouped.moe_op",
    "pack_weights": "products.weight_only_packing",
    "repack": "products.weight_only_packing",
    "scaled_mm": "products.scaled_op",
    "weight_only_mm": "products.weight_only_op",
}


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            try:
                home = importlib.import_module(f"tawa.ops.{_HOMES[name]}")
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                message = "tawa.ops needs PyTorch, which is not installed; cure: pip install 'tawa[torch]'"
                raise ModuleNotFoundError(message, name="torch") from None
            return getattr(home, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
