"""Ping-pong: groups of warps do something one after the other, such as using the tensor cores."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from tawa.rings.names import aggregate
from tawa.rings.ring import barriers


@aggregate
class PingPong:
    """A token that goes around GROUPS partitions; group 0 has it first.

    The value is the number of the round, modulo two. Every group must take the token as often as every other.
    """

    given: gl.shared_memory_descriptor
    parity: gl.tensor
    GROUPS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, given, parity, GROUPS):
        self.given, self.parity = given, parity
        self.GROUPS = gl.constexpr(GROUPS)

    @gluon.jit
    def among(GROUPS: gl.constexpr):
        """A token for so many groups."""
        return PingPong(barriers(GROUPS, 1), gl.to_tensor(0), GROUPS)

    @gluon.jit
    def take(self, group: gl.constexpr):
        """Waits until a group has the token. The first time, group 0 does not wait."""
        if group == 0:
            mbarrier.wait(self.given.index(group), self.parity ^ 1)
        else:
            mbarrier.wait(self.given.index(group), self.parity)

    @gluon.jit
    def pass_on(self, group: gl.constexpr):
        """Gives the token of a group to the next one; returns the next round."""
        mbarrier.arrive(self.given.index((group + 1) % self.GROUPS), count=1)
        return PingPong(self.given, self.parity ^ 1, self.GROUPS)
