"""`ttg`: layouts and shared memory, and the region operation that runs partitions side by side."""

from __future__ import annotations

from tawa.dialects.registry import Effect, OpSpec, declare, declare_pure
from tawa.dialects.view import OpView
from tawa.ir import Block, Module, Operation, Region, Value
from tawa.ir.attributes import attribute_of, read_array, read_int

declare_pure(
    "ttg", "convert_layout memdesc_index memdesc_subslice memdesc_trans memdesc_reshape memdesc_reinterpret fp4_to_fp"
)
declare(
    OpSpec("ttg.local_alloc", (Effect("allocate", "shared"),)),
    OpSpec("ttg.local_dealloc", (Effect("write", "shared", 0),)),
    OpSpec("ttg.local_load", (Effect("read", "shared", 0),)),
    OpSpec("ttg.local_store", (Effect("write", "shared", 1),)),
    OpSpec("ttg.async_copy_global_to_local", (Effect("read", "global", 0), Effect("write", "shared", 1))),
    OpSpec("ttg.async_commit_group", (Effect("order"),)),
    OpSpec("ttg.async_wait", (Effect("order"),)),
    OpSpec("ttg.warp_specialize", recursive=True),
    OpSpec("ttg.warp_specialize.partitions", isolated=True, recursive=True, terminator=True),
    OpSpec("ttg.warp_yield", terminator=True),
    OpSpec("ttg.warp_return", terminator=True),
)

# Views of the same bytes: what reads the result reads the operand.
VIEWS = frozenset(
    {"ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_trans", "ttg.memdesc_reshape", "ttg.memdesc_reinterpret"}
)


def ctas_of(module: Module) -> int:
    """CTAs of a cluster: 1 where the module does not say. Raises ValueError where what it says is no number."""
    said = attribute_of(module.op.attributes, "ttg.num-ctas")
    if said is None:
        return 1
    if said in ("true", "false"):
        raise ValueError(f"not a number: {said!r}")
    return read_int(said)


def warps_of(op: Operation) -> int:
    """Warps that execute an operation: those of the partition it stands in, else those of the kernel."""
    inner = op
    for outer in op.ancestors():
        holder = outer.parent_op
        if outer.name == "ttg.warp_specialize.partitions" and holder is not None:
            place = next(at for at, region in enumerate(outer.regions) if _holds(region, inner))
            return read_array(holder.properties["partitionNumWarps"])[place]
        if outer.name == "builtin.module":
            return read_int(attribute_of(outer.attributes, "ttg.num-warps") or "")
        inner = outer
    raise ValueError(f"{op.name} stands in no module")


def _holds(region: Region, op: Operation) -> bool:
    return any(op.parent is block for block in region.blocks)


class LocalAllocOp(OpView):
    """``ttg.local_alloc``: shared memory, with contents where it has an operand.

    Operand: an optional tile. Result: a memdesc. With an operand the buffer is immutable: one write, then reads. After
    a load that feeds a dot it is what an aref's slot replaces.
    """

    NAME = "ttg.local_alloc"
    __slots__ = ()

    @property
    def source(self) -> Value | None:
        """The tile it is filled with."""
        return self.op.operands[0] if self.op.operands else None


class WarpSpecializeOp(OpView):
    """``ttg.warp_specialize``: runs the default region and the partitions side by side, and waits for all.

    Operands: values handed to every partition (3.6 spelling; 3.9 puts them on the nested ``…partitions`` op).
    Region 0: default, run by the kernel's own warps, sees all values above. Region 1: one isolated region a partition.
    """

    NAME = "ttg.warp_specialize"
    __slots__ = ()

    @property
    def default(self) -> Block:
        """The block of the default region."""
        return self.op.regions[0].block

    @property
    def partitions(self) -> list[Block]:
        """The blocks of the other partitions."""
        holder = self.op.regions[1].block.ops[0]
        return [region.block for region in holder.regions]

    @property
    def capturing(self) -> Operation:
        """The operation whose operands become the arguments of every partition, in the spelling of 3.6 or 3.9."""
        return self.op if self.op.operands else self.op.regions[1].block.ops[0]

    @property
    def num_warps(self) -> tuple[int, ...]:
        """Warps of each partition."""
        return read_array(self.op.properties["partitionNumWarps"])
