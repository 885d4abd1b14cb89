"""`tt`: Triton's tile operations, and which of them touch memory."""

from __future__ import annotations

from enum import IntEnum

from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView, op_names
from tawa.dialects.declare.families import BinaryOp, UnaryOp, YieldingOp
from tawa.dialects.declare.fields import attribute, operand, operands, optional_operand, segment
from tawa.dialects.parameters import ADDED_BASE, STAYS
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, Operation, TensorDescType, TensorType, Value, parse_type
from tawa.ir.attributes import read_array, read_bool, read_int
from tawa.ir.text import parse_dictionary, split_top_level

_READ = Effect("read", "global", "pointers")
_WRITE = Effect("write", "global", "pointers")
_DESCRIPTOR_READ = Effect("read", "global", "descriptor")
_DESCRIPTOR_WRITE = Effect("write", "global", "descriptor")

# -- functions ---------------------------------------------------------------------------------------------------------


class FuncOp(OpView):
    """``tt.func``: a kernel or a device function. Region: the body. Isolated from above."""

    NAME = "tt.func"
    ISOLATED = True
    RECURSIVE = True

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
        """The argument whose memory a descriptor describes, if Tawa added the descriptor."""
        base = self.attributes_of(argument).get(ADDED_BASE)
        return self.body.args[read_int(base)] if base else None


class CallOp(OpView):
    """``tt.call``: a call of a function that was not inlined; its effects are unknown."""

    NAME = "tt.call"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    callee = attribute("callee", str)


class ReturnOp(YieldingOp):
    """``tt.return``: the end of a function, with its results."""

    NAME = "tt.return"


# -- numbers and tiles -------------------------------------------------------------------------------------------------


class GetProgramIdOp(OpView):
    """``tt.get_program_id``: the index of the program along `axis`. Pure."""

    NAME = "tt.get_program_id"
    axis = attribute("axis", read_int)


class GetNumProgramsOp(OpView):
    """``tt.get_num_programs``: the size of the grid along `axis`. Pure."""

    NAME = "tt.get_num_programs"
    axis = attribute("axis", read_int)


class MakeRangeOp(OpView):
    """``tt.make_range``: the numbers from `start` to `end`, exclusive. Pure."""

    NAME = "tt.make_range"
    start, end = attribute("start", read_int), attribute("end", read_int)


# fmt: off
class SplatOp(UnaryOp): NAME = "tt.splat"
class UnsplatOp(UnaryOp): NAME = "tt.unsplat"
class BroadcastOp(UnaryOp): NAME = "tt.broadcast"
class ReshapeOp(UnaryOp): NAME = "tt.reshape"
class SplitOp(UnaryOp): NAME = "tt.split"
class BitcastOp(UnaryOp): NAME = "tt.bitcast"
class FpToFpOp(UnaryOp): NAME = "tt.fp_to_fp"
class IntToPtrOp(UnaryOp): NAME = "tt.int_to_ptr"
class PtrToIntOp(UnaryOp): NAME = "tt.ptr_to_int"
class PreciseSqrtOp(UnaryOp): NAME = "tt.precise_sqrt"

class JoinOp(BinaryOp): NAME = "tt.join"
class CatOp(BinaryOp): NAME = "tt.cat"
class MulhiUIOp(BinaryOp): NAME = "tt.mulhiui"
class PreciseDivFOp(BinaryOp): NAME = "tt.precise_divf"
class ApproxDivFOp(BinaryOp): NAME = "tt.approx_divf"
# fmt: on


class ExpandDimsOp(UnaryOp):
    """``tt.expand_dims``: a new dimension of size 1 at `axis`. Pure."""

    NAME = "tt.expand_dims"
    axis = attribute("axis", read_int)


class TransOp(UnaryOp):
    """``tt.trans``: the dimensions in another order: dimension i of the result is `order[i]` of the source. Pure."""

    NAME = "tt.trans"
    order = attribute("order", read_array)


class AddPtrOp(OpView):
    """``tt.addptr``: pointers plus an offset in elements. Pure."""

    NAME = "tt.addptr"
    pointer, offset = operand(0), operand(1)


