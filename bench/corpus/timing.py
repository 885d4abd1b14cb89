"""Times an entry in all modes round-robin: the whole operation, and each of its kernels."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.compiled import NOTHING, learned, tables_in
from bench.corpus.entry import Entry, Outputs
from bench.corpus.kernel_times import time_kernels
from bench.corpus.modes import LEARNING, switch_to, tune_again
from bench.corpus.running import differentiate, evaluate, make_inputs, run_recorded
from bench.corpus.timed import KERNELS, too_far
from bench.regret.candidates import learn

ROUNDS = 12


def measure(
    entry: Entry, modes: list[str], tell: Callable[[str], object], kernels: bool = True, device: str = "cuda"
) -> dict[str, Any]:
    """Tunes the entry in each mode, compares the results of the chosen configurations, and times it.

    kernels: whether each kernel is timed too. Before that, `tell` is given the rest of the answer, which is therefore
    known if the process dies. In the mode *learned*, launches learn first, from nothing; in *later*, after
    autotuners have chosen again.
    """
    with tempfile.TemporaryDirectory(prefix="corpus-learned-") as folder, tables_in(folder):
        return _measure(entry, modes, tell, kernels, device)


def _measure(
    entry: Entry, modes: list[str], tell: Callable[[str], object], kernels: bool, device: str
) -> dict[str, Any]:
    from bench import harness

    inputs = make_inputs(entry, device, 0)
    step = partial(evaluate, entry, inputs, entry.run)
    ran = {}
    for name in modes:
        tell(name)
        switch_to(name)
        if name in LEARNING:
            tune_again(step)
            learn(step, alone=True)
        ran[name] = run_recorded(entry, inputs, device)
        if name in LEARNING:
            for it in ran[name].kernels:
                known = learned(it["kernel"])
                it |= known if known["reason"] != NOTHING else {"reason": _open(it["kernel"], it["reason"])}
    stock = ran[modes[0]].outputs
    apart = {name: apart_from(entry, stock, it.outputs) for name, it in ran.items() if name != modes[0]}
    off: dict[str, float | None] = {}
    if any(too_far(it) for it in apart.values()):  # one of the two is wrong; find out which
        tell("reference")
        wanted = evaluate(entry, inputs, entry.reference)
        off = {name: apart_from(entry, wanted, it.outputs) for name, it in ran.items()}
    verdicts = {name: it.kernels for name, it in ran.items()}
    weights: dict[str, Any] = {}

    def candidate(name: str) -> Callable[[], object]:
        def call() -> object:
            switch_to(name)
            return differentiate(entry, inputs, entry.run, weights)

        return call

    for name in modes:
        tell(name)
        candidate(name)()  # makes the weights, and loads the kernels
    tell("timing")
    timings, errors = harness.time_round_robin({name: candidate(name) for name in modes}, ROUNDS)
    captured = all(it.captured for it in timings.values())
    answer: dict[str, Any] = {
        "status": "done",
        "timings": {name: [it.median_ms, it.p10_ms, it.p90_ms] for name, it in timings.items()},
        "errors": errors,
        "captured": captured,
        "fatal": not captured,  # a capture that has failed leaves PyTorch's random numbers in it
        "apart": apart,
        "off": off,
        "kernels": verdicts,
    }
    names = sorted({it["kernel"] for found in verdicts.values() for it in found})
    if not kernels or not names or not timings:
        return answer
    tell(KERNELS + json.dumps(answer))
    slowest_ms = max(it.median_ms for it in timings.values())
    us, note = time_kernels({name: candidate(name) for name in timings}, names, slowest_ms)
    return {**answer, "us": us, "note": note}


def _open(kernel: str, reason: str) -> str:
    """Why a kernel gets what it gets, and that nothing is learned: what its launches were at in the end."""
    import tawa

    states = [text for it in tawa.report().kernels if it.name == kernel for text in it.learning]
    return "; ".join([reason, NOTHING, *states])


def apart_from(entry: Entry, wanted: Outputs, got: Outputs) -> float | None:
    """The largest distance of an output from the expected one, relative to its tolerance; None: infinite."""
    found = max(entry.limit_of(key).error(wanted[key], got[key]) / entry.limit_of(key).limit for key in wanted)
    return float(f"{found:.3e}") if found < float("inf") else None
