"""LMDeploy: attention of prompts and of one token over a paged cache, MLA, block-scaled fp8, experts, and LoRA.

Sequences of `prefix` cached and `new` tokens, H heads of queries, KV heads of keys, D; M, N, K of C = A · B. The tests
in ``tests/pytorch/kernel`` compare with 1e-2 and more; RMS ratios are used here.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

from bench.corpus.common import quantised, routing
from bench.corpus.common.caches import latent, paged, starts_of, want_paged
from bench.corpus.common.references import block_scaled, product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_TOLERANCE = RmsRatio(1e-2)
_TESTS = "tests/pytorch/kernel"
_KERNELS = "lmdeploy.pytorch.kernels.cuda"


class _Policy(enum.IntEnum):
    """How the cache is quantised: `QuantPolicy` of the package, whose module needs its whole configuration."""

    NONE, INT4, INT8, FP8, FP8_E5M2, TURBO_QUANT = 0, 4, 8, 16, 17, 42


_PACKAGE = PartialPackage(
    "lmdeploy",
    tuple(
        f"{_KERNELS}.{it}"
        for it in ("activation", "blocked_gemm_fp8", "flashattention", "fused_lora", "moe.fused_moe", "pagedattention",
                   "turbo_quant", "utils")
    ),
    lambda: {"lmdeploy.messages": {"QuantPolicy": _Policy}},
    absent=("fast_hadamard_transform",),
)  # fmt: skip


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"{_KERNELS}.{module}"), name)


# --- attention ---


def _flattened(prefix: tuple[int, ...], new: tuple[int, ...], H: int, KV: int, D: int, device: str) -> Inputs:
    """As the package does before a prompt: the cached and the new keys and values of all sequences, heads first."""
    import torch

    it = paged(prefix, new, H, KV, D, 64, device)
    k, v = (torch.cat(it[name]).transpose(0, 1).contiguous() for name in ("keys", "values"))
    totals = tuple(before + after for before, after in zip(prefix, new, strict=True))
    return {**it, "k": k, "v": v, "total_starts": starts_of(totals, device)}


def _run_prompts(it: Inputs) -> Outputs:
    run = _op("flashattention", "flash_attn_varlen_func")
    o = run(it["q"], it["k"], it["v"], cu_seqlens_q=it["starts"], cu_seqlens_k=it["total_starts"],
            max_seqlen_q=max(it["new"]), causal=True)  # fmt: skip
    return {"o": o}


def _run_decode(it: Inputs) -> Outputs:
    run = _op("pagedattention", "flash_attn_with_kvcache")
    return {"o": run(it["q"], it["k_pages"], it["v_pages"], it["totals"], it["table"])}


# --- products ---


def _blocks(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.fp8(M, K, device=device), quantised.fp8(N, K, device=device)
    scale_a = quantised.scales(M, K // 128, device=device)
    scale_b = quantised.scales(-(-N // 128), K // 128, device=device)
    return {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}


def _run_blocks(it: Inputs) -> Outputs:
    import torch

    run = _op("blocked_gemm_fp8", "blocked_gemm_fp8")
    return {"c": run(it["a"], it["scale_a"], it["b"].T, it["scale_b"].T, out_dtype=torch.bfloat16)}


def _want_blocks(it: Inputs) -> Outputs:
    b = block_scaled(it["b"], it["scale_b"], 128, 128)
    return {"c": product(block_scaled(it["a"], it["scale_a"], 1, 128), b.T)}


def _experts(T: int, E: int, P: int, N: int, K: int, device: str) -> Inputs:
    """N: columns of gate and of up; K: of the hidden states. The weights leave results of order 1."""
    import torch

    chosen, factors = routing.choose(T, E, P, device)
    x = torch.randn(T, K, device=device).bfloat16()
    up, down = ((torch.randn(E, *size, device=device) * size[1] ** -0.5).bfloat16() for size in ((2 * N, K), (K, N)))
    return {"x": x, "up": up, "down": down, "chosen": chosen.long(), "factors": factors}


def _run_experts(it: Inputs) -> Outputs:
    run = _op("moe.fused_moe", "fused_moe")
    return {"y": run(it["x"], it["up"], it["down"], it["factors"], it["chosen"], it["chosen"].shape[1])}


def _want_experts(it: Inputs) -> Outputs:
    from torch.nn.functional import silu

    gate, up = routing.product_of_experts(it["x"], it["up"], it["chosen"]).flatten(0, 1).chunk(2, -1)
    y = routing.product_of_experts(silu(gate) * up, it["down"], it["chosen"], it["factors"])
    return {"y": y.sum(1)}


def _adapters(sizes: tuple[int, ...], H: int, R: int, device: str) -> Inputs:
    """An adapter of rank R for each sequence, one below the other."""
    import torch

    count = len(sizes)
    x = torch.randn(sum(sizes), H, device=device).bfloat16()
    a, b = ((torch.randn(count * R, H, device=device) * it).bfloat16() for it in (H**-0.5, R**-0.5))
    numbers = torch.arange(count, device=device)
    lengths = torch.tensor(sizes, device=device)
    return {"x": x, "a": a, "b": b, "numbers": numbers, "lengths": lengths, "sizes": sizes, "rank": R}


def _run_adapters(it: Inputs) -> Outputs:
    import torch

    numbers, lengths, rank = it["numbers"], it["lengths"], it["rank"]
    scaling, ranks = torch.ones_like(numbers), torch.full_like(numbers, rank)
    run = _op("fused_lora", "fused_lora")
    y = run(it["x"], it["a"], it["b"], scaling, numbers * rank, ranks, lengths.cumsum(0) - lengths, lengths, numbers,
            rank, max(it["sizes"]))  # fmt: skip
    return {"y": y}


def _want_adapters(it: Inputs) -> Outputs:
    import torch

    parts = zip(it["x"].split(list(it["sizes"])), it["a"].split(it["rank"]), it["b"].split(it["rank"]), strict=True)
    return {"y": torch.cat([x.float() @ a.float().T @ b.float() for x, a, b in parts])}


# --- the entries ---


def _entries() -> list[Entry]:
    found: list[Entry] = []
    mixed, edges = ((1024, 0, 523), (512, 1024, 37)), ((18, 462), (5, 129))
    for (prefix, new), H, KV, D in ((mixed, 32, 8, 128), (edges, 4, 2, 64)):
        shape: dict[str, Any] = {"prefix": "+".join(map(str, prefix)), "new": "+".join(map(str, new))}
        shape |= {"H": H, "KV": KV, "D": D, "dtype": "bf16"}
        make: Any = partial(_flattened, prefix, new, H, KV, D)
        source = f"{_TESTS}/test_flash_attention.py"
        found.append(
            Entry("flash_attn_varlen_func", shape, make, _run_prompts, want_paged, _TOLERANCE, source, configs=1)
        )
    many = tuple(range(1000, 9000, 500))
    for prefix, H, KV, D in ((many, 64, 8, 128), ((40, 333), 16, 2, 64)):
        shape = {"B": len(prefix), "longest": max(prefix) + 1, "H": H, "KV": KV, "D": D, "page": 64, "dtype": "bf16"}
        make = partial(paged, prefix, (1,) * len(prefix), H, KV, D, 64)
        source = f"{_TESTS}/test_paged_attention.py"
        found.append(
            Entry("flash_attn_with_kvcache", shape, make, _run_decode, want_paged, _TOLERANCE, source, configs=1)
        )
    for prefix in (many, (40, 333)):
        shape = {"B": len(prefix), "longest": max(prefix) + 1, "H": 16, "page": 16, "dtype": "bf16"}
        make = partial(latent, prefix, 16, 16)
        name = "flash_attn_with_kvcache, MLA"
        found.append(Entry(name, shape, make, _run_decode, want_paged, _TOLERANCE, source, configs=1))
    for M, N, K in ((2048, 4096, 4096), (64, 4096, 7168), (24, 256, 512)):
        shape = {"M": M, "N": N, "K": K, "dtype": "fp8"}
        source = f"{_TESTS}/test_gemm_fp8.py"
        make = partial(_blocks, M, N, K)
        found.append(Entry("blocked_gemm_fp8", shape, make, _run_blocks, _want_blocks, _TOLERANCE, source, configs=2))
    for T, E, P, N, K in ((4096, 8, 2, 2048, 2048), (128, 64, 8, 768, 2048), (33, 8, 2, 128, 128)):
        shape = {"T": T, "E": E, "P": P, "N": N, "K": K, "dtype": "bf16"}
        make = partial(_experts, T, E, P, N, K)
        source = f"{_TESTS}/test_fuse_moe.py"
        found.append(Entry("fused_moe", shape, make, _run_experts, _want_experts, _TOLERANCE, source, configs=2))
    for sizes, H, R in (((1024, 2048, 300), 4096, 64), ((20, 37), 256, 16)):
        shape = {"sizes": "+".join(map(str, sizes)), "H": H, "R": R, "dtype": "bf16"}
        make = partial(_adapters, sizes, H, R)
        source = f"{_TESTS}/test_fused_lora.py"
        found.append(Entry("fused_lora", shape, make, _run_adapters, _want_adapters, _TOLERANCE, source, configs=2))
    return found


PACKAGE = Package(
    name="lmdeploy",
    home="https://github.com/InternLM/lmdeploy",
    licence="Apache-2.0",
    requires=(),
    sources=("lmdeploy==0.18.0",),
    module=f"{_KERNELS}.flashattention",
    partial=_PACKAGE,
    entries=tuple(_entries()),
    notes="Only the modules with the kernels are imported.",
)
