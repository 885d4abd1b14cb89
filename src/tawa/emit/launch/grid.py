"""The grid of a launch: programs that share a CTA, programs that share a tile, and persistent programs."""

from __future__ import annotations

from tawa.analysis.tma.launch_choice import MOST_TILES, MOST_WORKSPACE_BYTES
from tawa.symbolic.host.launch_spec import Grouped, LaunchSpec

LETTERS = "xyz"
GRID = "<grid>"
"""Stands for the name of the user's grid, which no parameter of the kernel has."""
SIZES = f"x, y, z = (*{GRID}, 1, 1)[:3]"


def needs_grid(spec: LaunchSpec) -> bool:
    """Whether the grid of the kernel is another than the user's, or its sizes are limited."""
    return bool(spec.axes or spec.counter or spec.grouped or spec.shared)


def most_of_grid(spec: LaunchSpec) -> list[str]:
    """The statements that refuse grids."""
    lines = [SIZES] if spec.axes or spec.counter or spec.shared else []
    if spec.axes:
        lines += [_grouped(spec.grouped)] if spec.grouped else []
        for letter in LETTERS[spec.axes :]:
            lines += [f"if {letter} != 1:", '    return "the grid has more sizes than the persistent kernel takes"']
        lines += [
            f"if x * y * z > {MOST_TILES}:",
            '    return "the grid has too many programs for a persistent kernel"',
        ]
    elif spec.counter:
        lines += ["if y * z != 1:", '    return "the grid has several axes, and one counter of tiles"']
    if spec.shared is not None:
        lines += [
            f"if x * y * z * {spec.shared.workspace_bytes((1,))} > {MOST_WORKSPACE_BYTES}:",
            '    return "the partial sums of all tiles would take more than 1 GiB"',
        ]
    return lines


def grid_of(spec: LaunchSpec, device: str) -> tuple[list[str], str]:
    """The statements that compute the grid of the kernel, and its expression. device: of the tensors."""
    if not needs_grid(spec):
        return [], GRID
    lines, grid = [SIZES], "x, y, z"
    if spec.grouped is not None:
        lines += [f"programs = {LETTERS[spec.grouped.axis]}", _grouped(spec.grouped)]
    if spec.shared is not None:
        lines.append(f"tiles = x * y * z  # each by {spec.shared.shares} programs")
        grid = f"x * {spec.shared.shares}, y, z"
    elif spec.axes:
        lines.append(f"processors = torch.cuda.get_device_properties({device}).multi_processor_count")
        most = f"{spec.on_one} * processors" if spec.on_one > 1 else "processors"
        grid = f"min(x * y * z, {most}),"
    return lines, f"({grid})"


def _grouped(grouped: Grouped) -> str:
    letter, programs = LETTERS[grouped.axis], grouped.programs
    return f"{letter} = -(-{letter} // {programs})  # {programs} neighbouring programs share a CTA"
