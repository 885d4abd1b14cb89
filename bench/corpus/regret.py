"""The candidates of each kernel of an entry, checked against the entry's reference and timed kernel by kernel.

Stock Triton's autotuners choose first. Of the kernels that they chose, those with a dot are ranked from their TTIR, and
a mode is made for each place of the ranking: ``model 3`` runs every kernel under the Plan that ranks third among its
own, in stock Triton's configurations. If such a mode fails or is wrong, each kernel is run alone under its Plan, so
that a Plan costs no other kernel its measurement. What is left is timed round-robin by the profiler.

One more candidate is what launches have learned (`tawa.warmup`), each job for itself. A candidate that ends the
process is found by its parent: `tell` has got what was running (`RUNNING`).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from bench.compiled import learned, tables_in
from bench.corpus.distances import peak, same_bits
from bench.corpus.entry import Entry, Inputs, Outputs
from bench.corpus.kernel_times import time_kernels
from bench.corpus.launches import keep_launches, recorded_launches
from bench.corpus.modes import add_plan_mode, switch_to
from bench.corpus.report.results import far_off, right, told
from bench.corpus.running import (
    differentiate,
    evaluate,
    forget_compiled,
    give_back_memory,
    make_inputs,
    run_recorded,
)
from bench.corpus.timing import apart_from
from bench.harness import describe
from bench.regret.candidates import LEARNED, Candidate, learn, pinned_candidates
from bench.workers import is_fatal

RUNNING = "running "  # what a job has reached that runs candidates; their mode and kernels follow
STOCK_IS_WRONG = "stock Triton's results are infinitely far from the reference: there is nothing to compare with"
TOGETHER = "right alone, but not together with the other kernels' Plans: "
_OPTIONS: dict[str, dict[str, Any]] = {"stock": {"enable_warp_specialization": False}, "automatic": {}}
_MODES = {"stock": "stock", "automatic": "tawa", "learned": "learned"}  # of the candidates that are no Plans


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel that was launched: its `JITFunction`, and the first of its versions."""

    function: Any
    kernel: Any

    @property
    def record(self) -> Mapping[str, Any]:
        """What Tawa says about it."""
        return getattr(self.kernel.metadata, "tawa", None) or {}


def compiled_kernels() -> dict[str, Compiled]:
    """The kernels that were launched since `forget_compiled`, by the name of their function."""
    from triton.runtime.jit import JITFunction

    from tawa.bridge.triton.jitted import every_jitted

    found: dict[str, Compiled] = {}
    for function in [it for it in every_jitted() if issubclass(type(it), JITFunction)]:
        for versions, *_ in function.device_caches.values():
            for kernel in versions.values():
                found.setdefault(function.__name__, Compiled(function, kernel))
    return dict(sorted(found.items()))


def candidates_of_kernels(launched: Mapping[str, Compiled], seed: str) -> dict[str, list[Candidate]]:
    """Stock, automatic, learned, and the pinned candidates of each kernel with a dot. seed: of the random ones."""
    from tawa.bridge.driver.tuning.every_form import search_of
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tawa.bridge.triton.generic_print import read_ttir
    from tawa.bridge.triton.structured import new_context
    from tawa.dialects.tt import DOTS

    found: dict[str, list[Candidate]] = {}
    for name, it in launched.items():
        module = read_ttir(it.kernel.asm["ttir"], new_context())
        if not any(op.name in DOTS for op in module.walk()):
            continue
        metadata = it.kernel.metadata
        with launched_by_us(function=it.function):
            search = search_of(module, metadata.num_warps, metadata.num_stages)
        ranked = search.ranked() if search is not None else ()
        stock_us = next((plan.predicted_us for plan in ranked if plan.plan.form == "stock"), None)
        own = [Candidate("stock", _OPTIONS["stock"], stock_us), Candidate("automatic", _OPTIONS["automatic"])]
        own.append(Candidate(**LEARNED))
        found[name] = own + pinned_candidates(f"{name} {seed}", ranked)
    return found


