"""The jobs of a worker process: to prepare an entry, check, time, or only compile it, or to measure its candidates.

Run by `bench.corpus.runner` and `bench.regret.corpus` through `bench.workers`; answers are JSON.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.compiled import tables_in
from bench.corpus.configurations import begin_comparing, stop_comparing
from bench.corpus.distances import peak, same_bits
from bench.corpus.entry import Entry, Outputs
from bench.corpus.modes import LEARNING, Tuning, add_plan_mode, begin_tuning, keep_tunings_apart, switch_to, tune_again
from bench.corpus.packages import find_entry
from bench.corpus.regret import measure_candidates
from bench.corpus.running import evaluate, give_back_memory, make_inputs, run_recorded
from bench.corpus.timing import measure
from bench.regret.candidates import learn
from bench.workers import is_fatal, say_alive, serve_jobs

SEEDS = (0, 1)


def handle(job: Mapping[str, Any]) -> dict[str, Any]:
    """Does one job: ``{task, package, entry, packages, configs, part, parts, modes, kernels, progress}``.

    With ``plans``, the Plans of kernels by mode, those modes are added (`add_plan_mode`). The task ``regret`` has
    ``timed``, ``lost`` and ``apart`` (`bench.corpus.regret`).
    """
    clock = _Clock(Path(job["progress"]))
    clock.tell("import")
    task = job["task"]
    _prepare(task)
    for mode, plans in job.get("plans", {}).items():
        add_plan_mode(mode, plans)
    begin_tuning(Tuning(job["configs"], job["part"], job["parts"], trial=task in ("prepare", "check")))
    package, entry = find_entry(job["package"], job["entry"])
    try:
        package.load()
    except ImportError as error:
        return {"status": "skipped", "message": f"not installed: {error}"}
    tasks: dict[str, Callable[..., dict[str, Any]]] = {
        "prepare": prepare,
        "check": check,
        "time": partial(measure, kernels=job["kernels"]),
        "compile": compile_only,
        "regret": partial(
            measure_candidates,
            timed=job.get("timed", True),
            lost=job.get("lost", {}),
            apart=job.get("apart", ()),
            case=job.get("case", ""),
        ),
    }
    answer = tasks[task](entry, job["modes"], clock.tell)
    give_back_memory("cpu" if task == "compile" else "cuda")
    return {**answer, "seconds": clock.seconds()}


class _Clock:
    """Writes the progress of a job to a file, for the parent of a worker that dies; measures each step."""

    def __init__(self, progress: Path) -> None:
        self._progress = progress
        self._began: list[tuple[str, float]] = []

    def tell(self, reached: str) -> None:
        self._progress.write_text(reached)
        self._began.append((reached.split(" ", 1)[0], time.monotonic()))

    def seconds(self) -> dict[str, float]:
        """Seconds by step."""
        found: dict[str, float] = {}
        ends = [*(began for _, began in self._began[1:]), time.monotonic()]
        for (reached, began), end in zip(self._began, ends, strict=True):
            found[reached] = round(found.get(reached, 0.0) + end - began, 2)
        return found


_prepared = False


def _prepare(task: str) -> None:
    global _prepared
    if _prepared:
        return
    if task == "compile":
        from bench.corpus.without_gpu import pretend

        pretend()
    keep_tunings_apart(bench=task != "compile")
    _tell_of_kernels()
    _prepared = True


def _tell_of_kernels() -> None:
    """Reports after each compile that this process is alive, so that a long silence means a hung kernel."""
    from triton import knobs

    knobs.compilation.listener = lambda **about: say_alive()


def prepare(entry: Entry, modes: list[str], tell: Callable[[str], object], device: str = "cuda") -> dict[str, Any]:
    """Runs the entry in each mode, so that its compiled kernels are on disk; compares nothing.

    In the modes in which launches learn, the forms that they would try are compiled as well.
    """
    import torch

    inputs = make_inputs(entry, device, SEEDS[0])
    for name in modes:
        tell(name)
        switch_to(name)
        step = partial(evaluate, entry, inputs, entry.run)
        step()
        if name in LEARNING:
            with tempfile.TemporaryDirectory(prefix="corpus-learned-") as folder, tables_in(folder):
                tune_again(step)
                learn(step, alone=False)
        if device != "cpu":
            torch.cuda.synchronize()
    return {"status": "done"}


def check(entry: Entry, modes: list[str], tell: Callable[[str], object], device: str = "cuda") -> dict[str, Any]:
    """Runs the entry in each mode, and compares the outputs with the reference and with stock's bits.

    Each configuration that is tried in automatic mode is also compared with stock's kernel in the same configuration.
    There are two sets of inputs; ``legal`` and single configurations use only the first. If something failed, the
    answer has ``fatal``, so that no other job uses this process.
    """
    found: dict[str, Any] = {}
    for seed in SEEDS:
        inputs = make_inputs(entry, device, seed)
        tell("reference")
        wanted = evaluate(entry, inputs, entry.reference)
        give_back_memory(device)
        stock: Outputs = {}
        for name in [it for it in modes if it != "legal" or seed == SEEDS[0]]:
            tell(name)
            configurations = begin_comparing() if name == "tawa" and seed == SEEDS[0] else []
            try:
                switch_to(name)
                ran = run_recorded(entry, inputs, device)
            except Exception as error:
                if (
                    type(error).__name__ == "OutOfMemoryError"
                ):  # raised by PyTorch: too many processes, not the fault of a kernel
                    message = f"in {name}: {_text(error)}; cure: fewer --processes"
                    return {"status": "skipped", "message": message, "fatal": True}
                found[name] = {"failed": _text(error)}
                if name == "stock":
                    return {"status": "skipped", "message": f"fails under stock Triton: {_text(error)}", "fatal": True}
                if is_fatal(str(error)):  # the CUDA context of this process is unusable
                    return {"status": "done", "modes": found, "fatal": True}
                continue
            finally:
                stop_comparing()
            got = ran.outputs
            stock = stock or got
            errors = {key: entry.limit_of(key).error(wanted[key], got[key]) for key in wanted}
            now = {
                "errors": {key: _finite(value) for key, value in errors.items()},
                "worst": _finite(max(value / entry.limit_of(key).limit for key, value in errors.items())),
                "peak": _finite(max(peak(wanted[key], stock[key], got[key]) for key in wanted)),
                "equal_bits": all(same_bits(stock[key], got[key]) for key in wanted),
                "kernels": ran.kernels,
                "tried": ran.tried,
                "compared": len(configurations),
                "off": [text for it in configurations if (text := it.wrong())],
            }
            found[name] = _worse(found[name], now) if name in found else now
    return {"status": "done", "modes": found, "fatal": any("failed" in it for it in found.values())}


def compile_only(entry: Entry, modes: list[str], tell: Callable[[str], object]) -> dict[str, Any]:
    """Compiles the kernels of the entry, on CPU tensors, without a GPU; if that fails, also with stock Triton."""
    found: dict[str, Any] = {}
    inputs = make_inputs(entry, "cpu", SEEDS[0])
    for name in modes:
        tell(name)
        try:
            switch_to(name)
            kernels = run_recorded(entry, inputs, "cpu").kernels
        except Exception:
            tell("stock")
            switch_to("stock")
            run_recorded(entry, inputs, "cpu")
            tell(name)  # stock Triton can compile it
            raise
        found[name] = {"kernels": kernels}
    return {"status": "done", "modes": found}


def _worse(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The worse of the results of two seeds in one mode."""
    if "failed" in first:
        return first
    errors = {key: _largest(first["errors"][key], second["errors"][key]) for key in first["errors"]}
    worst = _largest(first["worst"], second["worst"])
    peak = _largest(first["peak"], second["peak"])
    bits = first["equal_bits"] and second["equal_bits"]
    tried = first["tried"] or second["tried"]
    return {**first, "tried": tried, "errors": errors, "worst": worst, "peak": peak, "equal_bits": bits}


def _largest(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def _finite(value: float) -> float | None:
    """Four digits; None stands for infinite."""
    return float(f"{value:.3e}") if value < float("inf") else None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    serve_jobs(handle)
