"""A ring of slots in shared memory, between a writer and its readers."""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from tawa.rings.names import aggregate, tma_load


@gluon.constexpr_function
def transaction_bytes(descriptors: Any) -> int:
    """Bytes that one copy through each of the descriptors moves."""
    return sum(it.block_type.nbytes for it in descriptors)


@gluon.jit
def slots_like(descriptor, D: gl.constexpr):
    """D slots for tiles of a descriptor."""
    return gl.allocate_shared_memory(descriptor.dtype, [D] + descriptor.block_type.shape, descriptor.layout)  # noqa: RUF005


@gluon.jit
def barriers(D: gl.constexpr, count: gl.constexpr):
    """D mbarriers, whose phases complete after `count` arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(made.index(slot), count=count)
    return made


@aggregate
class Ring:
    """An asynchronous reference: D slots with the tiles of one step each, which a writer puts and readers get.

    The value is a place in the ring: a slot, and the parity of its phase. `put` and `get` return the next place;
    nothing is assigned to. Each partition starts at the same place and moves on by itself.

    tiles: a tuple of shared memory, each (D, ...). full, empty: D mbarriers each.
    """

    tiles: gl.tuple
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    slot: gl.tensor
    parity: gl.tensor
    D: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, full, empty, slot, parity, D):
        self.tiles, self.full, self.empty = tiles, full, empty
        self.slot, self.parity = slot, parity
        self.D = gl.constexpr(D)

    @gluon.jit
    def over(tiles, D: gl.constexpr, readers: gl.constexpr = 1):
        """A ring over shared memory that is there.

        tiles: a tuple of (D, ...), each with the layout of one tile; or () for ping-pong and signals.
        """
        return Ring(tiles, barriers(D, 1), barriers(D, readers), gl.to_tensor(0), gl.to_tensor(0), D)

    @gluon.jit
    def like(descriptors, D: gl.constexpr, readers: gl.constexpr = 1):
        """A ring of D slots, each with a tile for every one of a tuple of descriptors."""
        tiles = ()
        for number in gl.static_range(len(descriptors)):
            tiles = tiles + (slots_like(descriptors[number], D),)  # noqa: RUF005
        return Ring.over(tiles, D, readers)

    @gluon.jit
    def moved(self):
        """The next place."""
        slot = self.slot + 1
        around = slot == self.D
        return Ring(
            self.tiles, self.full, self.empty, gl.where(around, 0, slot), self.parity ^ around.to(gl.int32), self.D
        )

    @gluon.jit
    def acquire(self):
        """Waits until the slot is empty."""
        mbarrier.wait(self.empty.index(self.slot), self.parity ^ 1)

    @gluon.jit
    def put(self, descriptors, coordinates):
        """Waits for an empty slot, and starts a TMA copy for each of its tiles; tuples, in the order of the tiles."""
        self.acquire()
        full = self.full.index(self.slot)
        mbarrier.expect(full, transaction_bytes(descriptors))
        for number in gl.static_range(len(descriptors)):
            tma_load(descriptors[number], coordinates[number], full, self.tiles[number].index(self.slot))
        return self.moved()

    @gluon.jit
    def put_values(self, values):
        """Waits for an empty slot, and stores a tensor to each of its tiles; a tuple, in the order of the tiles."""
        self.acquire()
        for number in gl.static_range(len(values)):
            self.tiles[number].index(self.slot).store(values[number])
        fence_async_shared()
        mbarrier.arrive(self.full.index(self.slot), count=1)
        return self.moved()

    @gluon.jit
    def get(self):
        """Waits until the slot is full. Returns its tiles, and the next place: ``a, b, ring = ring.get()``."""
        mbarrier.wait(self.full.index(self.slot), self.parity)
        found = ()
        for number in gl.static_range(len(self.tiles)):
            found = found + (self.tiles[number].index(self.slot),)  # noqa: RUF005
        return found + (self.moved(),)  # noqa: RUF005

    @gluon.jit
    def consumed(self, behind: gl.constexpr = 0, pred=True):
        """Releases the slot of the last `get`, or of the one that is `behind` gets before it."""
        slot = self.slot - 1 - behind
        slot = gl.where(slot < 0, slot + self.D, slot)
        mbarrier.arrive(self.empty.index(slot), count=1, pred=pred)
