"""Expectation: whether a Plan is expected to beat stock Triton's kernel, and how sure the model of time can be.

    187 us for this Plan, 212 us for stock: 1.13 times as fast (right within a factor of 1.06)    faster
    205 us for this Plan, 212 us for stock: 1.03 times as fast (right within a factor of 1.06)    unclear: stock's

The factor is the model's own error on measured kernels of the same regime that it was not fitted to
(`tawa.machine.coefficients`).

Two facts come before a prediction: accumulators that take all registers of an SM spill with any compiler, and a
consumer waits in every dot that adds up partial sums. Nor is anything predicted of kernels whose consumers get numbers
out of a ring, or whose dots are in no loop but that over tiles. If the user asks for specialisation or pins a Plan, the
reasons are only notes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tawa.analysis.resources import unfit_dots
from tawa.analysis.work.workload import Workload
from tawa.declines import ACCUMULATOR, ONE_SLOT, UNTIMED
from tawa.ir import Module
from tawa.machine.coefficients import ErrorInfo, fitted
from tawa.plan.cost.budget import Budget
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program
from tawa.plan.cost.time_model import predict
from tawa.plan.plan import Plan
from tawa.plan.thresholds import DOUBT
from tawa.remarks import Remark

PREDICTED = " us predicted"
"""Stands in the text of every prediction."""
EXPECTED = "expected to pay: "
"""Begins the remark with the prediction of a kernel that was specialised."""
_MANY = 3
"""Consumers on an SM that count as many."""
SMALL_TILE = 128 * 128
"""Elements of a result; smaller ones are bound by L2 and latency rather than by the tensor cores."""
_MANY_ENTRIES = 1.5
"""Entries of one loop from which a program iterates over tiles."""
Verdict = Literal["faster", "slower", "unclear"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """The prediction for one launch.

    stock_us, own_us: predicted microseconds. error: of predictions in this regime. regime: in words.
    serialised: whether ptxas serialises the wgmmas of stock Triton's kernel. guesses: the sizes that are not known, in
    words. form: of the specialised kernel, in words, where it is not the one that is spoken of.
    """

    stock_us: float
    own_us: float
    error: ErrorInfo
    regime: str
    serialised: bool = False
    guesses: str = ""
    form: str = ""

    @property
    def gain(self) -> float:
        """How many times as fast as stock."""
        return self.stock_us / self.own_us

    @property
    def factor(self) -> float:
        """The factor within which the gain is known."""
        return math.exp(DOUBT * self.error.deviation)

    @property
    def verdict(self) -> Verdict:
        """Whether the Plan is faster, as far as the model can tell."""
        if self.gain >= self.factor:
            return "faster"
        return "slower" if self.gain * self.factor <= 1.0 else "unclear"

    @property
    def own_text(self) -> str:
        """The microseconds of the specialised kernel, for people."""
        return _text(self.own_us)

    def __str__(self) -> str:
        form = f" ({self.form})" if self.form else ""
        why = " (ptxas serialises its wgmmas)" if self.serialised else ""
        which = f", with guessed sizes ({self.guesses})" if self.guesses else ""
        own = f"{self.own_text}{PREDICTED} for the specialised kernel{form}"
        times = f"{own}, {_text(self.stock_us)} us for stock Triton's{why}{which}"
        return f"{times}: {self.gain:.2f} times as fast (the model is right within a factor of {self.factor:.2f})"


def expect(workload: Workload, launch: Launch, program: Program, stock: Program) -> Expectation:
    """The expectation of a program in place of stock Triton's, for one launch."""
    regime = regime_of(workload, launch, program, stock)
    fit = fitted()
    return Expectation(
        predict(workload, launch, stock),
        predict(workload, launch, program),
        fit.errors.get(regime, fit.unknown),
        regime,
        stock.serialised,
        launch.guesses,
    )


def regime_of(workload: Workload, launch: Launch, program: Program, stock: Program) -> str:
    """The regime of a prediction: kernels that the model is right or wrong about for the same reasons."""
    dots = list(workload.dots)
    kind = "chained dots" if any(dot.chained for dot in dots) else "dots"
    kind += "" if all(dot.unit == "wgmma" for dot in dots) else " by mma.sync"
    bits = min((dot.bits for dot in dots), default=16)
    on_one = math.ceil(launch.programs / launch.processors)
    own = min(program.ctas, on_one) * program.groups
    beside = f"{min(own, _MANY)} to {min(stock.ctas, on_one, _MANY)} at a time"
    iterates = program.persistent or any(count > _MANY_ENTRIES for count in launch.visits.entries.values())
    waves = "several tiles" if iterates else "one wave" if on_one == 1 else "waves"
    path = "" if program.by_tma else " through pointers"
    most = max((dot.rows * dot.columns for dot in dots), default=0)
    kind += " of small tiles" if most < SMALL_TILE else ""
    return f"{kind} of {bits} bits{path}, {stock.num_warps} warps, {beside}, {waves}"


def _text(time_us: float) -> str:
    return f"{time_us:.1f}" if time_us < 100 else f"{time_us:.0f}"


_ASKED = "enable_warp_specialization=True or only_if_faster=False specialises it"


def why_not_expected(module: Module, plan: Plan, budget: Budget, expectation: Expectation | None) -> str:
    """Why a Plan is not expected to beat stock Triton; empty when it is.

    expectation: None if the kernel before layouts is not known, so that no time can be predicted.
    """
    if budget.registers.fill_an_sm(budget.num_warps, budget.groups):
        return ACCUMULATOR.text()
    unfit = unfit_dots(module)
    if unfit:
        return unfit
    if plan.tiles != "dynamic" and not all(ring.has_tiles for ring in plan.rings):
        return UNTIMED.text(what="its loads depend on the result of an atomic")
    if budget.straight and plan.form == "persistent":
        return UNTIMED.text(what="its dots are in no loop but that over tiles")
    if expectation is not None:
        return why_not_faster(expectation)
    return ONE_SLOT.text() if [ring.slots for ring in plan.rings if ring.name not in budget.outer] == [1] else ""


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
    return f"{expectation}, too close to tell; `tawa tune`, or mode='measure', measures it"


def is_expectation(refusal: Remark) -> bool:
    """Whether a kernel was declined because of a prediction."""
    return refusal.kind == "declined" and PREDICTED in refusal.reason
