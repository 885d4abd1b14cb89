"""The jobs of a worker process: the kernels of a model compiled, or one shape of it timed. Answers are JSON.

A model whose kernels are tuned has one job for each part of its autotuners' lists, and then one for what Tawa's first
launches compile. Both run a single layer; what they compile is found on disk by the job that times the model.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.compiled import learned, tables_in
from bench.corpus.kernel_times import profiled_launches, runs_in
from bench.corpus.modes import Tuning, begin_tuning, keep_tunings_apart
from bench.corpus.regret import compiled_kernels
from bench.corpus.running import give_back_memory
from bench.decoder.family import Family, Shape, Step, make_step
from bench.decoder.linear import CONFIGS, LINEAR, PARTS, compile_configurations, compile_forms
from bench.decoder.llama import LLAMA
from bench.harness import Row, describe, time_round_robin
from bench.workers import say_alive, serve_jobs

FAMILIES = {it.name: it for it in (LLAMA, *LINEAR)}
ALLOWED = 0.01
"""Relative difference of the loss, and of the logits to their largest: bf16 has 0.4 % a rounding."""
MOST_STEPS, PROFILED = 400, 3
"""Steps while launches learn, and under the profiler."""


def handle(job: Mapping[str, Any]) -> dict[str, Any]:
    """Does one job, ``{task, shape, part}``: "configurations", "forms" or "time". A process times one shape."""
    from triton import knobs

    knobs.compilation.listener = lambda **about: say_alive()
    shape, task = Shape(**job["shape"]), job["task"]
    family, parts = FAMILIES[shape.model], PARTS if task == "configurations" else 1
    keep_tunings_apart()
    begin_tuning(Tuning(CONFIGS, job["part"], parts, trial=task != "time"))
    with tempfile.TemporaryDirectory(prefix="tawa-decoder-learned-") as folder, tables_in(folder):
        if task == "time":
            return {"status": "done", "rows": [asdict(it) for it in timed(family, shape, job["ways"])], "fatal": True}
        if task == "forms":
            compile_forms(family, shape)
        else:
            compile_configurations(shape)
    give_back_memory("cuda")
    return {"status": "done"}


def timed(family: Family, shape: Shape, texts: Sequence[str]) -> list[Row]:
    """A row for each way that `Family.chosen` takes."""
    import torch

    import tawa

    steps, errors, rows, exact = dict[str, Step](), dict[str, float](), list[Row](), None
    about = {way: {**asdict(shape), "package": family.package} for way in family.chosen(texts)}
    for way in about:
        try:
            family.before(way, lambda way=way: make_step(family, way, shape))
            torch.cuda.empty_cache()
            began = time.perf_counter()
            step = _entered(family, way, make_step(family, way, shape))
            found = step().double()
            torch.cuda.synchronize()
            about[way]["first_s"] = round(time.perf_counter() - began, 2)
            say_alive()
            exact = found if exact is None else exact
            errors[way] = ((found - exact).abs().max() / exact.abs().max()).item()
            if not errors[way] <= ALLOWED:
                raise ArithmeticError(f"the result differs by {errors[way]:.2e} from stock's")
            if way.startswith("Tawa"):
                about[way]["steps"] = tawa.warmup(_alive(step), MOST_STEPS)
                about[way]["learned"] = learned()["reason"]
            steps[way] = step
        except Exception as error:
            rows.append(Row(about[way], way, error=describe(error)))
    timings, failed = time_round_robin(
        {way: _alive(it) for way, it in steps.items()}, rounds=15, graphs=shape.kind == "decoding"
    )
    rows += [Row(about[way], way, error=text) for way, text in failed.items()]
    for way in timings:
        about[way] |= in_dots(steps[way])
    return rows + [Row.timed(about[way], way, it, family.flop(shape), errors[way]) for way, it in timings.items()]


def in_dots(step: Step) -> dict[str, float]:
    """How long the package's kernels with a dot take in a step, in ms; nothing if the profiler sees none of them."""
    names = {it.kernel.metadata.name for it in compiled_kernels().values() if "tt.dot" in it.kernel.asm["ttir"]}
    try:
        runs = runs_in(profiled_launches(step, PROFILED), names, PROFILED) if names else []
    except Exception as error:  # no CUPTI, or another profiler at work: what was timed stays
        print(describe(error))
        return {}
    found = statistics.median(sum(run.values()) for run in runs) if runs else 0.0
    return {"dots_ms": round(found / 1e3, 3)} if found else {}


def _entered(family: Family, way: str, step: Step) -> Step:
    def run() -> Any:
        family.enter(way)
        return step()

    return run


def _alive(step: Callable[[], Any]) -> Step:
    def run() -> Any:
        say_alive()
        return step()

    return run


if __name__ == "__main__":
    serve_jobs(handle)  # pyright: ignore[reportArgumentType]
