"""Exchanges: buffers that all consumer groups read, before they are rings or stand in front of the groups.

%x  = local_alloc %ds {tawa.exchanged = 2}           what each group computes: a ring of two slots for each group
%x1 = unrealized_conversion_cast %x {tawa.of = 1}    that of group 1
%p  = local_alloc %s {tawa.exchanged = 2, tawa.owner = 0}      what group 0 computes for all: one ring, and one cast
%k  = local_alloc (descriptor_load) {tawa.common = 0}          the same tile in all groups: loaded once
%p  = memdesc_subslice %k[0, 0] {tawa.by_group = [64, 0]}      the offsets of group g: g times so much more
"""

from __future__ import annotations

from tawa.dialects.builtin import CastOp
from tawa.ir import Operation, Value, memdesc_type
from tawa.ir.attributes import read_int

EXCHANGED, COMMON, OF, BY_GROUP = "tawa.exchanged", "tawa.common", "tawa.of", "tawa.by_group"
OWNER = "tawa.owner"
STAGED_IN = "tawa.staged_in"
"""Of a store behind the loops: for each group a common tile, and the column from which it is staged there."""
SLOTS = 2
"""Slots of an exchanged tile: with two, no group waits until the others have read what it overwrites.

A group that stores a tile has got those of the iteration before from all groups; so all have left the one before that.
If the tile is read one iteration behind, one more slot is needed.
"""


def bytes_for_all(op: Operation, groups: int) -> int:
    """Bytes of a buffer of all groups; 0 for another operation."""
    if EXCHANGED in op.attributes:
        copies = 1 if OWNER in op.attributes else groups
        return read_int(op.attributes[EXCHANGED]) * copies * memdesc_type(op.result.type).bytes
    return memdesc_type(op.result.type).bytes if COMMON in op.attributes else 0


def shared_ring(op: Operation) -> str:
    """What exchanged buffers have in common if they share a ring: type, owner, and the place among those of a block."""
    owner = op.attributes.get(OWNER)
    if owner is None:
        return op.result.type
    assert op.parent is not None
    alike = [it for it in op.parent.ops if it.attributes.get(OWNER) == owner and it.result.type == op.result.type]
    return f"{op.result.type} {owner} {alike.index(op)}"


def owners(buffer: Value) -> dict[int, list[Operation]]:
    """The casts to the tiles of each group of an exchanged buffer."""
    found: dict[int, list[Operation]] = {}
    for user in buffer.users:
        if CastOp.matches(user) and OF in user.attributes:
            found.setdefault(read_int(user.attributes[OF]), []).append(user)
    return found
