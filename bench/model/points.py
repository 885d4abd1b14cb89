"""Points: measured times of one kernel on one shape under one Plan, with what rebuilds the kernel without a GPU.

A point has a `tests.cases` case (kernel, constexprs, sizes, grid), Tawa's launch options or a Plan, and the median time
of a round-robin run. Points of one kernel on one shape, measured in one run, form a group: only ratios within a group
are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.cases.case import Case


@dataclass(frozen=True, slots=True)
class Point:
    """One measured candidate.

    source: the result file. kernel: the kernel with its configuration; a held-out kernel is held out whole. shape: the
    problem. candidate: in words. options: Tawa's launch options; None is stock Triton. told: the summary of the Plan
    that was measured, or empty; a Plan that the compiler no longer makes is not used. plan: what the bench recorded of
    the Plan (`bench.regret.measure.brief`), which then need not be made again; None if it recorded nothing.
    """

    source: str
    kernel: str
    shape: str
    candidate: str
    case: Case
    options: dict[str, Any] | None
    median_us: float
    told: str = ""
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    plan: dict[str, Any] | None = None

    @property
    def group(self) -> tuple[str, str, str]:
        """Points that were measured side by side on one kernel and shape."""
        return self.source, self.kernel, self.shape

    @property
    def compiled_as(self) -> str:
        """A text that is equal for points that share one compiled kernel."""
        launch = sorted(self.case.options().items())
        function = self.case.kernel
        return repr((function.__module__, function.__name__, sorted(self.case.signature().items()),
                     sorted((key, str(value)) for key, value in self.case.constants().items()),
                     sorted(self.case.attributes().items()), launch,
                     None if self.options is None or self.plan else sorted(self.options.items())))  # fmt: skip
