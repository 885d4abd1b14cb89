"""`ttg`: layouts, shared memory, and the operation that runs partitions concurrently."""

from __future__ import annotations

from tawa.dialects.builtin import ModuleOp
from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView, op_names
from tawa.dialects.declare.families import UnaryOp, YieldingOp
from tawa.dialects.declare.fields import attribute, operand, operands, optional_operand, types_of
from tawa.dialects.tcgen05 import TMEMAllocOp, TMEMSubsliceOp
from tawa.ir import Block, Module, Operation, Region, Value
from tawa.ir.attributes import attribute_of, read_array, read_int


class ConvertLayoutOp(UnaryOp):
    """``ttg.convert_layout``: the same tile in another layout. Pure."""

    NAME = "ttg.convert_layout"


class Fp4ToFpOp(UnaryOp):
    """``ttg.fp4_to_fp``: pairs of four-bit floats as wider floats. Pure."""

    NAME = "ttg.fp4_to_fp"


# -- shared memory -----------------------------------------------------------------------------------------------------


class LocalAllocOp(OpView):
    """``ttg.local_alloc``: allocates shared memory, initialised if it has an operand.

    Operand: an optional tile. Result: a memdesc. With an operand the buffer is immutable (but for Gluon's): one
    write, then reads. A slot of a ring replaces the allocation of a load that feeds a dot.
    """

    NAME = "ttg.local_alloc"
    EFFECTS = (Effect("allocate", "shared"),)
    source = optional_operand(0)  # the initial contents


class LocalDeallocOp(OpView):
    """``ttg.local_dealloc``: frees an allocation."""

    NAME = "ttg.local_dealloc"
    EFFECTS = (Effect("write", "shared", "buffer"),)
    buffer = operand(0)


class LocalLoadOp(OpView):
    """``ttg.local_load``: loads a tile from a buffer."""

    NAME = "ttg.local_load"
    EFFECTS = (Effect("read", "shared", "buffer"),)
    buffer = operand(0)


class LocalStoreOp(OpView):
    """``ttg.local_store``: stores a tile to a buffer."""

    NAME = "ttg.local_store"
    EFFECTS = (Effect("write", "shared", "buffer"),)
    source, buffer = operand(0), operand(1)


class _BufferViewOp(OpView):
    """A view of the same bytes: a read of the result reads the operand. Pure."""

    source = operand(0)


class MemDescIndexOp(_BufferViewOp):
    """``ttg.memdesc_index``: the slot at `index` of a ring of buffers."""

    NAME = "ttg.memdesc_index"
    index = operand(1)


class MemDescSubsliceOp(_BufferViewOp):
    """``ttg.memdesc_subslice``: a box of a buffer, starting at `offsets`."""

    NAME = "ttg.memdesc_subslice"
    offsets = attribute("offsets", read_array)


class MemDescTransOp(_BufferViewOp):
    """``ttg.memdesc_trans``: the dimensions in another order."""

    NAME = "ttg.memdesc_trans"
    order = attribute("order", read_array)


class MemDescReshapeOp(_BufferViewOp):
    """``ttg.memdesc_reshape``: the same elements in another shape."""

    NAME = "ttg.memdesc_reshape"


class MemDescReinterpretOp(_BufferViewOp):
    """``ttg.memdesc_reinterpret``: the same bytes as another type."""

    NAME = "ttg.memdesc_reinterpret"


VIEWS = op_names(
    MemDescIndexOp, MemDescSubsliceOp, MemDescTransOp, MemDescReshapeOp, MemDescReinterpretOp, TMEMSubsliceOp
)
"""Views of the same bytes."""
ALLOCATIONS = op_names(LocalAllocOp, TMEMAllocOp)
"""Of shared and of tensor memory."""


def whole_of(buffer: Value) -> Value:
    """The underlying buffer of a view, through any number of views; the value itself if it is not a view."""
    op = buffer.defining_op
    while op is not None and op.name in VIEWS:
        buffer = op.operands[0]
        op = buffer.defining_op
    return buffer


# -- cp.async ----------------------------------------------------------------------------------------------------------


class AsyncCopyGlobalToLocalOp(OpView):
    """``ttg.async_copy_global_to_local``: cp.async from a tile of addresses into a buffer."""

    NAME = "ttg.async_copy_global_to_local"
    EFFECTS = (
        Effect("read", "global", "pointers"),
        Effect("write", "shared", "buffer"),
    )
    pointers, buffer = operand(0), operand(1)
    mask, other = optional_operand(2), optional_operand(3)


class AsyncCommitGroupOp(OpView):
    """``ttg.async_commit_group``: closes the group of the cp.async issued before."""

    NAME = "ttg.async_commit_group"
    EFFECTS = (Effect("order"),)


class AsyncWaitOp(OpView):
    """``ttg.async_wait``: waits until at most `num` groups of cp.async are in flight."""

    NAME = "ttg.async_wait"
    EFFECTS = (Effect("order"),)
    num = attribute("num", read_int)


# -- warps -------------------------------------------------------------------------------------------------------------


class BarrierOp(OpView):
    """``ttg.barrier``: synchronises all warps of the kernel."""

    NAME = "ttg.barrier"
    EFFECTS = (Effect("barrier"),)


