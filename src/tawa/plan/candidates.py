"""Candidates: Plans in the order in which they deserve a try, and what the tries say about the next ones.

    pointer loads by TMA, where that can be           then through pointers
      consumer groups, where dots work on each other    then one consumer
        D as planned                                      then the largest that fits
          as planned                                        then with fewer registers, while it spills

`candidates` is a generator: it yields a `Candidate`, is sent the `Trial` that came of it, and returns the `Choice`.
What a user pins is in every candidate. A candidate is a Plan in part; the rest is planned on the way through the
pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.errors import PlanError, ResourceError
from tawa.machine.hopper import HARMLESS_BYTES, WARP_GROUP
from tawa.plan.cost.shared_use import SharedUse, at_most, largest_depth
from tawa.plan.entries import LoopPlan, OperandPlan, RingPlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.remarks import Remark


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be planned.

    raisable: whether pointer loads can become TMA loads. chained: whether a dot works on what another one gave.
    num_warps: of the launch. pins: what the user pins. pinned: whether to specialise or raise.
    allowed: bytes of registers that may spill, those of the stock kernel; it costs a compile of that.
    """

    options: PlanOptions
    pins: Plan
    pinned: bool
    num_warps: int
    raisable: bool
    chained: bool
    allowed: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Plan to try, whose open fields are planned on the way. why: what feedback decided in it, by field."""

    plan: Plan
    why: dict[str, str] = field(default_factory=dict[str, str])

    def with_(self, plan: Plan, pins: Plan, **why: str) -> Candidate:
        """The same with more decided; what the user pins stays as it is."""
        return Candidate(pins.over(plan.over(self.plan)), {**self.why, **why})


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a candidate.

    plan: the whole Plan; None where the kernel was declined. refusal: why it was. error: a PlanError or ResourceError.
    overflow: the use of shared memory, where that is too much. spilled: bytes of registers that leave to local memory.
    serialised: whether each wgmma is waited for by itself. in_flight: whether a smaller P or fewer stages would change
    the program. must_spill: whether every Plan spills, and stock Triton too. proved: whether the protocol is.
    made: what the driver keeps with it.
    """

    plan: Plan | None = None
    refusal: Remark | None = None
    error: PlanError | ResourceError | None = None
    overflow: SharedUse | None = None
    spilled: int = 0
    serialised: bool = False
    in_flight: bool = True
    must_spill: bool = False
    proved: bool = True
    made: Any = None
    candidate: Candidate = field(default_factory=lambda: Candidate(Plan()))


@dataclass(frozen=True, slots=True)
class Choice:
    """What is taken: a trial, or the remark that declines. notes: about it. no_space: it does not fit with any D."""

    trial: Trial | None = None
    refusal: Remark | None = None
    notes: tuple[Remark, ...] = ()
    no_space: SharedUse | None = None


Trials = Generator[Candidate, Trial, Trial]


def candidates(question: Question) -> Generator[Candidate, Trial, Choice]:
    """The search. Raises PlanError and ResourceError for what the user pinned."""
    start = Candidate(question.pins)
    declined: Choice | None = None
    if question.raisable:
        choice = yield from _in_groups(question, start)
        if choice.trial is not None:
            return choice
        declined = choice
        why = f"by TMA: {choice.refusal.reason}" if choice.refusal is not None else "by TMA it does not fit"
        start = start.with_(Plan(operands=(OperandPlan(path="pointers"),)), question.pins, operands=why)
    choice = yield from _in_groups(question, start)
    return choice if choice.trial is not None or declined is None else declined


def wanted_groups(question: Question) -> tuple[int, bool]:
    """How many consumer groups to try first, and whether the user asked for that: with their number or by ping-pong."""
    pins, options = question.pins, question.options
    asked = pins.groups or pins.consumer_groups or options.num_consumer_groups
    if asked is not None:
        return asked, True
    groups = question.num_warps // WARP_GROUP
    if options.ping_pong or pins.ping_pong:
        return max(2, groups), True  # taking turns needs two
    return (groups if groups > 1 and question.chained else 1), False


def warps_of_group(num_warps: int, groups: int) -> int | None:
    """Warps of one of `groups` consumer groups: its share, or four where the launch asks for four.

    In Meta's branch of Triton, whose option `num_consumer_groups` is, ``num_warps=4`` means each group's. None where no
    whole wgmma's worth of warps comes out.
    """
    if num_warps == WARP_GROUP:
        return WARP_GROUP
    warps, left = divmod(num_warps, groups)
    return None if left or warps % WARP_GROUP else warps


def _in_groups(question: Question, start: Candidate) -> Generator[Candidate, Trial, Choice]:
    """First with the rows of the tile split among consumer groups, where that is asked for or expected to pay."""
    groups, asked = wanted_groups(question)
    split: Trial | None = None
    found: Trial | None = None
    if groups > 1:
        found = yield from _relieved(question, start.with_(Plan(groups=groups), question.pins))
        split = found if found.plan is not None else None
        if asked or (split is not None and holds(split, question.allowed)):
            return _unless_spilled(found, question)
    alone = {"groups": _why_alone(found, groups)} if found is not None else {}
    whole = yield from _relieved(question, start.with_(Plan(groups=1), question.pins, **alone))
    if split is not None and not (whole.plan is not None and whole.spilled < split.spilled):
        whole = split
    return _unless_spilled(whole, question)


def _why_alone(split: Trial, groups: int) -> str:
    """Why the rows of the tile are not split after all."""
    if split.plan is not None and split.overflow is None:
        return f"with {groups} groups, {split.spilled} bytes of registers spill"
    return split.refusal.reason if split.refusal is not None else f"with {groups} groups it does not fit"


