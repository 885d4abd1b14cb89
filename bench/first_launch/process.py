"""What one process measures: its first launch, the launches while forms are compiled, learning, and what follows.

    import      `import tawa` and `tawa.install`, after PyTorch, Triton and the CUDA context are ready
    first       from the call of the first step until the GPU is done
    meanwhile   further steps, while Tawa compiles in the background: the host time of each
    learning    steps until the kernels have learned, and so many more that there are a thousand, each between events
    steady      host and GPU time of further steps

A step under stock Triton has only the first and the last part. GPU times are those between two events around a step. A
wait on the GPU stands before the first, so that the host is ahead.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.compiled import learned, use_caches
from bench.corpus.kernel_times import keep_cupti
from bench.first_launch.workloads import Step, workloads
from bench.harness import describe
from bench.workers import Answer, Job, say_alive

IN_FLIGHT = 8  # steps whose work the GPU may still have before it
LEARNING = 1000  # steps after the forms are ready
LEARNING_S, STEADY_S = 5.0, 1.5
STEADY = 200
READY_S = 90.0
BATCH = 50  # steps between events, before the events are read
CYCLES_PER_US, MOST_WAIT_US, LEAST_WAIT_US = 1980, 20_000.0, 50.0
SAFE = 1.5


def measure(job: Job) -> Answer:
    """Measures as a job says: ``{workload, compiled, corpus, start, caches, until}``.

    start: of `tawa.install`; None: stock Triton. until: the last part that is measured: ``ready`` (nothing),
    ``first``, ``second`` (the kernels of the second step) or ``steady`` (all).
    """
    use_caches(job["caches"])
    get_ready(job["compiled"])
    answer: Answer = {"status": "ok"}
    if job["until"] == "ready":
        return answer
    ours = job["start"] is not None
    if ours:
        began = time.perf_counter()
        import tawa

        tawa.install(start=job["start"])
        answer["import_s"] = time.perf_counter() - began
    step = workloads(job["corpus"])[job["workload"]].make()
    answer["first_s"] = seconds_of(step)
    say_alive()
    if job["until"] == "steady":
        if ours:
            answer |= meanwhile(step) | learning(step)
            say_alive()
        answer |= steady(step)
    if job["until"] == "first":
        return answer
    try:
        return {**answer, "kernels": kernels_of(step)}
    except Exception as error:  # no profiler here, or another one at work: all that was measured stays
        return {**answer, "note": f"not profiled: {describe(error)}"}


def get_ready(compiled: bool) -> None:
    """Makes the CUDA context, and launches a kernel under stock Triton; by torch.compile as well, if asked to."""
    import torch

    from bench.first_launch.kernels import add_one
    from bench.launch_time import device

    kernel: Any = add_one
    x = torch.zeros(1024, device=device())
    for _ in range(2):
        kernel[(8,)](x, BLOCK=128)
    if compiled:
        from torch._inductor.async_compile import AsyncCompile

        torch.compile(lambda it: it * 2 + 1)(x)
        AsyncCompile.wait_pool_ready()
    synchronize()


def synchronize() -> None:
    """Waits for the GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(step: Step) -> float:
    """From the call until the GPU is done."""
    synchronize()
    began = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - began


def host_us(step: Step, more: Callable[[int], bool]) -> list[float]:
    """How long each call of a step takes on the host, in microseconds, while `more` of their number says so.

    Every few steps it waits for the GPU, outside of the times: a full queue would make launches wait.
    """
    found: list[float] = []
    while more(len(found)):
        began = time.perf_counter()
        step()
        found.append((time.perf_counter() - began) * 1e6)
        if len(found) % IN_FLIGHT == 0:
            synchronize()
            say_alive()
    synchronize()
    return found


def meanwhile(step: Step) -> Answer:
    """Steps until nothing is compiled in the background any more, and how long that took.

    The host times include those of a few more steps, which load what was compiled.
    """
    import tawa

    began = time.perf_counter()
    found = host_us(step, lambda _: not tawa.wait(0.0) and time.perf_counter() - began < READY_S)
    about = {"ready_s": time.perf_counter() - began, "ready": tawa.wait(0.0), "meanwhile_calls": len(found)}
    return {**about, "meanwhile": summary(found + host_us(step, lambda done: done < IN_FLIGHT))}


def summary(host: Sequence[float]) -> dict[str, float]:
    """Host times in a few numbers."""
    ordered = sorted(host)
    return {
        "mean": statistics.fmean(ordered), "median": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))], "worst": ordered[-1],
    }  # fmt: skip


class Timed:
    """A step between two events. ms: milliseconds on the GPU of each call so far."""

    def __init__(self, step: Step, host: float) -> None:
        """host: microseconds that a call takes on the host."""
        self.step, self.ms = step, list[float]()
        self._cycles = round(min(max(SAFE * host, LEAST_WAIT_US), MOST_WAIT_US) * CYCLES_PER_US)
        self._pairs: list[tuple[Any, Any]] = []

    def __call__(self) -> None:
        """Calls the step."""
        import torch

        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(self._cycles)
        start.record()
        self.step()
        end.record()
        self._pairs.append((start, end))
        if len(self._pairs) == BATCH:
            self.read()

    def read(self) -> list[float]:
        """Waits for all calls; returns `ms`."""
        synchronize()
        say_alive()
        self.ms += [start.elapsed_time(end) for start, end in self._pairs]
        self._pairs.clear()
        return self.ms

    def repeat(self, calls: int, seconds: float) -> list[float]:
        """Calls until there are so many calls, or the time is over; returns `ms`."""
        end = time.perf_counter() + seconds
        while len(self.ms) + len(self._pairs) < calls and time.perf_counter() < end:
            self()
        return self.read()


def learning(step: Step) -> Answer:
    """The steps from which the kernels learn, and the GPU time of these and of those that follow."""
    import tawa

    timed = Timed(step, statistics.median(host_us(step, lambda done: done < IN_FLIGHT)))
    began = time.perf_counter()
    calls = tawa.warmup(timed)
    seconds = time.perf_counter() - began
    ms = timed.repeat(LEARNING, LEARNING_S)
    about = {"learning_calls": calls, "learning_s": seconds, "summed_calls": len(ms), "summed_ms": sum(ms)}
    return {**about, "learned": learned()["reason"]}


def steady(step: Step) -> Answer:
    """Host and GPU times of steps for which nothing is compiled or learned any more."""
    end = time.perf_counter() + STEADY_S
    host_us(step, lambda done: done < 3)
    host = summary(host_us(step, lambda done: done < STEADY and time.perf_counter() < end))
    ms = Timed(step, host["median"]).repeat(STEADY, STEADY_S)
    return {"host": host, "gpu_ms": statistics.median(ms)}


def kernels_of(step: Step) -> list[list[Any]]:
    """What one step runs on the GPU: for each kernel its name, grid, block, registers, and bytes of shared memory."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from bench.launch_time import device

    def profiled(work: Callable[[], Any]) -> Any:
        synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as session:
            work()
            synchronize()
        return session

    keep_cupti()
    profiled(lambda: torch.zeros(1, device=device()) + 1)  # the first session may lose launches
    session = profiled(step)
    with tempfile.TemporaryDirectory(prefix="tawa-trace-") as folder:
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(os.fspath(path))
        return kernels_in(json.loads(path.read_text()))


def kernels_in(trace: dict[str, Any]) -> list[list[Any]]:
    """The kernels of a profiler's trace, in the order of their names."""
    fields = ("grid", "block", "registers per thread", "shared memory")
    return sorted(
        [event["name"], *(event["args"].get(field) for field in fields)]
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel"
    )
