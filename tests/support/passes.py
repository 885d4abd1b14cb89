"""Running the passes of the pipeline up to one of them, on a small program."""

from __future__ import annotations

from tawa.analysis.channels import find_channels
from tawa.analysis.loads import find_dot_loads
from tawa.dialects import structure_rules
from tawa.ir import Module, parse_module, verify_structure
from tawa.pipeline import aref_passes, barrier_passes
from tawa.plan import PartitionPlan, Plan, RingPlan
from tawa.remarks import Remark


def plan_for(module: Module, depth: int, mma_depth: int, early_puts: int = 0) -> Plan:
    """The Plan of one producer warp and four consumer warps, every ring of the same depth."""
    channels = find_channels(find_dot_loads(module))
    return Plan(
        partitions=(PartitionPlan("producer", "producer", 1, 24), PartitionPlan("consumer", "consumer", 4, 240)),
        rings=tuple(RingPlan(channel.name, channel.payload, depth, channel.slot_bytes) for channel in channels),
        mma_depth=mma_depth,
        early_puts=early_puts,
    )


def after(
    last: type, text: str, *, depth: int = 2, mma_depth: int = 1, early_puts: int = 0
) -> tuple[Module, list[Remark]]:
    """The module behind the pass `last`, checked for its structure, and the remarks so far."""
    module = parse_module(text)
    plan = plan_for(module, depth, mma_depth, early_puts)
    channels = tuple(find_channels(find_dot_loads(module)))
    remarks: list[Remark] = []
    for step in (*aref_passes(channels, plan), *barrier_passes()):
        remarks += step.run(module).remarks
        if isinstance(step, last):
            break
    else:
        raise AssertionError(f"the pipeline has no {last.__name__}")
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    return module, remarks
