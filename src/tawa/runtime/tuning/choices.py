"""What was measured decides which Plan a launch gets: the choices of one kernel, for the launcher.

the kernel is loaded          its entries are read, if there is a table; no table: the launcher never asks
first launch of a key         shape class and lookup, a few microseconds; mode="measure" measures a class without entry
later launches of the key     nothing: the launcher keeps what it made for the key
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tawa.bridge.launch.added_arguments import multiprocessors
from tawa.bridge.launch.first.background import submit
from tawa.bridge.launch.host import Choices
from tawa.bridge.launch.launch_key import all_different
from tawa.bridge.report.record import KEY
from tawa.outside import read
from tawa.plan import Plan
from tawa.plan.search.measured import Prepare, Timed
from tawa.runtime.pytorch.clock import gpu_ms, gpu_name
from tawa.runtime.settings import Settings
from tawa.runtime.tuning.outputs import may_repeat, output_check
from tawa.runtime.tuning.shape_class import shape_class
from tawa.runtime.tuning.store import known_entries, user_store
from tawa.runtime.tuning.table import Entry, one_line, versions_here

if TYPE_CHECKING:  # a launch whose form is known measures nothing
    from tawa.plan.search.candidate import Candidate
    from tawa.plan.search.measured import Check, Measurement, Timer

_log = logging.getLogger("tawa")


class KernelChoices(Choices):
    """The choices of one kernel.

    entries: by shape class. measures: measures a launch without one; None: never. may_repeat: whether the launch with
    these arguments may run several times.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        sizes: Sequence[tuple[int, str]],
        processors: int,
        measures: Callable[[str, Sequence[Any], Prepare], Entry | None] | None = None,
        may_repeat: Callable[[Sequence[Any]], bool] = all_different,
    ) -> None:
        self.entries: dict[str, Entry | None] = dict(entries)
        self.sizes, self.processors = tuple(sizes), processors
        self.measures, self.may_repeat = measures, may_repeat
        self.arguments = frozenset(index for index, _ in sizes)
        self.known = any(it.plan.form != "stock" for it in entries.values())
        self.tuned = any(not it.learned for it in entries.values())
        self.keep: Callable[[str, Plan, str, Sequence[Timed]], Entry] | None = None

    def class_of(self, values: Sequence[Any], grid: Sequence[int]) -> str:
        """The shape class of such a launch."""
        return shape_class(self.sizes, values, grid, self.processors)

    def learn(self, name: str, best: Plan, words: str, found: Sequence[Timed]) -> None:
        """Real launches of a shape class have measured Plans; `best` is the fastest."""
        if self.keep is not None and name not in self.entries:
            self.entries[name] = self.keep(name, best, words, found)

    def lookup(self, values: Sequence[Any], grid: Sequence[int]) -> Plan | None:
        """The Plan of such a launch; None if it was never measured."""
        entry = self.entries.get(self.class_of(values, grid))
        return entry.plan if entry is not None else None

    def measure(self, values: Sequence[Any], grid: Sequence[int], args: Sequence[Any], prepare: Prepare) -> Plan | None:
        """Measures Plans for such a launch, once for each shape class; None if that is impossible."""
        name = self.class_of(values, grid)
        if self.measures is None or name in self.entries or not self.may_repeat(args):
            return None
        self.entries[name] = None  # whatever happens, it is not tried again
        entry = self.entries[name] = self.measures(name, args, prepare)
        return entry.plan if entry is not None else None

    def remarks(self) -> tuple[str, ...]:
        """What launches get according to measurements, a sentence for each shape class."""
        known = [it for it in self.entries.values() if it is not None]
        told = {False: "measured", True: "learned"}
        return tuple(f"{told[it.learned]}: launches with {it.shape_class} get: {it.words}" for it in known)


