"""The order of the rows of operands: in memory's order, or such that the next dot takes the result as it is.

Where the result of one dot is the left operand of the next, threads may have to exchange registers in each iteration,
because the two layouts differ (`tawa.analysis.layout.next_operand`). The exchange is saved if the columns of the result
stand in another order, which takes a free dimension (`tawa.analysis.dims.free_dims`) and a descriptor that loads the
rows of the first dot's operand in that order (`tawa.analysis.tma.ordered_rows`).

The order of the sums of rows between the dots changes. So it may be chosen only if the user allows another order of
sums (``precision="relaxed"``) or no sum rounds; and by the model of time, if the exchange costs more than nothing. A
Plan can ask for it in any case. For now only a Plan does (`UNASKED`): no kernel with the other order has been timed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.analysis.dims.free_dims import FreeDim, find_free_dims
from tawa.analysis.layout.next_operand import order_for_next_operand
from tawa.analysis.loops.costs import exchange_cycles
from tawa.analysis.names import Name, name_of, name_text
from tawa.analysis.tma.boxes import MAX_RANK
from tawa.analysis.tma.ordered_rows import OrderedDim, OrderedRows, RowLoad
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DotOp
from tawa.errors import PlanError
from tawa.ir import Module, Operation, ScalarType, TensorType, Value, parse_type, shape_of, source_of
from tawa.machine.machines import WGMMA
from tawa.plan.decide.paths import Launching
from tawa.plan.fields import OperandPlan, RowsOrder
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.reasons import PINNED, rows_field
from tawa.symbolic.host.launch_spec import LaunchSpec

UNASKED = False
"""Whether rows are put in another order where no Plan asks for it."""
UNTIMED = "another order saves {cycles} cycles of exchanges in each iteration, but only a Plan asks for it"
NOT_OURS = "this compile is not for a launch by Triton, so no launcher creates the descriptor for it"


@dataclass(frozen=True, slots=True)
class Orders:
    """The dimensions to order, the Plan of their loads, and the reasons, by field of the Plan."""

    ordered: tuple[OrderedDim, ...] = ()
    plan: Plan = field(default_factory=Plan)
    why: dict[str, str] = field(default_factory=dict[str, str])


def choose_orders(module: Module, options: PlanOptions, launching: Launching, launch: LaunchSpec, pins: Plan) -> Orders:
    """The order of the rows of every load of a named module. Raises PlanError if a pinned one is impossible.

    launch: what launches of the module need.
    """
    entries: list[OperandPlan] = []
    ordered: list[OrderedDim] = []
    why: dict[str, str] = {}
    rows = OrderedRows(module, launch)
    for dim in find_free_dims(module):
        bits = _operand_bits(dim)
        if not dim.loads or bits is None or order_for_next_operand(dim.size, bits, MAX_RANK) is None:
            continue
        made = _ordered(rows, dim, bits) if launching.ours else NOT_OURS
        _check(module, dim, made, pins, options)
        asked: list[RowsOrder | None] = [_asked(pins, it) for it in dim.loads]
        reason = made if isinstance(made, str) else _why_not(module, dim, asked, options)
        if isinstance(made, OrderedDim) and not reason:
            ordered.append(made)
        for load in dim.loads:
            entries.append(OperandPlan(*name_of(load), rows="in_order" if reason else "for_next_dot"))
            why[rows_field(name_of(load))] = reason or _gain(dim)
    _check_left(module, pins, frozenset(it.key for it in entries))
    return Orders(tuple(ordered), Plan(operands=tuple(it for it in entries if it.argument is not None)), why)


def _operand_bits(dim: FreeDim) -> int | None:
    """The width of the elements of the operands that the columns become; None if they differ."""
    widths = {_bits(dot.operands[DotOp.a.index]) for dot in dim.ends}
    return widths.pop() if len(widths) == 1 else None


def _bits(tile: Value) -> int | None:
    type = parse_type(tile.type)
    element = parse_type(type.element) if isinstance(type, TensorType) else None
    return element.bits if isinstance(element, ScalarType) else None


def _ordered(rows: OrderedRows, dim: FreeDim, bits: int) -> OrderedDim | str:
    """Chooses the order of a dimension. A text is the reason that it cannot have one."""
    if dim.reason:
        where = source_of(rows.module, dim.place) if dim.place is not None else None
        return f"the columns of its dot cannot stand in another order: {dim.reason}" + (f" ({where})" if where else "")
    found = [rows.find(load) for load in dim.loads]
    loads = tuple(it for it in found if isinstance(it, RowLoad))
    if len(loads) < len(found):
        return next(it for it in found if isinstance(it, str))
    order = order_for_next_operand(dim.size, bits, min(it.room for it in loads))
    if order is None:
        return f"descriptors have {MAX_RANK} dimensions at most, and none are left for it"
    return next(filter(None, (rows.why_not(it, order) for it in loads)), OrderedDim(dim, order, loads))


def _why_not(module: Module, dim: FreeDim, asked: list[RowsOrder | None], options: PlanOptions) -> str:
    """Why rows stay in order that could be in another; empty if they do not."""
    if "in_order" in asked:
        return PINNED
    if "for_next_dot" in asked and not (options.precision == "exact" and dim.rounded is not None):
        return ""
    if dim.reads:
        return f"a load through pointers runs along them{_at(module, dim.reads[0])}"
    if dim.rounded is not None and options.precision != "relaxed":
        return f"a sum along them would round differently{_at(module, dim.rounded)}; precision='relaxed' allows it"
    if min(shape_of(dot.result)[-2] for dot in (dim.first, *dim.ends)) < WGMMA.rows:
        return f"its dots have fewer than the {WGMMA.rows} rows of a wgmma"
    if not enclosing_loops(dim.first) or not _saved_cycles(dim):
        return "threads exchange nothing in a loop, as far as is known"
    return "" if UNASKED else UNTIMED.format(cycles=_saved_cycles(dim))


def _gain(dim: FreeDim) -> str:
    return f"the next dot takes the result as it is: {_saved_cycles(dim)} cycles of exchanges less in each iteration"


def _saved_cycles(dim: FreeDim) -> int:
    """Cycles of the exchanges of one iteration."""
    operands = dict.fromkeys(dot.operands[DotOp.a.index] for dot in dim.ends)
    return sum(exchange_cycles(it.type) for it in operands)


# -- what is pinned ----------------------------------------------------------------------------------------------------


def _asked(pins: Plan, load: Operation) -> RowsOrder | None:
    return pins.operand(name_of(load)).rows


def _own(pins: Plan, name: Name) -> RowsOrder | None:
    """What the Plan says of this load alone."""
    return next((it.rows for it in pins.operands if it.key == name), None)


def _check(module: Module, dim: FreeDim, made: OrderedDim | str, pins: Plan, options: PlanOptions) -> None:
    """Raises PlanError if the rows of a load cannot have the order that the Plan says."""
    load = next((it for it in dim.loads if _own(pins, name_of(it)) == "for_next_dot"), None)
    if load is None:
        return
    if isinstance(made, str):
        raise _impossible(module, load, made)
    if options.precision == "exact" and dim.rounded is not None:
        reason = f"precision='exact' keeps the order of the sum along them{_at(module, dim.rounded)}"
        raise _impossible(module, load, reason)
    other = next((it for it in dim.loads if _asked(pins, it) == "in_order"), None)
    if other is not None:
        raise _impossible(module, load, f"{name_text(name_of(other))} feeds the same dot, and keeps its order")


def _check_left(module: Module, pins: Plan, known: frozenset[Name]) -> None:
    """Raises PlanError if the Plan orders the rows of a load for which there is nothing to order."""
    for op in module.walk():
        name = name_of(op)
        if name not in known and name[0] is not None and _own(pins, name) == "for_next_dot":
            reason = "no dot of its rows has a result that threads exchange to make it the left operand of another dot"
            raise _impossible(module, op, reason)


def _impossible(module: Module, load: Operation, reason: str) -> PlanError:
    return PlanError(
        f"the Plan orders the rows of {name_text(name_of(load))}{_at(module, load)} for the next dot: {reason}; "
        "cure: rows='in_order'"
    )


def _at(module: Module, op: Operation) -> str:
    where = source_of(module, op)
    return f" ({where})" if where else ""
