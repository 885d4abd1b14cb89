"""Programs for the model of time, by the decisions that it depends on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tawa.machine.nvidia import SHARED_BYTES
from tawa.plan.cost.programs import Program
from tawa.plan.defaults import CONVERTER_PIECES
from tawa.plan.fields import LoopPlan, OperandPlan, PartitionPlan, RingPlan
from tawa.plan.option_conflicts import STOCK
from tawa.plan.plan import Plan

PARTS = 4
"""Operands through pointers, of which TMA makes some."""


def timed(specialised: bool = True, **decisions: Any) -> Program:
    """A program of one group of four warps and one CTA, with three slots and P = 0, but for these decisions.

    groups, num_warps (of all consumers), ctas, slots, in_flight, staged, persistent; by_pointers: the part of the
    operands, a multiple of 1 / `PARTS`; spilled: bytes of a group; serialised, fits; piece_bytes: of a converter.
    """
    plan = Plan(form="as_written", groups=1) if specialised else STOCK
    usual = {"num_warps": 4, "ctas": 1, "slots": 3, "in_flight": 0}
    return changed(Program(plan), **{**usual, **decisions})


def changed(program: Program, **decisions: Any) -> Program:
    """The same program with other decisions."""
    for name, value in decisions.items():
        program = _changed(program, name, value)
    return program


def _changed(program: Program, name: str, value: Any) -> Program:
    plan, facts = program.plan, program.facts
    beside = tuple(it for it in plan.partitions if it.role != "consumer")
    match name:
        case "groups" | "num_warps":
            groups, warps = (value, program.num_warps) if name == "groups" else (program.groups, value)
            consumers = (PartitionPlan(f"consumer{it}", "consumer", warps // groups) for it in range(groups))
            facts = replace(facts, spilled=program.spilled * groups)
            plan = replace(plan, groups=groups if program.specialised else None, partitions=(*beside, *consumers))
        case "ctas":
            plan = replace(plan, ctas_per_sm=value)
        case "slots":
            plan = replace(plan, rings=(RingPlan("ring", depth=value),))
        case "in_flight":
            plan = replace(plan, loops=(LoopPlan(0, mma_depth=value, stages=0),))
        case "staged":
            plan = replace(plan, loops=(LoopPlan(0, mma_depth=program.in_flight, stages=2 if value else 0),))
        case "persistent":
            plan = replace(plan, form="persistent" if value else "as_written")
        case "by_pointers":
            paths = ("pointers" if it < value * PARTS else "promoted" for it in range(PARTS))
            plan = replace(plan, operands=tuple(OperandPlan("a", 0, it, path, "ring") for it, path in enumerate(paths)))
        case "spilled":
            facts = replace(facts, spilled=value * max(1, plan.consumer_groups))
        case "serialised":
            facts = replace(facts, serialised=value)
        case "fits":
            facts = replace(facts, shared=0 if value else SHARED_BYTES + 1)
        case "piece_bytes":
            registers = next((it for it, size in CONVERTER_PIECES.items() if size >= value), max(CONVERTER_PIECES))
            converter = (PartitionPlan("converter", "converter", 2, registers),) * bool(value)
            consumers = tuple(it for it in plan.partitions if it.role == "consumer")
            plan = replace(plan, partitions=(*converter, *consumers))
        case _:
            raise ValueError(name)
    return replace(program, plan=plan, facts=facts)
