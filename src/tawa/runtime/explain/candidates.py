"""The candidates of a kernel: what the model of time predicts of each form, and what was measured of each.

as written, 1 group       182 us for arguments of 2048, 1056 programs        this kernel
persistent, 1 group       284 us                                             it spills 540 bytes of registers
stock Triton              193 us
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.launch.added_arguments import stock_facts
from tawa.bridge.launch.answer import Answer
from tawa.bridge.launch.forecasts import Forecasts
from tawa.bridge.report.record import KEY, plan_of
from tawa.machine.machines import SM_90
from tawa.plan import Plan
from tawa.plan.cost.launches import Launch, launch_of
from tawa.plan.cost.programs import Program
from tawa.plan.cost.time_model import predict
from tawa.plan.search.prediction import EXPECTED
from tawa.plan.search.search import NOT_COMPILED, Search, spilled_text
from tawa.plan.search.space import form_of, only_measured
from tawa.runtime.tuning.store import entries_of
from tawa.runtime.tuning.table import Entry


@dataclass(frozen=True, slots=True)
class Predicted:
    """One form of a kernel. words: the form. compiled: whether it is the one that is explained.

    times_us: the predicted microseconds of a launch, by the sizes in words. note: what its compile showed, if it was
    compiled: "it spills 540 bytes of registers to local memory".
    """

    words: str
    times_us: Mapping[str, float]
    compiled: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the choice of a form is made from.

    predicted: stock Triton's kernel first; empty where nothing is predicted (a pinned kernel, another GPU).
    measured: what `tawa tune` and launches have measured, by shape class. expected: the remark with the prediction for
    launches of guessed sizes, of a kernel whose launches may get it; else empty.
    """

    predicted: tuple[Predicted, ...] = ()
    measured: tuple[Entry, ...] = ()
    expected: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "predicted": [asdict(it) for it in self.predicted],
            "measured": [it.to_dict() for it in self.measured],
        }


def candidates_of(
    compiled: Any, answer: Answer, arguments: Mapping[str, Any] | None = None, grid: Sequence[int] | None = None
) -> Candidates:
    """The candidates of a compiled kernel; arguments, grid: of the one launch that is asked about.

    answer: what launches get. Stock Triton's kernel is compiled, so that its prediction is the same however the kernel
    was asked for.
    """
    known = getattr(compiled.metadata, KEY, None) or {}
    tuning = known.get("tuning")
    measured = entries_of(tuning["key"]) if tuning is not None else ()
    forecasts = answer.forecasts
    # The model is fitted to a Hopper GPU, and is not asked of others.
    if forecasts is None or forecasts.about.get("capability") != SM_90.capability or forecasts.search is None:
        return Candidates((), measured)
    forecasts.learn_of_stock(lambda: stock_facts(compiled, attached))
    search = forecasts.search
    launches = _launches(forecasts, arguments or {}, grid) or {it.guesses: it for it in search.space.launches}
    plan = plan_of(known)
    expected = search.space.expected(plan, forecasts.spilled) if plan is not None else None
    told = f"{EXPECTED}{expected}" if expected is not None and expected.verdict == "faster" else ""
    return Candidates(tuple(_predicted(forecasts, search, _explained(search, answer), launches)), measured, told)


def _explained(search: Search, answer: Answer) -> Plan | None:
    """The form of the kernel that is explained; None for stock Triton's."""
    if answer.decision == "declined":
        return None
    if answer.compiled is None:
        return search.own
    plan = plan_of(getattr(answer.compiled.metadata, KEY))
    return form_of(search.space, plan) if plan is not None else None


def _predicted(
    forecasts: Forecasts, search: Search, explained: Plan | None, launches: Mapping[str, Launch]
) -> Iterator[Predicted]:
    """Stock Triton's kernel and every form; of those that were compiled, with what their compile showed."""
    space = search.space

    def times(program: Program) -> Mapping[str, float]:
        return {name: round(predict(space.workload, it, program), 2) for name, it in launches.items()}

    yield Predicted("stock Triton", times(space.stock), explained is None, _spills(space.stock))
    not_compiled = NOT_COMPILED if search.is_spent(forecasts.made) else ""
    known = {**forecasts.declined, **forecasts.made}
    if search.own is not None and search.program is not None:
        known[search.own] = search.program
    for form in (*([search.own] if search.own is not None else []), *search.forms):
        made = known.get(form)
        program = made if isinstance(made, Program) else space.program(form)
        left = "only measurements choose it" if only_measured(form) else not_compiled
        note = made if isinstance(made, str) else _spills(made) if made is not None else left
        yield Predicted(space.words(form), times(program), form == explained, note)


def _spills(program: Program) -> str:
    return spilled_text(program.facts.spilled) if program.facts.spilled else ""


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
