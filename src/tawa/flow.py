"""The state of one kernel in the pipeline, and the function that runs the steps of `tawa.pipeline` on it.

A step is a pass, which carries out the Plan; a decision, which fills in fields of the Plan and changes nothing else; or
a check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial

from tawa.analysis.rings.sent_numbers import SentInfo
from tawa.declines import UNPROVED
from tawa.dialects import structure_rules
from tawa.dialects.aref import Fill
from tawa.errors import ProtocolError
from tawa.ir import Module, parse_module, print_module, source_of, verify_structure
from tawa.plan import Plan, PlanOptions
from tawa.plan.cost.budget import Channels
from tawa.plan.decide.paths import Launching, Promotion
from tawa.plan.decide.rings import Facts, Target
from tawa.plan.fields import RingPlan
from tawa.plan.search.space import Space
from tawa.remarks import Remark, SourceLocation
from tawa.symbolic.host.expr import Argument
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.result import Pass, PassResult
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.check import combine, trusted
from tawa.verify.effort import Effort, Verification
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict
from tawa.verify.witness import chrome_trace, describe


@dataclass(slots=True)
class Flow:
    """One kernel in the pipeline.

    plan: the pinned fields, and the fields that are decided so far. pins: the pinned fields. pinned: whether to raise
    instead of declining the kernel. why: the planner's reasons, by field of the Plan. facts: the results of the
    analyses, once they ran. notes, remarks: from decisions and from passes. launching: who launches the kernel. launch:
    what its launches need. promotion, strides: pointer accesses for TMA, and arguments that are assumed to be 1.
    promoted: the number of promoted loads. changed: whether a form differs from the kernel as Triton hands it down;
    text: the form with layouts, in generic form; refusal: why there is none. aref: the text of the aref level.
    verdicts: of the checks, by name. stage_ms: milliseconds by step.
    """

    module: Module
    plan: Plan = field(default_factory=Plan)
    options: PlanOptions = field(default_factory=PlanOptions)
    target: Target = field(default_factory=lambda: Target(4, 3))
    pinned: bool = False
    verification: Verification = "fast"
    pins: Plan = field(init=False)
    facts: Facts | None = None
    why: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[Remark] = field(default_factory=list[Remark])
    remarks: list[Remark] = field(default_factory=list[Remark])
    launching: Launching = field(default_factory=Launching)
    launch: LaunchSpec = field(default_factory=LaunchSpec)
    promotion: Promotion | None = None
    strides: tuple[Argument, ...] = ()
    promoted: int = 0
    changed: bool = False
    text: str = ""
    refusal: Remark | None = None
    space: Space | None = None
    aref: str = ""
    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.pins = self.plan

    @property
    def channels(self) -> Channels:
        """The future rings; available after the analyses."""
        assert self.facts is not None
        return self.facts.channels

    @property
    def sent(self) -> SentInfo:
        """The numbers that cross in rings; available after the analyses."""
        assert self.facts is not None
        return self.facts.producer.sent

    @property
    def place(self) -> SourceLocation | None:
        """The location of the first load that moves to the producer."""
        return source_of(self.module, self.facts.moved[0].load.op) if self.facts else None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the pipeline. run: returns the remark that declines the kernel, or None."""

    name: str
    run: Callable[[Flow], Remark | None]


def passing(kind: type[Pass[PassResult]]) -> Step:
    """The step that runs a pass. Its options plan, pins, channels, sent and strides come from the flow."""
    names = [it.name for it in fields(kind) if it.name in ("plan", "pins", "channels", "sent", "strides")]  # type: ignore[arg-type]

    def run(flow: Flow) -> Remark | None:
        result = kind(**{name: getattr(flow, name) for name in names}).run(flow.module)
        flow.remarks += result.remarks
        flow.why.update(result.why)
        if result.decided != _NOTHING:
            flow.plan = result.decided.over(flow.plan)
        return next((remark for remark in result.remarks if remark.kind == "declined"), None)

    return Step(kind.__name__, run)


def run(flow: Flow, steps: Iterable[Step], until: str = "") -> Remark | None:
    """Runs steps in order until one declines the kernel; returns the remark of that step, or None.

    until: the name of the last step to run; empty runs all.
    """
    for step in steps:
        start = time.perf_counter()
        refusal = step.run(flow)
        flow.stage_ms[step.name] = flow.stage_ms.get(step.name, 0.0) + (time.perf_counter() - start) * 1e3
        if refusal is not None or step.name == until:
            return refusal
    return None


_NOTHING = Plan()


