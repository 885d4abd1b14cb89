"""A request with a mapping becomes one with the Plan that the mapping stands for in this kernel.

Request(mapping=…)  → names and lines of the kernel's TTIR → Request(plan=…)
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tawa.bridge.driver.data import Source
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_is_ours
from tawa.bridge.mapping.told import Told
from tawa.bridge.triton.structured import new_context, read_kernel
from tawa.mapping.program import Program, program_of
from tawa.mapping.resolve import resolve
from tawa.mapping.shipped import is_for
from tawa.plan.agreement import check_agreement

_log = logging.getLogger("tawa")


def mapped(request: Request, source: Source, told: Told | None = None) -> Request:
    """The request with its mapping resolved; raises PlanError for a name that the kernel does not have.

    told: gets the names, for errors that come later.
    Without a Plan or a mapping, the first mapping that was shipped with the kernel and is for these types is taken.
    """
    if request.mapping is None and (request.plan is not None or not request.shipped):
        return request
    program = program_of(read_kernel(source.ttir, source.context))
    if told is not None:
        told.program = program
    if request.mapping is None:
        found = next((it for it in request.shipped if is_for(it, program)), None)
        if found is None:
            return replace(request, shipped=())
        request = replace(request, mapping=found)
    assert request.mapping is not None
    plan = resolve(request.mapping, program, launch_is_ours())
    check_agreement(request.options, plan)
    return replace(request, plan=plan, mapping=None, shipped=())


def without_shipped(request: Request, kernel: str, error: Exception) -> Request:
    """The request without mappings that were shipped, one of which cannot be carried out."""
    files = ", ".join(it.source for it in request.shipped)
    _log.warning("%s: a mapping beside the kernel is left out (%s): %s", kernel, files, error)
    return replace(request, shipped=())


def program_of_text(ttir: str) -> Program:
    """The names of a kernel that was compiled, from its text."""
    return program_of(read_kernel(ttir, new_context()))


__all__ = ["mapped", "program_of_text", "without_shipped"]
