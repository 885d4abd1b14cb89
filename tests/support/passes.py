"""Runs the pipeline up to a given pass on a small program."""

from __future__ import annotations

from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.dialects import structure_rules
from tawa.flow import Flow, Step, run
from tawa.ir import Module, parse_module, verify_structure
from tawa.pipeline import BARRIERS, TTGIR
from tawa.plan import LoopPlan, PartitionPlan, Plan, PlanOptions, RingPlan
from tawa.plan.decide.rings import Target
from tawa.plan.fields import UNCAPPED
from tawa.remarks import Remark
from tawa.transforms.drop_names import DropNames


def unchecked(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A list without its protocol checks, for tests that break the protocol or check it themselves."""
    return tuple(step for step in steps if not step.name.startswith("check"))


def to_arefs(steps: tuple[Step, ...] = TTGIR) -> tuple[Step, ...]:
    """The part of a list before the barrier level."""
    return tuple(step for step in unchecked(steps) if step not in BARRIERS)


def plan_for(module: Module, depth: int, mma_depth: int, early_puts: int = 0) -> Plan:
    """The Plan of one producer warp and four consumer warps, every ring of the same depth, no register operand."""
    channels = find_channels(find_dot_loads(module))
    return Plan(
        partitions=(PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 4, 240)),
        max_registers=UNCAPPED,
        loops=(LoopPlan(None, mma_depth, kept=()),),
        rings=tuple(RingPlan(channel.name, channel.payload, depth, channel.slot_bytes) for channel in channels),
        early_puts=early_puts,
        ping_pong=False,
    )


def flow_of(text: str, plan: Plan | None = None, *, groups: int = 1, num_warps: int = 4) -> Flow:
    """The flow of a program before the first pass, with a pinned Plan."""
    target = Target(num_warps, num_stages=3, groups=groups)
    return Flow(parse_module(text), plan or Plan(), PlanOptions(), target, pinned=True, verification="off")


def checked(module: Module) -> Module:
    """Returns the module after checking its structure."""
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module


def after(
    last: type, text: str, *, depth: int = 2, mma_depth: int = 1, early_puts: int = 0
) -> tuple[Module, list[Remark]]:
    """The module after the pass `last`, with its structure checked and names dropped, and the remarks so far."""
    flow = flow_behind(last, text, depth=depth, mma_depth=mma_depth, early_puts=early_puts)
    DropNames().run(flow.module)
    return checked(flow.module), flow.remarks


def flow_behind(last: type, text: str, *, depth: int = 2, mma_depth: int = 1, early_puts: int = 0) -> Flow:
    """The flow after the pass `last`, with the names of operations."""
    steps = unchecked(TTGIR)
    assert last.__name__ in [step.name for step in steps], f"the pipeline has no {last.__name__}"
    flow = flow_of(text, plan_for(parse_module(text), depth, mma_depth, early_puts))
    refusal = run(flow, steps, until=last.__name__)
    assert refusal is None, refusal
    return flow
