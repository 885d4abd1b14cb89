"""Whether consumer groups can race with each other in global memory.

A program executes its loads and stores in program order, but groups are not ordered with each other: one group may
store while another one still loads. So no group may load what another group stores, and two stores to the same memory
must be executed by the same group. A store in a loop is assumed to write different memory in each iteration, as in
persistent kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tawa.analysis.memory.provenance import memory_roots
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.effects import effects_of
from tawa.dialects.scf import IfOp, enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, DescriptorReduceOp, DescriptorStoreOp, LoadOp, StoreOp, commute
from tawa.ir import Module, Operation, Value


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """An access that relies on program order between groups."""

    op: Operation
    reason: str
    cure: str


def conflicts(module: Module, dims: Mapping[Value, int]) -> Iterator[Conflict]:
    """Accesses that may race with a store of another group. dims: the split dimension of tiles and descriptors."""
    ops = [op for op in module.walk() if not op.regions]
    kinds = [(op, {effect.kind for effect in effects_of(op) if effect.space == "global"}) for op in ops]
    writes = [op for op, found in kinds if "write" in found]
    for op, found in kinds:
        if "read" in found and any(_may_alias(op, write) and not _same_part(op, write, dims) for write in writes):
            cure = "store to another tensor than the one that is loaded, or keep one consumer group"
            yield Conflict(op, "a group may load what another one has already overwritten", cure)
    for second in range(1, len(writes)):
        for first in range(second):
            if _may_alias(writes[first], writes[second]) and not _ordered(writes[first], writes[second], dims):
                cure = "store to different tensors, or through one descriptor at the same rows"
                reason = "a store may overwrite what another one wrote, and groups are not ordered"
                yield Conflict(writes[second], reason, cure)


def _may_alias(first: Operation, second: Operation) -> bool:
    """Whether both may access the same memory, other than to reduce into it alike: one argument, or unknown origin."""
    if commute(first, second):
        return False
    sources, targets = memory_roots(global_address(first)), memory_roots(global_address(second))
    return sources is None or targets is None or any(root in targets for root in sources)


def _same_part(read: Operation, write: Operation, dims: Mapping[Value, int]) -> bool:
    """Whether each group reads only the elements that it writes itself, and each of them once."""
    if enclosing_loops(read) or enclosing_loops(write) or read.result not in dims:
        return False
    load, store = LoadOp.of(read), StoreOp.of(write)
    if load and store:
        return load.pointers is store.pointers and dims[read.result] == dims.get(store.source)
    block, target = DescriptorLoadOp.of(read), DescriptorStoreOp.of(write)
    if block and target:
        return block.descriptor is target.descriptor and block.indices == target.indices
    return False


def _ordered(first: Operation, second: Operation, dims: Mapping[Value, int]) -> bool:
    """Whether two stores are mutually exclusive, or each group executes both on its own rows."""
    if _exclusive(first, second):
        return True
    if first.name != second.name or global_address(first) is not global_address(second):
        return False
    before, behind = StoreOp.of(first), StoreOp.of(second)
    if before and behind:
        part = dims.get(before.source)
        return part is not None and part == dims.get(behind.source)
    above = DescriptorStoreOp.of(first) or DescriptorReduceOp.of(first)
    below = DescriptorStoreOp.of(second) or DescriptorReduceOp.of(second)
    if above is None or below is None:
        return False
    dim = dims.get(above.descriptor)
    return dim is not None and above.indices[dim] is below.indices[dim]


def _exclusive(first: Operation, second: Operation) -> bool:
    """Whether the operations are in different branches of one ``scf.if``."""
    path = _branches(second)
    return any(index != path.get(op, index) for op, index in _branches(first).items())


def _branches(op: Operation) -> dict[Operation, int]:
    """Each ``scf.if`` around `op`, with the index of the branch that contains `op`."""
    path: dict[Operation, int] = {}
    block = op.parent
    while block is not None and (outer := block.parent_op) is not None:
        if IfOp.of(outer):
            path[outer] = next(index for index, region in enumerate(outer.regions) if block in region.blocks)
        block = outer.parent
    return path
