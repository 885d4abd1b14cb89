"""Hold slots: a slot that is read into registers before a loop is released behind the loop that uses them.

    %q = local_load(get %ring[%i])            %q = local_load(get %ring[%i])
    consumed %ring[%i]                   →    for … { dot %q, … }
    for … { dot %q, … }                       consumed %ring[%i]

Triton's ``tritongpu-reorder-instructions`` moves a load from shared memory into the loop of its user, to save
registers, and past the arrival that releases the slot. It does not know of the producer, which would then overwrite
what the loop still reads. A load with a user in its own loop stays where it is, and so does its release.

Requires: every pass that decides where slots are released. Ensures: no load can move past the release of its slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.scf import LOOPS
from tawa.dialects.ttg import VIEWS, LocalLoadOp
from tawa.dialects.warp import find_groups
from tawa.ir import Builder, Module, Operation, Value
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HoldSlots:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Moves releases; loads without users in other loops keep theirs."""
        changed = False
        for group in find_groups(module):
            for op in list(group.op.walk()):
                load = LocalLoadOp.of(op)
                get = _get_of(load.op.operands[0]) if load else None
                if get is not None and _may_move(op):
                    changed |= _hold(op, get)
        return PassResult(changed)


def _get_of(view: Value) -> GetOp | None:
    """The get whose slot a value views."""
    op = view.defining_op
    while op is not None and op.name in VIEWS:
        op = op.operands[0].defining_op
    return GetOp.of(op)


def _may_move(load: Operation) -> bool:
    """Whether all users of a load are in other loops, into which Triton may move it."""
    users = load.results[0].users
    return bool(users) and all(_loop_of(user) is not _loop_of(load) for user in users)


def _hold(load: Operation, get: GetOp) -> bool:
    """Moves the release of the slot behind the last use; whether it was before that."""
    block = load.parent
    assert block is not None
    last = max(block.index_of(_ancestor_in(block.ops, user)) for user in load.results[0].users)
    for release in block.ops[block.index_of(load) : last]:
        consumed = ConsumedOp.of(release)
        if consumed and consumed.ring is get.ring and consumed.index is get.index:
            behind = block.ops[last]
            Builder.after(behind).insert(release.detach())
            return True
    return False


def _ancestor_in(ops: list[Operation], op: Operation) -> Operation:
    """The operation among `ops` that is `op` or contains it."""
    return next(it for it in (op, *op.ancestors()) if it in ops)


def _loop_of(op: Operation) -> Operation | None:
    return next((it for it in op.ancestors() if it.name in LOOPS), None)
