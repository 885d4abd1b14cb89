"""Names of what Tawa adds to a kernel in Triton's dialects: arguments of the function, and attributes."""

from __future__ import annotations

ADDED_BASE = "tawa.base"
"""Attribute of a descriptor argument that Tawa added: the number of the argument whose memory it describes."""
GRID_SIZE = "tawa_grid_"
"""The prefix, before the axis, of the arguments that pass the grid size to a persistent form."""
PROGRAMS = f"{GRID_SIZE}programs"
"""The argument that passes the size of the grid along the axis whose programs share a CTA."""
TILE_COUNTER = "tawa_tile_counter"
"""The argument that points to the counter from which programs take their next tiles."""
WORKSPACE = "tawa_workspace"
"""The argument that points to the memory for partial sums of programs that share a tile."""
SEMAPHORES = "tawa_semaphores"
"""The argument that points to the numbers of programs that have written their partial sums, one for each tile."""
STAYS = "tawa.stays"
"""Attribute of a load that stays in the consumer because it is rarely executed."""
