"""The forms of a kernel, with layouts: the TTIR pass lists, then Triton's front half.

```
TTIR -Triton, generic form-> IR -structured, FORMS-> IR -text-> TTIR -Triton's front half, warps of one group-> TTGIR
```

Where the rows of the tile are split among consumer groups, the group's number stays a marker in the result
(`tawa.dialects.inline.markers.GroupIndexOp`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tawa.analysis.loops.running_sums import running_sums
from tawa.analysis.names import name_module
from tawa.bridge.driver.back_end import LaidOut
from tawa.bridge.driver.data import Source, Toolchain, Worksheet
from tawa.bridge.driver.stock_run import stock_failure
from tawa.bridge.triton.generic_print import parse_module, print_generic
from tawa.dialects.builtin import BranchOp, CondBranchOp, ModuleOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import DotOp
from tawa.flow import Flow, run
from tawa.ir import Module, Operation, copy_module, print_module
from tawa.pipeline import FORMS
from tawa.plan import OperandPlan, Plan
from tawa.plan.decide.orders import Orders, choose_orders
from tawa.plan.decide.paths import Launching
from tawa.plan.decide.sums import sums_late
from tawa.plan.options import PlanOptions
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec

JUMPS = op_names(BranchOp, CondBranchOp)
"""Operations of a kernel that is not structured."""
FOR_ALL = (None, None, 0)
"""The key of the entry of a Plan that holds for all operands."""
_NO_MODULE = Module(Operation(ModuleOp.NAME))
"""Placeholder for a kernel that goes to Triton's front half unchanged."""


def lay_out(tools: Toolchain, source: Source, flow: Flow, sheet: Worksheet) -> str | Remark:
    """The kernel of a flow in the form that its Plan asks for, with layouts: generic text before Triton's pipeliner.

    The flow's Plan, target and launch then describe that form. Returns a remark if there is no such form. Raises as
    `front_half` does.
    """
    with sheet.timed("forms"):
        refusal = run(flow, FORMS)
        if refusal is not None:
            return refusal
        text = print_module(flow.module)
    with sheet.timed("copy"):
        mod = parse_module(text, source.context)
    return front_half(tools, source, mod, sheet, flow.target.num_warps)


def front_half(tools: Toolchain, source: Source, mod: Any, sheet: Worksheet, num_warps: int | None = None) -> str:
    """Runs Triton's front half on a form of a kernel, in place; returns generic text.

    source: the original kernel; its metadata are not changed. num_warps: None for those of the launch.
    Raises StockFailure if Triton refuses the original kernel too; else the fault is ours, and the error passes through.
    """
    options = tools.options if num_warps is None else replace(tools.options, num_warps=num_warps)
    with sheet.timed("front", ours=False):
        try:
            tools.split.front(mod, dict(source.metadata), options, tools.capability)
        except Exception as error:
            _blame(tools, source, error)
    with sheet.timed("print"):
        sheet.texts["ttgir"] = print_generic(mod)
    return sheet.texts["ttgir"]


def shared_front_half(tools: Toolchain, sheet: Worksheet) -> str:
    """The kernel as written, with layouts: as `front_half`, but run once for this and the stock kernel."""
    with sheet.timed("stock front", ours=False):
        mod = tools.stock.front(tools.split, tools.capability)
    with sheet.timed("print"):
        sheet.texts["ttgir"] = print_generic(mod)
    return sheet.texts["ttgir"]


def _blame(tools: Toolchain, source: Source, error: Exception) -> None:
    mod = parse_module(source.ttir, source.context)
    try:
        tools.split.front(mod, dict(source.metadata), tools.options, tools.capability)
    except Exception as own:
        raise stock_failure(own) from own
    raise error