class AdvanceOp(OpView):
    """``tt.advance``: a block pointer plus offsets in elements. Pure."""

    NAME = "tt.advance"
    pointer = operand(0)
    offsets = operands(1)


class ClampFOp(OpView):
    """``tt.clampf``: a float, clamped to a range. Pure."""

    NAME = "tt.clampf"
    source, low, high = operand(0), operand(1), operand(2)


class GatherOp(OpView):
    """``tt.gather``: elements of a tile, by index along `axis`. Pure."""

    NAME = "tt.gather"
    source, indices = operand(0), operand(1)
    axis = attribute("axis", read_int)


class HistogramOp(OpView):
    """``tt.histogram``: how often each number occurs in a tile. Pure."""

    NAME = "tt.histogram"
    source = operand(0)
    mask = optional_operand(1)


class DotOp(OpView):
    """``tt.dot``: D = A·B + C on tiles, before an instruction is chosen. Pure."""

    NAME = "tt.dot"
    a, b, accumulator = operand(0), operand(1), operand(2)


class DotScaledOp(OpView):
    """``tt.dot_scaled``: D = A·B + C with scales for blocks of A and B. Pure.

    A row of A, and a column of B, has a row of scales.
    """

    NAME = "tt.dot_scaled"
    a, b, accumulator = operand(0), operand(1), operand(2)
    a_scale, b_scale = optional_operand(3), optional_operand(4)


class ReduceOp(OpView):
    """``tt.reduce``: tiles folded along `axis` by the function in its region."""

    NAME = "tt.reduce"
    RECURSIVE = True
    sources = operands(0)
    axis = attribute("axis", read_int)


class ReduceReturnOp(YieldingOp):
    """``tt.reduce.return``: the result of one step of a ``tt.reduce``."""

    NAME = "tt.reduce.return"


class ScanOp(OpView):
    """``tt.scan``: partial results of folding tiles along `axis` by the function in its region."""

    NAME = "tt.scan"
    RECURSIVE = True
    sources = operands(0)
    axis = attribute("axis", read_int)


class ScanReturnOp(YieldingOp):
    """``tt.scan.return``: the result of one step of a ``tt.scan``."""

    NAME = "tt.scan.return"


class MapElementwiseOp(OpView):
    """``tt.map_elementwise``: applies the function in its region to each element of tiles."""

    NAME = "tt.map_elementwise"
    RECURSIVE = True
    sources = operands(0)


class MapElementwiseReturnOp(YieldingOp):
    """``tt.map_elementwise.return``: the result of the function of a ``tt.map_elementwise``."""

    NAME = "tt.map_elementwise.return"


DOTS = op_names(DotOp, DotScaledOp, WarpGroupDotOp)


# -- memory through pointers -------------------------------------------------------------------------------------------


_ANEW = 7  # .cv


class LoadOp(OpView):
    """``tt.load``: loads from an address, or from each of a tile of addresses.

    Operands: pointers, an optional mask, an optional tile of values for lanes outside the mask. Result: a tile or a
    scalar. Effects: reads global memory (in program order if it is volatile). In a specialised kernel a tile that feeds
    a dot is loaded by the producer, and becomes ``ttg.async_copy_global_to_local`` or a ``ttg.local_store``.
    """

    NAME = "tt.load"
    EFFECTS = (_READ,)
    pointers = operand(0)
    mask = optional_operand(1)  # which lanes read; None means all
    other = optional_operand(2)  # values of the other lanes; None leaves them undefined

    @property
    def tile(self) -> TensorType | None:
        """The type of the loaded tile; None where it is a scalar."""
        type = parse_type(self.op.result.type)
        return type if isinstance(type, TensorType) else None

    @property
    def partial(self) -> bool:
        """Whether what the mask leaves out is undefined."""
        return self.mask is not None and self.other is None

    @property
    def stays(self) -> bool:
        """Whether the load stays in the consumer even if it feeds a dot."""
        return STAYS in self.op.attributes

    @property
    def volatile(self) -> bool:
        """Whether the load must see concurrent writes: it is volatile, or has the cache operator ``.cv``."""
        properties = self.op.properties
        return read_bool(properties.get("isVolatile", "false")) or read_int(properties.get("cache", "1")) == _ANEW

    def effects(self) -> tuple[Effect, ...]:
        """A volatile load is ordered as well."""
        return (*self.EFFECTS, Effect("order")) if self.volatile else self.EFFECTS


