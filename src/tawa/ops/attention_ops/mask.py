"""Which keys the rows of queries see."""

from __future__ import annotations

from typing import Literal, NamedTuple

MaskKind = Literal["full", "causal", "window"]
"""Every row of queries sees all keys; a causal mask without a window; a window, causal or not."""


class Mask(NamedTuple):
    """Which keys a row sees: up to ``row + diagonal`` if causal, and the last `window` of those if it is not 0."""

    causal: bool
    diagonal: int
    window: int = 0

    @property
    def kind(self) -> MaskKind:
        """Of the tables of tiles."""
        return "window" if self.window else "causal" if self.causal else "full"