def measure_candidates(
    entry: Entry,
    modes: Sequence[str],
    tell: Callable[[str], object],
    timed: bool = True,
    lost: Mapping[str, Mapping[str, str]] | None = None,
    apart: Iterable[str] = (),
    device: str = "cuda",
    case: str = "",
) -> dict[str, Any]:
    """Checks every candidate of every kernel with a dot, and times those that are right if asked to.

    modes: unused; the modes follow from the candidates. lost: by kernel and candidate, why one is not run: it ended an
    earlier process. apart: places that ended an earlier process in which all kernels had their Plan. case: keeps the
    launches under this name (`bench.corpus.launches`).

    The answer has ``kernels``: for each, its candidates with their options, prediction, verdict, and microseconds
    ``[median, p10, p90]`` or error.
    """
    inputs = make_inputs(entry, device, 0)
    tell("stock")
    switch_to("stock")
    evaluate(entry, inputs, entry.run)  # tunes
    forget_compiled()
    with recorded_launches() as launches:
        evaluate(entry, inputs, entry.run)
    launched = compiled_kernels()
    tell("ranking")
    candidates = candidates_of_kernels(launched, entry.key)
    if not candidates:
        return {"status": "done", "kernels": {}, "note": "no kernel with a dot is launched by Triton"}
    tell("reference")
    wanted = evaluate(entry, inputs, entry.reference)
    give_back_memory(device)
    with tempfile.TemporaryDirectory(prefix="regret-learned-") as tables:
        bench = _Bench(entry, inputs, device, tell, wanted, tables, timed)
        for kernel, errors in (lost or {}).items():
            bench.errors.update({(kernel, name): text for name, text in errors.items()})
        for place, of in _by_place(candidates).items():
            left = {kernel: it for kernel, it in of.items() if (kernel, it.name) not in bench.errors}
            if left:
                bench.check(place, left, split=place in apart and len(left) > 1)
            if place == "stock" and apart_from(entry, wanted, bench.stock) is None:
                return {"status": "done", "kernels": {}, "note": STOCK_IS_WRONG}
        names = {launched[kernel].kernel.metadata.name: kernel for kernel in candidates}
        note = bench.time(names) if timed else ""
    kernels = {kernel: [bench.told(kernel, it) for it in of] for kernel, of in candidates.items()}
    if case:
        keep_launches(case, launches, names)
    return {"status": "done", "kernels": kernels, "note": note}


def place_of(name: str) -> str:
    """The place of a candidate: ``model 3`` of ``model 3: as written, 2 groups``."""
    return name.partition(":")[0]


def _by_place(candidates: Mapping[str, Sequence[Candidate]]) -> dict[str, dict[str, Candidate]]:
    """The candidates of all kernels that are run at once; stock and automatic come first."""
    found: dict[str, dict[str, Candidate]] = {}
    for kernel, of in candidates.items():
        for it in of:
            found.setdefault(place_of(it.name), {})[kernel] = it
    return found


