"""Programs of several consumer groups with ping-pong, at both levels."""

from __future__ import annotations

import re
from dataclasses import replace

from tawa.flow import run
from tawa.ir import Module, Operation, parse_module, print_module
from tawa.pipeline import BARRIERS
from tawa.plan import PartitionPlan, Plan
from tawa.remarks import Remark
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import op
from tests.support.passes import checked, flow_of, plan_for, to_arefs, unchecked

_STORE = re.compile(r'("tt\.descriptor_store"\(%\w+, %\w+), %(\w+),')
_ROWS = 80  # distance between the output rows of two groups


def grouped(text: str, groups: int = 2, upper: str = "") -> str:
    """The program with its output rows shifted by the number of the group. upper: replaces the bound %n of loops."""
    asm = 'asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true'
    lines = [
        op("arith.constant", "", "", "%groups", "i32", properties=f"value = {groups} : i32"),
        op("tt.elementwise_inline_asm", "%groups", "i32", "%group", "i32", properties=asm),
        op("arith.constant", "", "", "%rows", "i32", properties=f"value = {_ROWS} : i32"),
        programs.binary("shift", "muli", "group", "rows"),
    ]
    where = '%zeros = "arith.constant"'
    text = text.replace(where, "\n".join((*lines, where)), 1)
    if upper:
        text = text.replace("(%zero, %n, %one", f"(%zero, %{upper}, %one")
    text, count = _STORE.subn(r"\1, %row_\2,", text)
    assert count
    sums = [(f"row_{name}", name) for name in dict.fromkeys(re.findall(r"%row_(\w+),", text))]
    for row, name in sums:
        add = programs.binary(row, "addi", name, "shift")
        text = re.sub(rf'^(?="tt\.descriptor_store"\(%\w+, %\w+, %{row},)', add + "\n", text, count=1, flags=re.M)
    return text


def plan_of(text: str, groups: int = 2, depth: int = 2, *, ping_pong: bool = True) -> Plan:
    plan = plan_for(parse_module(text), depth, min(1, depth - 1))
    registers = 240 if groups < 3 else 152
    consumers = [PartitionPlan(f"consumer{number}", "consumer", 4, registers) for number in range(groups)]
    return replace(plan, partitions=(plan.partitions[0], *consumers), ping_pong=ping_pong)


def made(text: str, plan: Plan) -> tuple[Module, list[Remark]]:
    """The aref level and the remarks of the passes; stops after a pass that declines."""
    flow = flow_of(text, plan, groups=plan.consumer_groups)
    refusal = run(flow, to_arefs())
    remarks = flow.remarks if refusal is None or refusal in flow.remarks else [*flow.remarks, refusal]
    return checked(flow.module), remarks


def lowered(aref: Module) -> Module:
    flow = flow_of(print_module(aref))
    run(flow, unchecked(BARRIERS))
    return checked(flow.module)


def inside(holder: Operation, name: str) -> list[Operation]:
    return [it for it in holder.walk() if it.name == name]
