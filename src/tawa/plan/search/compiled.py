"""Judged by compiling: the Plans to try, in order of preference; the result of each decides what is tried next.

    pointer loads by TMA, if possible                 then through pointers
      several consumer groups, if dots are chained      then one consumer
        D as planned                                      then the largest D that fits
          schedule as planned                               then schedules with fewer registers, while it spills

`candidates` is a generator: it yields a `Candidate`, is sent the `Trial` of that candidate, and returns the trial that
is taken or declined. What it compares with is in `tawa.plan.thresholds`. Every candidate contains what the user pinned;
it is a partial Plan, and the pipeline decides the other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.declines import SPILLS, UNPROVED, not_expected
from tawa.errors import PlanError, ResourceError
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.cost.shared_use import SharedUse, at_most, largest_depth
from tawa.plan.fields import LoopPlan, OperandPlan, RingPlan
from tawa.plan.options import PlanOptions
from tawa.plan.plan import Plan
from tawa.plan.search.candidate import Candidate
from tawa.plan.search.prediction import anyway, is_expectation, why_not_faster
from tawa.plan.search.search import Search
from tawa.plan.thresholds import FREED_BYTES, HARMLESS_BYTES, HEAVY_SPILL_BYTES, STEP_BYTES
from tawa.remarks import Remark, SourceLocation


@dataclass(frozen=True, slots=True)
class Question:
    """The input of the search.

    promotable: whether pointer loads can become TMA loads. chained: whether a dot reads the result of another dot.
    num_warps: of the launch. pins: what the user pinned. pinned: whether a kernel that cannot be specialised is an
    error. allowed: bytes of registers that may spill: as many as the stock kernel spills, which a call compiles.
    search: among its forms; None if the user wants a specialised kernel whether it pays or not. facts: what is
    known of the compiled stock kernel. place: where to say that no Plan is expected to pay. learns: whether launches
    try the forms that the model cannot tell apart.
    """

    options: PlanOptions
    pins: Plan
    pinned: bool
    num_warps: int
    promotable: bool
    chained: bool
    allowed: Callable[[], int]
    search: Search | None = None
    facts: Callable[[], ProgramFacts | None] = lambda: None
    place: SourceLocation | None = None
    learns: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of compiling a candidate.

    plan: the complete Plan; None if the kernel was declined. refusal: why it was declined. error: a PlanError or
    ResourceError. overflow: the shared memory that the kernel needs, if that is too much. spilled: bytes of registers
    that spill to local memory. serialised: whether ptxas waits for each wgmma before it issues the next. in_flight:
    whether a smaller P or fewer stages would change the program. must_spill: whether every Plan spills, as stock Triton
    does. trusted: whether the verdict on its protocol allows to launch it. made: data of the driver. notes: for users
    of what is taken.
    """

    plan: Plan | None = None
    refusal: Remark | None = None
    error: PlanError | ResourceError | None = None
    overflow: SharedUse | None = None
    spilled: int = 0
    serialised: bool = False
    in_flight: bool = True
    must_spill: bool = False
    trusted: bool = True
    made: Any = None
    candidate: Candidate = field(default_factory=lambda: Candidate(Plan()))
    notes: tuple[Remark, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether nothing declines it."""
        return self.plan is not None and self.refusal is None and self.overflow is None


_TOO_LARGE = "with {}, the kernel does not fit into shared memory"

Trials = Generator[Candidate, Trial, Trial]


def candidates(question: Question) -> Trials:
    """Runs the search. Raises PlanError and ResourceError if what the user pinned is impossible."""
    hopeless = _hopeless(question)
    if hopeless is not None:
        return Trial(refusal=hopeless)
    return (yield from _by_paths(question, Candidate(question.pins)))


def _hopeless(question: Question) -> Remark | None:
    """Declines a kernel of which no form is expected to pay, before any work is done on one."""
    best = question.search.why_hopeless(question.learns) if question.search is not None else None
    if best is None:
        return None
    return not_expected(why_not_faster(best), question.place, anyway(best))


def _is_expected(choice: Trial) -> bool:
    """Whether a kernel was declined because it is not expected to pay, which depends neither on paths nor on rows."""
    return choice.refusal is not None and is_expectation(choice.refusal)


def _by_paths(question: Question, start: Candidate) -> Trials:
    """Tries pointer loads by TMA, then through pointers."""
    declined: Trial | None = None
    if question.promotable:
        choice = yield from _in_groups(question, start)
        if choice.accepted or _is_expected(choice) or question.options.pointer_loads == "tma":
            return choice  # what does not pay by TMA does not pay through pointers
        declined = choice
        why = f"by TMA: {choice.refusal.reason}" if choice.refusal is not None else _TOO_LARGE.format("TMA loads")
        start = start.with_(Plan(operands=(OperandPlan(path="pointers"),)), question.pins, operands=why)
    choice = yield from _in_groups(question, start)
    return choice if choice.accepted or declined is None else declined


def wanted_groups(question: Question) -> tuple[int, bool]:
    """The number of consumer groups to try first, and whether the user asked for it, directly or by ping-pong."""
    pins, options = question.pins, question.options
    asked = pins.groups or pins.consumer_groups or options.num_consumer_groups
    if asked is not None:
        return asked, True
    groups = question.num_warps // WARP_GROUP
    if options.ping_pong or pins.ping_pong:
        return max(2, groups), True  # ping-pong needs at least two groups
    usual = groups if groups > 1 and question.chained else 1
    return (question.search.groups(usual) if question.search is not None else usual), False


def warps_of_group(num_warps: int, groups: int) -> int | None:
    """Warps of one of `groups` consumer groups: its share of `num_warps`, or four if the launch has four.

    Meta's branch of Triton, where the option `num_consumer_groups` comes from, takes ``num_warps=4`` as the warps of
    each group. None if a group would not consist of whole warp groups, which wgmma requires.
    """
    if num_warps == WARP_GROUP:
        return WARP_GROUP
    warps, left = divmod(num_warps, groups)
    return None if left or warps % WARP_GROUP else warps


def _in_groups(question: Question, start: Candidate) -> Trials:
    """Tries several consumer groups that share the tile, if requested or expected to pay; then one group."""
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


def _proved(question: Question, start: Candidate) -> Trials:
    """Tries a Plan, and the same without stages if its protocol cannot be proved.

    Stages peel iterations off a loop, and the proof does not relate a condition on the loop's counter to those.
    """
    first = yield from _fitted(question, start)
    unproved = first.refusal is not None and UNPROVED.says(first.refusal.reason)
    if not unproved or question.pins.loops:
        return first
    without = _tried(start, Plan(loops=(LoopPlan(stages=1),)), question.pins, _UNPROVED, "stages")
    flat = yield from _fitted(question, without)
    return flat if flat.accepted else first


_UNPROVED = "no stages: with them, the protocol cannot be proved"


def _why_alone(split: Trial, groups: int) -> str:
    """Why the rows of the tile are not split among consumer groups."""
    if split.plan is not None and split.overflow is None:
        return f"with {groups} groups, {split.spilled} bytes of registers spill"
    return split.refusal.reason if split.refusal is not None else _TOO_LARGE.format(f"{groups} groups")


def _relieved(question: Question, start: Candidate) -> Trials:
    """Tries Plans that need fewer registers if the kernel spills too much; takes the first that is good enough."""
    best = first = yield from _proved(question, start)
    if best.plan is None or holds(best, question.allowed) or not best.in_flight or question.pins.loops:
        return best
    tries = smaller(first, question)
    if question.options.compile_budget_s is None and first.spilled > STEP_BYTES * best.plan.consumer_groups:
        # Few are tried, and a shorter schedule frees the most registers.
        tries.sort(key=lambda it: it.plan.loop(None).stages is None)
    for candidate in tries:
        trial = yield candidate
        if trial.overflow is not None or isinstance(trial.error, ResourceError):
            continue
        if trial.error is not None:
            raise trial.error
        if trial.plan is None:
            continue
        trial = trial if trial.in_flight else replace(trial, serialised=True)
        if trial.trusted and trial.spilled < best.spilled:
            best = trial
            if holds(best, question.allowed):
                break
    return best


def smaller(first: Trial, question: Question) -> list[Candidate]:
    """Candidates with fewer live tiles, the smallest change first. What the user asked for does not change."""
    plan, pins, tries = first.plan, question.pins, list[Candidate]()
    assert plan is not None
    spilled = f"the first Plan spills {first.spilled} bytes of registers to local memory"
    start = first.candidate.with_(Plan(rings=tuple(RingPlan(it.name, depth=it.depth) for it in plan.rings)), pins)
    if any(it.prefetched for it in plan.operands):
        late = Plan(operands=(OperandPlan(prefetched=False),))
        start = _tried(start, late, pins, f"no prefetched rows: {spilled}")
        if first.spilled <= FREED_BYTES:
            tries.append(start)
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
    """fields: the fields of loops that are decided for this reason."""
    return start.with_(plan, pins, loops=why, **{f"loops.{name}": why for name in fields})


def _fitted(question: Question, candidate: Candidate) -> Trials:
    """Lowers D until the kernel fits into shared memory."""
    fixed = frozenset(ring.name for ring in question.pins.rings if ring.depth is not None)
    first: SharedUse | None = None
    while True:
        trial = yield candidate
        if trial.error is not None and first is None:
            raise trial.error
        if trial.error is not None:  # the lowered D was refused, not a choice of the user
            return replace(trial, error=None, overflow=first)
        if trial.overflow is None:
            return trial
        first = first or trial.overflow
        asked = question.options.aref_depth is not None or question.pins.ring("").depth is not None
        depth = None if asked else largest_depth(trial.overflow, fixed)
        least = max((it.mma_depth or 0 for it in question.pins.loops), default=question.options.mma_depth or 0) + 1
        if depth is None or depth < least:
            return replace(trial, overflow=first)
        rings = tuple(RingPlan(it.name, depth=it.depth) for it in at_most(trial.overflow.rings, depth, fixed))
        why = f"with the D of the first Plan, the kernel needs {first.total_bytes} bytes of shared memory"
        lowered = replace(candidate, plan=replace(candidate.plan, rings=question.pins.rings))
        candidate = lowered.with_(Plan(rings=rings), question.pins, **{f"rings.{it.name}.depth": why for it in rings})


def holds(trial: Trial, allowed: Callable[[], int]) -> bool:
    """Whether a trial is good enough: it spills no more than the stock kernel, and other work overlaps with its wgmmas.

    If ptxas serialises the wgmmas, only another consumer group can overlap with them. `allowed` compiles the stock
    kernel, so it is called last.
    """
    if trial.spilled <= HARMLESS_BYTES or trial.must_spill:
        return True
    alone = trial.plan is None or trial.plan.consumer_groups == 1
    return not (trial.serialised and alone) and trial.spilled <= allowed()


def _unless_spilled(trial: Trial, question: Question) -> Trial:
    """Declines a trial that is not good enough (`holds`) in automatic mode; otherwise accepts it with a note."""
    if trial.overflow is not None or trial.plan is None:
        return trial
    why = trial.candidate.why.get("loops")
    notes = (Remark("note", why),) if why else ()
    if holds(trial, question.allowed):
        return replace(trial, notes=notes)
    limit = question.allowed()
    much = "more than in the stock kernel" if trial.spilled > limit else "and ptxas serialises the wgmmas"
    reason = SPILLS.text(bytes=trial.spilled, much=much)
    if not trial.serialised and trial.spilled < HEAVY_SPILL_BYTES and question.search is not None:
        expectation = question.search.space.knowing(question.facts()).expected(trial.plan, trial.spilled)
        slower = why_not_faster(expectation) if expectation is not None else ""
        if not slower:
            return replace(trial, notes=(*notes, Remark("note", f"{reason}, but it is predicted to be faster")))
        reason = f"{reason}: {slower}"
    most = 2 * WARP_GROUP  # of a consumer
    or_warps = f", or num_warps={most}" if question.num_warps < most else ""
    if question.pinned or question.options.wherever_legal or limit == NO_STOCK:
        return replace(trial, notes=(*notes, Remark("note", reason, None, f"smaller blocks{or_warps}")))
    return replace(trial, refusal=not_expected(reason, None, SPILLS.cure.format(or_warps=or_warps)))


NO_STOCK = 2**63 - 1
"""The value of `allowed()` if Triton cannot compile the stock kernel."""