@dataclass
class _Bench:
    """Runs candidates.

    tables: the folder of what is learned. alone: whether nothing else is at work, so that launches can learn. errors,
    about, us: by kernel and candidate; sound: by place, the candidates to time.
    """

    entry: Entry
    inputs: Inputs
    device: str
    tell: Callable[[str], object]
    wanted: Outputs
    tables: str
    alone: bool
    stock: Outputs = field(default_factory=dict[str, Any])
    errors: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    about: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict[tuple[str, str], dict[str, Any]])
    us: dict[tuple[str, str], list[float]] = field(default_factory=dict[tuple[str, str], list[float]])
    sound: dict[str, dict[str, Candidate]] = field(default_factory=dict[str, dict[str, Candidate]])

    def check(self, place: str, of: Mapping[str, Candidate], split: bool) -> None:
        """Runs the candidates of a place, all kernels at once; each alone if they fail. split: they ended a process."""
        error = "" if split else self._attempt(place, of)
        if not error and not split:
            self.sound[place] = dict(of)
            return
        if place in _MODES or len(of) == 1:
            self._blame(of, error)
            return
        alone: dict[str, Candidate] = {}
        for kernel, it in of.items():
            if error := self._attempt(f"{place} of {kernel}", {kernel: it}):
                self._blame({kernel: it}, error)
            else:
                alone[kernel] = it
        if not alone:
            return
        if error := self._attempt(place, alone):
            self._blame(alone, TOGETHER + error)
        else:
            self.sound[place] = alone

    def _blame(self, of: Mapping[str, Candidate], error: str) -> None:
        self.errors.update({(kernel, it.name): error for kernel, it in of.items()})

    def _tell_running(self, mode: str, of: Mapping[str, Candidate]) -> None:
        self.tell(RUNNING + json.dumps({"mode": mode, "candidates": {kernel: it.name for kernel, it in of.items()}}))

    def _attempt(self, mode: str, of: Mapping[str, Candidate]) -> str:
        """What is wrong with candidates in a mode; empty if nothing is. Raises what leaves the GPU unusable."""
        self._tell_running(mode, of)
        if mode not in _MODES:
            add_plan_mode(mode, {kernel: it.options["plan"] for kernel, it in of.items()})
        switch_to(_MODES.get(mode, mode))
        try:
            with self._tables(mode):
                evaluate(self.entry, self.inputs, self.entry.run)  # tunes: the record is of what was chosen
                if mode == LEARNED["name"]:
                    learn(lambda: evaluate(self.entry, self.inputs, self.entry.run), self.alone)
                got = run_recorded(self.entry, self.inputs, self.device).outputs
        except Exception as error:
            if mode == "stock" or is_fatal(str(error)):
                raise
            return describe(error)
        self.stock = self.stock or got
        equal = all(same_bits(self.stock[key], got[key]) for key in self.wanted)
        launched = compiled_kernels()
        for kernel, it in of.items():
            record = launched[kernel].record if kernel in launched else {}
            about = {"applied": bool(record.get("applied")), "reason": record.get("reason", "")}
            if mode == LEARNED["name"]:
                with self._tables(mode):
                    about = learned(kernel)
            self.about[kernel, it.name] = {**about, "plan": record.get("plan"), "equal": equal}
        return "" if mode == "stock" else self._difference(got, equal)

    def _difference(self, got: Outputs, equal: bool) -> str:
        """How outputs differ from the reference by more than they may; empty if they do not."""
        off, stock = (apart_from(self.entry, self.wanted, it) for it in (got, self.stock))
        if not right(off, stock, equal):
            return f"differs from the reference by {told(off)} of the tolerance, stock Triton's by {told(stock)}"
        worst = max(peak(self.wanted[key], self.stock[key], got[key]) for key in self.wanted)
        if not equal and far_off(worst):
            return f"an element differs {told(worst)} times as much as any of stock Triton's"
        return ""

    def time(self, names: Mapping[str, str]) -> str:
        """Times what is sound; returns a note on what could not be. names: of kernels, as the profiler has them."""
        weights: dict[str, Any] = {}
        calls: dict[str, Callable[[], object]] = {}
        slowest_ms = 0.0
        for place, of in self.sound.items():
            self._tell_running(place, of)
            call = self._call(place, weights)
            try:
                if place == LEARNED["name"]:
                    learn(call, self.alone)
                call()  # makes the weights, and loads the kernels
                slowest_ms = max(slowest_ms, self._run_ms(call))
            except Exception as error:
                if place == "stock" or is_fatal(str(error)):
                    raise
                self._blame(of, describe(error))
            else:
                calls[place] = call
        self.tell("timing")
        us, note = time_kernels(calls, list(names), slowest_ms)
        for place, of in self.sound.items():
            for seen, kernel in names.items():
                if kernel in of and seen in us.get(place, {}):
                    self.us[kernel, of[kernel].name] = us[place][seen]
        return note

    def _tables(self, place: str) -> AbstractContextManager[None]:
        """Keeps what is learned from all other candidates."""
        return tables_in(self.tables) if place == LEARNED["name"] else nullcontext()

    def _call(self, place: str, weights: dict[str, Any]) -> Callable[[], object]:
        def call() -> object:
            switch_to(_MODES.get(place, place))
            with self._tables(place):
                return differentiate(self.entry, self.inputs, self.entry.run, weights)

        return call

    def _run_ms(self, call: Callable[[], object]) -> float:
        """About how long a run takes."""
        import torch

        wait = torch.cuda.synchronize if self.device != "cpu" else lambda: None
        wait()
        start = time.perf_counter()
        call()
        wait()
        return (time.perf_counter() - start) * 1e3

    def told(self, kernel: str, it: Candidate) -> dict[str, Any]:
        """What is known of a candidate, for the answer."""
        place = kernel, it.name
        found = {"name": it.name, "options": it.options, "predicted_us": it.predicted_us,
                 "about": self.about.get(place, {}), "us": self.us.get(place)}  # fmt: skip
        return {**found, "error": self.errors.get(place)}
