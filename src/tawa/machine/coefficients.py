"""The coefficients of the model of time (`tawa.plan.cost.time_model`), and how far it is off.

They stand in ``coefficients.json`` beside this file, with the measurements that they come from. The file is written by
``python -m bench.model.fit``, never by hand. Cycles are those of `tawa.machine.machines.SM_90`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("coefficients.json")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The coefficients.

    start_stock, start_specialised: microseconds from one launch to the next, without any work.
    fill_stock, fill_specialised: cycles until the first tile has arrived in a program; a stock kernel pays them at each
        loop, a specialised one at its start, where it also initialises barriers and starts its partitions.
    drain_specialised: cycles at the end of a loop of a specialised kernel, until the last dot has left. drain_staged:
        iterations' worth of a loop with stages that overlap with nothing, at its begin and its end.
    block: cycles of a block without dots, beside its work: waits between operations that depend on each other.
    overlap: exponent of the smooth maximum over units of an SM. sharing: the same for programs that share an SM.
    tail: how much of a full wave the last, partial wave takes.
    tensor_8, tensor_16, tensor_32: time of a dot over that at the peak rate, by bits of an operand's element.
    tensor_mma: time of a dot by mma.sync over that of a wgmma. step_mma: cycles from one mma.sync to the next that adds
        to the same registers.
    lanes, special, narrow: cycles over those at the peak rate, for fp32 operations, special functions, and conversions
        from and to 8 bits. carried: the same for an element of 8 bits that stages carry. address: the same for the
        addresses and masks of loads through pointers.
    copy, through: cycles of `LANES_PER_CYCLE` pieces of tiles that a producer loads through pointers, by cp.async or
        through its registers. arrival: cycles until a load has arrived in a producer's registers. scalar: the same
        for a single number.
    beside_stock, beside_specialised: cycles that an iteration with dots waits for tiles that feed no dot. outside: the
        same of a block without dots.
    alone: what a single warp of a scheduler loses, because nothing fills its gaps. shuffle: cycles of a reduction.
    store, store_tma: cycles of 128 bytes that are stored through pointers, or by TMA. transpose: of 128 bytes of an
        operand that is transposed through registers.
    bytes_per_cycle: from L2 to an SM. row: cycles of a row (at most 128 bytes) of an operand.
    latency, latency_tma: cycles of global memory that slots hide, through pointers and by TMA. exposed: the same where
        nothing hides it.
    held: slots that wait for their release, on average. held_specialised: the time of the dots that read a slot, as a
        part of all dots of an iteration.
    wait_stock, wait_chained: cycles around a dot of a stock kernel, alone or chained to another dot. sync: the same
        for each further warp group, because a stock kernel synchronises all warps before it reuses a slot.
    wait_specialised, wait_in_flight, wait_staged: cycles around a dot of a consumer that waits for it (P = 0), that
        keeps dots in flight, or whose loop has stages. wait_serialised: cycles around each wgmma instruction of a stock
        kernel whose wgmmas ptxas serialises. wait_mma: cycles around a dot by mma.sync.
    spill: cycles of an iteration with dots for each byte that is spilled, by the counts of ptxas. uneven: work of the
        busiest SM of a persistent form over the mean, where memory decides how much each program does.
    """

    start_stock: float
    start_specialised: float
    fill_stock: float
    fill_specialised: float
    drain_specialised: float
    drain_staged: float
    block: float
    overlap: float
    sharing: float
    tail: float
    tensor_8: float
    tensor_16: float
    tensor_32: float
    tensor_mma: float
    step_mma: float
    lanes: float
    special: float
    narrow: float
    carried: float
    address: float
    copy: float
    through: float
    arrival: float
    scalar: float
    beside_stock: float
    beside_specialised: float
    outside: float
    alone: float
    shuffle: float
    store: float
    store_tma: float
    transpose: float
    bytes_per_cycle: float
    row: float
    latency: float
    latency_tma: float
    exposed: float
    held: float
    held_specialised: float
    sync: float
    wait_stock: float
    wait_chained: float
    wait_specialised: float
    wait_in_flight: float
    wait_staged: float
    wait_serialised: float
    wait_mma: float
    spill: float
    uneven: float

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of all coefficients."""
        return tuple(it.name for it in fields(Coefficients))


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The error of the predicted gain over stock Triton, as a logarithm, on kernels of one regime.

    deviation: root of the mean square of predicted less measured, on kernels that the fit did not see. points: how many
    measurements it comes from.
    """

    deviation: float
    points: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit: its coefficients, its errors by regime, that of a regime without measurements, and where it comes from."""

    coefficients: Coefficients
    errors: Mapping[str, ErrorInfo]
    unknown: ErrorInfo
    source: Mapping[str, Any]


@cache
def fitted() -> Fit:
    """The fit of `FILE`."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    errors = {name: ErrorInfo(**it) for name, it in data["errors"].items()}
    return Fit(Coefficients(**data["coefficients"]), errors, ErrorInfo(**data["unknown"]), data["source"])
