"""The pipeline on one module, without Triton."""

from __future__ import annotations

from tawa.flow import Flow, Outcome, outcome_of, run
from tawa.ir import parse_module
from tawa.pipeline import TTGIR
from tawa.plan import Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.effort import Verification


def specialise(
    ttgir: str,
    options: PlanOptions,
    target: Target,
    plan: Plan | None = None,
    verification: Verification = "fast",
    *,
    pinned: bool | None = None,
) -> Outcome:
    """Specialises one module given as generic-form TTGIR text (before Triton's own pipeliner).

    plan: the pinned part of the Plan. verification: the effort of the checks. pinned: whether to raise instead of
    declining the kernel; by default, if there is a Plan.
    A kernel that cannot be specialised, or whose protocol cannot be proved, gives ``applied=False`` and a `declined`
    remark first (a pinned kernel whose protocol cannot be proved is specialised, with a note).
    Raises PlanError if a pinned `plan` or `options` cannot be met, and ResourceError if a pinned depth does not fit.
    Any other exception is a fault of Tawa, including ProtocolError for a protocol that the checks refute (the caller
    turns it into InternalError).
    """
    pinned = plan is not None if pinned is None else pinned
    flow = Flow(parse_module(ttgir), plan or Plan(), options, target, pinned, verification)
    return outcome_of(flow, run(flow, TTGIR))
