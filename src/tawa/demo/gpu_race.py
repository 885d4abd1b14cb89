"""A race on a GPU: every candidate is checked against float64, then all are timed round-robin. Part of `tawa demo`.

The error that is allowed is twice that of PyTorch in the same precision: products on the tensor cores with float32
sums, everything after that in float32, one cast at the end. The benches (`bench/`) measure with more rounds and write
result files; the race takes a few seconds.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from tawa.demo.exhibits import Exhibit, Launch

LIBRARY = "library"
_ROUNDS = 7
_BURST_MS = 4.0
_REST_S = 0.02
_FACTOR = 2.0
_ROUNDING = 1e-6  # of the largest value: always allowed, because PyTorch's sums may happen to be exact
_DTYPES = {"fp16": torch.float16, "fp32": torch.float32, "fp8e4nv": torch.float8_e4m3fn, "i32": torch.int32}

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Lap:
    """One candidate. time_ms: median of one launch. faults: what is wrong with its result, empty if nothing."""

    time_ms: float
    faults: tuple[str, ...]


def hopper_present() -> bool:
    """Whether there is a GPU of compute capability 9.0."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def judge_launch(exhibit: Exhibit, kernel: Any) -> tuple[str, ...]:
    """Launches a kernel once on a small problem; returns what is wrong with its result, empty if nothing."""
    launch = exhibit.small(5)
    tensors = tensors_of(launch)
    _run(exhibit, launch, kernel, tensors)
    return faults_of(exhibit, tensors, tensors)


def race(exhibit: Exhibit, launch: Launch, kernels: Mapping[str, Any]) -> dict[str, Lap]:
    """Times `kernels`, each launched like the exhibit's own, and NVIDIA's library if it has such a call.

    The library is cuBLAS for a plain product, cuDNN for attention, both through PyTorch. Returns laps by name.
    """
    tensors = tensors_of(launch)
    faults: dict[str, tuple[str, ...]] = {}
    runs: dict[str, Callable[[], object]] = {}
    for name, kernel in kernels.items():
        for output in _outputs(launch):
            tensors[output].fill_(float("nan"))
        runs[name] = functools.partial(_run, exhibit, launch, kernel, tensors)
        runs[name]()
        faults[name] = faults_of(exhibit, tensors, tensors)
    library = _library(exhibit, tensors)
    if library is not None:
        faults[LIBRARY] = faults_of(exhibit, tensors, {_outputs(launch)[0]: library()})
        runs[LIBRARY] = library
    return {name: Lap(time_ms, faults[name]) for name, time_ms in _alternately(runs).items()}


# -- launches ----------------------------------------------------------------------------------------------------------


def _outputs(launch: Launch) -> list[str]:
    return [name for name, it in launch.tensors.items() if it.fill == "nan"]


def tensors_of(launch: Launch, device: str = "cuda") -> dict[str, torch.Tensor]:
    """Fresh tensors of a launch by argument: random normal numbers, and outputs full of NaN."""
    lot = torch.Generator(device=device).manual_seed(0)
    found: dict[str, torch.Tensor] = {}
    for name, it in launch.tensors.items():
        constant = {"nan": math.nan, "zero": 0.0}.get(it.fill)
        if constant is None:
            made = torch.randn(it.shape, generator=lot, device=device)
        else:
            made = torch.full(it.shape, constant, device=device)
        found[name] = made.to(_DTYPES[it.dtype])
    return found


def _run(exhibit: Exhibit, launch: Launch, kernel: Any, tensors: Tensors) -> None:
    """Launches `kernel`: the exhibit's own, or one wrapped around it."""
    arguments = {**launch.arguments, **tensors}
    for name, it in launch.tensors.items():
        if it.box is not None:
            tensor = tensors[name]
            arguments[name] = TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(it.box))
    sizes = {"num_warps": exhibit.num_warps, "num_stages": exhibit.num_stages}
    kernel[launch.grid](**arguments, **exhibit.constants, **sizes)


# -- what is right -----------------------------------------------------------------------------------------------------


def faults_of(exhibit: Exhibit, tensors: Tensors, found: Tensors) -> tuple[str, ...]:
    """What is wrong with the outputs in `found`, each of which must be written in whole."""
    exact = computed(exhibit, tensors, torch.float64)
    peer = computed(exhibit, tensors, torch.float32)
    return tuple(
        f"{name}: {fault}" for name in exact if name in found for fault in _judged(found[name], exact[name], peer[name])
    )


