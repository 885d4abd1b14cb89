"""Whether groups that are not in step can get into each other's way in global memory.

A whole program loads and stores in the order of its text. Groups have no order among them: while one still loads,
another one may store already. So what one group loads, no other may store, and what two stores both write must be of
one group. A store in a loop is taken to write something else in each iteration, as persistent kernels do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tawa.analysis.memory.provenance import memory_roots
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import IfOp, enclosing_loops
from tawa.ir import Module, Operation, Value


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """An access that relies on an order that groups do not keep."""

    op: Operation
    reason: str
    cure: str


def conflicts(module: Module, dims: Mapping[Value, int]) -> Iterator[Conflict]:
    """Pairs of accesses to one tensor that may meet. dims: the split dimension of tiles and descriptors."""
    ops = [op for op in module.walk() if not op.regions]
    kinds = [(op, {effect.kind for effect in effects_of(op) if effect.space == "global"}) for op in ops]
    writes = [op for op, found in kinds if "write" in found]
    for op, found in kinds:
        if "read" in found and any(_may_meet(op, write) and not _same_part(op, write, dims) for write in writes):
            cure = "store to another tensor than the one that is loaded, or keep one consumer group"
            yield Conflict(op, "a group may load what another one has already overwritten", cure)
    for second in range(1, len(writes)):
        for first in range(second):
            if _may_meet(writes[first], writes[second]) and not _ordered(writes[first], writes[second], dims):
                cure = "store to different tensors, or through one descriptor at the same rows"
                reason = "a store may overwrite what another one wrote, and groups keep no order"
                yield Conflict(writes[second], reason, cure)


def _may_meet(first: Operation, second: Operation) -> bool:
    """Whether both may touch the same memory: addresses from the same argument, or from who knows where."""
    sources, targets = memory_roots(first.operands[0]), memory_roots(second.operands[0])
    return sources is None or targets is None or any(root in targets for root in sources)


def _same_part(read: Operation, write: Operation, dims: Mapping[Value, int]) -> bool:
    """Whether each group reads just the elements that it writes itself, once."""
    if enclosing_loops(read) or enclosing_loops(write) or read.result not in dims:
        return False
    match read.name, write.name:
        case "tt.load", "tt.store":
            return read.operands[0] is write.operands[0] and dims[read.result] == dims.get(write.operands[1])
        case "tt.descriptor_load", "tt.descriptor_store":
            return read.operands == [write.operands[0], *write.operands[2:]]
        case _:
            return False


def _ordered(first: Operation, second: Operation, dims: Mapping[Value, int]) -> bool:
    """Whether two stores never both happen, or each group does both to its own rows."""
    if _exclusive(first, second):
        return True
    if first.name != second.name or first.operands[0] is not second.operands[0]:
        return False
    if first.name == "tt.store":
        part = dims.get(first.operands[1])
        return part is not None and part == dims.get(second.operands[1])
    dim = dims.get(first.operands[0])
    return dim is not None and first.operands[2 + dim] is second.operands[2 + dim]


def _exclusive(first: Operation, second: Operation) -> bool:
    """Whether both stand in different branches of one ``scf.if``."""
    path = _branches(second)
    return any(index != path.get(op, index) for op, index in _branches(first).items())


def _branches(op: Operation) -> dict[Operation, int]:
    """The ifs around `op`, each with the number of the branch in which it stands."""
    path: dict[Operation, int] = {}
    block = op.parent
    while block is not None and (outer := block.parent_op) is not None:
        if IfOp.of(outer):
            path[outer] = next(index for index, region in enumerate(outer.regions) if block in region.blocks)
        block = outer.parent
    return path
