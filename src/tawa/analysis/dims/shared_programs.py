"""Shared programs: the axis of the grid along which neighbouring programs load the same tiles.

    %m = program_id x; %h = program_id y
    for %n … { load K[%h, %n]; load V[%h, %n] }   →   axis x: K and V do not depend on it

Trip counts of innermost loops may depend on the program id (`tawa.transforms.partition.share_streams`), branches and
loops around other loops may not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.dims.dependents import dependent_values, diverges
from tawa.declines import PROGRAMS
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.effects import is_bound_to_its_program
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, FuncOp, GetProgramIdOp, LoadOp
from tawa.ir import Module, Operation, TensorType, parse_type, source_of
from tawa.ir.attributes import read_int
from tawa.remarks import Remark
from tawa.symbolic.words import word_of

_AXES = 3


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """axis: of the grid. shared_bytes: of the tiles in loops that programs along it share."""

    axis: int
    shared_bytes: int


def find_shared(module: Module) -> SharedInfo | Remark:
    """Finds the axis along which programs share the most bytes of tiles in loops. A Remark says why there is none."""
    function = structured_kernel(module)
    if function is None:
        return PROGRAMS.remark(why="the kernel has more than one function, or branches between blocks")
    for op in function.op.walk():
        if is_bound_to_its_program(op):
            reason = f"{word_of(op)} may give programs an order, and programs of one CTA wait for each other"
            return PROGRAMS.remark(source_of(module, op), why=reason)
    found = [SharedInfo(axis, _shared_bytes(function, axis)) for axis in range(_AXES)]
    best = max(found, key=lambda it: it.shared_bytes)  # the first of several
    if not best.shared_bytes:
        reason = "no axis of the grid along which programs load the same tiles in loops"
        return PROGRAMS.remark(source_of(module, function.op), why=reason)
    return best


def _shared_bytes(function: FuncOp, axis: int) -> int:
    """Bytes of one iteration of each loop whose tiles do not depend on the program id along an axis that is read."""

    def is_id(op: Operation) -> bool:
        query = GetProgramIdOp.of(op)
        return query is not None and read_int(op.properties["axis"]) == axis

    dependent = dependent_values(function.body, is_id)
    if not dependent:
        return 0
    total = 0
    for op in function.op.walk():
        if not (DescriptorLoadOp.matches(op) or LoadOp.matches(op)) or not enclosing_loops(op):
            continue
        innermost = enclosing_loops(op)[0]
        around = [outer for outer in op.ancestors() if outer is not function.op]
        around = [outer for outer in around if outer is not innermost or not ForOp.matches(outer)]
        if any(value in dependent for value in op.operands) or any(diverges(it, dependent) for it in around):
            continue
        tile = parse_type(op.result.type)
        total += tile.bytes if isinstance(tile, TensorType) else 0
    return total
