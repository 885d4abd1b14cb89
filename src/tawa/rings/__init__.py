"""Asynchronous references for kernels in Gluon: rings, turns, stores and numbers of tiles.

Gluon alone compiles them; nothing of Tawa's compiler takes part. `tawa verify` proves kernels that use them.
"""

from tawa.rings.ring import Ring
from tawa.rings.stores import StoreRing
from tawa.rings.tiles import TileRing, next_tile
from tawa.rings.turn import Turn

__all__ = ["Ring", "StoreRing", "TileRing", "Turn", "next_tile"]
