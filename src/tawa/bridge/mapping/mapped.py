"""A request with a mapping becomes one with the Plan that the mapping stands for in this kernel.

Request(mapping=…)  → names and lines of the kernel's TTIR → Request(plan=…)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tawa.bridge.driver.data import Source
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_is_ours
from tawa.bridge.triton.structured import new_context, read_kernel
from tawa.errors import PlanError
from tawa.mapping.program import Program, program_of
from tawa.mapping.resolve import resolve
from tawa.mapping.shipped import is_for
from tawa.plan.agreement import check_agreement

_log = logging.getLogger("tawa")


def mapped(request: Request, source: Source) -> Request:
    """The request with its mapping resolved; raises PlanError for a name that the kernel does not have.

    Without a Plan or a mapping, the first mapping that was shipped with the kernel and is for these types is taken.
    """
    if request.mapping is None and (request.plan is not None or not request.shipped):
        return request
    program = program_of(read_kernel(source.ttir, source.context))
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


@contextmanager
def in_words() -> Iterator[None]:
    """Errors about a Plan that was a mapping are told in the words of mappings."""
    try:
        yield
    except PlanError as error:
        if type(error) is not PlanError:  # of Triton's, too: a tuner skips what runs out of resources
            raise
        raise PlanError(mapping_words(str(error))) from error


def mapping_words(text: str) -> str:
    """A message about a Plan in the words of mappings."""
    for code, word in _WORDS:
        text = re.sub(code, word, text)
    return text


_WORDS = (
    (r"\bin a Plan\b", "in a mapping"),
    (r"\bthe Plan\b", "the mapping"),
    (r"\bmma_depth=(\d+)", r"in_flight = \1"),
    (r"\bP = (\d+)", r"in_flight = \1"),
    (r"\bnum_warps=(\d+) in the mapping", r"warps = \1 in the mapping"),
    (r"\bfalse\b|=False\b", lambda found: " = false" if found[0].startswith("=") else "false"),
    (r"path='(host_descriptor|kernel_descriptor|raised)'", 'path = "tma"'),
    (r"path='raised_in_kernel'", 'path = "tma in kernel"'),
    (r"path='([\w.]+)'", r'path = "\1"'),
    (r"form='stock'", "[kernel] specialised = false"),
    (r"form='persistent'", "[kernel] persistent = true"),
    (r"form='as_written'", "[kernel] persistent = false"),
    (r"split='programs'", 'split = "programs"'),
    (r"\bsplit_k=", "programs_per_tile = "),
    (r"tile_order=", "order = "),
    (r"\bgroups=(\d+)", r"[groups] count = \1"),
    (r"early_puts=", "early_slots = "),
    (r"ping_pong=", "take_turns = "),
    (r"\b(buffers|slices|max_registers|ctas_per_sm|prefetched)=", r"\1 = "),
    (r"start from the kernel's own Plan", "start from tawa explain --emit mapping"),
    (r"\bD = (\d+)", r"ring = \1"),
)

__all__ = ["in_words", "mapped", "mapping_words", "program_of_text", "without_shipped"]
