"""Forms of a kernel with layouts: what the lists for TTIR make of it, through Triton's front half.

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
from tawa.bridge.triton.generic_print import parse_module, print_generic, read_ttir
from tawa.dialects.builtin import BranchOp, CondBranchOp
from tawa.dialects.declaration import op_names
from tawa.flow import Flow, run
from tawa.ir import Module, print_module
from tawa.pipeline import FORMS, PATHS
from tawa.remarks import Remark

JUMPS = op_names(BranchOp, CondBranchOp)
"""Operations of a kernel that is not structured."""


def read_kernel(ttir: str, context: Any) -> Module:
    """The kernel as a module of ours, with branches in the place of jumps where that can be.

    ttir: the kernel as Triton's text, in any form.
    """
    module = read_ttir(ttir, context)
    run(Flow(module), PATHS, until="StructureFlow")
    return module


def lay_out(tools: Toolchain, source: Source, flow: Flow, sheet: Worksheet) -> str | Remark:
    """The kernel of a flow in the form that its Plan asks for, with layouts: generic text before Triton's pipeliner.

    The flow's Plan, target and launch then say what that form is. Returns the remark that declines where there is no
    such form. Raises as `front_half` does.
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
    """Triton's front half on a form of a kernel, which it changes in place; returns generic text.

    source: the kernel as it was; its metadata stay as they are. num_warps: those of the launch where None.
    Raises StockFailure where Triton refuses the kernel as it was, too, and what the front half raises for a fault of
    ours.
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


def _blame(tools: Toolchain, source: Source, error: Exception) -> None:
    mod = parse_module(source.ttir, source.context)
    try:
        tools.split.front(mod, dict(source.metadata), tools.options, tools.capability)
    except Exception as own:
        raise stock_failure(own) from own
    raise error


__all__ = ["JUMPS", "front_half", "lay_out", "read_kernel"]
