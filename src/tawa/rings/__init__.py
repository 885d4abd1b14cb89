"""Asynchronous references for kernels in Gluon: rings, ping-pong, stores and numbers of tiles.

Gluon alone compiles them; nothing of Tawa's compiler takes part. `tawa verify` proves kernels that use them.
"""

from tawa.rings.ping_pong import PingPong
from tawa.rings.ring import Ring
from tawa.rings.stores import StoreRing
from tawa.rings.tiles import TileRing, next_tile

__all__ = ["PingPong", "Ring", "StoreRing", "TileRing", "next_tile"]
