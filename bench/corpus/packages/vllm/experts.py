"""Mixtures of experts of vLLM: one product of all experts, the rows gathered, with weights of 16, 8 and 4 bits.

T tokens of K features, E experts, top P of them, N outputs. The reference is the product in float32, expert by expert.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.common import quantised, routing
from bench.corpus.common.references import block_scaled
from bench.corpus.entry import Entry, Inputs, Outputs, RmsRatio
from bench.corpus.packages.vllm.modules import op

_MODULE = "model_executor.layers.fused_moe"
_CONFIG = {
    "BLOCK_SIZE_M": 64,
    "BLOCK_SIZE_N": 128,
    "BLOCK_SIZE_K": 64,
    "GROUP_SIZE_M": 8,
    "num_warps": 4,
    "num_stages": 3,
}
_SOURCE = "tests/kernels/moe/test_moe.py"


def _make(dtype: str, T: int, E: int, P: int, N: int, K: int, device: str) -> Inputs:
    import torch

    chosen, factors = routing.choose(T, E, P, device)
    it: Inputs = {"chosen": chosen, "factors": factors, "rows": routing.aligned(chosen, E, 64)}
    if dtype == "bf16":
        it["x"] = torch.randn(T, K, device=device).bfloat16()
        it["w"] = it["plain"] = torch.randn(E, N, K, device=device).bfloat16()
        return {**it, "plain_x": it["x"]}
    if dtype == "fp8":
        it["x"], it["w"] = quantised.fp8(T, K, device=device), quantised.fp8(E, N, K, device=device)
        it["scale_x"] = quantised.scales(T, K // 128, device=device)
        it["scale_w"] = quantised.scales(E, -(-N // 128), K // 128, device=device)
        it["plain_x"] = block_scaled(it["x"], it["scale_x"], 1, 128)
        return {**it, "plain": block_scaled(it["w"], it["scale_w"], 128, 128)}
    codes = torch.randint(0, 16, (E, N, K), device=device)
    it["x"] = it["plain_x"] = torch.randn(T, K, device=device).half()
    it["w"] = (codes[..., ::2] | (codes[..., 1::2] << 4)).to(torch.uint8)
    it["scale_w"] = quantised.scales(E, N, K // 128, device=device).half()
    return {**it, "plain": (codes - 8).double() * it["scale_w"].double().repeat_interleave(128, -1)}


def _run(dtype: str, it: Inputs) -> Outputs:
    import torch
    import triton.language as tl

    T, P = it["chosen"].shape
    element = torch.float16 if dtype == "int4" else torch.bfloat16
    y = torch.zeros(T, P, it["w"].shape[1], device=it["x"].device, dtype=element)
    rows, of_block, count = it["rows"]
    if dtype == "int4":
        run = op(f"{_MODULE}.fused_moe", "invoke_fused_moe_wna16_triton_kernel")
        run(it["x"], it["w"], y, it["scale_w"], None, it["factors"], rows, of_block, count, True, P,
            {**_CONFIG, "SPLIT_K": 1}, tl.float16, False, True, [0, 128])  # fmt: skip
        return {"y": y}
    run = op(f"{_MODULE}.fused_moe", "invoke_fused_moe_triton_kernel")
    fp8 = dtype == "fp8"
    config = {**_CONFIG, "BLOCK_SIZE_K": 128} if fp8 else _CONFIG
    run(it["x"], it["w"], y, it.get("scale_x"), it.get("scale_w"), it["factors"], rows, of_block, count, True, P,
        config, tl.bfloat16, fp8, False, False, False, False, [128, 128] if fp8 else None)  # fmt: skip
    return {"y": y}


def _want(it: Inputs) -> Outputs:
    return {"y": routing.product_of_experts(it["plain_x"], it["plain"], it["chosen"], it["factors"])}


def _batched(E: int, T: int, N: int, K: int, device: str) -> Inputs:
    """T rows at most for each expert; the number of its rows differs."""
    import torch

    x, w = (torch.randn(*size, device=device).bfloat16() for size in ((E, T, K), (E, N, K)))
    counts = torch.linspace(0, T, E, device=device).to(torch.int32)
    seen = torch.arange(T, device=device)[None, :, None] < counts[:, None, None]
    return {"x": x * seen, "w": w, "counts": counts, "seen": seen}


def _run_batched(it: Inputs) -> Outputs:
    import torch
    import triton.language as tl

    x, w = it["x"], it["w"]
    y = torch.zeros(*x.shape[:2], w.shape[1], device=x.device, dtype=x.dtype)
    run = op(f"{_MODULE}.experts.fused_batched_moe", "invoke_moe_batched_triton_kernel")
    config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64}
    run(x, w, y, it["counts"], tl.bfloat16, None, None, None, False, False, False, config, False)
    return {"y": y * it["seen"]}


def _want_batched(it: Inputs) -> Outputs:
    return {"y": it["x"].float() @ it["w"].float().transpose(1, 2)}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    names = {"bf16": "fused_moe_kernel", "fp8": "fused_moe_kernel", "int4": "fused_moe_kernel_gptq_awq"}
    for T, E, P, N, K in ((4096, 8, 2, 4096, 2048), (33, 8, 2, 128, 128)):
        for dtype, name in names.items():
            shape = {"T": T, "E": E, "P": P, "N": N, "K": K, "dtype": dtype}
            make: Any = partial(_make, dtype, T, E, P, N, K)
            run: Any = partial(_run, dtype)
            found.append(Entry(name, shape, make, run, _want, RmsRatio(1e-2), _SOURCE, configs=1))
    for E, T, N, K in ((8, 1024, 2048, 2048), (4, 33, 128, 128)):
        shape = {"E": E, "T": T, "N": N, "K": K, "dtype": "bf16"}
        make = partial(_batched, E, T, N, K)
        source = "tests/kernels/moe/test_batched_moe.py"
        found.append(
            Entry("batched_triton_kernel", shape, make, _run_batched, _want_batched, RmsRatio(1e-2), source, configs=1)
        )
    return found


ENTRIES = tuple(_entries())