def _relieved(question: Question, start: Candidate) -> Trials:
    """Where the kernel spills too much, tries Plans that need fewer registers; the first good one wins."""
    best = first = yield from _fitted(question, start)
    if best.plan is None or holds(best, question.allowed) or not best.in_flight or question.pins.loops:
        return best
    for candidate in smaller(first, question):
        trial = yield candidate
        if trial.overflow is not None or isinstance(trial.error, ResourceError):
            continue
        if trial.error is not None:
            raise trial.error
        if trial.plan is None:
            continue
        trial = trial if trial.in_flight else replace(trial, serialised=True)
        if trial.proved and trial.spilled < best.spilled:
            best = trial
            if holds(best, question.allowed):
                break
    return best


def smaller(first: Trial, question: Question) -> list[Candidate]:
    """Candidates that keep fewer tiles alive at a time, the nearest first. What the user asked for stays."""
    plan, pins, tries = first.plan, question.pins, list[Candidate]()
    assert plan is not None
    spilled = f"with what was planned first, {first.spilled} bytes of registers spill to local memory"
    start = first.candidate.with_(Plan(rings=tuple(RingPlan(it.name, depth=it.depth) for it in plan.rings)), pins)
    every = LoopPlan()
    if any(loop.kept for loop in plan.loops):
        every = replace(every, kept=())
        kept = Plan(loops=(every,))
        tries.append(_tried(start, kept, pins, f"operands in shared memory: {spilled}", "kept"))
    if any(schedule.stages > 1 for schedule in plan.schedules):
        flat = Plan(loops=(replace(every, stages=1),))
        tries.append(_tried(start, flat, pins, f"no stages: {spilled}", "kept", "stages"))
    if plan.schedules or plan.mma_depth:
        depth = question.options.mma_depth or 0
        every = replace(every, stages=0, mma_depth=depth)
        what = "no schedule" if depth else "no schedule, P = 0"
        last = Plan(loops=(every,), operands=(OperandPlan(prefetched=False),))
        tries.append(_tried(start, last, pins, f"{what}: {spilled}", "kept", "stages", "mma_depth"))
    return tries


def _tried(start: Candidate, plan: Plan, pins: Plan, why: str, *fields: str) -> Candidate:
    """fields: of the loops, those that are decided so."""
    return start.with_(plan, pins, loops=why, **{f"loops.{name}": why for name in fields})


def _fitted(question: Question, candidate: Candidate) -> Trials:
    """Lowers D until the kernel fits."""
    fixed = frozenset(ring.name for ring in question.pins.rings if ring.depth is not None)
    first: SharedUse | None = None
    while True:
        trial = yield candidate
        if trial.error is not None and first is None:
            raise trial.error
        if trial.error is not None:  # the lowered D, not the user's choice, was refused
            return replace(trial, error=None, overflow=first)
        if trial.overflow is None:
            return trial
        first = first or trial.overflow
        depth = None if question.options.aref_depth is not None else largest_depth(trial.overflow, fixed)
        least = max((it.mma_depth or 0 for it in question.pins.loops), default=question.options.mma_depth or 0) + 1
        if depth is None or depth < least:
            return replace(trial, overflow=first)
        rings = tuple(RingPlan(it.name, depth=it.depth) for it in at_most(trial.overflow.rings, depth, fixed))
        why = f"the kernel takes {first.total_bytes} bytes of shared memory with the D that was planned first"
        lowered = replace(candidate, plan=replace(candidate.plan, rings=question.pins.rings))
        candidate = lowered.with_(Plan(rings=rings), question.pins, **{f"rings.{it.name}.depth": why for it in rings})


def holds(trial: Trial, allowed: Callable[[], int]) -> bool:
    """Whether it spills no more than stock does, which is asked only if need be, and something runs beside its wgmmas.

    Where each of them is waited for, that is another group of consumers.
    """
    if trial.spilled <= HARMLESS_BYTES or trial.must_spill:
        return True
    alone = trial.plan is None or trial.plan.consumer_groups == 1
    return not (trial.serialised and alone) and trial.spilled <= allowed()


def _unless_spilled(trial: Trial, question: Question) -> Choice:
    """Declines in automatic mode what spills more than stock does, or waits for each wgmma; notes it otherwise."""
    if trial.overflow is not None:
        return Choice(no_space=trial.overflow)
    if trial.plan is None:
        return Choice(refusal=trial.refusal)
    why = trial.candidate.why.get("loops")
    notes = (Remark("note", why),) if why else ()
    if holds(trial, question.allowed):
        return Choice(trial, notes=notes)
    limit = question.allowed()
    much = "more than in the stock kernel" if trial.spilled > limit else "and each wgmma is waited for by itself"
    reason = f"{trial.spilled} bytes of registers spill to local memory, {much}"
    if question.pinned or question.options.wherever_legal or limit == NO_STOCK:
        return Choice(trial, notes=(*notes, Remark("note", reason, None, "smaller blocks, or more warps")))
    cure = "smaller blocks, or more warps; only_if_faster=False specialises all the same"
    return Choice(refusal=Remark("declined", f"not expected to pay: {reason}", None, cure))


NO_STOCK = 2**63 - 1
"""In place of what may spill: Triton cannot compile the stock kernel."""

__all__ = [
    "NO_STOCK", "Candidate", "Choice", "Question", "Trial", "candidates", "holds",
    "wanted_groups", "warps_of_group",
]  # fmt: skip
