"""`warp`: partitions at the aref level.

    "warp.group"() <{partition = "producer", role = "producer", num_warps = 1 : i32, registers = 24 : i32}> ({
      … "warp.end"() })

All groups of a function stand in one block, run side by side and see the values above them. What the consumer hands to
``warp.end`` are the results of its group, for the operations behind all groups.
"""

from __future__ import annotations

from typing import Literal

from tawa.dialects.registry import OpSpec, declare
from tawa.dialects.view import OpView
from tawa.ir import Block, Module
from tawa.ir.attributes import read_int, read_string

declare(
    OpSpec("warp.group", recursive=True),
    OpSpec("warp.end", terminator=True),
)


class GroupOp(OpView):
    """``warp.group``: one partition. No operands; a consumer may have results.

    Region: its program, ending in ``warp.end``.

    Becomes the default region (the consumer) or a partition region (the producer) of ``ttg.warp_specialize``.
    """

    NAME = "warp.group"
    __slots__ = ()

    @property
    def partition(self) -> str:
        """Its name in the Plan."""
        return read_string(self.op.properties["partition"])

    @property
    def role(self) -> Literal["producer", "consumer"]:
        """Whether it fills rings or empties them."""
        return "producer" if read_string(self.op.properties["role"]) == "producer" else "consumer"

    @property
    def num_warps(self) -> int:
        """Warps that execute it."""
        return read_int(self.op.properties["num_warps"])

    @property
    def registers(self) -> int | None:
        """Registers a thread, where the Plan asks for a number."""
        text = self.op.properties.get("registers")
        return read_int(text) if text else None

    @property
    def body(self) -> Block:
        """Its program."""
        return self.op.regions[0].block


def find_groups(module: Module) -> list[GroupOp]:
    """The groups of a kernel, in textual order."""
    first = next((op for op in module.walk() if GroupOp.of(op)), None)
    if first is None or first.parent is None:
        return []
    return [group for op in first.parent.ops if (group := GroupOp.of(op))]
