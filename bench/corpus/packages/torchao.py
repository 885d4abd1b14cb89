"""torchao: GEMMs for training and inference in int8 and fp8 with scales, and with 4-bit weights.

M, N, K of C = A · B. The tests in ``test`` compare signal and noise, or with 1e-2; RMS ratios are used here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.common import quantised
from bench.corpus.common.references import block_scaled, product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_PACKAGE = PartialPackage(
    "torchao",
    (
        "torchao.kernel.intmm_triton",
        "torchao.kernel.blockwise_quantization",
        "torchao.prototype.hqq.*",
        "torchao.prototype.quantized_training.int8_mm",
        "torchao.prototype.blockwise_fp8_training.kernels",
    ),
    lambda: {"torchao.float8.config": {"e4m3_dtype": _e4m3()}},
)


def _e4m3() -> Any:
    import torch

    return torch.float8_e4m3fn


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"torchao.{module}"), name)


def _int8(M: int, N: int, K: int, device: str) -> Inputs:
    import torch

    a, b = quantised.int8(M, K, device=device), quantised.int8(N, K, device=device)
    scale_a, scale_b = (quantised.scales(size, device=device).to(torch.bfloat16) for size in (M, N))
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": scale_b}


def _run_scaled(it: Inputs) -> Outputs:
    run = _op("prototype.quantized_training.int8_mm", "scaled_int8_mm_cuda")
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"])}


def _want_scaled(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"]) * it["scale_a"].double()[:, None] * it["scale_b"].double()}


def _run_whole(scaled: bool, it: Inputs) -> Outputs:
    """The package chooses a configuration in a tuner of its own; one of its list is given here."""
    import torch
    from triton import Config

    config = Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=4, num_warps=8)
    M, N = it["a"].shape[0], it["b"].shape[1]
    if not scaled:
        c = torch.empty(M, N, device=it["a"].device, dtype=torch.int32)
        return {"c": _op("kernel.intmm_triton", "int_matmul_kernel")(it["a"], it["b"], c, config)}
    c = torch.empty(M, N, device=it["a"].device, dtype=torch.bfloat16)
    rows = it["scale_a"][:, None].expand(M, N)
    return {"c": _op("kernel.intmm_triton", "int_scaled_matmul_kernel")(it["a"], it["b"], rows, c, config)}


def _want_whole(scaled: bool, it: Inputs) -> Outputs:
    c = product(it["a"], it["b"])
    return {"c": c * it["scale_a"].double()[:, None] if scaled else c}


def _int4(transposed: bool, M: int, N: int, K: int, device: str) -> Inputs:
    """Codes (K, N) with scales for 128 of K; two neighbours along K in a byte: the lower half of a block first."""
    import torch

    codes = torch.randint(0, 16, (K, N), device=device)
    scales = quantised.scales(K // 128, N, device=device).half()
    zeros = torch.randint(4, 12, (K // 128, N), device=device).half()
    weights = (codes - zeros.double().repeat_interleave(128, 0)) * scales.double().repeat_interleave(128, 0)
    a = torch.randn(M, N if transposed else K, device=device).half()
    return {"a": a, "codes": codes.to(torch.uint8), "scales": scales, "zeros": zeros, "weights": weights}


def _run_int4(transposed: bool, it: Inputs) -> Outputs:
    pack, run = (_op("prototype.hqq.mixed_mm", name) for name in ("pack_2xint4", "triton_mixed_mm"))
    given = (it["a"], pack(it["codes"]), it["scales"].T.contiguous().T, it["zeros"].T.contiguous().T)
    return {"c": run(*given, 128, transposed=transposed)}


def _want_int4(transposed: bool, it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["weights"].T if transposed else it["weights"])}


def _blocks(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.fp8(M, K, device=device), quantised.fp8(N, K, device=device)
    scale_a = quantised.scales(K // 128, M, device=device).T
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": quantised.scales(N // 128, K // 128, device=device).T,
            "columns": quantised.scales(K // 128, N, device=device)}  # fmt: skip


def _run_blocks(name: str, it: Inputs) -> Outputs:
    module = "prototype.blockwise_fp8_training.kernels"
    scales = it["columns"] if name.endswith("128x1") else it["scale_b"]
    import torch

    return {"c": _op(module, name)(it["a"], it["b"], it["scale_a"], scales, 128, torch.bfloat16)}


def _want_blocks(name: str, it: Inputs) -> Outputs:
    a = block_scaled(it["a"], it["scale_a"], 1, 128)
    columns = name.endswith("128x1")
    b = block_scaled(it["b"], it["columns"] if columns else it["scale_b"], 128, 1 if columns else 128)
    return {"c": a @ b}


def _run_inference(it: Inputs) -> Outputs:
    run = _op("kernel.blockwise_quantization", "blockwise_fp8_gemm")
    return {"c": run(it["a"], it["scale_a"].contiguous(), it["b"].T, it["scale_b"].T.contiguous(), 128)}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, source: str, **shape: Any) -> None:
        found.append(Entry(name, shape, make, run, want, RmsRatio(1e-2), f"test/{source}", configs=4))

    for M, N, K in ((2048, 4096, 4096), (128, 256, 384)):
        size: Any = {"M": M, "N": N, "K": K}
        int8, blocks = partial(_int8, M, N, K), partial(_blocks, M, N, K)
        add(
            "scaled_int8_mm",
            int8,
            _run_scaled,
            _want_scaled,
            "prototype/test_quantized_training.py",
            **size,
            dtype="int8",
        )
        for scaled in (False, True):
            name = f"int_{'scaled_' if scaled else ''}matmul_kernel"
            run, want = partial(_run_whole, scaled), partial(_want_whole, scaled)
            add(name, int8, run, want, "kernel/test_autotuner.py", **size, dtype="int8")
        for transposed in (False, True):
            name = f"triton_mixed_mm{' transposed' if transposed else ''}"
            make, run, want = (partial(it, transposed) for it in (_int4, _run_int4, _want_int4))
            add(name, partial(make, M, N, K), run, want, "hqq/test_triton_mm.py", **size, weights="int4", dtype="fp16")
        for name in ("triton_fp8_gemm_1x128_128x128", "triton_fp8_gemm_1x128_128x1"):
            run, want = partial(_run_blocks, name), partial(_want_blocks, name)
            add(
                name,
                blocks,
                run,
                want,
                "prototype/blockwise_fp8_training/test_blockwise_kernels.py",
                **size,
                dtype="fp8",
            )
        add("blockwise_fp8_gemm", blocks, _run_inference, partial(_want_blocks, ""), "kernel/test_blockwise_triton.py",
            **size, dtype="fp8")  # fmt: skip
    return found


PACKAGE = Package(
    name="torchao",
    home="https://github.com/pytorch/ao",
    licence="BSD-3-Clause",
    requires=(),
    sources=("torchao==0.18.0",),
    module="torchao.kernel.intmm_triton",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
