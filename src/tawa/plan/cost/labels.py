"""The operations of a loop in words, with the variables of the source.

    p = tl.exp2(s)                          p = exp2
    acc = tl.dot(p.to(tl.float16), v, acc)  acc = truncf, acc = warp_group_dot

Every operation of a statement has the name of the variable that the statement assigns. For an operation this is the
right name; a tile that is carried to the next iteration is better known by the variable that was converted: ``p``.
"""

from __future__ import annotations

from tawa.analysis.loops.dependences import DependenceInfo
from tawa.dialects import arith, tt
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Operation

_FORMS = op_names(
    arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.UIToFPOp, tt.FpToFpOp, tt.BroadcastOp, tt.ExpandDimsOp,
    tt.ReshapeOp, tt.TransOp, tt.SplatOp, ConvertLayoutOp,
)  # fmt: skip
"""Operations that give a value another type, shape or layout."""


def label_of(graph: DependenceInfo, number: int) -> str:
    """A node in words: `result = operation`."""
    op = graph.nodes[number]
    return _label(op, op.results[0].hint if op.results else "")


def tile_label(graph: DependenceInfo, number: int) -> str:
    """The result of a node in words: that of a conversion inside of a larger statement has the name of its operand."""
    op = graph.nodes[number]
    return _label(op, _variable(op))


def _label(op: Operation, variable: str) -> str:
    name = op.name.rpartition(".")[2]
    return f"{variable} = {name}" if variable else name


def _variable(op: Operation) -> str:
    own, first = op.results[0].hint, op
    while first.name in _FORMS and isinstance(before := first.operands[0].owner, Operation):
        if first.operands[0].hint not in (own, ""):
            return first.operands[0].hint if _goes_on(op, own) else own
        first = before
    return own


def _goes_on(op: Operation, variable: str) -> bool:
    """Whether the statement of a conversion computes more with its result."""
    users = [user for user in op.results[0].users if user.results and user.results[0].hint == variable]
    return any(user.name not in _FORMS or _goes_on(user, variable) for user in users)