def _judged(found: torch.Tensor, exact: torch.Tensor, peer: torch.Tensor) -> Iterator[str]:
    if unwritten := int(found.isnan().sum()):
        yield f"{unwritten} of {found.numel()} elements left out, or NaN"
        return
    least = _ROUNDING * float(exact.abs().max())
    errors, allowed = _errors(found, exact), [max(_FACTOR * it, least) for it in _errors(peer.to(found.dtype), exact)]
    ratio = max(
        error / most if most else math.inf if error else 0.0 for error, most in zip(errors, allowed, strict=True)
    )
    if not ratio <= 1:
        yield f"{ratio:.2f} x the error allowed: largest {errors[0]:.3e}"


def _errors(found: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """The largest error, and the root of the mean square."""
    difference = (found.double() - exact).abs()
    return float(difference.max()), float(difference.square().mean().sqrt())


def computed(exhibit: Exhibit, tensors: Tensors, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The outputs of a launch, in float64, or by tensor cores and float32."""
    match exhibit.kernel.fn.__name__:
        case "attention_two_loops":
            return _attention(tensors, dtype)
        case "gemm_gate_up":
            gate, up = (_multiplied(tensors["a_desc"], tensors[f"{name}_desc"], dtype) for name in ("gate", "up"))
            return {"c_desc": gate * torch.sigmoid(gate) * up}
        case _:
            return {"c_desc": _multiplied(tensors["a_desc"], _right(exhibit, tensors), dtype)}


def _right(exhibit: Exhibit, tensors: Tensors) -> torch.Tensor:
    """B as K x N."""
    return tensors["b_desc"].t() if exhibit.constants.get("B_T") else tensors["b_desc"]


def _multiplied(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A product in float64, or of the operands' own type with sums in float32."""
    if dtype == torch.float64:
        return a.double() @ b.double()
    try:
        if a.itemsize == 1:
            return _fp8_product(a, b, torch.float32)
        return torch.mm(a, b, out_dtype=torch.float32)
    except (RuntimeError, TypeError, ValueError, AttributeError):  # a PyTorch without this product
        return a.float() @ b.float()


def _fp8_product(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    one, columns = torch.ones((), device=a.device), b.t().contiguous().t()
    return torch._scaled_mm(a.contiguous(), columns, one, one, out_dtype=dtype, use_fast_accum=True)


def _attention(tensors: Tensors, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Causal attention of which the last query sees the last key, and the base-2 logarithm of each row's sum.

    Weights are relative to the maximum of their row; in the kernel's precision they are rounded to the type of V.
    """
    q, k, v = (tensors[f"{letter}_desc"] for letter in "qkv")
    o = torch.empty(q.shape, dtype=dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=dtype, device=q.device)
    queries, keys = q.shape[2], k.shape[2]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(1 + keys - queries)
    to_base_2 = q.shape[3] ** -0.5 * math.log2(math.e)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = (_multiplied(q[b, h], k[b, h].t(), dtype) * to_base_2).masked_fill(hidden, -math.inf)
            most = s.amax(dim=1, keepdim=True)
            p = torch.exp2(s - most)
            total = p.sum(dim=1, keepdim=True)
            weights = p if dtype == torch.float64 else p.to(v.dtype)
            o[b, h] = _multiplied(weights, v[b, h], dtype) / total
            lse[b, h] = (most + torch.log2(total))[:, 0]
    return {"o_desc": o, "lse_ptr": lse}


# -- times -------------------------------------------------------------------------------------------------------------


def _library(exhibit: Exhibit, tensors: Tensors) -> Callable[[], torch.Tensor] | None:
    match exhibit.kernel.fn.__name__:
        case "gemm_tile" | "gemm_persistent":
            return _cublas(tensors["a_desc"], _right(exhibit, tensors), tensors["c_desc"].dtype)
        case "attention_two_loops":
            return _cudnn(*(tensors[f"{letter}_desc"] for letter in "qkv"))
        case _:
            return None


def _cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor] | None:
    """cuDNN's causal attention; None if this PyTorch does not support these tensors."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def call() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=True)

    try:
        call()
    except RuntimeError:
        return None
    return call


def _cublas(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    """PyTorch's product."""
    if a.itemsize == 1:
        one = torch.ones((), device=a.device)
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=dtype, use_fast_accum=True)
    return lambda: torch.mm(a, b)


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
