"""flash-linear-attention: chunked linear attention, forward and backward.

B sequences of T tokens, H heads of D. Tolerances are those of the package's ``tests/ops``. The reference is always the
naive PyTorch implementation in float32; the package's tests use the recurrent kernel for some. All operations but
sparse attention have the same three shapes; the package's tests have them for some operations (`_TESTED`). An operation
has up to eleven tuned kernels with up to 48 configurations each. Six of each are tried, four for KDA, whose kernels
take long to compile, and three for the shape with edges.

Sequences of the length of models (`_LONG`), in bf16, are compared with stock Triton's results: the naive implementation
would take too much memory for their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.corpus.entry import OURS, Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_VERSION = "0.6.0"
_PACKAGE = PartialPackage(
    "fla",
    (
        *(f"fla.{it}" for it in ("backends", "ops", "ops.*", "modules", "modules.*", "utils", "utils.*")),
        *(f"fla.layers.{it}" for it in ("gated_deltanet", "gla", "kda", "utils")),
    ),
    lambda: {"fla": {"__version__": _VERSION}},
)
_TESTS = "tests/ops"
_TESTED = {
    "chunk_gla": ((2, 1024, 8, 128), (4, 2048, 8, 64), (2, 1024, 4, 60)),
    "chunk_simple_gla": ((4, 2048, 8, 64),),
    "chunk_delta_rule": ((4, 2048, 8, 64),),
    "chunk_gated_delta_rule": ((4, 2048, 8, 64),),
    "chunk_kda": ((4, 2048, 8, 64),),
}


def _qkv(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    """Queries, values, and keys of length 1."""
    import torch
    from torch.nn.functional import normalize

    q, k, v = (torch.randn(B, T, H, D, device=device) for _ in range(3))
    return {"q": q.half(), "k": normalize(k, p=2, dim=-1).half(), "v": v.half()}


def _with(inputs: Inputs, state: bool, **more: Any) -> Inputs:
    """Adds inputs and, if wanted, an initial state; everything requires a gradient."""
    import torch

    B, _, H, D = inputs["q"].shape
    found = {**inputs, **more}
    if state:
        found["h0"] = torch.randn(B, H, D, D, device=inputs["q"].device)
    return {key: value.requires_grad_() for key, value in found.items()}


def _gates(*shape: int, device: str, dtype: str = "float32") -> Any:
    import torch
    from torch.nn.functional import logsigmoid

    return logsigmoid(torch.randn(*shape, device=device)).to(getattr(torch, dtype))


def _op(module: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(module), name)


def _with_state(module: str, name: str, arguments: str) -> Callable[[Inputs], Outputs]:
    """Calls an operation with these inputs and an initial state; returns o and the state after the last token."""

    def call(it: Inputs) -> Outputs:
        given = [it[argument] for argument in arguments.split()]
        o, ht = _op(module, name)(*given, initial_state=it["h0"], output_final_state=True)[:2]
        return {"o": o, "ht": ht}

    return call


def _heads_first(*tensors: Any) -> list[Any]:
    return [tensor.transpose(1, 2) for tensor in tensors]


# --- operations: inputs, the package's kernel, its reference ---


def _gla(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    return _with(_qkv(B, T, H, D, device), True, g=_gates(B, T, H, D, device=device, dtype="float16"))


def _simple_gla(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    return _with(_qkv(B, T, H, D, device), True, g=_gates(B, T, H, device=device))


def _delta(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    import torch

    return _with(_qkv(B, T, H, D, device), True, beta=torch.rand(B, T, H, device=device).sigmoid().half())


def _want_delta(it: Inputs) -> Outputs:
    run = _op("fla.ops.delta_rule.naive", "delta_rule_recurrence")
    o, ht = run(*_heads_first(it["q"], it["k"], it["v"], it["beta"]), initial_state=it["h0"])
    return {"o": o.transpose(1, 2), "ht": ht}


def _gated_delta(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    import torch

    beta = torch.rand(B, T, H, device=device).sigmoid().half()
    return _with(_qkv(B, T, H, D, device), True, g=_gates(B, T, H, device=device), beta=beta)


def _kda(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    import torch

    beta = torch.rand(B, T, H, device=device).sigmoid()
    return _with(_qkv(B, T, H, D, device), True, g=_gates(B, T, H, D, device=device), beta=beta)


def _plain(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    return _with(_qkv(B, T, H, D, device), False)


def _run_retention(it: Inputs) -> Outputs:
    return {"o": _op("fla.ops.retention", "chunk_retention")(it["q"], it["k"], it["v"])[0]}


def _want_retention(it: Inputs) -> Outputs:
    run = _op("fla.ops.retention.naive", "naive_retention")
    return {"o": run(*_heads_first(it["q"], it["k"], it["v"])).transpose(1, 2)}


def _run_attention(it: Inputs) -> Outputs:
    return {"o": _op("fla.ops.attn.parallel", "parallel_attn")(it["q"], it["k"], it["v"])}


def _want_attention(it: Inputs) -> Outputs:
    run = _op("fla.ops.attn.naive", "naive_parallel_attn")
    return {"o": run(it["q"].float(), it["k"].float(), it["v"].float())[0]}


def _forgetting(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    return _with(_qkv(B, T, H, D, device), False, g=_gates(B, T, H, device=device))


def _run_forgetting(it: Inputs) -> Outputs:
    run = _op("fla.ops.forgetting_attn.parallel", "parallel_forgetting_attn")
    return {"o": run(it["q"], it["k"], it["v"], it["g"])}


def _want_forgetting(it: Inputs) -> Outputs:
    run = _op("fla.ops.forgetting_attn.naive", "naive_forgetting_attn")
    return {"o": run(it["q"].float(), it["k"].float(), it["v"].float(), it["g"])}


def _slots(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    import torch

    s = torch.randn(B, T, H, 64, device=device).half()
    return _with(_qkv(B, T, H, D, device), False, s=s, g=_gates(B, T, H, 64, device=device, dtype="float16"))


def _run_slots(module: str, name: str, it: Inputs) -> Outputs:
    return {"o": _op(module, name)(it["q"], it["k"], it["v"], it["s"], it["g"])[0]}


def _selected(B: int, T: int, H: int, D: int, device: str) -> Inputs:
    """Each token attends to 16 blocks of 64 tokens, none after its own; 16 heads of queries for each of keys."""
    import torch

    it = _with(_qkv(B, T, H, D, device), False, gate=torch.rand(B, T, 16 * H, device=device).half())
    it["q"] = torch.randn(B, T, 16 * H, D, device=device).half().requires_grad_()
    own = (torch.arange(T, device=device) // 64)[None, :, None, None]
    lots = torch.rand(B, T, H, -(-T // 64), device=device)
    blocks = torch.arange(lots.shape[-1], device=device)
    chosen = lots.masked_fill(blocks > own, 2.0).argsort(-1)[..., :16]
    return {**it, "blocks": torch.where(chosen <= own, chosen, T).sort(-1).values}


def _run_selected(it: Inputs) -> Outputs:
    run = _op("fla.ops.nsa.parallel", "parallel_nsa")
    return {"o": run(it["q"], it["k"], it["v"], g_slc=it["gate"], block_indices=it["blocks"])}


def _want_selected(it: Inputs) -> Outputs:
    run = _op("fla.ops.nsa.naive", "naive_nsa")
    q, k, v, gate = (it[name].float() for name in ("q", "k", "v", "gate"))
    return {"o": run(q, k, v, g_slc=gate, block_indices=it["blocks"])}


# --- the entries ---

Make = Callable[[int, int, int, int, str], Inputs]
Function = Callable[[Inputs], Outputs]

_DELTA_LIMITS = {
    **dict.fromkeys(("dq", "dk", "dv", "dh0"), RmsRatio(0.008)),
    **dict.fromkeys(("dbeta", "dg"), RmsRatio(0.02)),
}
_OPERATIONS: dict[str, tuple[Make, Function, Function, Mapping[str, RmsRatio]]] = {
    "chunk_gla": (
        _gla,
        _with_state("fla.ops.gla", "chunk_gla", "q k v g"),
        _with_state("fla.ops.gla.naive", "naive_recurrent_gla", "q k v g"),
        {"o": RmsRatio(0.004)},
    ),
    # The state-space dual of Mamba-2.
    "chunk_simple_gla": (
        _simple_gla,
        _with_state("fla.ops.simple_gla", "chunk_simple_gla", "q k v g"),
        _with_state("fla.ops.simple_gla.naive", "naive_recurrent_simple_gla", "q k v g"),
        {"o": RmsRatio(0.004)},
    ),
    "chunk_retention": (_plain, _run_retention, _want_retention, {}),
    "chunk_delta_rule": (
        _delta,
        _with_state("fla.ops.delta_rule", "chunk_delta_rule", "q k v beta"),
        _want_delta,
        {**_DELTA_LIMITS, "o": RmsRatio(0.006), "ht": RmsRatio(0.006), "dbeta": RmsRatio(0.008)},
    ),
    "chunk_gated_delta_rule": (
        _gated_delta,
        _with_state("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", "q k v g beta"),
        _with_state("fla.ops.gated_delta_rule.naive", "naive_recurrent_gated_delta_rule", "q k v beta g"),
        _DELTA_LIMITS,
    ),
    "chunk_kda": (
        _kda,
        _with_state("fla.ops.kda", "chunk_kda", "q k v g beta"),
        _with_state("fla.ops.kda.naive", "naive_recurrent_kda", "q k v g beta"),
        _DELTA_LIMITS,
    ),
    "parallel_attn": (_plain, _run_attention, _want_attention, {}),
    "parallel_forgetting_attn": (_forgetting, _run_forgetting, _want_forgetting, {}),
    "chunk_gsa": (
        _slots,
        partial(_run_slots, "fla.ops.gsa", "chunk_gsa"),
        partial(_run_slots, "fla.ops.gsa.naive", "naive_recurrent_gsa"),
        {},
    ),
    "parallel_nsa": (_selected, _run_selected, _want_selected, {}),
}
_FORWARD_ONLY = (
    "chunk_simple_gla",
    "chunk_gated_delta_rule",
)  # its backward raises on Hopper under Triton 3.4 to 3.7.0
_CONFIGS = {"chunk_kda": 4, "parallel_attn": 1, "parallel_nsa": 2}  # attention is not tuned
_LONG = ("chunk_gla", "chunk_simple_gla", "chunk_retention", "chunk_delta_rule", "chunk_gated_delta_rule", "chunk_kda")
_LONG_SHAPE = (8, 4096, 16, 128)
_SHAPES = ((2, 1024, 8, 128), (4, 2048, 8, 64), (2, 1024, 4, 60))


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for name, (make, run, reference, limits) in _OPERATIONS.items():
        for B, T, H, D in _SHAPES if name != "parallel_nsa" else ((2, 1024, 2, 128), (4, 2048, 1, 64)):

            def inputs(device: str, make: Make = make, shape: tuple[int, ...] = (B, T, H, D)) -> Inputs:
                return make(*shape, device)  # type: ignore[call-arg]

            shape = {"B": B, "T": T, "H": H, "D": D, "dtype": "fp16"}
            tolerance = RmsRatio(0.005)
            backward = name not in _FORWARD_ONLY
            tested = _TESTS if (B, T, H, D) in _TESTED.get(name, ()) else OURS
            configs = min(_CONFIGS.get(name, 6), 3 if D == 60 else 6)
            found.append(Entry(name, shape, inputs, run, reference, tolerance, _TESTS, limits, backward, tested,
                               configs=configs))  # fmt: skip
        if name in _LONG:
            shape = dict(zip("BTHD", _LONG_SHAPE, strict=True)) | {"dtype": "bf16"}
            found.append(Entry(name, shape, partial(_in_bf16, make), run, run, RmsRatio(0.01), _TESTS,
                               backward=name not in _FORWARD_ONLY, configs=4))  # fmt: skip
    return found


def _in_bf16(make: Make, device: str) -> Inputs:
    """Long sequences; what other shapes have in fp16 is bf16."""
    import torch

    made = {key: it.detach() for key, it in make(*_LONG_SHAPE, device).items()}
    return {key: (it.bfloat16() if it.dtype == torch.float16 else it).requires_grad_() for key, it in made.items()}


PACKAGE = Package(
    name="flash-linear-attention",
    home="https://github.com/fla-org/flash-linear-attention",
    licence="MIT",
    requires=(f"fla-core=={_VERSION}", "einops==0.8.2"),
    sources=(f"flash-linear-attention=={_VERSION}",),
    module="fla.ops",
    partial=_PACKAGE,
    entries=tuple(_entries()),
    notes="fla-core holds the kernels; of the layers, bench.decoder imports those that need no transformers.",
)
