"""Two rings between the same partitions, whose empty barriers are allocated the other way round."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tawa.rings import Ring
from tawa.rings.ring import barriers

ROWS = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def write(a, b):
    for _ in range(8):
        a = a.put_values((gl.full([128], 1.0, gl.float32, ROWS),))
        b = b.put_values((gl.full([128], 2.0, gl.float32, ROWS),))


@gluon.jit
def read(a, b, o):
    for step in range(8):
        x, a = a.get()
        y, b = b.get()
        gl.store(o + step * 128 + gl.arange(0, 128, ROWS), x.load(ROWS) + y.load(ROWS))
        a.consumed()
        b.consumed()


@gluon.jit
def crossed(o, D: gl.constexpr, num_warps: gl.constexpr):
    """o: (8, 128), float32."""
    tiles_a = gl.allocate_shared_memory(gl.float32, [D, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    tiles_b = gl.allocate_shared_memory(gl.float32, [D, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full_a = barriers(D, 1)
    full_b = barriers(D, 1)
    empty_b = barriers(D, 1)
    empty_a = barriers(D, 1)
    a = Ring((tiles_a,), full_a, empty_a, gl.to_tensor(0), gl.to_tensor(0), D)
    b = Ring((tiles_b,), full_b, empty_b, gl.to_tensor(0), gl.to_tensor(0), D)
    gl.warp_specialize([(read, (a, b, o)), (write, (a, b))], [4], [64])
