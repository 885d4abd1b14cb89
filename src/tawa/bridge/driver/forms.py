"""The forms of a kernel, with layouts: the TTIR pass lists, then Triton's front half.

```
TTIR -Triton, generic form-> IR -structured, FORMS-> IR -text-> TTIR -Triton's front half, warps of one group-> TTGIR
```

Where the rows of the tile are split among consumer groups, the group's number stays a marker in the result
(`tawa.dialects.tt.GroupIndexOp`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tawa.bridge.driver.data import Source, Toolchain, Worksheet
from tawa.bridge.driver.stock_run import stock_failure
from tawa.bridge.triton.generic_print import parse_module, print_generic
from tawa.dialects.builtin import BranchOp, CondBranchOp
from tawa.dialects.declare.declaration import op_names
from tawa.flow import Flow, run
from tawa.ir import print_module
from tawa.pipeline import FORMS
from tawa.remarks import Remark

JUMPS = op_names(BranchOp, CondBranchOp)
"""Operations of a kernel that is not structured."""


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


__all__ = ["JUMPS", "front_half", "lay_out", "shared_front_half"]
