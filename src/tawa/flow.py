"""The flow: one kernel on its way through the lists of `tawa.pipeline`, and the runner.

A step is a pass, which does what the Plan says; or a decision, which completes the Plan from what is known by then and
changes nothing else; or a check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

from tawa.dialects import structure_rules
from tawa.dialects.aref import Fill
from tawa.errors import ProtocolError
from tawa.ir import Module, parse_module, print_module, source_of, verify_structure
from tawa.plan import Plan, PlanOptions
from tawa.plan.cost.budget import Channels
from tawa.plan.decide.paths import Launching, Raising
from tawa.plan.decide.rings import Facts, Target
from tawa.remarks import Remark, SourceLocation
from tawa.symbolic.host.expr import Argument
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.result import Pass
from tawa.verify.barriers.check import check_barriers, check_refinement
from tawa.verify.check import combine
from tawa.verify.credits.check import check_credits
from tawa.verify.effort import Effort, Verification
from tawa.verify.verdict import Refuted, Unknown, Verdict
from tawa.verify.witness import chrome_trace, describe


@dataclass(slots=True)
class Flow:
    """One kernel under way.

    plan: what is pinned, and what is decided so far. pins: what was pinned at first. pinned: whether to specialise or
    raise. why: why the planner decided as it did, by field of the Plan. facts: what the analyses found, once they ran.
    notes, remarks: of decisions and of passes. launching: who launches the kernel; launch: what its launches need.
    raising, strides: pointer accesses that TMA is to make, and arguments taken to be 1; raised: how many loads it
    makes. aref: the text of that level. verdicts: of the checks, by name.
    stage_ms: milliseconds by step.
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
    raising: Raising | None = None
    strides: tuple[Argument, ...] = ()
    raised: int = 0
    aref: str = ""
    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.pins = self.plan

    @property
    def channels(self) -> Channels:
        """The rings to be, once the analyses ran."""
        assert self.facts is not None
        return self.facts.channels

    @property
    def place(self) -> SourceLocation | None:
        """Where the kernel loads its first operand."""
        return source_of(self.module, self.facts.moved[0].load.op) if self.facts else None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a list: its name, and what it does; it returns the remark that declines the kernel, or None."""

    name: str
    run: Callable[[Flow], Remark | None]


def passing(kind: type[Pass]) -> Step:
    """The step that runs a pass, whose options are what the flow has under their names: its Plan, its channels."""
    names = [it.name for it in fields(kind) if it.name in ("plan", "channels", "strides")]  # type: ignore[arg-type]

    def run(flow: Flow) -> Remark | None:
        result = kind(**{name: getattr(flow, name) for name in names}).run(flow.module)
        flow.remarks += result.remarks
        if result.decided != _NOTHING:
            flow.plan = result.decided.over(flow.plan)
        return next((remark for remark in result.remarks if remark.kind == "declined"), None)

    return Step(kind.__name__, run)


def run(flow: Flow, steps: Iterable[Step], until: str = "") -> Remark | None:
    """Runs steps in their order, as far as one that declines the kernel, whose remark is returned.

    until: the name of the last step to be run; empty: all.
    """
    for step in steps:
        start = time.perf_counter()
        refusal = step.run(flow)
        flow.stage_ms[step.name] = flow.stage_ms.get(step.name, 0.0) + (time.perf_counter() - start) * 1e3
        if refusal is not None or step.name == until:
            return refusal
    return None


_NOTHING = Plan()


# -- what comes of it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one kernel. Declined: `applied` False, `plan` None, both texts empty.

    `aref` and `barrier` are the two levels in generic form, `module` is the barrier level itself; `stage_ms` maps stage
    name to milliseconds. verdict: what the checks of both levels found; None where nothing was checked. why: why the
    planner decided as it did, by field of the Plan.
    """

    applied: bool
    plan: Plan | None
    remarks: tuple[Remark, ...]
    aref: str = ""
    barrier: str = ""
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    module: Module | None = None
    verdict: Verdict | None = None
    why: dict[str, str] = field(default_factory=dict[str, str])


def outcome_of(flow: Flow, refusal: Remark | None) -> Outcome:
    """What came of a kernel that went through all lists, or was declined on the way."""
    verdict = combine(flow.verdicts) if flow.verdicts else None
    if refusal is None and isinstance(verdict, Unknown):
        refusal = _unproved(verdict, flow)
        if flow.options.pinned or flow.pinned:
            flow.notes.append(Remark("note", refusal.reason, refusal.location))
            refusal = None
    if refusal is not None:
        return Outcome(False, None, (refusal,), stage_ms=flow.stage_ms, verdict=verdict)
    barrier = print_module(flow.module)
    applied = Remark("applied", _summary(flow.plan))
    remarks = (applied, *flow.notes, *dict.fromkeys(flow.remarks))
    return Outcome(True, flow.plan, remarks, flow.aref, barrier, flow.stage_ms, flow.module, verdict, flow.why)


def _unproved(found: Unknown, flow: Flow) -> Remark:
    cure = (
        "tl.assume states what is known of an argument; enable_warp_specialization=True specialises all the same; "
        "TAWA_VERIFY=off checks nothing"
    )
    reason = f"the protocol of the specialised kernel cannot be proved: {found.reason}"
    return Remark("declined", reason, found.location or flow.place, cure)


def _summary(plan: Plan) -> str:
    rings = ", ".join(f"{ring.name} with D = {ring.depth}{_FILLED[ring.fill or 'tma']}" for ring in plan.rings)
    groups = plan.consumer_groups
    consumers = "one consumer" if groups == 1 else f"{groups} consumers, each with its rows of the tile,"
    turns = "; ping-pong" if plan.ping_pong else ""
    return f"one producer feeds {consumers} through {rings}; P = {plan.mma_depth}{turns}"


_FILLED: dict[Fill, str] = {"tma": "", "cp.async": " (by cp.async)", "registers": " (from registers)"}


# -- checks ------------------------------------------------------------------------------------------------------------


def credits_checked(flow: Flow) -> None:
    """The aref level: its structure, its text, and the credit check; raises ProtocolError where that refutes."""
    _require_structure(flow.module, "aref")
    flow.aref = print_module(flow.module, locations=False)
    if flow.verification != "off":
        flow.verdicts["credits"] = _not_refuted(_checked(check_credits, flow), "aref", flow.module)


def barriers_checked(flow: Flow) -> None:
    """The barrier level: its structure, the barrier check, and at full effort the refinement of the aref level."""
    _require_structure(flow.module, "barrier")
    if flow.verification != "off":
        flow.verdicts["barriers"] = _not_refuted(_checked(check_barriers, flow), "barrier", flow.module)
    if flow.verification == "full":
        found = check_refinement(parse_module(flow.aref), flow.module)
        flow.verdicts["refinement"] = _not_refuted(found, "barrier", flow.module)


def _checked(check: Callable[..., Verdict], flow: Flow) -> Verdict:
    """A fast check that cannot tell is followed by a full one: rare, and better than leaving the kernel to stock."""
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


__all__ = ["Flow", "Outcome", "Step", "barriers_checked", "credits_checked", "outcome_of", "passing", "run"]
