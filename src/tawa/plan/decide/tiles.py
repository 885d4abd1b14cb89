"""The blocks of tiles that a persistent form starts together."""

from __future__ import annotations

from tawa.analysis.work.persistent import grid_axes
from tawa.analysis.work.shared_tiles import SharedTiles, find_shared_tiles
from tawa.ir import Module
from tawa.machine.machines import Machine
from tawa.plan.plan import Plan


def choose_group(module: Module, plan: Plan, machine: Machine) -> Plan:
    """G of an order of blocks, where the Plan leaves it open: the tiles that run at the same time load the least.

    Those are the programs of all SMs, or, in the order "l2_halves", of one half. Nothing is decided for other orders,
    and where the grid has one axis.
    """
    if plan.tile_order not in ("grouped", "l2_halves") or plan.tile_group is not None or grid_axes(module) < 2:
        return Plan()
    shared = find_shared_tiles(module) or SharedTiles(0, 0, 0)
    return Plan(tile_group=shared.group(machine.processors // (1 if plan.tile_order == "grouped" else 2)))
