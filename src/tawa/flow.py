"""The flow: one kernel on its way through the lists of `tawa.pipeline`, and the runner.

A step is a pass, which does what the Plan says; or a decision, which completes the Plan from what is known by then and
changes nothing else; or a check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tawa.analysis.launch_values import Argument, LaunchSpec
from tawa.dialects import structure_rules
from tawa.errors import ProtocolError
from tawa.ir import Module, parse_module, print_module, verify_structure
from tawa.plan import Plan, PlanOptions
from tawa.plan.decisions import Facts, Target
from tawa.plan.paths import Launching, Raising
from tawa.remarks import Remark
from tawa.transforms.result import Pass
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.credits import check_credits
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


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a list: its name, and what it does; it returns the remark that declines the kernel, or None."""

    name: str
    run: Callable[[Flow], Remark | None]


def passing(make: type[Pass] | Callable[[Flow], Pass], name: str = "") -> Step:
    """The step that runs a pass. make: the pass, given the flow; or its class, where it has no options."""

    def run(flow: Flow) -> Remark | None:
        step = make() if isinstance(make, type) else make(flow)
        result = step.run(flow.module)
        flow.remarks += result.remarks
        if result.decided != _NOTHING:
            flow.plan = result.decided.over(flow.plan)
        return next((remark for remark in result.remarks if remark.kind == "declined"), None)

    return Step(name or getattr(make, "__name__", ""), run)


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


__all__ = ["Flow", "Step", "barriers_checked", "credits_checked", "passing", "run"]
