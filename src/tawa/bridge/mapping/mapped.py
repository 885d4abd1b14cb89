"""A request with a mapping becomes one with the Plan that the mapping stands for in this kernel.

Request(mapping=…)  → names and lines of the kernel's TTIR → Request(plan=…)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tawa.bridge.driver.data import Job
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launch_is_ours
from tawa.bridge.mapping.beside import shipped_with
from tawa.bridge.mapping.told import Told
from tawa.bridge.triton.structured import new_context, read_kernel, structured
from tawa.errors import PlanError
from tawa.ir import copy_module
from tawa.mapping import Mapping
from tawa.mapping.deciding import deciding_words
from tawa.mapping.program import Program, program_of
from tawa.mapping.resolve import resolve
from tawa.mapping.shipped import is_for
from tawa.mapping.unmet import check_effect
from tawa.plan import Plan
from tawa.plan.option_conflicts import check_agreement
from tawa.remarks import Remark

_log = logging.getLogger("tawa")


@dataclass
class MappedRequest:
    """The request of one compile, with the mapping that is used for it: a given one, or one beside the kernel.

    told: tells errors about the mapping's Plan in its words. left_out: why one beside the kernel is not used.
    """

    asked: Request
    kernel: str
    told: Told
    is_shipped: bool = False
    left_out: Remark | None = None

    @staticmethod
    def of(request: Request, source: Job) -> tuple[MappedRequest, Request]:
        """The mapping of a request, and the request with the Plan that it stands for.

        Raises PlanError for a name that the kernel does not have. Without a Plan or a mapping, the first mapping beside
        the kernel that is for these types is taken, if it fits.
        """
        made = MappedRequest(request, source.kernel, Told())
        return made, made._resolved(source)

    def without(self, error: Exception) -> Request:
        """The request without the mapping beside the kernel, which cannot be carried out."""
        file = self.told.mapping.source if self.told.mapping is not None else ""
        _log.warning("%s: the mapping beside the kernel is left out (%s): %s", self.kernel, file, error)
        reason, _, cure = str(error).partition("; cure: ")
        self.left_out = Remark("note", f"the mapping {file} beside the kernel is left out: {reason}", None, cure)
        self.told.mapping, self.is_shipped = None, False
        return self.asked

    def remarks(self) -> tuple[Remark, ...]:
        """Whose file decided, where a file beside the kernel was found."""
        if self.left_out is not None:
            return (self.left_out,)
        if not self.is_shipped or self.told.mapping is None:
            return ()
        reason = f"the mapping {self.told.mapping.source} beside the kernel decides what it says"
        return (Remark("note", reason),)

    def check(self, plan: Plan | None) -> None:
        """Raises PlanError if a word of the mapping has no effect on the kernel. plan: of the specialised kernel."""
        if self.told.mapping is not None and self.told.program is not None and plan is not None:
            check_effect(self.told.mapping, self.told.program, plan)

    def words(self, plan: Plan | None) -> dict[str, str] | None:
        """The words of the mapping that decided, by field of the complete Plan; None without a mapping."""
        mapping, program = self.told.mapping, self.told.program
        if mapping is None or program is None or plan is None:
            return None
        return deciding_words(mapping, program, plan)

    def _resolved(self, source: Job) -> Request:
        given = self.asked.mapping
        shipped = shipped_with(self.asked, source) if given is None else ()
        if given is None and not shipped:
            return self.asked
        program = program_of(structured(copy_module(source.program)))
        mapping = given if given is not None else _first_for(program, shipped)
        if mapping is None:
            return self.asked
        self.told.mapping, self.told.program, self.is_shipped = mapping, program, given is None
        try:
            with self.told:
                if given is None:
                    self._check_consent(mapping)
                plan = resolve(mapping, program, launch_is_ours())
                check_agreement(self.asked.options, plan)
        except PlanError as error:
            if given is not None:
                raise
            return self.without(error)
        return replace(self.asked, plan=plan, mapping=None)

    def _check_consent(self, mapping: Mapping) -> None:
        """Raises PlanError if a mapping that another may have written changes results, and the user has not agreed."""
        if not mapping.keeps_order and self.asked.options.precision != "relaxed":
            raise PlanError(
                'it asks for another order of sums, hence other rounding, and precision is "exact"; '
                'cure: precision="relaxed" for the kernel or the process, or mapping= with this file'
            )


def _first_for(program: Program, shipped: Iterable[Mapping]) -> Mapping | None:
    return next((it for it in shipped if is_for(it, program)), None)


def program_of_text(ttir: str) -> Program:
    """The names of a kernel that was compiled, from its text."""
    return program_of(read_kernel(ttir, new_context()))
