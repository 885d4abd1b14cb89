"""A race on a GPU: every candidate is checked against float64, then all are timed round-robin. Part of `tawa demo`.

The benches (`bench/`) measure with more rounds and write result files; the race takes a few seconds.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tawa.demo.judge import judge_all
from tawa.demo.launch import launch, make_tensors, outputs, poison
from tawa.demo.references import reference
from tawa.runtime.case import Case

LIBRARY = "library"
_ROUNDS = 7
_BURST_MS = 4.0
_REST_S = 0.02


@dataclass(frozen=True, slots=True)
class Lap:
    """One candidate. time_ms: median of one launch. faults: what is wrong with its result, empty if nothing."""

    time_ms: float
    faults: tuple[str, ...]


def hopper_present() -> bool:
    """Whether there is a GPU of compute capability 9.0."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def judge_launch(case: Case, kernel: Any, seed: int = 0) -> tuple[str, ...]:
    """Launches a kernel once and judges its result; returns what is wrong with it, empty if nothing."""
    tensors = make_tensors(case, seed)
    poison(case, tensors)
    launch(case, kernel, tensors)
    return judge_all(case, tensors, [tensors], reference).faults


def race(case: Case, kernels: Mapping[str, Any], seed: int = 0) -> dict[str, Lap]:
    """Times `kernels`, each launched like the case's own, and NVIDIA's library if it has such a call.

    The library is cuBLAS for a plain product, cuDNN for attention, both through PyTorch. Returns laps by name.
    """
    tensors = make_tensors(case, seed)
    faults: dict[str, tuple[str, ...]] = {}
    runs: dict[str, Callable[[], object]] = {}
    for name, kernel in kernels.items():
        poison(case, tensors)
        runs[name] = functools.partial(launch, case, kernel, tensors)
        runs[name]()
        faults[name] = judge_all(case, tensors, [tensors], reference).faults
    library = _library(case, tensors)
    if library is not None:
        # The library computes only the first output; the others are those of the previous kernel.
        faults[LIBRARY] = judge_all(case, tensors, [{**tensors, outputs(case)[0]: library()}], reference).faults
        runs[LIBRARY] = library
    return {name: Lap(time_ms, faults[name]) for name, time_ms in _alternately(runs).items()}


def _library(case: Case, tensors: Mapping[str, torch.Tensor]) -> Callable[[], torch.Tensor] | None:
    match case.kernel.fn.__name__:
        case "gemm_tile" | "gemm_persistent":
            return _cublas(case, tensors)
        case "attention_two_loops":
            return _cudnn(case, tensors)
        case _:
            return None


def _cudnn(case: Case, tensors: Mapping[str, torch.Tensor]) -> Callable[[], torch.Tensor] | None:
    """cuDNN's attention on the case's Q, K and V; None if this PyTorch does not support them."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (tensors[name] for name in "qkv")

    def call() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=bool(case.constexprs["CAUSAL"]))

    try:
        call()
    except RuntimeError:
        return None
    return call


def _cublas(case: Case, tensors: Mapping[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
    """PyTorch's product of the case's A and B."""
    a = tensors["a"].t() if case.tensors["a"].shape[0] == "K" else tensors["a"]
    b = tensors["b"].t() if case.tensors["b"].shape[0] == "N" else tensors["b"]
    if a.dtype in (torch.float16, torch.bfloat16):
        return lambda: torch.mm(a, b)
    one = torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(a, b, one, one, out_dtype=tensors["c"].dtype, use_fast_accum=True)


def _alternately(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median milliseconds of one launch each: short bursts round-robin, with rests to stay below the power limit."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    launches = {name: max(1, round(_BURST_MS / max(_elapsed_ms(run, 3), 1e-3))) for name, run in runs.items()}
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            time.sleep(_REST_S)
            samples[name].append(_elapsed_ms(run, launches[name]))
    return {name: statistics.median(times) for name, times in samples.items()}


def _elapsed_ms(run: Callable[[], object], launches: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(launches):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / launches
