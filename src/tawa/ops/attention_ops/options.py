"""The options that all attention operators have: from what a caller gives to what kernels take."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tawa.errors import DeviceError
from tawa.ops.attention_ops.checks import LONGEST
from tawa.ops.attention_ops.tiles import Mask
from tawa.ops.calls.checks import ArgumentError, name_of, shape_of

INFINITY = float("inf")


class Options(NamedTuple):
    """What decides over the weights beside Q, K and the slopes. softcap: 0 for none."""

    mask: Mask
    scale: float
    softcap: float = 0.0

    @staticmethod
    def of(causal: bool, window: int, scale: float, softcap: float) -> Options:
        """From `flat`, where the mask ends at the last key of each sequence."""
        return Options(Mask(causal, 0, window), scale, softcap)

    @property
    def flat(self) -> tuple[bool, int, float, float]:
        """As the operators take them whose mask ends at the last key: causal, window, scale, softcap."""
        return self.mask.causal, self.mask.window, self.scale, self.softcap

    @property
    def constants(self) -> dict[str, Any]:
        """What the kernels are compiled for."""
        return {"CAUSAL": self.mask.causal, "WINDOW": self.mask.window, "SOFTCAP": self.softcap > 0}

    @property
    def numbers(self) -> tuple[float, float]:
        """What launches give to the kernels: the scale, and the softcap, which divides."""
        return self.scale, self.softcap or 1.0


def options_of(
    q: torch.Tensor,
    *,
    causal: bool,
    scale: float | None,
    window: int | None,
    softcap: float | None,
    diagonal: int = 0,
    alibi: torch.Tensor | None = None,
) -> Options:
    """The options of a call. Raises ArgumentError or DeviceError unless they and the slopes are valid.

    q: its heads are axis 1, and its head dimension is the last.
    """
    factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
    if not 0 < factor < INFINITY:
        raise ArgumentError(f"scale={factor}: a positive number is needed; cure: scale=None for 1/sqrt(D)")
    if abs(diagonal) > LONGEST:
        raise ArgumentError(f"diagonal={diagonal}: at most {LONGEST} either way; cure: SK - SQ for the last key")
    if window is not None and not 1 <= window <= LONGEST:
        raise ArgumentError(f"window={window}: a row sees 1 to {LONGEST} keys; cure: window=None for no window")
    if window is not None and not causal:
        raise ArgumentError("window counts back from the diagonal of a causal mask; cure: causal=True")
    if softcap is not None and not 0 < softcap < INFINITY:
        raise ArgumentError(f"softcap={softcap}: a positive number is needed; cure: softcap=None for none")
    if alibi is not None:
        _check_slopes(q, alibi)
    return Options(Mask(bool(causal), diagonal, window or 0), factor, float(softcap or 0.0))


def _check_slopes(q: torch.Tensor, alibi: torch.Tensor) -> None:
    if alibi.ndim != 1 or alibi.shape[0] != q.shape[1] or alibi.dtype != torch.float32:
        raise ArgumentError(
            f"alibi has shape {shape_of(alibi)} and type {name_of(alibi.dtype)}; cure: one float32 slope for each of "
            f"the {q.shape[1]} query heads"
        )
    if alibi.device != q.device:
        raise DeviceError(f"alibi is on {alibi.device}, q on {q.device}; cure: alibi.to(q.device)")
