"""Loads by way of shared memory: tiles that are copied to a buffer of their own, and read from it after the copy.

    %b = local_alloc                                          %k = load %p, %m, 0
    %t = async_copy %p, %b mask %m; %g = async_commit %t  =
    %w = async_wait %g {num = 0}                              (where no other access is to %b)
    %k = local_load %b

Elements that a mask leaves out are zeros in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.dialects.ttg import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    LocalAllocOp,
    LocalLoadOp,
)
from tawa.ir import Module, Operation, Value


@dataclass(frozen=True, slots=True)
class Parked:
    """copies: the copy that a read of shared memory gives. ops: all that belongs to such copies, reads apart."""

    copies: dict[Operation, AsyncCopyGlobalToLocalOp] = field(default_factory=dict[Operation, AsyncCopyGlobalToLocalOp])
    ops: set[Operation] = field(default_factory=set[Operation])

    @staticmethod
    def of(module: Module) -> Parked:
        """The tiles of a program whose buffer is filled once, by one copy, and only read behind a wait for it."""
        found = Parked()
        for op in module.walk():
            if LocalAllocOp.matches(op) and not op.operands:
                found._add(op)
        return found

    def _add(self, allocation: Operation) -> None:
        block = allocation.parent
        users = allocation.result.users
        copies = [copy for it in users if (copy := AsyncCopyGlobalToLocalOp.of(it))]
        reads = [it for it in users if LocalLoadOp.matches(it)]
        if block is None or len(copies) != 1 or len(copies) + len(reads) != len(users) or not reads:
            return
        copy = copies[0]
        if copy.op.parent is not block or copy.buffer is not allocation.result:
            return
        commits = _next(copy.op.result, AsyncCommitGroupOp)
        waits = _next(commits.result, AsyncWaitOp) if commits is not None else None
        if commits is None or waits is None or {commits.parent, waits.parent} != {block} or AsyncWaitOp(waits).num:
            return
        if all(
            (beside := it.within(block)) is not None and block.index_of(beside) > block.index_of(waits) for it in reads
        ):
            self.copies.update(dict.fromkeys(reads, copy))
            self.ops.update((allocation, copy.op, commits, waits))


def _next(token: Value, kind: type[AsyncCommitGroupOp] | type[AsyncWaitOp]) -> Operation | None:
    """The one operation of a kind that takes a token."""
    users = [it for it in token.users if kind.matches(it)]
    return users[0] if len(users) == 1 else None
