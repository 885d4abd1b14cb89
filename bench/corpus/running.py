"""Runs an operation in the current mode: inputs, outputs and gradients, and the verdicts on its kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.corpus.entry import Entry, Inputs, Outputs


def make_inputs(entry: Entry, device: str, seed: int) -> Inputs:
    """The inputs of one run."""
    import torch

    torch.manual_seed(seed)
    return entry.make(device)


def evaluate(entry: Entry, inputs: Inputs, function: Callable[[Inputs], Outputs]) -> Outputs:
    """Outputs by name, and with `backward` the gradients of every input that requires one."""
    return differentiate(entry, inputs, function, {})


def differentiate(
    entry: Entry, inputs: Inputs, function: Callable[[Inputs], Outputs], weights: dict[str, Any]
) -> Outputs:
    """As `evaluate`. weights: the gradients of the outputs, made at the first call."""
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
    """The gradient of an output: the same normal numbers for every function and mode."""
    import torch

    if key not in weights:
        lot = torch.Generator(device=output.device).manual_seed(sum(key.encode()))
        weights[key] = torch.randn(output.shape, generator=lot, device=output.device, dtype=torch.float32)
    return weights[key].to(output.dtype)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a run. kernels: a verdict each; tried: whether some tried configuration was specialised."""

    outputs: Outputs
    kernels: list[dict[str, Any]]
    tried: bool


def run_recorded(entry: Entry, inputs: Inputs, device: str) -> Recorded:
    """Runs twice; the first run tunes. The kernels are those of the second run, on the CPU all that were tried."""
    import torch

    from tawa.runtime.history import recording

    recording.RECORDER.forget()
    forget_compiled()
    evaluate(entry, inputs, entry.run)
    before = _launches(recording.RECORDER.report()) if device != "cpu" else {}
    _poison(device)
    if entry.reset:
        entry.reset(inputs)
    got = {key: value.detach().clone() for key, value in evaluate(entry, inputs, entry.run).items()}
    if device != "cpu":
        torch.cuda.synchronize()
    report = recording.RECORDER.report()
    kernels: list[dict[str, Any]] = []
    for kernel in report.kernels:
        for verdict in kernel.verdicts:
            used = (verdict.launches or 0) - before.get((kernel.name, verdict.applied, verdict.reason), 0)
            used = used if verdict.launches is not None else verdict.versions  # nobody counts Inductor's launches
            if used > 0:
                about = {"applied": verdict.applied, "reason": short(verdict.reason)}
                about["location"] = short(verdict.location) if verdict.location else None
                kernels.append({"kernel": kernel.name, **about, "launches": used, "versions": verdict.versions})
    return Recorded(got, kernels, any(verdict.applied for kernel in report.kernels for verdict in kernel.verdicts))


def forget_compiled() -> None:
    """Empties Triton's cache in memory: a kernel from it would not be recorded."""
    from triton.runtime.jit import JITFunction

    from tawa.bridge.triton.jitted import every_jitted

    for found in [it for it in every_jitted() if issubclass(type(it), JITFunction)]:
        found.device_caches.clear()


def _launches(report: Any) -> dict[tuple[str, bool, str], int]:
    return {
        (kernel.name, verdict.applied, verdict.reason): verdict.launches or 0
        for kernel in report.kernels
        for verdict in kernel.verdicts
    }


def give_back_memory(device: str) -> None:
    """Frees cached GPU memory: a reference may need far more than the kernel, and other processes need theirs."""
    import torch

    if device != "cpu":
        torch.cuda.empty_cache()


def _poison(device: str) -> None:
    """Leaves NaN in freed memory, where the outputs will be allocated: elements that are not written stay NaN."""
    import torch

    if device != "cpu":
        torch.full((1 << 26,), float("nan"), device=device)
        for size in (1 << 10, 1 << 14, 1 << 18):
            _ = [torch.full((size,), float("nan"), device=device) for _ in range(16)]


def short(text: str) -> str:
    """The text with paths cut down to their last folders, so that it does not depend on the machine."""
    return re.sub(r"(?:/[^\s/:]+)*/((?:[^\s/:]+/){2}[^\s/:]+\.py:\d+)", r"\1", text)
