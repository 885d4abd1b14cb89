"""Who transposes the tiles that wgmma cannot read as they are stored: the consumers, in registers, or a converter.

Automatic mode leaves it to the consumers: a converter has been faster for short loops only. A Plan asks for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tawa.analysis.dims.dependents import dependent_values
from tawa.analysis.names import name_of, name_text
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.analysis.rings.transposed import TransposedInfo, find_transposed, free_order
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.tt import FuncOp
from tawa.errors import PlanError
from tawa.ir import Module, source_of
from tawa.plan.fields import OperandPlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan

_REGISTERS = "cure: transposed='registers', or leave it out"


def transposed_loads(
    module: Module, loads: Sequence[DotLoadInfo], plan: Plan, options: PlanOptions, groups: int
) -> list[DotLoadInfo]:
    """The loads of the producer, with how a converter transposes those for which the Plan asks for one.

    Raises PlanError for a tile that no converter can transpose, or not in the order that the Plan asks for.
    """
    found: list[DotLoadInfo] = []
    for info in loads:
        asked = plan.operand(name_of(info.load.op))
        transposed = find_transposed(module, info.load, info.payload) if asked.transposed == "converter" else ""
        if isinstance(transposed, TransposedInfo):
            _check(module, info, plan, groups)
            transposed = _ordered(module, info, transposed, asked, options)
            info = replace(info, transposed=transposed, allocations=())
        elif transposed and any(it.key == name_of(info.load.op) and it.transposed for it in plan.operands):
            raise PlanError(f"the Plan transposes {_text(module, info)} by a converter, but {transposed}; {_REGISTERS}")
        elif asked.reordered and asked.transposed != "converter":
            raise PlanError(
                f"the Plan reorders {_text(module, info)}, but only a converter does that; cure: transposed='converter'"
            )
        found.append(info)
    return found


def transposed_entry(module: Module, info: DotLoadInfo) -> OperandPlan:
    """How a tile is transposed, in a Plan; all fields are open for a tile that dots read as it is stored."""
    if info.transposed:
        return OperandPlan(*name_of(info.load.op), transposed="converter", reordered=info.transposed.reordered)
    if isinstance(find_transposed(module, info.load, info.payload), TransposedInfo):
        return OperandPlan(*name_of(info.load.op), transposed="registers")
    return OperandPlan(*name_of(info.load.op))


def _ordered(
    module: Module, info: DotLoadInfo, transposed: TransposedInfo, asked: OperandPlan, options: PlanOptions
) -> TransposedInfo:
    """The tile in the order that the Plan asks for, or in the free one where no sum changes or the user allows it.

    Within one wgmma the order of a sum is not documented, so another order may change its rounding.
    """
    free = free_order(transposed)
    if asked.reordered and free is None:
        raise PlanError(
            f"the Plan reorders the summed dimension of {_text(module, info)}, but its dots do not take their left "
            "operands from the result of another dot; cure: reordered=false, or leave it out"
        )
    exact = transposed.payload.element.startswith("i")
    wanted = asked.reordered if asked.reordered is not None else exact or options.precision == "relaxed"
    return replace(transposed, order=free) if wanted and free is not None else transposed


def _check(module: Module, info: DotLoadInfo, plan: Plan, groups: int) -> None:
    """Raises PlanError if the converter would have to know the consumer groups."""
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    if groups > 1 and plan.split == "programs":
        raise PlanError(
            f"the Plan transposes {_text(module, info)} by a converter and splits the grid, whose programs may have "
            f"different trip counts; {_REGISTERS}"
        )
    own = dependent_values(function.body, lambda op: GroupIndexOp.of(op) is not None)
    if any(operand in own for operand in info.load.op.operands):
        raise PlanError(
            f"the Plan transposes {_text(module, info)} by a converter, but each consumer group has a tile of its own; "
            f"{_REGISTERS}"
        )


def _text(module: Module, info: DotLoadInfo) -> str:
    where = source_of(module, info.load.op)
    return name_text(name_of(info.load.op)) + (f" ({where})" if where else "")
