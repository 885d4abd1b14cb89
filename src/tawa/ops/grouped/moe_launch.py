"""Launching the kernels of a mixture of experts on PyTorch tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tawa.ops.calls.devices import blocks, multiprocessors, on_device
from tawa.ops.calls.launches import Launches, once_for_all
from tawa.ops.calls.tensors import unwritten
from tawa.ops.grouped import tiles as tables
from tawa.ops.grouped.launch import GroupedMM, above, list_for, slots_for, tiles_of
from tawa.ops.kernels.grouped import experts as kernels

count_choices: Any = once_for_all(kernels.count_choices, ("total", "E"))
place_blocks: Any = once_for_all(kernels.place_blocks, ("blocks", "slots", "E"))
sort_choices: Any = once_for_all(kernels.sort_choices, ("total", "E"))
sort_block: Any = once_for_all(kernels.sort_block, ("total", "slots", "E"))
scatter_rows: Any = once_for_all(kernels.scatter_rows, ())
add_experts: Any = once_for_all(kernels.add_experts, ())
SIZE = 128
"""Choices in a block."""
AT_ONCE = 1 << 13
"""Counts that are added up at a time."""
COLUMNS = 1024
"""Of a program that moves rows."""


class Sorted(NamedTuple):
    """Choices by experts: the choice in each place, the place of each choice, the ends of the experts' places.

    tiles: the list of tiles of these places. Padded choices have no order.
    """

    order: torch.Tensor | None
    rank: torch.Tensor
    ends: torch.Tensor
    tiles: torch.Tensor


class Sort:
    """The launches that sort so many choices of E experts, and list tiles of BM rows; padded: to such tiles."""

    def __init__(self, total: int, E: int, BM: int, slots: int, padded: bool) -> None:
        self.total, self.E, self.slots, self.blocks, self.padded = total, E, slots, blocks(total, SIZE), padded
        self.width = above(E)
        wide = {"EXPERTS": self.width, "SIZE": SIZE, "num_warps": 8}
        listing = {"BM": BM, "PADDED": padded}
        if self.blocks == 1:
            constants = {**listing, **wide, "num_warps": 16}
            self.at_once = Launches(lambda: sort_block, (total, slots, E), constants)
            return
        placing = {**listing, "EXPERTS": self.width, "AT_ONCE": AT_ONCE // self.width, "num_warps": 16}
        self.count = Launches(lambda: count_choices, (total, E), wide)
        self.place = Launches(lambda: place_blocks, (self.blocks, slots, E), placing)
        self.sort = Launches(lambda: sort_choices, (total, E), {"SIZE": SIZE, "EXPERTS": self.width, "num_warps": 8})

    def __call__(self, experts: torch.Tensor) -> Sorted:
        """The choices (tokens, CHOICES), contiguous, in the order of their experts."""

        def made(count: int) -> torch.Tensor:
            return unwritten(experts, (count,), torch.int32)

        order = None if self.padded else made(self.total)
        found = Sorted(order, made(self.total), made(self.E), list_for(experts, self.slots))
        if self.blocks == 1:
            self.at_once((1,), (experts, found.order, found.rank, found.ends, found.tiles), (experts,))
            return found
        counts = made(self.blocks * self.width)
        self.count((self.blocks,), (experts, counts), (experts,))
        self.place((1,), (counts, found.ends, found.tiles))
        self.sort((self.blocks,), (experts, counts, found.order, found.rank), (experts,))
        return found


class Mixture:
    """The launches for tensors that differ in their addresses only.

    x (T, H), gate_up (E, 2 I, H), down (E, H, I), experts (T, CHOICES).
    """

    def __init__(self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, experts: torch.Tensor) -> None:
        (T, H), (E, wide, _), choices = x.shape, gate_up.shape, experts.shape[1]
        total, self.device = T * choices, x.device.index
        gated, grouped = tiles_of(x.device, tables.GATED), tiles_of(x.device, tables.GROUPED)
        first, second = tables.pair(gated, grouped, total, E, wide, H, multiprocessors(x.device))
        padded, slots = second in tables.PADDED, slots_for(total, E, first.BM)
        self.rows = (slots * first.BM if padded else total, H)
        rows, between = (torch.empty((self.rows[0], size), dtype=x.dtype, device=x.device) for size in (H, wide // 2))
        self.first = GroupedMM(rows, gate_up.mT, True, first, padded)
        self.second = GroupedMM(between, down.mT, False, second, padded)
        self.sort = Sort(total, E, first.BM, slots, padded)
        self.across = blocks(H, COLUMNS)
        moved = {"CHOICES": choices, "SIZE": COLUMNS, "num_warps": 4}
        self.scatter, self.add = Launches(lambda: scatter_rows, (H,), moved), Launches(lambda: add_experts, (H,), moved)

    def __call__(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
    ) -> torch.Tensor:
        """The sums (T, H), contiguous."""
        return on_device(self.device, self._run, x, gate_up, down, weights, experts)

    def _run(
        self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor
    ) -> torch.Tensor:
        x, weights, experts = x.contiguous(), weights.contiguous(), experts.contiguous()
        by_expert = self.sort(experts)
        rows = unwritten(x, self.rows, x.dtype)
        grid = x.shape[0], self.across
        self.scatter(grid, (x, by_expert.rank, rows), (x,))
        between = self.first(rows, gate_up.mT, by_expert.tiles)
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
    found = Sort(total, count, 64, slots_for(total, count, 64), padded=False)(experts.contiguous())
    assert found.order is not None
    return found.order, found.rank, found.ends