# -- the outcome -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the pipeline for one kernel. If it was declined, `applied` is False, `plan` None, both texts empty.

    aref, barrier: the text of the two levels in generic form. module: the barrier level. stage_ms: milliseconds by
    step. verdicts: of the checks, by name; empty if nothing was checked. why: the planner's reasons, by field of the
    Plan.
    """

    applied: bool
    plan: Plan | None
    remarks: tuple[Remark, ...]
    aref: str = ""
    barrier: str = ""
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    module: Module | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    why: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def verdict(self) -> Verdict | None:
        """The combined verdict of the checks; None if nothing was checked."""
        return combine(self.verdicts) if self.verdicts else None

    @property
    def trusted(self) -> bool:
        """Whether automatic mode launches the kernel: see `tawa.verify.check.trusted`. Yes if nothing was checked."""
        return not self.verdicts or trusted(self.verdicts)


def outcome_of(flow: Flow, refusal: Remark | None) -> Outcome:
    """The outcome of a kernel after all steps, or after the step that declined it."""
    if refusal is None and flow.verdicts and not trusted(flow.verdicts):
        refusal = _unproved(combine(flow.verdicts), flow)
        if flow.options.pinned or flow.pinned:
            flow.notes.append(Remark("note", refusal.reason, refusal.location))
            refusal = None
    if refusal is not None:
        return Outcome(False, None, (refusal,), stage_ms=flow.stage_ms, verdicts=flow.verdicts)
    barrier = print_module(flow.module)
    applied = Remark("applied", _summary(flow.plan))
    remarks = (applied, *flow.notes, *dict.fromkeys(flow.remarks))
    return Outcome(True, flow.plan, remarks, flow.aref, barrier, flow.stage_ms, flow.module, flow.verdicts, flow.why)


def _unproved(found: Verdict, flow: Flow) -> Remark:
    assert isinstance(found, Checked | Unknown)
    why = found.reason if isinstance(found, Unknown) else found.left
    return UNPROVED.remark(found.location or flow.place, why=why)


def _summary(plan: Plan) -> str:
    if plan.form == "unpartitioned":
        said = ["loops convert no tiles that they need not convert"]
        said += ["compute nothing that a mask drops"] if plan.unrolled else []
        said += ["load rows one iteration ahead"] if any(it.prefetched for it in plan.operands) else []
        return f"no partitions: {', '.join(said)}"
    exchanged = [it for it in plan.rings if it.is_exchanged]
    factors = [it for it in plan.rings if it.has_factors]
    loaded = [it for it in plan.rings if it not in exchanged and it not in factors]
    rings = ", ".join(f"{it.name} with D = {it.depth}{_FILLED[it.fill or 'tma']}" for it in loaded)
    groups = plan.consumer_groups
    part = "a program of the grid" if plan.split == "programs" else f"with its {plan.split or 'rows'} of the tile"
    consumers = "one consumer" if groups == 1 else f"{groups} consumers, each {part},"
    alternate = "; ping-pong" if plan.ping_pong else ""
    issuing = next((part.name for part in plan.partitions if part.role == "mma"), None)
    if issuing is not None:
        turns = f"it and {consumers} take turns with {_depths(exchanged)} in tensor memory"
        if plan.correction:
            several = "one correction" if groups == 1 else f"{groups} corrections"
            turns = f"it, {consumers} and {several} {turns.partition(f'{consumers} ')[2]}"
            turns += f"; a correction rewrites accumulators by what its consumer sends through {_depths(factors)}"
        return f"one producer feeds {issuing}, whose one thread issues the dots, through {rings}; {turns}{alternate}"
    return f"one producer feeds {consumers} through {rings}; P = {plan.mma_depth}{alternate}"


def _depths(rings: Iterable[RingPlan]) -> str:
    return ", ".join(f"{it.name} with D = {it.depth}" for it in rings)


_FILLED: dict[Fill, str] = {
    "tma": "",
    "cp.async": " (by cp.async)",
    "registers": " (from registers)",
    "stores": " (by a converter)",
    "number": " (a number)",
    "commit": "",
    "threads": "",
}


# -- checks ------------------------------------------------------------------------------------------------------------


def credits_checked(flow: Flow) -> None:
    """Checks the aref level: its structure, then its credits; raises ProtocolError if the credit check refutes."""
    _require_structure(flow.module, "aref")
    flow.aref = print_module(flow.module, locations=False)
    if flow.verification != "off":
        flow.verdicts["credits"] = _not_refuted(_checked(check_credits, flow), "aref", flow.module)


def barriers_checked(flow: Flow) -> None:
    """Checks the barrier level: its structure, its barriers, and that it refines the aref level.

    The levels are compared at full effort, and if the barriers of a proved aref level are only checked: see
    `tawa.verify.check.trusted`.
    """
    _require_structure(flow.module, "barrier")
    if flow.verification != "off":
        flow.verdicts["barriers"] = _not_refuted(_checked(check_barriers, flow), "barrier", flow.module)
    credits, barriers = (flow.verdicts.get(name) for name in ("credits", "barriers"))
    if flow.verification == "full" or (isinstance(credits, Proved) and isinstance(barriers, Checked)):
        compared = partial(check_refinement, parse_module(flow.aref))
        flow.verdicts["refinement"] = _not_refuted(_checked(compared, flow), "barrier", flow.module)


def _checked(check: Callable[..., Verdict], flow: Flow) -> Verdict:
    """Runs a check; repeats it at full effort if the fast one is inconclusive, which is rare."""
    effort: Effort = "full" if flow.verification == "full" else "fast"
    found = check(flow.module, effort=effort)
    return check(flow.module, effort="full") if isinstance(found, Unknown) and effort == "fast" else found


def _not_refuted(found: Verdict, level: str, module: Module) -> Verdict:
    if isinstance(found, Refuted):
        files = {f"{level}.mlir": print_module(module), "witness.json": chrome_trace(found.witness)}
        raise ProtocolError(f"the {level} level of the kernel is {describe(found)}", files)
    return found


def _require_structure(module: Module, level: str) -> None:
    errors = verify_structure(module, structure_rules())
    if errors:
        raise AssertionError(f"the {level} level is malformed: " + "; ".join(map(str, errors[:3])))
