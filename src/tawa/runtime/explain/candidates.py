"""The candidates of a kernel: what the model of time predicts of each form, and what was measured of each.

as written, 1 group       182 us for arguments of 2048, 1056 programs        compiled
persistent, 1 group       179 us
stock Triton              193 us
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tawa.bridge.launch.forecasts import Forecasts, forecasts_of
from tawa.bridge.report.record import KEY
from tawa.machine.machines import SM_90
from tawa.plan.cost.launches import Launch, launch_of
from tawa.plan.cost.time_model import predict
from tawa.runtime.tuning.store import entries_of
from tawa.runtime.tuning.table import Entry


@dataclass(frozen=True, slots=True)
class Predicted:
    """One form of a kernel. words: the form. compiled: whether it is the one that is explained.

    times_us: the predicted microseconds of a launch, by the sizes in words.
    """

    words: str
    times_us: Mapping[str, float]
    compiled: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the choice of a form is made from.

    predicted: stock Triton's kernel first; empty where nothing is predicted (a pinned kernel, another GPU).
    measured: what `tawa tune` and launches have measured, by shape class.
    """

    predicted: tuple[Predicted, ...] = ()
    measured: tuple[Entry, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "predicted": [asdict(it) for it in self.predicted],
            "measured": [it.to_dict() for it in self.measured],
        }


def candidates_of(
    compiled: Any, arguments: Mapping[str, Any] | None = None, grid: Sequence[int] | None = None
) -> Candidates:
    """The candidates of a compiled kernel; arguments, grid: of the one launch that is asked about."""
    known = getattr(compiled.metadata, KEY, None) or {}
    forecasts = forecasts_of(compiled, SM_90.processors)
    # The model is fitted to a Hopper GPU, and is not asked of others.
    asked = forecasts is not None and forecasts.about.get("capability") == SM_90.capability
    predicted = _predicted(forecasts, arguments or {}, grid) if forecasts is not None and asked else ()
    tuning = known.get("tuning")
    return Candidates(predicted, entries_of(tuning["key"]) if tuning is not None else ())


def _predicted(forecasts: Forecasts, arguments: Mapping[str, Any], grid: Sequence[int] | None) -> tuple[Predicted, ...]:
    search = forecasts.search
    if search is None:
        return ()
    space = search.space
    launches = _launches(forecasts, arguments, grid) or {it.guesses: it for it in space.launches}
    programs = [("stock Triton", space.stock, search.own is None)]
    if search.own is not None and search.program is not None:
        programs.append((space.words(search.own), search.program, True))
    programs += [(space.words(it), space.program(it), False) for it in search.forms]
    return tuple(
        Predicted(
            words, {name: round(predict(space.workload, it, program), 2) for name, it in launches.items()}, compiled
        )
        for words, program, compiled in programs
    )


def _launches(
    forecasts: Forecasts, arguments: Mapping[str, Any], grid: Sequence[int] | None
) -> dict[str, Launch] | None:
    """The launch that is asked about, by its sizes; None if the arguments that decide its work are not all known."""
    search = forecasts.search
    if search is None or grid is None or any(name not in arguments for _, name in forecasts.sizes):
        return None
    values: list[int | None] = [None] * len(search.space.workload.function.body.args)
    for index, name in forecasts.sizes:
        values[index] = int(arguments[name])
    sizes = ", ".join([*(f"{name} = {arguments[name]}" for _, name in forecasts.sizes), f"grid {tuple(grid)}"])
    return {sizes: launch_of(search.space.workload, values, grid, forecasts.processors)}


__all__ = ["Candidates", "Predicted", "candidates_of"]