def choices_of(kernel: Any) -> Choices | None:
    """The choices of a kernel that is being loaded; None without a table entry, if nothing is to be measured."""
    known = getattr(kernel.metadata, KEY)
    facts, gpu = known["tuning"], gpu_name()
    if not gpu:
        return None
    entries = known_entries(facts["key"], gpu)
    wanted = facts["measure"] and facts["may_run_twice"]
    learns = (known.get("launch") or {}).get("learns", False)
    if not entries and not wanted and not learns:
        return None
    types, measures = tuple(kernel.src.signature.values()), _AtLaunch(kernel, gpu) if wanted else None
    repeats = partial(may_repeat, types, facts["writes"], all_different)
    sizes = _sizes(facts) or next((it.sizes for it in entries.values()), ())
    found = KernelChoices(entries, sizes, multiprocessors(), measures, repeats)
    if learns:
        found.keep = partial(_learned, facts, kernel.name, gpu)
    return found


def _learned(
    facts: Mapping[str, Any], kernel: str, gpu: str, name: str, best: Plan, words: str, found: Sequence[Timed]
) -> Entry:
    """The entry of what launches have learned; it is stored, unless the user has measured the class meanwhile."""
    entry = entry_of(facts, kernel, gpu, name, best, words, found, learned=True)
    _log.info("%s: learned for %s: %s", kernel, name, words)
    submit(partial(_store, entry), kept=True)
    return entry


def _store(entry: Entry) -> None:
    try:
        user_store().put([entry])
    except OSError as error:
        _log.warning("%s: the measurement is not stored: %s", entry.kernel, error)


class _AtLaunch:
    """Measures launches of one kernel in the user's process, while the user waits."""

    def __init__(self, kernel: Any, gpu: str) -> None:
        self.kernel, self.gpu = kernel, gpu

    def __call__(self, name: str, args: Sequence[Any], prepare: Prepare) -> Entry | None:
        """The entry, which is stored; None if nothing could be measured."""
        facts = getattr(self.kernel.metadata, KEY)["tuning"]
        plans = plans_of(facts)
        budget_s = Settings.from_environment().tune_budget
        try:
            check = output_check(tuple(self.kernel.src.signature.values()), args, facts["writes"])
            found = measured(plans, prepare, gpu_ms, budget_s, check)
        except Exception as error:  # out of memory, a failed launch: the launch itself tells the user
            _log.warning("%s: not measured: %s: %s", self.kernel.name, type(error).__name__, error)
            return None
        if found.best is None:
            return None
        entry = entry_of(facts, self.kernel.name, self.gpu, name, found.best.plan, found.best.words, found.times)
        _log.info("%s: measured for %s: %s", entry.kernel, entry.shape_class, entry.words)
        _store(entry)
        return entry


def plans_of(facts: Mapping[str, Any]) -> list[Candidate]:
    """The Plans that a kernel lists for a measurement, without lines of the source.

    These are only informative, and would name files of this machine in tables that are shipped.
    """
    from tawa.plan.search.candidate import Candidate

    return [read(Candidate, _without_lines(it)) for it in facts["ranked"]]


def _without_lines(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: _without_lines(it) for name, it in value.items() if name != "line"}
        return {**kept, "location": ""} if "location" in kept else kept
    return [_without_lines(it) for it in value] if isinstance(value, list | tuple) else value


def measured(
    plans: Sequence[Candidate], prepare: Prepare, timer: Timer, budget_s: float, check: Check | None, **more: Any
) -> Measurement:
    """As `tawa.plan.search.measured`; a Plan with wrong results is reported in the log."""
    from tawa.plan.search.measured import measure

    found = measure(plans, prepare, timer, budget_s, check, **more)
    for it in found.times:
        if it.note.startswith("wrong results"):
            _log.warning("a Plan is left out: %s: %s; please report it with the Plan %s", it.words, it.note, it.plan)
    return found


def entry_of(
    facts: Mapping[str, Any], kernel: str, gpu: str, name: str, best: Plan, words: str, found: Sequence[Timed],
    learned: bool = False,
) -> Entry:  # fmt: skip
    """The entry of a measurement. facts: what the kernel says about itself. name: the shape class."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    times = tuple(replace(it, plan=_without_lines(it.plan), note=one_line(it.note)) for it in found)
    plan = Plan.from_data(_without_lines(best.to_dict()))
    return Entry(
        facts["key"], kernel, gpu, versions_here(), name, _sizes(facts), plan, words, times, date, learned
    )  # fmt: skip


def _sizes(facts: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    return tuple((index, name) for index, name in facts["sizes"])