class StoreOp(OpView):
    """``tt.store``: stores a value, or a tile of values, through pointers.

    Operands: pointers, the values, an optional mask. Effects: writes global memory. Runs in the consumer.
    """

    NAME = "tt.store"
    EFFECTS = (_WRITE,)
    pointers, source = operand(0), operand(1)
    mask = optional_operand(2)  # which lanes write; None means all


class RmwKind(IntEnum):
    """What an atomic does with the old value and its operand: some of ``tt.RMWOp``."""

    ADD = 4
    EXCHANGE = 10


RMW_NAMES = {
    1: "and", 2: "or", 3: "xor", 4: "add", 5: "add", 6: "max", 7: "min", 8: "max", 9: "min", 10: "xchg",
}  # fmt: skip
"""All of them; the second `add` is of floats, the second `max` and `min` of unsigned numbers."""


class AtomicRMWOp(OpView):
    """``tt.atomic_rmw``: atomic read-modify-write, at an address or at each of a tile of addresses.

    Operands: pointers, the other operand, an optional mask. Result: the old value.
    """

    NAME = "tt.atomic_rmw"
    EFFECTS = (_READ, _WRITE)
    pointers, source = operand(0), operand(1)
    mask = optional_operand(2)


class AtomicCASOp(OpView):
    """``tt.atomic_cas``: atomic compare-and-swap. Result: the old value."""

    NAME = "tt.atomic_cas"
    EFFECTS = (_READ, _WRITE)
    pointers, expected, source = operand(0), operand(1), operand(2)


ATOMICS = op_names(AtomicRMWOp, AtomicCASOp)
RELAXED, _ACQUIRE, _RELEASE, ACQ_REL = 1, 2, 3, 4  # tt.MemSemantic


def acquires(atomic: Operation) -> bool:
    """Whether an atomic has acquire semantics."""
    return _semantic(atomic) in (_ACQUIRE, ACQ_REL)


def releases(atomic: Operation) -> bool:
    """Whether an atomic has release semantics."""
    return _semantic(atomic) in (_RELEASE, ACQ_REL)


def is_relaxed(atomic: Operation) -> bool:
    """Whether an atomic orders no other access to memory."""
    return _semantic(atomic) == RELAXED


def _semantic(atomic: Operation) -> int:
    return read_int(atomic.properties["sem"]) if "sem" in atomic.properties else ACQ_REL


# -- memory through descriptors ----------------------------------------------------------------------------------------


class MakeTensorDescOp(OpView):
    """``tt.make_tensor_descriptor``: a descriptor of a tensor in global memory. Pure to Triton.

    Operands: base pointer, shape, strides (each in elements, outermost first).
    """

    NAME = "tt.make_tensor_descriptor"
    base = operand(0)
    shape, strides = segment(1), segment(2)


class DescriptorLoadOp(OpView):
    """``tt.descriptor_load``: one block of a tensor in global memory, by TMA; zero outside the tensor.

    Operands: descriptor, one i32 index per dimension. Result: a tile. Effects: reads global memory (async proxy once
    lowered). In a specialised kernel it runs in the producer and becomes ``ttng.async_tma_copy_global_to_local``.
    """

    NAME = "tt.descriptor_load"
    EFFECTS = (_DESCRIPTOR_READ,)
    descriptor = operand(0)
    indices = operands(1)  # offsets of the block, in elements

    @property
    def tile(self) -> TensorType:
        """The type of the loaded tile."""
        type = parse_type(self.op.result.type)
        assert isinstance(type, TensorType)
        return type

    @property
    def encoding(self) -> str:
        """The shared-memory layout in which TMA delivers the block; empty before one is chosen."""
        type = parse_type(self.descriptor.type)
        return type.block.encoding if isinstance(type, TensorDescType) else ""


