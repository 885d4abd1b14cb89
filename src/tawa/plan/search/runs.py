"""Runs of the back end: which Plans go through LLVM and ptxas, which takes most of a compile, and what that can show.

Without a budget at most `MOST_RUNS` do. With `compile_budget_s`, a further Plan does while the time so far and the
longest run together stay within it. The first Plan always does, and so does the next one as long as none was compiled
to the end. A Plan that is not expected to help is left out: it keeps as many registers live as an earlier Plan that
spilled `HEAVY_SPILL_BYTES` or more. The record of the compile names every run, and every Plan that was left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tawa import declines
from tawa.analysis.resources import wgmma_registers
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Module
from tawa.plan.plan import Plan
from tawa.plan.search.candidate import Effort
from tawa.plan.thresholds import FEWER_REGISTERS, HEAVY_SPILL_BYTES, MOST_RUNS, SPARE_REGISTERS
from tawa.remarks import Remark

_ALL = (None, None, 0)
NOT_TRIED = declines.NOT_TRIED.within
"""Begins a remark on Plans that were left out."""
_CURE = "compile_budget_s=60 tries them for up to a minute"


@dataclass(frozen=True, slots=True)
class BackEndRun:
    """One Plan that went through the back end.

    plan: what the candidate decided, in words. live: registers per thread that are live at its wgmmas. spilled: bytes.
    complete: whether it was compiled to the end. known: whether an earlier process made this run
    (`tawa.bridge.driver.known_spills`).
    """

    plan: str
    ms: float
    live: int
    spilled: int = 0
    complete: bool = True
    known: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        told = {"spill_bytes": self.spilled} if self.complete else {"result": "does not fit into shared memory"}
        known = {"known": True} if self.known else {}
        return {"plan": self.plan, "ms": round(self.ms, 1), "live_registers": self.live, **told, **known}


@dataclass(slots=True)
class BackEndRuns:
    """Those of one kernel."""

    effort: Effort = field(default_factory=lambda: Effort(most=MOST_RUNS))
    made: list[BackEndRun] = field(default_factory=list[BackEndRun])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @staticmethod
    def within(budget_s: float | None) -> BackEndRuns:
        """As many as take so many seconds together; None: `MOST_RUNS`."""
        return BackEndRuns() if budget_s is None else BackEndRuns(Effort(seconds=budget_s))

    def why_not(self, candidate: Plan, live: int) -> Remark | None:
        """Why a candidate does not go through the back end, which is then on record; None if it does."""
        complete = [it for it in self.made if it.complete]
        if not complete:
            return None
        heavy = [it for it in complete if it.spilled >= HEAVY_SPILL_BYTES and it.live < live + FEWER_REGISTERS]
        if heavy:
            reason = f"needs about as many registers as a Plan that spills {heavy[0].spilled} bytes"
        elif not self.effort.is_spent(len(complete), self._seconds()):
            return None
        elif self.effort.seconds is None:
            reason = f"{self.effort.most} Plans went through the back end already"
        else:
            reason = f"compile_budget_s={self.effort.seconds:g} would be exceeded"
        self.left_out.append((described(candidate), reason))
        return declines.NOT_TRIED.remark(why=reason)

    def _seconds(self) -> float:
        """The seconds of all runs with one more that takes as long as the longest."""
        times = [it.ms / 1e3 for it in self.made]
        return sum(times) + max(times)

    def notes(self) -> tuple[Remark, ...]:
        """The Plans that were left out: a note for each reason."""
        plans: dict[str, list[str]] = {}
        for plan, reason in self.left_out:
            if plan not in plans.setdefault(reason, []):
                plans[reason].append(plan)
        return tuple(
            Remark("note", f"{NOT_TRIED}{'; '.join(names)}: {reason}", None, "" if "needs" in reason else _CURE)
            for reason, names in plans.items()
        )


def described(candidate: Plan) -> str:
    """What a candidate decides, in words; fields of single operands, rings and loops are left out."""
    every = candidate.loop(None)
    path = candidate.operand(_ALL).path
    words = [
        f"{candidate.groups} consumer groups" if (candidate.groups or 1) > 1 else "one consumer",
        f"operands by {path}" if path not in (None, "pointers") else "operands through pointers" * (path is not None),
        "persistent" * (candidate.form == "persistent"),
        "nothing kept in registers" * (every.kept == ()),
        f"{every.stages or 'no'} stages" if every.stages is not None else "",
        f"P = {every.mma_depth}" if every.mma_depth is not None else "",
    ]
    return ", ".join(filter(None, words))


def will_spill(plan: Plan | None, live: int) -> bool:
    """Whether a Plan is expected to spill. live: registers per thread that are live at its wgmmas; 0 if unknown."""
    partitions = plan.partitions if plan is not None and live else ()
    held = next((part.registers for part in partitions if part.role == "consumer"), None)
    return bool(held) and held - live < SPARE_REGISTERS


def keeps_dots_in_flight(plan: Plan, module: Module | None) -> bool:
    """Whether a smaller P, or fewer stages, would change the program. If every dot is waited for, it would not."""
    dots = [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op))] if module is not None else []
    return bool(plan.schedules) or not dots or any(dot.is_async for dot in dots)


def must_spill(plan: Plan | None, module: Module | None) -> bool:
    """Whether every Plan spills, and stock Triton too. Further trials gain nothing, and each may take a minute."""
    if plan is None or module is None:
        return False
    warps = next(part.num_warps for part in plan.partitions if part.role == "consumer")
    return wgmma_registers(module, warps).fill_an_sm(warps, plan.consumer_groups)
