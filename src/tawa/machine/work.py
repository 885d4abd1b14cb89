"""The work of an operation: what it asks of the units of an SM, from its types alone.

    exp2 : tensor<128x64xf32>                   8192 special functions
    truncf : tensor<128x64xf32> to …xbf16       8192 conversions
    reduce (addf) : tensor<128x64xf32>          8192 slots, one round of shuffles

Counts are those of the whole tile: no element is computed twice. Layouts, where there are any, say only whether threads
exchange values. This is the one table for the planner's model of time, the scheduler and the simulator's clock: they
divide the counts by rates. `tawa.machine.classes` has the operations without elementwise work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tawa.dialects import arith, tt, ttg
from tawa.dialects import math as math_ops
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.ir import MemDescType, Operation, TensorDescType, TensorType, parse_type
from tawa.machine.classes import DOTS, FREE, LOADS, STORES
from tawa.machine.distribution import reduces_in_threads
from tawa.machine.machines import WGMMA

_NO_WORK = FREE | LOADS | STORES | DOTS | op_names(ttg.ConvertLayoutOp, tt.DotScaledOp)

_SPECIAL = op_names(
    math_ops.Exp2Op, math_ops.ExpOp, math_ops.Log2Op, math_ops.LogOp, math_ops.SinOp, math_ops.CosOp, math_ops.SqrtOp,
    math_ops.RsqrtOp,
)  # fmt: skip
_CONVERSIONS = op_names(
    arith.ExtFOp, arith.TruncFOp, tt.FpToFpOp, arith.SIToFPOp, arith.FPToSIOp, arith.UIToFPOp, arith.FPToUIOp
)
_SLOTS = by_name(
    {
        **dict.fromkeys((arith.DivFOp, tt.PreciseDivFOp, arith.RemFOp), 10),
        **dict.fromkeys((arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp), 40),
        **dict.fromkeys((math_ops.ErfOp, math_ops.TanhOp, math_ops.PowFOp, math_ops.SinhOp, math_ops.CoshOp), 24),
        math_ops.TanOp: 24,
    }
)
"""Issue slots per element of operations that expand to several instructions; estimates from SASS."""
_ROUNDS = op_names(tt.ReduceOp, tt.ScanOp, tt.GatherOp, tt.HistogramOp)


@dataclass(frozen=True, slots=True)
class Work:
    """Counts over the elements of a tile.

    slots: fp32 issue slots. integers: issue slots of integer operations. special: special functions. conversions:
    between element types of at least 16 bits; narrow: from and to 8 bits. shuffles: rounds in which the threads of a
    warp exchange values.
    """

    slots: float = 0.0
    integers: float = 0.0
    special: float = 0.0
    conversions: float = 0.0
    narrow: float = 0.0
    shuffles: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


NOTHING = Work()


def work_of(op: Operation) -> Work:
    """The work of one execution of an operation on tiles; none for scalars, memory accesses and control flow.

    A reduction or scan has the work of its combiner for each element, and a round of shuffles; none if the layout gives
    each thread all that it reduces.
    """
    if op.name in _NO_WORK or not op.name.startswith(("arith.", "math.", "tt.")):
        return NOTHING
    if joins_halves(op):
        return NOTHING
    elements = max((elements_of(value.type) for value in (*op.operands, *op.results)), default=1)
    if elements == 1:
        return NOTHING
    inner = [it for it in op.regions[0].block.ops if it.results] if op.regions else []
    exchanges = op.name in _ROUNDS and not (tt.ReduceOp.matches(op) and reduces_in_threads(op))
    found = Work(shuffles=float(exchanges))
    for it in inner or [op]:
        found = found + _ofelements_of(it.name, it.results[0].type if it.results else op.operands[0].type, op, elements)
    return found


def _ofelements_of(name: str, type: str, op: Operation, elements: int) -> Work:
    """The work of an elementwise operation on this many elements. type: of its result. op: gives the narrowest type."""
    if name in _SPECIAL:
        return Work(special=elements, slots=elements * (name == math_ops.ExpOp.NAME))
    if name in _CONVERSIONS:
        narrow = min(_bits(value.type) for value in (op.operands[0], op.results[0])) == _NARROW
        return Work(narrow=elements) if narrow else Work(conversions=elements)
    count = elements * _SLOTS.get(name, 1)
    return Work(integers=count) if name not in _SLOTS and _is_integer(type) else Work(slots=count)


# -- narrow elements in registers (Triton 3.6: PTX and SASS of attention, d = 128) -------------------------------------

PACKED_BITS = 16
"""The narrowest elements that loops carry packed. LLVM carries a pair of fp16 or bf16 elements as one 32-bit vector: a
loop with stages has 461 instructions, one without 460. Narrower elements it carries one by one, in a register each."""
REPACKING_SLOTS = 3.4
"""Issue slots an iteration for each such element: `prmt`, `shr` and `cvt` take results apart and put operands together.
With fp8 scores, 64 to a thread, a loop that carries them has 702 instructions, one that carries fp32 504, and one
without stages 483."""


def joins_halves(op: Operation) -> bool:
    """Whether an operation is a part of ``extui %a | extui %b << 16`` on tiles of 16 bits.

    Both are halves of a register already, so that LLVM renames it.
    """
    if arith.OrIOp.matches(op):
        low, high = (value.defining_op for value in op.operands)
        shifted = high.operands[0].defining_op if high is not None and arith.ShLIOp.matches(high) else None
        return _is_half(low) and _is_half(shifted)
    if arith.ShLIOp.matches(op) or _is_half(op):
        users = op.result.users
        return bool(users) and all(joins_halves(it) for it in users if not arith.ExtUIOp.matches(it))
    return False


def _is_half(op: Operation | None) -> bool:
    return op is not None and arith.ExtUIOp.matches(op) and _bits(op.operands[0].type) * 2 == _REGISTER_BITS


def is_carried_singly(type: str) -> bool:
    """Whether loops carry each element of this tile in a register of its own; a mask has no bytes to pack."""
    kind = parse_type(type)
    return isinstance(kind, TensorType) and kind.element != _MASK and _bits(type) < PACKED_BITS


def repacking_slots(type: str) -> float:
    """Issue slots of an iteration that takes a carried tile apart and puts it together again; 0 if it is packed."""
    return elements_of(type) * REPACKING_SLOTS if is_carried_singly(type) else 0.0


def exchanged_registers(type: str) -> float:
    """Registers that threads exchange where an accumulator of this type becomes operand A of a wgmma.

    A thread holds pairs of neighbours of an accumulator, and so of a 16-bit operand, but four of an 8-bit operand. Each
    register is shuffled, and takes a permutation and a selection.
    """
    return elements_of(type) * _bits(type) / _REGISTER_BITS if is_carried_singly(type) else 0.0


# -- dots --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DotCounts:
    """One dot. batch: independent products. products: multiply-adds of one. element: the type of the operands.

    read_bytes: what one product reads from shared memory: B once for each 64 rows, and A unless it is in registers.
    """

    batch: int
    products: int
    element: str
    read_bytes: int

    def cycles(self, fma_per_cycle: int, bytes_per_cycle: int) -> int:
        """Cycles for the multiply-adds, or for the reads of shared memory if those take longer."""
        reads = math.ceil(self.read_bytes / bytes_per_cycle)
        return self.batch * max(math.ceil(self.products / fma_per_cycle), reads)


def dot_counts(op: Operation) -> DotCounts | None:
    """The counts of a dot at any level; None if an operand is neither a tile nor a buffer."""
    a, b, out = parse_type(op.operands[0].type), parse_type(op.operands[1].type), parse_type(op.results[0].type)
    if not isinstance(a, TensorType | MemDescType) or not isinstance(b, TensorType | MemDescType):
        return None
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = math.prod(out.shape[:-2]) if isinstance(out, TensorType) else 1
    read = b.bytes // batch * max(1, rows // WGMMA.rows) + (a.bytes // batch if isinstance(a, MemDescType) else 0)
    return DotCounts(batch, rows * inner * columns, a.element, read)


_REGISTER_BITS = 32
_MASK = "i1"
_NARROW = 8
"""Bits of elements that LLVM carries one to a register: converting them costs permutations of bytes."""


def _bits(type: str) -> int:
    kind = parse_type(type)
    return 8 * kind.bytes // math.prod(kind.shape) if isinstance(kind, TensorType) else 32


def _is_integer(type: str) -> bool:
    kind = parse_type(type)
    return (kind.element if isinstance(kind, TensorType) else type).startswith(("i", "!tt.ptr"))


def elements_of(type: str) -> int:
    """Elements of a tile; 1 of a scalar."""
    kind = parse_type(type)
    return math.prod(kind.shape) if isinstance(kind, TensorType) else 1


def bytes_of(type: str) -> int:
    """Bytes of a tile, a buffer or a box; 8 of a scalar."""
    kind = parse_type(type)
    return kind.bytes if isinstance(kind, TensorType | MemDescType | TensorDescType) else 8