@dataclass
class Forms:
    """The forms of one kernel; each is laid out once.

    options: of the request. pins: the Plan that the user pinned. kernel: as it is written, structured. paths: the same
    with pointer accesses raised to TMA; None if none are. operations: how often each operation occurs in the kernel.
    flow_of: the flow of a module with a Plan, before the first pass.
    """

    tools: Toolchain
    source: Source
    sheet: Worksheet
    options: PlanOptions
    launching: Launching
    pins: Plan
    kernel: Module
    paths: Flow | None
    operations: Mapping[str, int]
    flow_of: Callable[[Module, Plan], Flow]
    made: dict[Any, LaidOut] = field(default_factory=dict[Any, LaidOut])

    def of(self, plan: Plan) -> LaidOut:
        """The form of the kernel that a Plan asks for, with layouts; each is made once."""
        left = plan.operand(FOR_ALL).path == "pointers" and self.pins.operand(FOR_ALL).path is None
        raised = self._raised is not None and not left
        key = raised, plan.form, plan.groups or 1, plan.split, plan.operand(FOR_ALL).rows
        if key not in self.made:
            self.made[key] = self._lay_out(self._raised if raised else None, plan)
        return self.made[key]

    @property
    def _raised(self) -> Flow | None:
        """The kernel with raised accesses, if there are any."""
        return self.paths if self.paths is not None and self.paths.raised > 0 else None

    def _lay_out(self, base: Flow | None, plan: Plan) -> LaidOut:
        """Runs the TTIR lists and Triton's front half for one form. base: the kernel with raised loads, or None."""
        pins = replace(base.plan if base else self.pins, form=plan.form, groups=plan.groups or 1, split=plan.split)
        rows = plan.operand(FOR_ALL).rows
        if rows is not None:
            pins = pins.over(Plan(operands=(OperandPlan(rows=rows),)))
        changed = base is not None or pins.another_form or bool(JUMPS & set(self.operations))
        changed = changed or self._sums_move() or (bool(self.orders.ordered) and rows != "in_order")
        if not changed:
            flow = self.flow_of(_NO_MODULE, self.orders.plan.over(pins))
            flow.why |= self.orders.why
            return LaidOut(self._as_written(flow.target.num_warps), flow)
        with self.sheet.timed("forms"):
            flow = self.flow_of(copy_module(base.module if base else self.kernel), pins)
        if base is not None:
            flow.target, flow.launch, flow.remarks, flow.raised = base.target, base.launch, base.remarks, base.raised
        text = lay_out(self.tools, self.source, flow, self.sheet)
        return LaidOut(text, flow) if isinstance(text, str) else LaidOut("", flow, text)

    def _sums_move(self) -> bool:
        """Whether the sums of the kernel as written are to be moved behind their loops."""
        wanted = sums_late(self.pins, self.options)
        return wanted and (self.pins.sums is not None or bool(running_sums(self.kernel)))

    @cached_property
    def orders(self) -> Orders:
        """The order of the rows of operands in the kernel as written, or with raised loads."""
        asked = any(it.rows == "for_next_dot" for it in self.pins.operands)
        if self.operations.get(DotOp.NAME, 0) < 2 and not asked:
            return Orders()
        base = self._raised.module if self._raised is not None else self.kernel
        launch = self.paths.launch if self.paths is not None else LaunchSpec()
        with self.sheet.timed("order rows"):
            kernel = copy_module(base)
            name_module(kernel)
            return choose_orders(kernel, self.options, self.launching, launch, self.pins)

    def _as_written(self, num_warps: int) -> str:
        """The kernel as Triton hands it down, with layouts for this many warps."""
        launched = num_warps == self.tools.options.num_warps
        if launched and self.tools.stock.module is not None and self.tools.stock.unused:
            return shared_front_half(self.tools, self.sheet)
        mod = parse_module(self.source.ttir, self.source.context)
        return front_half(self.tools, self.source, mod, self.sheet, num_warps)


__all__ = ["FOR_ALL", "JUMPS", "Forms", "front_half", "lay_out", "shared_front_half"]
