"""One job in a process of its own: an entry checked in every mode, timed in every mode, or compiled without a GPU.

Run by `corpus.runner` through ``bench/workers.py``; answers are JSON.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":  # run as a script: this folder must not hide modules of the packages
    sys.path[:] = [str(ROOT), str(ROOT / "src"), *sys.path[1:]]
sys.path.append(str(ROOT / "bench"))

from workers import is_fatal, say_alive, serve_jobs  # noqa: E402

from corpus.entry import Entry, Inputs, Outputs  # noqa: E402
from corpus.modes import keep_tunings_apart, switch_to  # noqa: E402
from corpus.packages import find_entry  # noqa: E402

SEEDS = (0, 1)


def handle(job: Mapping[str, Any]) -> dict[str, Any]:
    """Does one job: ``{task, package, entry, packages, configs, modes, progress}``."""
    progress = Path(job["progress"])
    progress.write_text("import")
    if job["packages"] and job["packages"] not in sys.path:
        sys.path.insert(0, job["packages"])
    _prepare(job["task"], job["configs"])
    package, entry = find_entry(job["package"], job["entry"])
    try:
        __import__(package.module)
    except ImportError as error:
        return {"status": "skipped", "message": f"not installed: {error}"}
    task: Callable[..., dict[str, Any]] = {"check": check, "time": measure, "compile": compile_only}[job["task"]]
    answer = task(entry, job["modes"], progress.write_text)
    return {**answer, "fatal": job["task"] == "check"}  # a check leaves nothing behind for the next


_prepared = False


def _prepare(task: str, configs: int) -> None:
    global _prepared
    if _prepared:
        return
    if task == "compile":
        from corpus.without_gpu import pretend

        pretend()
    keep_tunings_apart(configs)
    _tell_of_kernels()
    _prepared = True


def _tell_of_kernels() -> None:
    """Says after each compile that this process is at work: what is silent for long waits for a kernel."""
    from triton import knobs

    knobs.compilation.listener = lambda **about: say_alive()


def check(entry: Entry, modes: list[str], tell: Callable[[str], object], device: str = "cuda") -> dict[str, Any]:
    """Runs the entry in each mode on two sets of inputs, and compares with the reference and with stock's bits."""
    found: dict[str, Any] = {}
    for seed in SEEDS:
        inputs = make_inputs(entry, device, seed)
        tell("reference")
        wanted = evaluate(entry, inputs, entry.reference)
        _give_back_memory(device)
        stock: Outputs = {}
        for name in modes:
            tell(name)
            try:
                switch_to(name)
                got, kernels = _run_recorded(entry, inputs, device)
            except Exception as error:
                if type(error).__name__ == "OutOfMemoryError":  # of PyTorch: too many processes, no fault of a kernel
                    return {"status": "skipped", "message": f"in {name}: {_text(error)}; cure: fewer --processes"}
                found[name] = {"failed": _text(error)}
                if name == "stock":
                    return {"status": "skipped", "message": f"fails under stock Triton: {_text(error)}"}
                if is_fatal(str(error)):  # the GPU answers nothing more in this process
                    return {"status": "done", "modes": found}
                continue
            stock = stock or got
            errors = {key: entry.limit_of(key).error(wanted[key], got[key]) for key in wanted}
            now = {
                "errors": {key: _finite(value) for key, value in errors.items()},
                "worst": _finite(max(value / entry.limit_of(key).limit for key, value in errors.items())),
                "peak": _finite(max(_peak(wanted[key], stock[key], got[key]) for key in wanted)),
                "equal_bits": all(_same_bits(stock[key], got[key]) for key in wanted),
                "kernels": kernels,
            }
            found[name] = _worse(found[name], now) if name in found else now
    return {"status": "done", "modes": found}


def measure(entry: Entry, modes: list[str], tell: Callable[[str], object], device: str = "cuda") -> dict[str, Any]:
    """Times the entry in each mode by turns."""
    import harness
    import torch

    inputs = make_inputs(entry, device, SEEDS[0])
    weights: dict[str, Any] = {}

    def candidate(name: str) -> Callable[[], object]:
        def call() -> object:
            switch_to(name)
            return _differentiate(entry, inputs, entry.run, weights)

        return call

    for name in modes:
        tell(name)
        candidate(name)()  # tunes
        torch.cuda.synchronize()
    tell("timing")
    timings, errors = harness.time_round_robin({name: candidate(name) for name in modes})
    answer = {name: [it.median_ms, it.p10_ms, it.p90_ms] for name, it in timings.items()}
    captured = all(it.captured for it in timings.values())
    return {"status": "done", "timings": answer, "errors": errors, "captured": captured}


def compile_only(entry: Entry, modes: list[str], tell: Callable[[str], object]) -> dict[str, Any]:
    """Compiles what the entry launches, on CPU tensors, without a GPU; as stock Triton does only if that fails."""
    found: dict[str, Any] = {}
    inputs = make_inputs(entry, "cpu", SEEDS[0])
    for name in modes:
        tell(name)
        try:
            switch_to(name)
            _, kernels = _run_recorded(entry, inputs, "cpu")
        except Exception:
            tell("stock")
            switch_to("stock")
            _run_recorded(entry, inputs, "cpu")
            tell(name)  # stock Triton can
            raise
        found[name] = {"kernels": kernels}
    return {"status": "done", "modes": found}


def make_inputs(entry: Entry, device: str, seed: int) -> Inputs:
    """The inputs of one run."""
    import torch

    torch.manual_seed(seed)
    return entry.make(device)


