"""`tt`: Triton's tile operations, and which of them touch memory."""

from __future__ import annotations

from tawa.dialects.registry import Effect, OpSpec, declare, declare_pure
from tawa.dialects.view import OpView
from tawa.ir import Block, Builder, Operation, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import int_attr, read_array, read_int, read_string, string_attr
from tawa.ir.text import parse_dictionary, split_top_level

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

# Pure only where their property says so; `tawa.dialects.effects` asks.
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


ADDED_BASE = "tawa.base"
"""On a descriptor that was added as an argument: the number of the argument whose memory it describes."""
GRID_SIZE = "tawa_grid_"
"""The name, before the axis, of the arguments that give a persistent form the sizes of the grid."""
STAYS = "tawa.stays"
"""On a load: it is not moved to a producer, for it stands where the program hardly ever comes."""


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

    def attributes_of(self, argument: Value) -> dict[str, str]:
        """The attributes of an argument of the entry block, by name: ``tt.divisibility`` and others."""
        found = split_top_level(self.op.properties.get("arg_attrs", "[]")[1:-1])
        return parse_dictionary(found[argument.index].strip()[1:-1]) if argument.index < len(found) else {}

    def memory_of(self, argument: Value) -> Value | None:
        """The argument that a descriptor's memory belongs to, where the descriptor was added by us."""
        base = self.attributes_of(argument).get(ADDED_BASE)
        return self.body.args[read_int(base)] if base else None


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


class LoadOp(OpView):
    """``tt.load``: what lies at an address, or at each of a tile of addresses.

    Operands: pointers, an optional mask, an optional tile of what lanes outside the mask get. Result: a tile or a
    scalar. Effects: reads global memory (and orders it where it is volatile). In a specialised kernel a tile that feeds
    a dot is loaded by the producer, and becomes ``ttg.async_copy_global_to_local`` or a ``ttg.local_store``.
    """

    NAME = "tt.load"
    __slots__ = ()

    @property
    def pointers(self) -> Value:
        """Where it reads."""
        return self.op.operands[0]

    @property
    def mask(self) -> Value | None:
        """Which lanes read; None means all."""
        return self._optional(1)

    @property
    def other(self) -> Value | None:
        """What the other lanes get; None leaves them undefined."""
        return self._optional(2)

    @property
    def tile(self) -> TensorType | None:
        """The type of the loaded tile; None where it is a scalar."""
        type = parse_type(self.op.result.type)
        return type if isinstance(type, TensorType) else None

    @property
    def stays(self) -> bool:
        """Whether it is left to the warps that compute, whatever its tile feeds."""
        return STAYS in self.op.attributes

    def _optional(self, place: int) -> Value | None:
        sizes = self.op.properties.get("operandSegmentSizes")
        present = read_array(sizes) if sizes else [int(at < len(self.op.operands)) for at in range(3)]
        return self.op.operands[sum(present[:place])] if present[place] else None


class StoreOp(OpView):
    """``tt.store``: writes a value, or a tile of them, to where pointers say.

    Operands: pointers, what is written, an optional mask. Effects: writes global memory. Runs in the consumer.
    """

    NAME = "tt.store"
    __slots__ = ()

    @property
    def pointers(self) -> Value:
        """Where it writes."""
        return self.op.operands[0]

    @property
    def source(self) -> Value:
        """What it writes."""
        return self.op.operands[1]

    @property
    def mask(self) -> Value | None:
        """Which lanes write; None means all."""
        return self.op.operands[2] if len(self.op.operands) > 2 else None


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


_GROUP_ASM = "tawa.group"


def group_marker(op: Operation) -> bool:
    """Whether `op` stands for the number of the consumer group that executes it."""
    if op.name != GroupIndexOp.NAME:
        return False
    return read_string(op.properties.get("asm_string", '""')) == _GROUP_ASM


class GroupIndexOp(OpView):
    """``tt.elementwise_inline_asm "tawa.group"``: the number of the consumer group that executes it, 0 … G - 1.

    Operand: a constant i32, the number of groups G. Result: i32. Pure. Stands in a program whose tile is split among
    groups until each group has its own copy of it; then it becomes a constant. Its form is one that Triton's layout
    passes carry along: they merge equal ones and move them, and neither fold nor read the text. It is never assembled.
    """

    NAME = "tt.elementwise_inline_asm"
    __slots__ = ()

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        if not group_marker(op):
            raise ValueError("an inline assembly that is not the number of a group")

    @classmethod
    def of(cls, op: Operation | None) -> GroupIndexOp | None:
        """The view of `op`, or None when it is another operation, or another inline assembly."""
        return cls(op) if op is not None and group_marker(op) else None

    @staticmethod
    def create(builder: Builder, groups: int) -> Value:
        """Makes one at the builder's point."""
        properties = {
            "asm_string": string_attr(_GROUP_ASM),
            "constraints": string_attr("=r,r"),
            "packed_element": int_attr(1),
            "pure": "true",
        }
        operand = builder.constant(groups)
        return builder.create(GroupIndexOp.NAME, (operand,), ("i32",), properties=properties, hints=("group",)).result


def same_number(op: Operation) -> bool:
    """Whether `op` hands on a number as it is, as `SameNumberOp` does."""
    return op.name == SameNumberOp.NAME and read_string(op.properties.get("asm_string", '""')) == SameNumberOp.ASM


class SameNumberOp(OpView):
    """``tt.elementwise_inline_asm "shfl.sync.idx.b32"``: a number that all lanes of a warp have, handed on by lane 0.

    Operand and result: i32. The result is the operand, and no compiler behind Triton can tell. Not pure, so that two of
    them are never made one.
    """

    NAME = "tt.elementwise_inline_asm"
    ASM = "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;"
    __slots__ = ()

    @staticmethod
    def create(builder: Builder, number: Value) -> Value:
        """Makes one at the builder's point."""
        properties = {
            "asm_string": string_attr(SameNumberOp.ASM),
            "constraints": string_attr("=r,r"),
            "packed_element": int_attr(1),
            "pure": "false",
        }
        return builder.create(SameNumberOp.NAME, (number,), ("i32",), properties=properties, hints=("slot",)).result
