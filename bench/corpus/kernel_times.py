"""How long each kernel of an operation takes on the GPU, by PyTorch's profiler (CUPTI).

The profiler identifies a Triton kernel by the name of its function, specialised or not. All launches of one name in one
run of the operation are added up, whatever their shapes and versions. The modes are profiled round-robin, each round in
a short session of its own: no launch is counted for the wrong mode, and clocks and temperature are the same for all. A
session runs the operation once as a warm-up, and then several times.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bench.harness import Timing, describe

ROUNDS = 5
MOST_RUNS, LEAST_RUNS = 10, 2  # runs of the operation in one round of one mode
MOST_S = 1.5  # seconds on the GPU, for all rounds of all modes

Runs = list[dict[str, float]]  # for each run of an operation, the microseconds by kernel


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch that a profiler saw."""

    kernel: str
    start_us: float
    us: float


def time_kernels(
    candidates: Mapping[str, Callable[[], object]],
    kernels: Collection[str],
    run_ms: float,
    sample: Callable[[Callable[[], object], int], list[Launch]] | None = None,
) -> tuple[dict[str, dict[str, list[float]]], str]:
    """Microseconds of each kernel in each mode, as ``[median, p10, p90]`` over the runs; and a note on what is missing.

    candidates: the operation in each mode, tuned already. kernels: their names. run_ms: about how long a run takes in
    the slowest mode. sample: `profiled_launches`, or a replacement for tests.
    """
    sample = sample or profiled_launches
    runs = runs_of_a_round(run_ms, len(candidates))
    samples: dict[str, dict[str, list[float]]] = {mode: {} for mode in candidates}
    modes = list(candidates)
    try:
        sample(candidates[modes[0]], 1)  # the first session of a process sets up CUPTI, and may lose launches
        for number in range(ROUNDS):
            start = number % len(modes)
            for mode in modes[start:] + modes[:start]:
                for run in runs_in(sample(candidates[mode], runs), kernels, runs):
                    for kernel, us in run.items():
                        samples[mode].setdefault(kernel, []).append(us)
    except Exception as error:  # no CUPTI, another profiler at work, an operation that fails under one
        return {}, f"kernels not timed: {describe(error)}"
    found = {mode: {kernel: _numbers(us) for kernel, us in of.items()} for mode, of in samples.items()}
    lacking = [f"{kernel} in {mode}" for mode in modes for kernel in kernels if kernel not in found[mode]]
    if len(lacking) == len(modes) * len(kernels):
        return {}, "kernels not timed: the profiler saw none of them"
    return found, f"kernels not timed: {', '.join(lacking)}" if lacking else ""


def runs_of_a_round(run_ms: float, modes: int) -> int:
    """How many times a round may run the operation if all rounds of all modes are to stay within `MOST_S`."""
    share_ms = MOST_S * 1000 / (ROUNDS * max(modes, 1))
    return max(LEAST_RUNS, min(MOST_RUNS, int(share_ms / max(run_ms, 1e-3)) - 1))


def runs_in(launches: list[Launch], kernels: Collection[str], runs: int) -> Runs:
    """The times by kernel of each of `runs` runs, without the warm-up run before them.

    All runs launch a kernel equally often. A session may lose its very first launches, which belong to the warm-up. If
    a kernel lacks more launches than that, it is left out, because they cannot be assigned to runs.
    """
    found: Runs = [{} for _ in range(runs)]
    for kernel in kernels:
        of_it = sorted((it for it in launches if it.kernel == kernel), key=lambda it: it.start_us)
        each = math.ceil(len(of_it) / (runs + 1))
        counted = of_it[-runs * each :]
        if not each or len(counted) < runs * each:
            continue
        for at, run in enumerate(found):
            run[kernel] = sum(it.us for it in counted[at * each : (at + 1) * each])
    return found


def keep_cupti() -> None:
    """Lets the sessions of a process share one set-up of CUPTI. Before the first session.

    PyTorch sets both variables where CUDA graphs are in use, as in our benches: CUPTI that is taken down, or set up
    again, between sessions crashes with them.
    """
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")


def profiled_launches(operation: Callable[[], object], runs: int) -> list[Launch]:
    """Runs an operation once and then `runs` times; returns all launches that PyTorch's profiler saw."""
    keep_cupti()
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        for _ in range(runs + 1):
            operation()
        torch.cuda.synchronize()
    events: Any = session.events() or ()
    return [
        Launch(event.name, float(event.time_range.start), float(event.time_range.elapsed_us()))
        for event in events
        if event.device_type == DeviceType.CUDA
    ]


def _numbers(us: list[float]) -> list[float]:
    timing = Timing.of(us)  # whatever the unit
    return [round(it, 3) for it in (timing.median_ms, timing.p10_ms, timing.p90_ms)]