class DescriptorGatherOp(OpView):
    """``tt.descriptor_gather``: rows of a tensor in global memory, by TMA. Result: a tile."""

    NAME = "tt.descriptor_gather"
    EFFECTS = (_DESCRIPTOR_READ,)
    descriptor, rows, column = operand(0), operand(1), operand(2)


class DescriptorStoreOp(OpView):
    """``tt.descriptor_store``: writes a tile to global memory by TMA; nothing is written outside the tensor.

    Operands: descriptor, the tile, one i32 index per dimension. Effects: writes global memory. Runs in the consumer.
    """

    NAME = "tt.descriptor_store"
    EFFECTS = (_DESCRIPTOR_WRITE,)
    descriptor, source = operand(0), operand(1)
    indices = operands(2)  # offsets of the block, in elements


class DescriptorReduceOp(OpView):
    """``tt.descriptor_reduce``: reduces a tile into global memory by TMA. Operands as for a store."""

    NAME = "tt.descriptor_reduce"
    EFFECTS = (_DESCRIPTOR_READ, _DESCRIPTOR_WRITE)
    descriptor, source = operand(0), operand(1)
    indices = operands(2)


TMAStore = DescriptorStoreOp | DescriptorReduceOp


def tma_store(op: Operation | None) -> TMAStore | None:
    """The view of an operation that writes or reduces a tile into a block of global memory by TMA."""
    return DescriptorStoreOp.of(op) or DescriptorReduceOp.of(op)


def is_reduction(op: Operation) -> bool:
    """Whether an operation only reduces a tile into memory: by TMA, or by relaxed atomics whose results nothing uses.

    It orders no other access, and nothing learns what was in memory before.
    """
    if DescriptorReduceOp.matches(op):
        return True
    kind = read_int(op.properties["atomic_rmw_op"]) if AtomicRMWOp.matches(op) else RmwKind.EXCHANGE
    return kind != RmwKind.EXCHANGE and is_relaxed(op) and not op.result.uses


def through_pointers(op: Operation) -> StoreOp | AtomicRMWOp | None:
    """The view of an operation that stores a tile, or reduces it, through pointers."""
    return StoreOp.of(op) or (AtomicRMWOp.of(op) if is_reduction(op) else None)


def commute(first: Operation, second: Operation) -> bool:
    """Whether two reductions leave the same in memory in either order, apart from the rounding of sums."""
    if not is_reduction(first) or not is_reduction(second):
        return False
    return _reduced_by(first) == _reduced_by(second)


def _reduced_by(op: Operation) -> tuple[str, str, str]:
    tile = parse_type(op.operands[1].type)
    element = tile.element if isinstance(tile, TensorType) else op.operands[1].type
    return op.name, op.properties["kind" if DescriptorReduceOp.matches(op) else "atomic_rmw_op"], element


class DescriptorScatterOp(OpView):
    """``tt.descriptor_scatter``: writes the rows of a tile to rows of a tensor in global memory, by TMA."""

    NAME = "tt.descriptor_scatter"
    EFFECTS = (_DESCRIPTOR_WRITE,)
    descriptor, rows, column, source = operand(0), operand(1), operand(2), operand(3)


# -- observable effects ------------------------------------------------------------------------------------------------


class PrintOp(OpView):
    """``tt.print``: prints."""

    NAME = "tt.print"
    EFFECTS = (Effect("order"),)


class AssertOp(OpView):
    """``tt.assert``: stops the kernel if the condition is false."""

    NAME = "tt.assert"
    EFFECTS = (Effect("order"),)
    condition = operand(0)


class GridDependencyWaitOp(OpView):
    """``tt.grid_dependency_wait``: waits until the grids before this one have ended, and sees what they wrote."""

    NAME = "tt.grid_dependency_wait"
    EFFECTS = (Effect("grids"),)


class GridDependencyLaunchDependentsOp(OpView):
    """``tt.grid_dependency_launch_dependents``: lets the next grid start, which may wait for the end of this one."""

    NAME = "tt.grid_dependency_launch_dependents"
    EFFECTS = (Effect("hint"),)