def evaluate(entry: Entry, inputs: Inputs, function: Callable[[Inputs], Outputs]) -> Outputs:
    """Outputs by name, and with `backward` the gradients of every input that requires one."""
    return _differentiate(entry, inputs, function, {})


def _differentiate(
    entry: Entry, inputs: Inputs, function: Callable[[Inputs], Outputs], weights: dict[str, Any]
) -> Outputs:
    import torch

    outputs = function(inputs)
    if not entry.backward:
        return outputs
    wanted = {key: value for key, value in inputs.items() if getattr(value, "requires_grad", False)}
    found = {key: value for key, value in outputs.items() if value.requires_grad}
    seeds = [_weight(weights, key, value) for key, value in found.items()]
    gradients = torch.autograd.grad(list(found.values()), list(wanted.values()), seeds, allow_unused=True)
    named = {f"d{key}": value for key, value in zip(wanted, gradients, strict=True) if value is not None}
    return {key: value.detach() for key, value in {**outputs, **named}.items()}


def _weight(weights: dict[str, Any], key: str, output: Any) -> Any:
    """What the gradient of an output is: the same normal numbers for every function and mode."""
    import torch

    if key not in weights:
        lot = torch.Generator(device=output.device).manual_seed(sum(key.encode()))
        weights[key] = torch.randn(output.shape, generator=lot, device=output.device, dtype=torch.float32)
    return weights[key].to(output.dtype)


def _run_recorded(entry: Entry, inputs: Inputs, device: str) -> tuple[Outputs, list[dict[str, Any]]]:
    """Runs twice: the first time tunes; the kernels are those of the second, on the CPU all that were tried."""
    import torch

    from tawa.runtime import recording

    recording.forget()
    _forget_compiled()
    evaluate(entry, inputs, entry.run)
    before = _launches(recording.report()) if device != "cpu" else {}
    _poison(device)
    if entry.reset:
        entry.reset(inputs)
    got = {key: value.detach().clone() for key, value in evaluate(entry, inputs, entry.run).items()}
    if device != "cpu":
        torch.cuda.synchronize()
    report = recording.report()
    kernels: list[dict[str, Any]] = []
    for kernel in report.kernels:
        for verdict in kernel.verdicts:
            used = (verdict.launches or 0) - before.get((kernel.name, verdict.applied, verdict.reason), 0)
            if used > 0:
                about = {"applied": verdict.applied, "reason": short(verdict.reason)}
                about["location"] = short(verdict.location) if verdict.location else None
                kernels.append({"kernel": kernel.name, **about, "launches": used, "versions": verdict.versions})
    return got, kernels


def _forget_compiled() -> None:
    """Empties Triton's cache in memory: a kernel that it served would not be seen."""
    import gc

    from triton.runtime.jit import JITFunction

    for found in [it for it in gc.get_objects() if issubclass(type(it), JITFunction)]:
        found.device_caches.clear()


def _launches(report: Any) -> dict[tuple[str, bool, str], int]:
    return {
        (kernel.name, verdict.applied, verdict.reason): verdict.launches or 0
        for kernel in report.kernels
        for verdict in kernel.verdicts
    }


def _give_back_memory(device: str) -> None:
    """A reference may take far more than the kernel does, and other processes are at work."""
    import torch

    if device != "cpu":
        torch.cuda.empty_cache()


def _poison(device: str) -> None:
    """Leaves NaN in freed memory, where the operation's outputs will lie: what it does not write shows."""
    import torch

    if device != "cpu":
        torch.full((1 << 26,), float("nan"), device=device)
        for size in (1 << 10, 1 << 14, 1 << 18):
            _ = [torch.full((size,), float("nan"), device=device) for _ in range(16)]


def _peak(wanted: Any, stock: Any, got: Any) -> float:
    """The largest error of any element, over that of stock Triton's kernel, or over what rounding alone may make."""
    wanted, stock, got = (it.detach().double() for it in (wanted, stock, got))
    same = (got == stock) | (got.isnan() & stock.isnan())
    errors = (got - wanted).abs().masked_fill(same, 0.0).nan_to_num(nan=float("inf"))
    least = max(float((stock - wanted).abs().nan_to_num(posinf=0.0).max()), 1e-3 * float(wanted.square().mean().sqrt()))
    return float(errors.max()) / (least + 1e-30)


def _same_bits(first: Any, second: Any) -> bool:
    import torch

    return first.shape == second.shape and torch.equal(
        first.contiguous().flatten().view(torch.uint8), second.contiguous().flatten().view(torch.uint8)
    )


def _worse(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two seeds of one mode as one."""
    if "failed" in first:
        return first
    errors = {key: _largest(first["errors"][key], second["errors"][key]) for key in first["errors"]}
    worst = _largest(first["worst"], second["worst"])
    peak = _largest(first["peak"], second["peak"])
    bits = first["equal_bits"] and second["equal_bits"]
    return {**first, "errors": errors, "worst": worst, "peak": peak, "equal_bits": bits}


def _largest(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def _finite(value: float) -> float | None:
    """Four digits; None stands for infinite."""
    return float(f"{value:.3e}") if value < float("inf") else None


def short(text: str) -> str:
    """A text with files named by their last folders only, whatever machine it is."""
    return re.sub(r"(?:/[^\s/:]+)*/((?:[^\s/:]+/){2}[^\s/:]+\.py:\d+)", r"\1", text)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    serve_jobs(handle)
