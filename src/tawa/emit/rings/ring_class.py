"""The few lines of `Ring` that an emitted file needs: only the methods that it calls."""

from __future__ import annotations

from collections.abc import Set

CLASS = '''

@aggregate
class Ring:
    """Slots in {memory}, each for a tile of every one of `tiles`, with two mbarriers: full, and empty.

    A place in it is a slot, and the parity of its round.
    """

    tiles: gl.tuple
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, tiles, full, empty):
        self.tiles, self.full, self.empty = tiles, full, empty
'''
METHODS = {
    "acquire": '''
    @gluon.jit
    def acquire(self, slot, parity, pred=True):
        """Waits until a slot is empty."""
        mbarrier.wait(self.empty.index(slot), parity ^ 1, pred=pred)
''',
    "fill": '''
    @gluon.jit
    def fill(self, slot, descriptors, coordinates):
        """Starts a copy for each tile of an empty slot."""
        mbarrier.expect(self.full.index(slot), bytes_of(descriptors))
        for i in gl.static_range(len(descriptors)):
            tma_load(descriptors[i], coordinates[i], self.full.index(slot), self.tiles[i].index(slot))
''',
    "put": '''
    @gluon.jit
    def put(self, slot, parity, descriptors, coordinates):
        """Waits until a slot is empty, and starts a copy for each of its tiles."""
        self.acquire(slot, parity)
        self.fill(slot, descriptors, coordinates)
''',
    "filled": '''
    @gluon.jit
    def filled(self, slot, pred=True):
        """Marks a slot as full, after the threads of this partition have stored to it."""
        mbarrier.arrive(self.full.index(slot), count=1, pred=pred)
''',
    "get": '''
    @gluon.jit
    def get(self, slot, parity, pred=True):
        """Waits until a slot is full; returns its tiles."""
        mbarrier.wait(self.full.index(slot), parity, pred=pred)
        found = ()
        for i in gl.static_range(len(self.tiles)):
            found = found + (self.tiles[i].index(slot),)
        return found
''',
    "consumed": '''
    @gluon.jit
    def consumed(self, slot, pred=True):
        """Releases a slot: its tiles are not read any more."""
        mbarrier.arrive(self.empty.index(slot), count=1, pred=pred)
''',
}
FUNCTIONS = {
    "mbarriers": '''

@gluon.jit
def mbarriers(D: gl.constexpr, count: gl.constexpr):
    """D mbarriers, whose phases complete after `count` arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [D, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(D):
        mbarrier.init(made.index(slot), count=count)
    return made
''',
    "fill": '''

@gluon.constexpr_function
def bytes_of(descriptors):
    """Bytes of one copy through each of the descriptors."""
    return sum(it.block_type.nbytes for it in descriptors)
''',
    "advance": '''

@gluon.jit
def advance(slot, parity, D: gl.constexpr):
    """Advances a place in a ring of D slots."""
    around = slot + 1 == D
    return gl.where(around, 0, slot + 1), parity ^ around.to(gl.int32)
''',
}
TENSOR_MEMORY = "tensor memory"
"""Stands among the methods for rings whose slots are there."""
NEEDS = {"put": ("acquire", "fill")}


def ring_source(used: Set[str]) -> str:
    """The source of these methods and functions, and of those that they call."""
    wanted = {*used, *(it for name in used for it in NEEDS.get(name, ()))}
    functions = "".join(text for name, text in FUNCTIONS.items() if name in wanted)
    memory = "shared or in tensor memory" if TENSOR_MEMORY in wanted else "shared memory"
    methods = "".join(text for name, text in METHODS.items() if name in wanted)
    return functions + (CLASS.format(memory=memory) + methods if "mbarriers" in wanted else "")
