"""What a compiled kernel says about itself to those who measure its Plans: part of the record in Triton's metadata."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tawa.analysis.loops.deciding_arguments import deciding_arguments
from tawa.analysis.memory.provenance import follows_addresses, may_run_twice, written_arguments
from tawa.bridge.driver.data import Job, Specialised
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.every_form import search_of
from tawa.bridge.driver.tuning.tuning_key import tuning_key
from tawa.bridge.launch.first.compiles import launch_is_ours, may_be_one
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import DotOp


def tuning_facts(
    source: Job,
    request: Request,
    options: Any,
    result: Specialised | None,
    annotated: bool,
) -> dict[str, Any] | None:
    """The facts as JSON data; None for a kernel that is not launched by us, or that nobody would tune.

    request: as the user made it. result: what the compile chose. annotated: whether annotations were removed.
    Only with ``mode="measure"`` the Plans to measure are listed.
    """
    if not launch_is_ours() or (result is None and DotOp.NAME not in source.ttir):
        return None
    kernel = source.program
    measure = request.options.mode == "measure"
    chosen = result.outcome.plan if result is not None else None
    asked = options.num_warps, options.num_stages, request, options.maxnreg
    search = search_of(kernel, *asked) if measure else None
    deciding = deciding_arguments(kernel.walk())
    return {
        "key": tuning_key(source.ttir, options, request),
        "sizes": [[it.index, parameter_name(kernel, it, f"argument {it.index}")] for it in deciding],
        "may_run_twice": may_run_twice(kernel),
        "writes": written_arguments(kernel),
        "follows_addresses": follows_addresses(kernel),
        "may_be_one": sorted(may_be_one()),
        "measure": measure,
        "ranked": [it.to_dict() for it in search.measured(chosen)] if search is not None else [],
        "num_warps": options.num_warps,
        "options": asdict(request.options),
        "plan": request.plan.to_dict() if request.plan is not None else None,
        "annotated": annotated,
    }
