"""Raising a kernel's pointer loads to TMA, before Triton lays anything out.

```
TTIR -Triton, generic form-> IR -RaiseLoads-> IR -text-> TTIR with descriptors
```

Descriptors become added arguments where the launch is ours (`added_arguments.py`); elsewhere the kernel makes them.
That costs each CTA a few microseconds, so it is left out, unless the user names it, where a CTA has little work: one
tile of a GEMM (`bench/results/pointers.json`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tawa.analysis.chained_dots import has_chained_dots
from tawa.analysis.launch_choice import work_text
from tawa.analysis.launch_values import LEAST_CYCLES, LaunchSpec
from tawa.analysis.launch_work import launch_work, rows_outlast_dots
from tawa.analysis.loads import find_dots
from tawa.analysis.raises import find_raises
from tawa.analysis.unit_strides import find_unit_strides
from tawa.bridge.added_arguments import launch_is_ours, may_be_one
from tawa.bridge.generic_print import read_ttir
from tawa.bridge.versions import RESPELLED_FROM, triton_version
from tawa.dialects.scf import enclosing_loops
from tawa.ir import Module, print_module
from tawa.plan import PlanOptions
from tawa.plan.planner import StockCopies
from tawa.remarks import Remark
from tawa.transforms.raise_loads import RaiseLoads
from tawa.transforms.unit_strides import AssumeUnitStrides

_TILE_OF_POINTERS = re.compile(r"tt\.load(?: .*: |\".*: \()tensor<")  # in either form of the text


_TOO_DEAR = (
    "loads stay with pointers: this compile is not for a launch of Triton's own, so the kernel would have to make its "
    "TMA descriptors itself, which costs more than they bring where a program computes one tile"
)


_SHORT = "launches that an SM is done with in less than {} cycles are left to the stock kernel; a program takes {}"


@dataclass(frozen=True, slots=True)
class Raised:
    """TTIR (generic form) in which `count` pointer loads are TMA loads; what a launch needs; remarks on every load.

    stock_copies: how stock Triton brings those tiles.
    """

    ttir: str
    launch: LaunchSpec
    remarks: tuple[Remark, ...]
    count: int
    stock_copies: StockCopies = "rows"


def raise_loads(ttir: str, context: Any, options: PlanOptions) -> Raised | None:
    """Raises what can be raised; None where no tile is loaded through pointers, or TMA is not wanted.

    ttir: the kernel as Triton's text, in any form.
    """
    if options.pointer_loads == "cp.async" or not _TILE_OF_POINTERS.search(ttir):
        return None
    module = read_ttir(ttir, context)
    make = "host" if launch_is_ours() else "kernel"
    may_make = bool(options.wherever_legal or options.pointer_loads or _is_long(module))
    if make == "kernel" and not may_make:
        return Raised(ttir, LaunchSpec(), (Remark("note", _TOO_DEAR),), 0)
    nested = triton_version()[:2] < RESPELLED_FROM
    units = AssumeUnitStrides(find_unit_strides(module, may_be_one())).run(module).conditions
    raises = find_raises(module, make, nested, tables=may_make, in_turn=options.persistent is True)
    result = RaiseLoads(raises).run(module)
    launch = replace(result.launch, conditions=(*units, *result.launch.conditions)) if result.raised else result.launch
    by_element = bool(units)  # then each launch pays
    if result.raised and make == "host" and not (options.wherever_legal or options.persistent or by_element):
        launch = replace(launch, work=launch_work(module), alone=rows_outlast_dots(module, launch.descriptors))
    short = [Remark("done", _SHORT.format(LEAST_CYCLES, work_text(launch)))] if launch.work else []
    text = print_module(module) if result.raised else ttir
    taken = [Remark("done", f"taken for granted: {'; '.join(result.taken)}")] if result.taken else []
    copies: StockCopies = "elements" if by_element else "rows"
    return Raised(text, launch, (*result.remarks, *taken, *short), result.raised, copies)


def _is_long(module: Module) -> bool:
    """Whether a program has much work for each descriptor: dots that work on each other's results, or many tiles."""
    depths = [len(enclosing_loops(dot)) for dot in find_dots(module)]
    return has_chained_dots(module) or max(depths, default=0) > 1
