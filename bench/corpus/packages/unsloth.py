"""Unsloth: attention with large heads, grouped GEMMs for mixtures of experts, products with fp8 and fp4 weights.

B sequences of S tokens, H heads of queries and KV of keys, D; M, N, K of C = A · B. Tolerances are RMS ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from bench.corpus.common import quantised
from bench.corpus.common.references import attention, block_scaled
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage


def _values() -> Mapping[str, Mapping[str, Any]]:
    import logging

    import torch

    return {
        "unsloth": {"DEVICE_TYPE": "cuda"},
        "unsloth.device_type": {"cuda_visible_capabilities": lambda: [(9, 0)]},
        "unsloth.kernels.utils": {"torch_gpu_device": lambda device: nullcontext()},
        "unsloth_zoo.utils": {"Version": lambda text: tuple(int(it) for it in str(text).split("+")[0].split(".")[:2])},
        "unsloth_zoo.log": {"logger": logging.getLogger("unsloth")},
        "unsloth_zoo.temporary_patches.common": {"torch_compile": torch.compile},
    }


_PACKAGE = PartialPackage(
    "unsloth",
    (
        "unsloth.kernels.large_head_attention",
        "unsloth.kernels.moe.grouped_gemm.interface",
        *(f"unsloth.kernels.moe.grouped_gemm.kernels.{it}" for it in ("forward", "backward", "autotuning")),
        "unsloth.kernels.fp8",
        "unsloth.kernels.nvfp4",
        "unsloth.kernels.indexing",
    ),
    _values,
    absent=("unsloth_zoo",),
)


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"unsloth.kernels.{module}"), name)


def _large(B: int, H: int, KV: int, S: int, D: int, device: str) -> Inputs:
    import torch

    def leaf(heads: int) -> Any:
        return torch.randn(B, heads, S, D, device=device).bfloat16().requires_grad_()

    last = torch.arange(S, device=device, dtype=torch.int32).expand(B, S).contiguous()
    return {"q": leaf(H), "k": leaf(KV), "v": leaf(KV), "first": torch.zeros_like(last), "last": last}


def _run_large(it: Inputs) -> Outputs:
    run = _op("large_head_attention", "large_head_attention")
    return {"o": run(it["q"], it["k"], it["v"], it["first"], it["last"])}


def _want_large(it: Inputs) -> Outputs:
    return {"o": attention(it["q"], it["k"], it["v"], causal=True).transpose(1, 2)}


def _experts(sizes: tuple[int, ...], N: int, K: int, device: str) -> Inputs:
    """Rows in the order of their experts."""
    import torch

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=device).bfloat16()

    total, counts = sum(sizes), torch.tensor(sizes, dtype=torch.int32, device=device)
    order = torch.arange(total, dtype=torch.int32, device=device)
    return {"x": random(total, K), "w": random(len(sizes), N, K), "dy": random(total, N), "counts": counts,
            "order": order, "sizes": sizes}  # fmt: skip


def _run_experts(tma: bool, it: Inputs) -> Outputs:
    module = "moe.grouped_gemm.interface"
    tiles = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "num_warps": 8, "num_stages": 3}
    y = _op(module, "_grouped_gemm_forward_impl")(it["x"], it["w"], 1, it["counts"], it["order"], use_tma_load_w=tma,
                                                  use_tma_load_x=tma, **tiles)  # fmt: skip
    dx = _op(module, "_grouped_gemm_dX_impl")(it["dy"], it["w"], it["order"], it["counts"], 1, use_tma_load_w=tma,
                                              use_tma_load_dy=tma, **tiles)  # fmt: skip
    dw = _op(module, "_grouped_gemm_dW_impl")(it["x"], it["dy"], it["counts"], it["order"], 1, **tiles)
    return {"y": y, "dx": dx, "dw": dw}


def _want_experts(it: Inputs) -> Outputs:
    import torch

    xs, dys = (it[name].float().split(list(it["sizes"])) for name in ("x", "dy"))
    w = it["w"].float()
    return {
        "y": torch.cat([x @ one.T for x, one in zip(xs, w, strict=True)]),
        "dx": torch.cat([dy @ one for dy, one in zip(dys, w, strict=True)]),
        "dw": torch.stack([dy.T @ x for x, dy in zip(xs, dys, strict=True)]),
    }


def _blocks(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.fp8(M, K, device=device), quantised.fp8(N, K, device=device)
    scale_a, scale_b = (quantised.scales(*size, device=device) for size in ((M, K // 128), (N // 128, K // 128)))
    return {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}


def _run_blocks(it: Inputs) -> Outputs:
    import torch

    run = _op("fp8", "w8a8_block_fp8_matmul_triton")
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"], [128, 128], torch.bfloat16)}


def _want_blocks(it: Inputs) -> Outputs:
    return {"c": block_scaled(it["a"], it["scale_a"], 1, 128) @ block_scaled(it["b"], it["scale_b"], 128, 128).T}


def _few(M: int, N: int, K: int, device: str) -> Inputs:
    import torch

    it = _blocks(M, N, K, device)
    return {**it, "x": torch.randn(M, K, device=device).bfloat16()}


def _run_few(it: Inputs) -> Outputs:
    return {"c": _op("fp8", "fp8_block_small_m_linear")(it["x"], it["b"], it["scale_b"])}


def _want_few(it: Inputs) -> Outputs:
    """The kernel quantises x to fp8, with a scale for each 128 values."""
    return {"c": it["x"].double() @ block_scaled(it["b"], it["scale_b"], 128, 128).T}


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _nvfp4(M: int, N: int, K: int, device: str) -> Inputs:
    """Weights (N, K) of 4-bit floats, two in each byte, with a scale in e4m3 for each 16 and one for all."""
    import torch

    codes = torch.randint(0, 16, (N, K), device=device)
    packed = (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8)
    scale = (0.5 + torch.rand(N, K // 16, device=device)).to(torch.float8_e4m3fn)
    whole = torch.tensor([16.0], device=device)
    values = torch.tensor([*_E2M1, *(-it for it in _E2M1)], device=device, dtype=torch.float64)[codes]
    weights = values * (scale.double() / whole.double()).repeat_interleave(16, 1)
    x, dy = (torch.randn(M, size, device=device).bfloat16() for size in (K, N))
    return {"x": x, "dy": dy, "packed": packed, "scale": scale, "whole": whole, "weights": weights}


def _run_nvfp4(name: str, it: Inputs) -> Outputs:
    x = it["x"] if "fwd" in name else it["dy"]
    return {"c": _op("nvfp4", name)(x, it["packed"], it["scale"], it["whole"])}


def _want_nvfp4(name: str, it: Inputs) -> Outputs:
    return {"c": it["x"].double() @ it["weights"].T if "fwd" in name else it["dy"].double() @ it["weights"]}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(
        name: str, make: Any, run: Any, want: Any, limit: float = 1e-2, backward: bool = False, **shape: Any
    ) -> None:
        about = {**shape, "dtype": shape.get("dtype", "bf16")}
        source = "chosen here: the wheel has no tests of its kernels"
        found.append(Entry(name, about, make, run, want, RmsRatio(limit), source, backward=backward, configs=4))

    for B, H, KV, S, D in ((1, 8, 4, 2048, 512), (2, 4, 2, 160, 256)):
        make: Any = partial(_large, B, H, KV, S, D)
        add("large_head_attention", make, _run_large, _want_large, 2e-2, True, B=B, H=H, KV=KV, S=S, D=D)
    for sizes, N, K in (((1024, 512, 2048, 37), 2048, 2048), ((17, 64, 5), 128, 128)):
        for tma in (False, True):
            make = partial(_experts, sizes, N, K)
            name = f"grouped_gemm{' by TMA' if tma else ''}"
            add(name, make, partial(_run_experts, tma), _want_experts, sizes="+".join(map(str, sizes)), N=N, K=K)
    for M, N, K in ((2048, 4096, 4096), (24, 256, 512)):
        size: Any = {"M": M, "N": N, "K": K}
        add("w8a8_block_fp8_matmul", partial(_blocks, M, N, K), _run_blocks, _want_blocks, **size, dtype="fp8")
        for name in ("_nvfp4_matmul_fwd_fused", "_nvfp4_matmul_dx_fused"):
            run, want = partial(_run_nvfp4, name), partial(_want_nvfp4, name)
            add(name, partial(_nvfp4, M, N, K), run, want, **size, weights="fp4")
    for M, N, K in ((16, 4096, 4096), (3, 256, 512)):
        make = partial(_few, M, N, K)
        add("fp8_block_small_m_linear", make, _run_few, _want_few, 5e-2, M=M, N=N, K=K, weights="fp8")
    return found


PACKAGE = Package(
    name="unsloth",
    home="https://github.com/unslothai/unsloth",
    licence="Apache-2.0",
    requires=(),
    sources=("unsloth==2026.10.9",),
    module="unsloth.kernels.large_head_attention",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
