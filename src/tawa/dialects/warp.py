"""`warp`: partitions at the aref level.

    "warp.group"() <{partition = "producer", role = "producer", num_warps = 1 : i32, registers = 24 : i32}> ({
      … "warp.end"() })

All groups of a function are in one block, run concurrently and see the values above them. The operands of the
consumer's ``warp.end`` are the results of its group, for operations after all groups.
"""

from __future__ import annotations

from typing import Literal

from tawa.dialects.declare.declaration import OpView
from tawa.dialects.declare.families import YieldingOp
from tawa.dialects.declare.fields import attribute, region, types_of
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import warps_of
from tawa.ir import Module, Operation
from tawa.ir.attributes import read_int, read_string

Role = Literal["producer", "converter", "mma", "storer", "correction", "consumer"]
"""What a partition does: it fills rings; it reads some and fills others; one thread of it issues all dots; it stores
what consumers staged; it rewrites accumulators; the rest."""


class EndOp(YieldingOp):
    """``warp.end``: the end of a partition, with the results of its group."""

    NAME = "warp.end"


class GroupOp(OpView):
    """``warp.group``: one partition. No operands; a consumer may have results.

    Region: its program, ending in ``warp.end``.

    Becomes the default region (the first consumer) or a partition region of ``ttg.warp_specialize``.
    """

    NAME = "warp.group"
    RECURSIVE = True
    partition = attribute("partition", read_string)  # its name in the Plan
    num_warps = attribute("num_warps", read_int)  # warps that execute it
    body = region(0)  # its program

    @property
    def role(self) -> Role:
        """What the partition does."""
        match read_string(self.op.properties["role"]):
            case "producer" | "converter" | "mma" | "storer" | "correction" as role:
                return role
            case _:
                return "consumer"

    @property
    def registers(self) -> int | None:
        """Registers per thread, if the Plan requests a number."""
        text = self.op.properties.get("registers")
        return read_int(text) if text else None

    def check(self) -> str | None:
        """The operands of the terminator have the types of the results."""
        handed = types_of(self.body.terminator.operands)
        if handed != types_of(self.op.results):
            return f"results {types_of(self.op.results)} but it ends with {handed}"
        return None


def order_beside(num_warps: int, role: str) -> tuple[int, bool]:
    """The key by which partitions beside the consumers are ordered: larger ones first, whose warps are aligned."""
    return -num_warps, role == "producer"


def find_groups(module: Module) -> list[GroupOp]:
    """The groups of a kernel, in textual order."""
    first = next((op for op in module.walk() if op.name == GroupOp.NAME), None)
    if first is None or first.parent is None:
        return []
    return [group for op in first.parent.ops if (group := GroupOp.of(op))]


def find_consumers(module: Module) -> list[tuple[Operation, int]]:
    """The consumers of a kernel, each with its warps; the kernel if it has no partitions."""
    groups = find_groups(module)
    if not groups:
        return [(op, warps_of(op)) for op in module.body.ops if FuncOp.matches(op)]
    return [(it.op, it.num_warps) for it in groups if it.role == "consumer"]
