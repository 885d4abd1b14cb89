"""The pipeline: the ordered list of passes from TTGIR to barrier-level TTGIR."""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.plan import Plan, PlanOptions
from tawa.remarks import Remark


@dataclass(frozen=True, slots=True)
class Target:
    """What the back end gives one CTA: warps of the kernel and bytes of shared memory."""

    num_warps: int
    num_stages: int
    shared_bytes: int = 232448


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one kernel. Declined: `applied` False, `plan` None, both texts empty.

    `aref` and `barrier` are the two levels in generic form; `stage_ms` maps stage name to milliseconds.
    """

    applied: bool
    plan: Plan | None
    remarks: tuple[Remark, ...]
    aref: str = ""
    barrier: str = ""
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])


def specialise(ttgir: str, options: PlanOptions, target: Target, plan: Plan | None = None) -> Outcome:
    """Specialises one module given as generic-form TTGIR text (before Triton's own pipeliner).

    Never raises on what a user wrote: a kernel that cannot be specialised gives ``applied=False`` and a
    `declined` remark first. Raises PlanError when a pinned `plan` or `options` cannot be met, ResourceError when a pinned
    depth does not fit, and any other exception only for a fault of its own (the caller turns it into InternalError).
    """
    raise NotImplementedError
