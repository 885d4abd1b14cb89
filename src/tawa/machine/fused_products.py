"""The products that LLVM rounds together with a sum: ``fma`` in place of ``mul`` and ``add``.

    %p = mulf %a, %b;  %t = broadcast %p;  %c = convert %t;  %s = addf %x, %c

A product reaches the sum through operations that round nothing, and through a conversion of layouts that only renames
registers. Shared memory and shuffles stop it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tawa.dialects import tt
from tawa.dialects.arith import MulFOp
from tawa.dialects.control_flow import incoming
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.rounding import RESIZED, UNROUNDED
from tawa.dialects.scf import IfOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Operation, Value
from tawa.machine.distribution import renames

DIRECT, SPREAD, CONVERTED, CARRIED = "direct", "spread", "converted", "carried"
"""On its way to the sum, a product is repeated for several elements, changes its type or its layout, or is carried from
one iteration to the next; `DIRECT`: nothing of this."""
_REPEATED = op_names(tt.BroadcastOp, tt.SplatOp)


def products_of(value: Value) -> list[Operation]:
    """The products that a sum with this value is rounded together with, as far as no conversion is between them."""
    return list(dict.fromkeys(op for op, way in _products(value) if way in (DIRECT, SPREAD)))


def ways_of_products(value: Value) -> frozenset[str]:
    """The ways on which products may reach a sum with this value; empty if none does.

    LLVM does not fuse across the blocks of a branch. It may unroll a loop, so that the product of one iteration is in
    the same block as the sum of the next.
    """
    return frozenset(way for _, way in _products(value))


def _products(value: Value) -> Iterator[tuple[Operation, str]]:
    seen, work = set[tuple[Value, str]](), [(value, DIRECT)]
    while work:
        it, way = work.pop()
        op = it.defining_op
        if (it, way) in seen:
            continue
        seen.add((it, way))
        if op is not None and MulFOp.matches(op):
            yield op, way
        elif op is not None and op.name in UNROUNDED:
            further = SPREAD if way == DIRECT and op.name in _REPEATED else way
            work += [(operand, further) for operand in op.operands]
        elif op is not None and (op.name in RESIZED or (ConvertLayoutOp.matches(op) and renames(op))):
            work.append((op.operands[0], CARRIED if way == CARRIED else CONVERTED))
        elif op is None or not IfOp.matches(op):
            work += [(use.value, CARRIED) for use in incoming(it)]
