"""`ttg`: layouts and shared memory, and the region operation that runs partitions side by side."""

from __future__ import annotations

from tawa.dialects.registry import Effect, OpSpec, declare, declare_pure
from tawa.dialects.view import OpView
from tawa.ir import Block, Operation, Region, Value
from tawa.ir.attributes import read_array, read_int

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


def warps_of(op: Operation) -> int:
    """Warps that execute an operation: those of the partition it stands in, else those of the kernel."""
    inner = op
    for outer in op.ancestors():
        holder = outer.parent_op
        if outer.name == "ttg.warp_specialize.partitions" and holder is not None:
            place = next(at for at, region in enumerate(outer.regions) if _holds(region, inner))
            return read_array(holder.properties["partitionNumWarps"])[place]
        if outer.name == "builtin.module":
            return read_int(outer.attributes['"ttg.num-warps"'])
        inner = outer
    raise ValueError(f"{op.name} stands in no module")


def _holds(region: Region, op: Operation) -> bool:
    return any(op.parent is block for block in region.blocks)


def freed_behind(block: Block) -> dict[Operation, list[Operation]]:
    """The allocations of a block whose bytes may be somebody else's behind one of its operations.

    Triton's back end gives the bytes of an allocation away behind the last operation that uses it, whether or not
    something asynchronous still reads them: what must live longer needs a later use. They are given to what asks for
    memory next; so an allocation is listed with the operation in front of that, or with the last of a nested block,
    whose end may be followed by anything. Left out are those with a ``local_dealloc``, and those that another block of
    the function uses. Source: Triton's Allocation analysis.
    """
    places = {op: place for place, op in enumerate(block.ops)}
    nested = block.parent_op is not None and block.parent_op.name in _NESTED
    found: dict[Operation, list[Operation]] = {}
    for op in block.ops:
        if op.name != "ttg.local_alloc":
            continue
        users = [_in_block(user, block) for user in _users(op)]
        if not op.result.uses or any(user is None or user.name == "ttg.local_dealloc" for user in users):
            continue
        last = max(places[user] for user in users if user is not None)
        following = range(last + 1, len(block.ops))
        asks = next((place for place in following if _asks_for_memory(block.ops[place])), None)
        if asks is not None or nested:
            found.setdefault(block.ops[(len(block.ops) - 1 if asks is None else asks) - 1], []).append(op)
    return found


_NESTED = frozenset({"scf.for", "scf.if", "scf.while"})
_FRUGAL = ("arith.", "math.", "scf.", "cf.", "aref.", "warp.", "llvm.intr.", "ttng.", "ttg.memdesc_", "ttg.async_")
_FRUGAL_ONES = frozenset(
    {
        *("ttg.local_load", "ttg.local_store", "ttg.local_dealloc", "ttg.warp_yield", "ttg.warp_return"),
        *("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr", "tt.load", "tt.store", "tt.make_range"),
        *(
            "tt.get_program_id",
            "tt.get_num_programs",
            "tt.trans",
            "tt.bitcast",
            "tt.return",
            "tt.fp_to_fp",
            "tt.clampf",
        ),
        *(
            "tt.extern_elementwise",
            "tt.mulhiui",
            "tt.precise_sqrt",
            "tt.precise_divf",
            "tt.int_to_ptr",
            "tt.ptr_to_int",
        ),
    }
)


def _asks_for_memory(op: Operation) -> bool:
    """Whether Triton's back end may give shared memory to an operation, for what it makes or to work in."""
    if not (op.name in _FRUGAL_ONES or op.name.startswith(_FRUGAL)) or op.name == "ttng.tensormap_create":
        return True
    return any(_asks_for_memory(inner) for region in op.regions for block in region.blocks for inner in block.ops)


def _users(op: Operation) -> list[Operation]:
    """What uses an allocation, or a view of it."""
    users = op.result.users
    return [it for user in users for it in (_users(user) if user.name in VIEWS else ()) or (user,)]


def _in_block(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is `op` or holds it."""
    return next((it for it in (op, *op.ancestors()) if it.parent is block), None)


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
    def num_warps(self) -> tuple[int, ...]:
        """Warps of each partition."""
        return read_array(self.op.properties["partitionNumWarps"])
