"""Launching the kernels of a mixture of experts on PyTorch tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tawa.ops.calls.devices import device_of, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tables import blocks
from tawa.ops.calls.tensors import unwritten
from tawa.ops.grouped import tiles as tables
from tawa.ops.grouped.launch import GroupedMM, above, list_for, slots_for, tiles_of
from tawa.ops.kernels.grouped import experts as kernels

count_choices: Any = once_for_all(kernels.count_choices, ("total", "E"))
place_blocks: Any = once_for_all(kernels.place_blocks, ("blocks",))
sort_choices: Any = once_for_all(kernels.sort_choices, ("total", "slots", "E"))
sort_block: Any = once_for_all(kernels.sort_block, ("total", "slots", "E"))
scatter_rows: Any = once_for_all(kernels.scatter_rows, ())
add_experts: Any = once_for_all(kernels.add_experts, ())
SIZE = 128
"""Choices in a block."""
AT_ONCE, TOGETHER = 512, 16
"""Blocks whose counts are added up at a time, and experts that a program does it for."""
COLUMNS = 1024
"""Of a program that moves rows."""


class Sorted(NamedTuple):
    """Choices by experts: the choice in each place, the place of each choice, the ends of the experts' places.

    tiles: the list of tiles of these places.
    """

    order: torch.Tensor
    rank: torch.Tensor
    ends: torch.Tensor
    tiles: torch.Tensor


class Sort:
    """The launches that sort so many choices of E experts, and list tiles of BM rows."""

    def __init__(self, total: int, E: int, BM: int, slots: int) -> None:
        self.total, self.E, self.slots, self.blocks = total, E, slots, blocks(total, SIZE)
        self.width = above(E)
        wide = {"EXPERTS": self.width, "SIZE": SIZE, "num_warps": 8}
        listing = {"BM": BM}
        if self.blocks == 1:
            constants = {**listing, **wide, "num_warps": 16}
            self.at_once = Launches(lambda: sort_block, (), (total, slots, E), constants)
            return
        self.columns = min(TOGETHER, self.width)
        placing = {"EXPERTS": self.width, "COLUMNS": self.columns, "AT_ONCE": AT_ONCE, "num_warps": 8}
        self.count = Launches(lambda: count_choices, (), (total, E), wide)
        self.place = Launches(lambda: place_blocks, (), (self.blocks,), placing)
        self.sort = Launches(lambda: sort_choices, (), (total, slots, E), {**listing, **wide})

    def __call__(self, experts: torch.Tensor) -> Sorted:
        """The choices (tokens, CHOICES), contiguous, in the order of their experts."""

        def made(count: int) -> torch.Tensor:
            return unwritten(experts, (count,), torch.int32)

        found = Sorted(made(self.total), made(self.total), made(self.E), list_for(experts, self.slots))
        if self.blocks == 1:
            self.at_once((1,), (experts, found.order, found.rank, found.ends, found.tiles), (experts,))
            return found
        counts, totals = made(self.blocks * self.width), made(self.width)
        self.count((self.blocks,), (experts, counts), (experts,))
        self.place((self.width // self.columns,), (counts, totals))
        self.sort((1 + self.blocks,), (experts, counts, totals, *found), (experts,))
        return found


class Mixture:
    """The launches for tensors that differ in their addresses only.

    x (T, H), gate_up (E, 2 I, H), down (E, H, I), experts (T, CHOICES). pair: not the chosen
    tiles.
    """

    def __init__(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, experts: torch.Tensor,
        pair: tables.Pair | None = None,
    ) -> None:  # fmt: skip
        (T, H), (E, wide, _), choices = x.shape, gate_up.shape, experts.shape[1]
        total, self.device = T * choices, x.device.index
        gated, grouped = tiles_of(x.device, tables.GATED), tiles_of(x.device, tables.GROUPED)
        pair = pair or tables.pair(gated, grouped, tables.Sizes(total, E, wide, H), device_of(x.device))
        BM, self.moved = pair.first.BM, pair.moved
        self.sort = Sort(total, E, BM, slots_for(total, E, BM))
        between = x.new_empty(total, wide // 2)
        if self.moved:
            self.first = GroupedMM(x.new_empty(total, H), gate_up.mT, True, pair.first)
        else:
            self.first = GroupedMM(x, gate_up.mT, True, pair.first, total, choices)
        self.second = GroupedMM(between, down.mT, False, pair.second)
        self.across = blocks(H, COLUMNS)
        moving = {"CHOICES": choices, "SIZE": COLUMNS, "num_warps": 4}
        self.scatter, self.add = (
            Launches(lambda: scatter_rows, (), (H,), moving),
            Launches(lambda: add_experts, (), (H,), moving),
        )

    def __call__(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
    ) -> torch.Tensor:
        """The sums (T, H), contiguous."""
        return on_device(self.device, self._run, x, gate_up, down, weights, experts)

    def _run(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
    ) -> torch.Tensor:
        return self.of_sorted(x, gate_up, down, weights, self.sort(experts.contiguous()))

    def of_sorted(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, by_expert: Sorted
    ) -> torch.Tensor:
        """The same for choices that are sorted."""
        x, weights = x.contiguous(), weights.contiguous()
        grid = x.shape[0], self.across
        if self.moved:
            rows = unwritten(x, (self.sort.total, x.shape[1]), x.dtype)
            self.scatter(grid, (x, by_expert.rank, rows), (x,))
            between = self.first(rows, gate_up.mT, by_expert.tiles)
        else:
            between = self.first(x, gate_up.mT, by_expert.tiles, by_expert.order)
        y = self.second(between, down.mT, by_expert.tiles)
        out = unwritten(x, tuple(x.shape), x.dtype)
        self.add(grid, (y, by_expert.rank, weights, out), (weights,))
        return out


def run_moe(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
) -> torch.Tensor:
    """The sums for valid arguments of any size."""
    if 0 in x.shape or 0 in gate_up.shape or 0 in experts.shape:
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    return Mixture(x, gate_up, down, experts)(x, gate_up, down, weights, experts)


def run_sort(experts: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """order, rank and ends, as `Sorted` has them, of choices (tokens, CHOICES) of `count` experts."""
    total = experts.numel()
    if not total or not count:
        ends = torch.zeros(count, dtype=torch.int32, device=experts.device)
        same = torch.arange(total, dtype=torch.int32, device=experts.device)
        return same, same.clone(), ends
    found = Sort(total, count, 64, slots_for(total, count, 64))(experts.contiguous())
    return found.order, found.rank, found.ends
