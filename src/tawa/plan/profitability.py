"""Profitability: why a kernel, or a Plan of it, is not expected to beat stock Triton's kernel.

The model of time decides (`tawa.plan.expectation`). Two facts come first: accumulators that take all registers of an SM
spill with any compiler, and a consumer waits in every dot that adds up partial sums. Nor is anything predicted of
kernels whose consumers get numbers out of a ring.

These are expectations about speed, not conditions for correctness: if the user asks for specialisation or pins a Plan,
the reasons are only notes.
"""

from __future__ import annotations

from tawa.analysis.resources import unfit_dots
from tawa.ir import Module
from tawa.plan.cost.budget import Budget
from tawa.plan.expectation import PREDICTED, Expectation
from tawa.plan.plan import Plan
from tawa.remarks import Remark

NOT_EXPECTED = "not expected to pay: {}"
_ASKED = "enable_warp_specialization=True or only_if_faster=False specialises it"
_ONE_SLOT = "its ring has one slot only, so that nothing is loaded while the consumer computes"
_NUMBERS = "its loads depend on the result of an atomic, and no kernel that sends such numbers has been timed yet"
_TOO_LARGE = "the accumulator of a dot takes all registers of an SM: it spills to local memory with any compiler"


def why_not_expected(module: Module, plan: Plan, budget: Budget, expectation: Expectation | None) -> str:
    """Why a Plan is not expected to beat stock Triton; empty when it is.

    expectation: None if the kernel before layouts is not known, so that no time can be predicted.
    """
    if budget.registers.fill_an_sm(budget.num_warps, budget.groups):
        return _TOO_LARGE
    unfit = unfit_dots(module)
    if unfit:
        return unfit
    if plan.tiles != "dynamic" and not all(ring.has_tiles for ring in plan.rings):
        return _NUMBERS
    if expectation is not None:
        return why_not_faster(expectation)
    return _ONE_SLOT if [ring.slots for ring in plan.rings if ring.name not in budget.outer] == [1] else ""


def anyway(expectation: Expectation | None) -> str:
    """How to get a specialised kernel that is not expected to pay; a slower one is not recommended without a word."""
    if expectation is not None and expectation.gain < 1:
        return f"{_ASKED} all the same, with {expectation.gain:.2f} times the speed of stock Triton by this prediction"
    return f"{_ASKED} although it is not expected to pay"


def why_not_faster(expectation: Expectation) -> str:
    """Why a prediction does not justify a specialised kernel; empty if it does."""
    if expectation.verdict == "faster":
        return ""
    if expectation.verdict == "slower":
        return str(expectation)
    close = "too close to tell, since the difference is less than the error of the model"
    return f"{expectation}, {close}; `tawa tune`, or mode='measure', measures it"


def is_expectation(refusal: Remark) -> bool:
    """Whether a kernel was declined because of a prediction."""
    return refusal.kind == "declined" and PREDICTED in refusal.reason


__all__ = ["NOT_EXPECTED", "anyway", "is_expectation", "why_not_expected", "why_not_faster"]
