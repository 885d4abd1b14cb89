"""Stores of tiles by TMA, which run while the next tile is computed."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

from tawa.rings.names import aggregate, store_wait, tma_store
from tawa.rings.ring import slots_like


@aggregate
class StoreRing:
    """D buffers between a partition's registers and memory. One partition writes; TMA reads.

    The value is a place in the ring. tiles: shared memory (D, ...).
    """

    tiles: gl.shared_memory_descriptor
    slot: gl.tensor
    D: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, slot, D):
        self.tiles, self.slot = tiles, slot
        self.D = gl.constexpr(D)

    @gluon.jit
    def like(descriptor, D: gl.constexpr):
        """D buffers for tiles of a descriptor."""
        buffers = slots_like(descriptor, D)
        return StoreRing(buffers, gl.to_tensor(0), D)

    @gluon.jit
    def put(self, descriptor, coordinates, values):
        """Waits until the next buffer is free, writes a tensor to it, and starts its store to memory."""
        store_wait(self.D - 1)
        buffer = self.tiles.index(self.slot)
        buffer.store(values)
        fence_async_shared()
        tma_store(descriptor, coordinates, buffer)
        slot = self.slot + 1
        return StoreRing(self.tiles, gl.where(slot == self.D, 0, slot), self.D)

    @gluon.jit
    def drain(self):
        """Waits for all stores: shared memory must not be given back before."""
        store_wait(0)
