"""View reshapes: a tile of several dimensions that a dot reads as rows and columns stays in shared memory.

    q = descriptor_load Q[t, h, 0]                    16 x 4 x 64
    x = reshape (convert_layout q)                    64 x 64, in registers
    acc = dot(x, k, acc)
                                              →       q = descriptor_load Q[t, h, 0]
                                                      a = local_alloc q
                                                      x = memdesc_reshape a          the same bytes
                                                      acc = dot(x, k, acc)

TMA stores the rows of a box one after another, whatever the number of its dimensions. Triton reads operand B of such a
tile through a view, but operand A in registers: the tile would be copied out of its slot in every iteration, and the
slot be released by all warps.

Requires: TTGIR before anything is specialised.
Ensures: the dot reads the same elements. Declines where the columns change, where the dot is in another loop than the
load (there the tile is better kept in registers), and for more rows than one TMA copy has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.analysis.rings.loads import of_rank, slot_type
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, ReshapeOp
from tawa.dialects.ttg import ConvertLayoutOp, LocalAllocOp, MemDescReshapeOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, MemDescType, Module, Value, shape_of
from tawa.ir.attributes import read_bool
from tawa.ir.encodings import fields_of, kind_of
from tawa.transforms.result import PassResult

_ROWS = 256
"""The rows of one TMA copy."""


@dataclass(frozen=True, slots=True)
class ViewReshapes:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites operand A of every dot that reads such a tile."""
        changed = False
        for dot in [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op))]:
            load = _source(dot)
            type = slot_type(module, load) if load is not None else None
            flat = _flat(module, type, shape_of(dot.a)) if type is not None else None
            if load is not None and type is not None and flat is not None:
                _view(dot, load, type, flat)
                changed = True
        return PassResult(changed)


def _source(dot: WarpGroupDotOp) -> DescriptorLoadOp | None:
    """The load whose reshaped tile is operand A, if both are in one loop."""
    if not dot.a_in_registers:
        return None
    value, reshaped = dot.a, False
    while (op := value.defining_op) is not None and (ReshapeOp.matches(op) or ConvertLayoutOp.matches(op)):
        if "allow_reorder" in op.properties:
            return None
        reshaped |= ReshapeOp.matches(op)
        value = op.operands[0]
    load = DescriptorLoadOp.of(value.defining_op)
    together = load is not None and enclosing_loops(load.op)[:1] == enclosing_loops(dot.op)[:1] != []
    return load if reshaped and together else None


def _flat(module: Module, type: MemDescType, shape: tuple[int, ...]) -> MemDescType | None:
    """The type of the view; None if the slot does not hold the rows of that shape one after another."""
    rows, columns = prod(type.shape[:-1]), type.shape[-1]
    fields = fields_of(module.aliases, type.encoding)
    plain = kind_of(module.aliases, type.encoding) == "#ttg.nvmma_shared" and not read_bool(fields["transposed"])
    if not plain or shape != (rows, columns) or rows > _ROWS or len(type.shape) < 3:
        return None
    return MemDescType(shape, type.element, of_rank(module, type.encoding, 2), type.space)


def _view(dot: WarpGroupDotOp, load: DescriptorLoadOp, type: MemDescType, flat: MemDescType) -> None:
    """Replaces operand A by a view of the tile's allocation, and drops what converted it."""
    builder = Builder.after(load.op)
    held = str(MemDescType(type.shape, type.element, type.encoding, type.space))
    whole = builder.create(LocalAllocOp.NAME, (load.op.result,), (held,), hints=(load.op.result.hint,)).result
    view = builder.create(MemDescReshapeOp.NAME, (whole,), (str(flat),), hints=(load.op.result.hint,)).result
    unused: Value = dot.a
    dot.op.set_operand(WarpGroupDotOp.a.index, view)
    while (op := unused.defining_op) is not None and op is not load.op and not unused.uses:
        unused = op.operands[0]
        op.erase()