class LocalBarrierOp(OpView):
    """``ttg.local_barrier``: another name of ``ttg.barrier``; its effects are not declared."""

    NAME = "ttg.local_barrier"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True


class GlobalScratchAllocOp(OpView):
    """``ttg.global_scratch_alloc``: global memory of the program's own, for descriptors."""

    NAME = "ttg.global_scratch_alloc"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    bytes = attribute("nbytes", read_int)


class WarpYieldOp(YieldingOp):
    """``ttg.warp_yield``: the end of the default region of a fork, with its results."""

    NAME = "ttg.warp_yield"


class WarpReturnOp(OpView):
    """``ttg.warp_return``: the end of a partition."""

    NAME = "ttg.warp_return"
    TERMINATOR = True


class WarpSpecializePartitionsOp(OpView):
    """``ttg.warp_specialize.partitions``: the partitions of a fork, one isolated region each.

    Operands: the captures of every partition, as of Triton 3.7.
    """

    NAME = "ttg.warp_specialize.partitions"
    ISOLATED = True
    RECURSIVE = True
    TERMINATOR = True
    captures = operands(0)


class WarpSpecializeOp(OpView):
    """``ttg.warp_specialize``: runs the default region and the partitions concurrently, and waits for all.

    Operands: the captures of every partition (Triton 3.6; later, operands of the nested ``…partitions`` op).
    Region 0: default, run by the kernel's own warps, sees all values above. Region 1: the holder of the partitions.
    """

    NAME = "ttg.warp_specialize"
    RECURSIVE = True
    num_warps = attribute("partitionNumWarps", read_array)  # warps of each partition

    @property
    def regions(self) -> list[Region]:
        """The regions that run concurrently, the default one first. One that returns early has several blocks."""
        return [self.op.regions[0], *self.holder.op.regions]

    @property
    def default(self) -> Block:
        """The first block of the default region."""
        return self.op.regions[0].blocks[0]

    @property
    def yields(self) -> list[Operation]:
        """The ends of the default region."""
        return [block.terminator for block in self.op.regions[0].blocks if WarpYieldOp.matches(block.terminator)]

    @property
    def holder(self) -> WarpSpecializePartitionsOp:
        """The operation that holds the partitions."""
        return WarpSpecializePartitionsOp(self.op.regions[1].block.ops[0])

    @property
    def captures(self) -> list[Value]:
        """The values that every partition captures, in either form."""
        return self.op.operands or self.holder.captures

    @property
    def capturing(self) -> Operation:
        """The operation whose operands become the arguments of every partition, in the form of any Triton."""
        return self.op if self.op.operands else self.holder.op

    @property
    def partitions(self) -> list[Block]:
        """The first blocks of the other partitions."""
        return [region.blocks[0] for region in self.holder.op.regions]

    def check(self) -> str | None:
        """The arguments of each partition have the types of the captures."""
        captures = types_of(self.captures)
        for block in self.partitions:
            if types_of(block.args) != captures:
                return f"captures {captures} but a partition takes {types_of(block.args)}"
        return None


def ctas_of(module: Module) -> int:
    """CTAs per cluster; 1 if the module has no such attribute. Raises ValueError if the attribute is not a number."""
    said = attribute_of(module.op.attributes, "ttg.num-ctas")
    if said is None:
        return 1
    if said in ("true", "false"):
        raise ValueError(f"not a number: {said!r}")
    return read_int(said)


def partition_of(op: Operation) -> tuple[Operation, int] | None:
    """The fork around an operation, and the number of its partition; None in the default partition and outside."""
    inner = op
    for outer in op.ancestors():
        holder = outer.parent_op
        if WarpSpecializePartitionsOp.matches(outer) and holder is not None:
            return holder, next(at for at, region in enumerate(outer.regions) if _holds(region, inner))
        inner = outer
    return None


def warps_of(op: Operation) -> int:
    """The number of warps that execute an operation: those of its partition, or those of the kernel."""
    if partition := partition_of(op):
        fork, place = partition
        return warps_of_partitions(fork)[place]
    module = next((outer for outer in op.ancestors() if ModuleOp.matches(outer)), None)
    if module is None:
        raise ValueError(f"{op.name} is not in a module")
    return read_int(attribute_of(module.attributes, "ttg.num-warps") or "")


def warps_of_partitions(fork: Operation) -> tuple[int, ...]:
    """The numbers of warps of the partitions besides the default one."""
    return read_array(fork.properties["partitionNumWarps"])


def warps_of_cta(op: Operation) -> int:
    """The number of warps of the CTA. Triton rounds those of partitions up to warp groups."""
    outermost = next((outer for outer in op.ancestors() if ModuleOp.matches(outer)), op)
    forks = [inner for inner in outermost.walk() if WarpSpecializeOp.matches(inner)]
    if not forks:
        return warps_of(op)
    own = read_int(attribute_of(outermost.attributes, "ttg.num-warps") or "")
    return -(-(own + max(sum(warps_of_partitions(fork)) for fork in forks)) // _GROUP) * _GROUP


_GROUP = 4


def _holds(region: Region, op: Operation) -> bool:
    return any(op.parent is block for block in region.blocks)


def target_of(module: Operation) -> str:
    """The GPU that a module is compiled for, as Triton names it (``cuda:90``); empty if it names none."""
    return (attribute_of(module.attributes, "ttg.target") or "").strip('"')
