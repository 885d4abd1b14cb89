"""The forms of a kernel, with layouts: the TTIR pass lists, then Triton's front half.

```
TTIR -Triton, generic form-> IR -structured, FORMS-> IR -text-> TTIR -Triton's front half, warps of one group-> TTGIR
```

Where the rows of the tile are split among consumer groups, the group's number stays a marker in the result
(`tawa.dialects.inline.markers.GroupIndexOp`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tawa.bridge.driver.data import Job
from tawa.bridge.driver.stock_run import stock_failure
from tawa.bridge.triton.generic_print import parse_module, print_generic
from tawa.dialects.arith import CmpIOp
from tawa.dialects.builtin import BranchOp, CondBranchOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.tt import LoadOp
from tawa.flow import Flow, run
from tawa.ir import Module, copy_module, print_module
from tawa.pipeline import FORMS
from tawa.plan import Plan
from tawa.remarks import Remark

JUMPS = op_names(BranchOp, CondBranchOp)
"""Operations of a kernel that is not structured."""
FOR_ALL = (None, None, 0)
"""The key of the entry of a Plan that holds for all operands."""


def lay_out(job: Job, flow: Flow) -> str | Remark:
    """The kernel of a flow in the form that its Plan asks for, with layouts: generic text before Triton's pipeliner.

    The flow's Plan, target and launch then describe that form. Returns a remark if there is no such form. Raises as
    `front_half` does.
    """
    with job.timed("forms"):
        refusal = run(flow, FORMS)
    return refusal or laid_out(job, flow)


def laid_out(job: Job, flow: Flow) -> str:
    """The kernel of a flow after the list `FORMS`, with layouts."""
    with job.timed("copy"):
        mod = parse_module(print_module(flow.module), job.context)
    return front_half(job, mod, flow.target.num_warps)


def front_half(job: Job, mod: Any, num_warps: int | None = None) -> str:
    """Runs Triton's front half on a form of a kernel, in place; returns generic text.

    job: its metadata are not changed. num_warps: None for those of the launch.
    Raises StockFailure if Triton refuses the original kernel too; else the fault is ours, and the error passes through.
    """
    options = job.options if num_warps is None else replace(job.options, num_warps=num_warps)
    with job.timed("front", ours=False):
        try:
            job.parts.front(mod, dict(job.metadata), options, job.capability)
        except Exception as error:
            _blame(job, error)
    with job.timed("print"):
        job.texts["ttgir"] = print_generic(mod)
    return job.texts["ttgir"]


def shared_front_half(job: Job) -> str:
    """The kernel as written, with layouts: as `front_half`, but run once for this and the stock kernel."""
    with job.timed("stock front", ours=False):
        mod = job.stock.front(job.parts, job.capability)
    with job.timed("print"):
        job.texts["ttgir"] = print_generic(mod)
    return job.texts["ttgir"]


def _blame(job: Job, error: Exception) -> None:
    mod = parse_module(job.ttir, job.context)
    try:
        job.parts.front(mod, dict(job.metadata), job.options, job.capability)
    except Exception as own:
        raise stock_failure(own) from own
    raise error


@dataclass
class Forms:
    """The forms of one kernel; each is laid out once.

    pins: the Plan that the user pinned. kernel: as it is written, structured. paths: the same
    with pointer accesses promoted to TMA; None if none are. operations: how often each operation occurs in the kernel.
    flow_of: the flow of a module with a Plan, before the first pass.
    """

    job: Job
    pins: Plan
    kernel: Module
    paths: Flow | None
    operations: Mapping[str, int]
    flow_of: Callable[[Module, Plan], Flow]
    made: dict[Any, Flow] = field(default_factory=dict[Any, Flow])

    def of(self, plan: Plan) -> Flow:
        """The form of the kernel that a Plan asks for, with layouts; each is made once."""
        left = plan.operand(FOR_ALL).path == "pointers" and self.pins.operand(FOR_ALL).path is None
        promoted = self._promoted is not None and not left
        key = promoted, plan.form, plan.groups or 1, plan.split
        if key not in self.made:
            self.made[key] = self._lay_out(self._promoted if promoted else None, plan)
        return self.made[key]

    @cached_property
    def folded(self) -> bool:
        """Whether the kernel has lost branches that are always or never taken, comparisons before them, or loads."""
        left = Counter(op.name for op in self.kernel.walk())
        return any(left[name] < self.operations.get(name, 0) for name in (CmpIOp.NAME, LoadOp.NAME))

    @property
    def _promoted(self) -> Flow | None:
        """The kernel with promoted accesses, if there are any."""
        return self.paths if self.paths is not None and self.paths.promoted > 0 else None

    def _lay_out(self, base: Flow | None, plan: Plan) -> Flow:
        """Runs the TTIR lists and Triton's front half for one form. base: the kernel with promoted loads, or None."""
        pins = replace(base.plan if base else self.pins, form=plan.form, groups=plan.groups or 1, split=plan.split)
        with self.job.timed("forms"):
            flow = self.flow_of(copy_module(base.module if base else self.kernel), pins)
            if base is not None:
                flow.target, flow.launch = base.target, base.launch
                flow.remarks, flow.promoted = base.remarks, base.promoted
            flow.changed = base is not None or self.folded or bool(JUMPS & set(self.operations))
            refusal = run(flow, FORMS)
        if refusal is not None:
            flow.refusal = refusal
        else:
            flow.text = laid_out(self.job, flow) if flow.changed else self.as_written(flow.target.num_warps)
        return flow

    def unpartitioned(self, num_warps: int) -> str:
        """The kernel with layouts: as Triton hands it down, unless conditions were folded."""
        if not self.folded:
            return self.as_written(num_warps)
        with self.job.timed("copy"):
            mod = parse_module(print_module(self.kernel), self.job.context)
        return front_half(self.job, mod, num_warps)

    def as_written(self, num_warps: int) -> str:
        """The kernel as Triton hands it down, with layouts for this many warps."""
        launched = num_warps == self.job.options.num_warps
        if launched and self.job.stock.module is not None and self.job.stock.unused:
            return shared_front_half(self.job)
        mod = parse_module(self.job.ttir, self.job.context)
        return front_half(self.job, mod, num_warps)
