"""The search of measurements: among all forms of a kernel, also those that predictions do not choose."""

from __future__ import annotations

from dataclasses import replace

from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launch_is_ours, may_be_one
from tawa.bridge.triton.versions import nested_descriptors
from tawa.flow import Flow, run
from tawa.ir import Module, copy_module
from tawa.pipeline import KERNEL, PATHS
from tawa.plan import Plan
from tawa.plan.decide.paths import Launching
from tawa.plan.options import PlanOptions
from tawa.plan.search.search import Search
from tawa.plan.search.space import Space

_ANYTHING = Request()


def search_of(
    kernel: Module, num_warps: int, num_stages: int, request: Request = _ANYTHING, max_registers: int | None = None
) -> Search | None:
    """The search of a kernel; None if its control flow is not structured.

    kernel: TTIR. num_warps, num_stages, max_registers (``maxnreg``): of the launch. request: what the user decided
    stands in every Plan.
    """
    launching = Launching(launch_is_ours(), may_be_one(), nested_descriptors())
    options = PlanOptions(only_if_faster=False)
    flow = Flow(copy_module(kernel), options=options, launching=launching)
    run(flow, KERNEL)
    structured = copy_module(flow.module)
    promoted = flow.promoted if run(flow, PATHS) is None else 0
    launch = num_warps, num_stages, max_registers
    space = Space.of(structured, promoted, launch, options, launching.ours, measured=True)
    if space is None:
        return None
    return replace(Search.of(space, request.plan or Plan(), request.options), stock=not request.pinned)
