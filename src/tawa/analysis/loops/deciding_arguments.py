"""Deciding arguments: the integer arguments of a kernel that trip counts and branches depend on; axes of the grid, too.

    for k in range(0, K, BK): …                 K
    if pid_m * BM >= M: return                  M, beside what the rest depends on
    a_ptr + rows * stride_am, mask=rows < N     neither: these change addresses, not the amount of work

Two launches whose deciding arguments and grids are about equal do about the same work. What a loop reads from memory to
find its bounds (the lengths of sequences) is not known to a launch; the arguments that lead there are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from tawa.dialects.builtin import CondBranchOp
from tawa.dialects.control_flow import deciding
from tawa.dialects.effects import is_pure
from tawa.dialects.tt import FuncOp, GetProgramIdOp
from tawa.ir import Operation, Value, parse_type
from tawa.ir.types import ScalarType
from tawa.symbolic.origins import Origins, origins_of


def deciding_arguments(operations: Iterable[Operation]) -> list[Value]:
    """These arguments of the kernel's function, in its order. operations: all of TTIR."""
    found = _origins(operations).arguments
    return sorted((it for it in found if _is_integer(it)), key=lambda it: it.index)


def deciding_axes(function: FuncOp) -> tuple[int, ...]:
    """The axes of the grid on which it depends how often programs execute which blocks. function: structured TTIR."""
    ids = (GetProgramIdOp.of(op) for op in _origins(function.op.walk()).operations)
    return tuple(sorted({it.axis for it in ids if it is not None}))


def _origins(operations: Iterable[Operation]) -> Origins:
    every = list(operations)
    values = [use.value for op in every for use in deciding(op)]
    values += [op.operands[0] for op in every if CondBranchOp.matches(op)]
    return origins_of(values, decisions=True, follow=_computes)


def _is_integer(value: Value) -> bool:
    kind = parse_type(value.type)
    return isinstance(kind, ScalarType) and kind.name.startswith("i")


def _computes(op: Operation) -> bool:
    """Whether an operation computes its result from its operands alone; a load gets it from memory."""
    return is_pure(op)
