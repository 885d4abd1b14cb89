"""`tt`: Triton's tile operations, and which of them touch memory."""

from __future__ import annotations

from tawa.dialects.registry import Effect, OpSpec, declare, declare_pure
from tawa.dialects.view import OpView
from tawa.ir import Block, Operation, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import read_int

declare_pure(
    "tt",
    "addptr advance bitcast broadcast cat clampf dot dot_scaled expand_dims fp_to_fp gather get_num_programs "
    "get_program_id histogram int_to_ptr join make_range make_tensor_descriptor mulhiui ptr_to_int reshape split splat "
    "trans unsplat precise_divf precise_sqrt approx_divf",
)
declare(
    OpSpec("tt.func", isolated=True, recursive=True),
    OpSpec("builtin.module", isolated=True, recursive=True),
    OpSpec("tt.return", terminator=True),
    OpSpec("tt.reduce", recursive=True),
    OpSpec("tt.reduce.return", terminator=True),
    OpSpec("tt.scan", recursive=True),
    OpSpec("tt.scan.return", terminator=True),
    OpSpec("tt.map_elementwise", recursive=True),
    OpSpec("tt.map_elementwise.return", terminator=True),
    OpSpec("tt.load", (Effect("read", "global", 0),)),
    OpSpec("tt.store", (Effect("write", "global", 0),)),
    OpSpec("tt.atomic_rmw", (Effect("read", "global", 0), Effect("write", "global", 0))),
    OpSpec("tt.atomic_cas", (Effect("read", "global", 0), Effect("write", "global", 0))),
    OpSpec("tt.descriptor_load", (Effect("read", "global", 0),)),
    OpSpec("tt.descriptor_gather", (Effect("read", "global", 0),)),
    OpSpec("tt.descriptor_store", (Effect("write", "global", 0),)),
    OpSpec("tt.descriptor_scatter", (Effect("write", "global", 0),)),
    OpSpec("tt.descriptor_reduce", (Effect("read", "global", 0), Effect("write", "global", 0))),
    OpSpec("tt.print", (Effect("order"),)),
    OpSpec("tt.assert", (Effect("order"),)),
    OpSpec("gpu.barrier", (Effect("barrier"),)),
    OpSpec("ttg.barrier", (Effect("barrier"),)),
)

# Pure only where their property says so; `tawa.analysis.effects` asks.
INLINE = frozenset({"tt.elementwise_inline_asm", "tt.extern_elementwise"})
DOTS = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot"})


ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})
_ACQUIRE, _RELEASE, _ACQ_REL = 2, 3, 4  # tt.MemSemantic; relaxed is 1


def acquires(atomic: Operation) -> bool:
    """Whether reads behind an atomic must see what others wrote before."""
    return _semantic(atomic) in (_ACQUIRE, _ACQ_REL)


def releases(atomic: Operation) -> bool:
    """Whether others that see an atomic must see what was written before it."""
    return _semantic(atomic) in (_RELEASE, _ACQ_REL)


def _semantic(atomic: Operation) -> int:
    return read_int(atomic.properties["sem"]) if "sem" in atomic.properties else _ACQ_REL


class FuncOp(OpView):
    """``tt.func``: a kernel or a device function. Region: the body. Isolated from above."""

    NAME = "tt.func"
    __slots__ = ()

    @property
    def name(self) -> str:
        """The symbol, without quotes."""
        return self.op.properties["sym_name"].strip('"')

    @property
    def body(self) -> Block:
        """The entry block; only a structured function has no other."""
        return self.op.regions[0].blocks[0]

    @property
    def structured(self) -> bool:
        """Whether the body is one block: no branches, no early return."""
        return len(self.op.regions[0].blocks) == 1


class DescriptorLoadOp(OpView):
    """``tt.descriptor_load``: one block of a tensor in global memory, by TMA; zero outside the tensor.

    Operands: descriptor, one i32 index a dimension. Result: a tile. Effects: reads global memory (async proxy once
    lowered). In a specialised kernel it runs in the producer and becomes ``ttng.async_tma_copy_global_to_local``.
    """

    NAME = "tt.descriptor_load"
    __slots__ = ()

    @property
    def descriptor(self) -> Value:
        """What is read."""
        return self.op.operands[0]

    @property
    def indices(self) -> list[Value]:
        """Offsets of the block, in elements."""
        return self.op.operands[1:]

    @property
    def tile(self) -> TensorType:
        """The type of the loaded tile."""
        type = parse_type(self.op.result.type)
        assert isinstance(type, TensorType)
        return type

    @property
    def encoding(self) -> str:
        """The shared-memory layout in which TMA delivers the block; empty where none was chosen yet."""
        type = parse_type(self.descriptor.type)
        return type.block.encoding if isinstance(type, TensorDescType) else ""


class DescriptorStoreOp(OpView):
    """``tt.descriptor_store``: writes a tile to global memory by TMA; nothing is written outside the tensor.

    Operands: descriptor, the tile, one i32 index a dimension. Effects: writes global memory. Runs in the consumer.
    """

    NAME = "tt.descriptor_store"
    __slots__ = ()

    @property
    def descriptor(self) -> Value:
        """What is written."""
        return self.op.operands[0]

    @property
    def source(self) -> Value:
        """The tile."""
        return self.op.operands[1]

    @property
    def indices(self) -> list[Value]:
        """Offsets of the block, in elements."""
        return self.op.operands[2:]
