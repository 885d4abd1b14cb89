"""Numbers of tiles, which one partition takes from a counter and hands to the others."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tawa.rings.names import aggregate, as_scalar
from tawa.rings.ring import Ring


@gluon.constexpr_function
def _of_warps(warps):
    """One number, the same in every thread of a partition."""
    return gl.BlockedLayout([1], [32], [warps], [0])


@aggregate
class TileRing:
    """D numbers, from the partition that schedules to its readers.

    The value is a place in the ring.
    """

    ring: Ring

    @gluon.constexpr_function
    def __init__(self, ring):
        self.ring = ring

    @gluon.jit
    def create(D: gl.constexpr, readers: gl.constexpr):
        """A ring of numbers in int32."""
        numbers = gl.allocate_shared_memory(gl.int32, [D, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
        return TileRing(Ring.over((numbers,), D, readers))

    @gluon.jit
    def put(self, tile):
        """Hands on a number, once the slot is empty; returns the next place."""
        return TileRing(self.ring.put_values((gl.full([1], tile, gl.int32, _of_warps(gl.num_warps())),)))

    @gluon.jit
    def get(self):
        """The next number, and the next place. The slot is released at once."""
        number, ring = self.ring.get()
        tile = as_scalar(number.load(_of_warps(gl.num_warps())))
        ring.consumed()
        return tile, TileRing(ring)


@gluon.jit
def next_tile(counter):
    """The next number of a counter in memory, int32, which is 0 before the launch."""
    return gl.atomic_add(counter, 1)
