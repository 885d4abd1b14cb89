"""Lay out producer: tiles in a four-warp producer get layouts for four warps, with accesses wide enough for cp.async.

    warp.group producer num_warps 4 {                       warp.group producer num_warps 4 {
      %o = make_range : tensor<64xi32, #slice of #blocked>    %o = make_range : tensor<64xi32, #slice of #producer0>
      put { load %p : tensor<…, #blocked> } }           →     put { load %p : tensor<…, #producer0> } }

A producer whose layouts fit already stays as it is.

Requires: `resolve_groups`; `check_producer` has accepted the layouts: each is blocked, or a slice of a blocked one.
Ensures: the layout of each tile in a producer has the producer's number of warps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.producer_layouts import PRODUCER_WARPS, layouts_for, rename
from tawa.dialects.aref import CreateOp, PutOp
from tawa.dialects.tt import LoadOp
from tawa.dialects.warp import find_groups
from tawa.ir import Module, Operation
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class LayOutProducer:
    """No options: the group has the number of warps."""

    def run(self, module: Module) -> PassResult:
        """Replaces the layouts in every producer."""
        changed = False
        for group in find_groups(module):
            if group.role != "producer" or group.num_warps != PRODUCER_WARPS:
                continue  # a producer of fewer warps has no tiles
            inside = list(group.op.walk())
            names = layouts_for(module, inside, group.num_warps, _copies(inside))
            for nested in inside if names else []:
                _rename(nested, names)
            changed |= bool(names)
        return PassResult(changed)


def _copies(ops: list[Operation]) -> list[LoadOp]:
    """The loads that `lower_arefs` turns into cp.async."""
    return [
        load for op in ops if (load := LoadOp.of(op)) and op.parent is not None and _by_cp_async(op.parent.parent_op)
    ]


def _by_cp_async(op: Operation | None) -> bool:
    put = PutOp.of(op)
    create = CreateOp.of(put.ring.defining_op) if put else None
    return create is not None and create.fill == "cp.async"


def _rename(op: Operation, names: dict[str, str]) -> None:
    for value in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
        value.type = rename(value.type, names)
    for name, text in op.properties.items():
        op.properties[name] = rename(text, names)
