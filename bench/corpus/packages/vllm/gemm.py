"""GEMMs of vLLM: batch-invariant, with weights of 4 bits, and of 8 bits with scales; LoRA for several adapters.

M, N, K of C = A · B. The tests in ``tests/kernels`` have absolute tolerances for results of order 1; sums of K products
are of order √K, so RMS ratios are used here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.common import quantised
from bench.corpus.common.references import block_scaled, product
from bench.corpus.entry import Entry, Inputs, Outputs, RmsRatio
from bench.corpus.packages.vllm.modules import op

_TOLERANCE = RmsRatio(1e-2)
_INVARIANT = "model_executor.determinism.batch_invariant"
_QUANTISATION = "model_executor.layers.quantization"


def _dense(batch: int, M: int, N: int, K: int, device: str) -> Inputs:
    import torch

    first = (batch,) if batch else ()
    a, b = (torch.randn(*first, *size, device=device).bfloat16() for size in ((M, K), (K, N)))
    return {"a": a, "b": b}


def _run_invariant(name: str, it: Inputs) -> Outputs:
    return {"c": op(_INVARIANT, name)(it["a"], it["b"])}


def _want_product(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"])}


def _int4(pack: str, M: int, N: int, K: int, device: str) -> Inputs:
    """fp16 activations, 4-bit codes with a scale and a zero point for every 128 rows."""
    import torch

    codes, zeros = (torch.randint(0, 16, size, device=device) for size in ((K, N), (K // 128, N)))
    scales = quantised.scales(K // 128, N, device=device).half()
    order = quantised.AWQ_ORDER if pack == "awq" else tuple(range(8))
    a = torch.randn(M, K, device=device).half()
    weights = (codes - zeros.repeat_interleave(128, 0)).double() * scales.double().repeat_interleave(128, 0)
    packed, packed_zeros = (quantised.packed_columns(it, order) for it in (codes, zeros))
    return {"a": a, "packed": packed, "zeros": packed_zeros, "scales": scales, "b": weights}


def _run_w4a16(it: Inputs) -> Outputs:
    run = op("model_executor.kernels.linear.mixed_precision.triton_w4a16", "_triton_w4a16_gemm_impl")
    return {"c": run(it["a"], it["packed"], it["scales"], it["zeros"], 128)}


def _run_awq(it: Inputs) -> Outputs:
    run = op(f"{_QUANTISATION}.awq_triton", "awq_gemm_triton")
    return {"c": run(it["a"], it["packed"], it["scales"], it["zeros"], 1, 64, 64, 64)}


def _scaled(dtype: str, M: int, N: int, K: int, device: str) -> Inputs:
    """8-bit operands with a scale for each row of A and each column of B; B lies in memory as (N, K)."""
    made = quantised.int8 if dtype == "int8" else quantised.fp8
    a, b = (made(*size, device=device) for size in ((M, K), (N, K)))
    scale_a, scale_b = (quantised.scales(size, 1, device=device) for size in (M, N))
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": scale_b}


def _run_scaled(it: Inputs) -> Outputs:
    import torch

    run = op(f"{_QUANTISATION}.compressed_tensors.triton_scaled_mm", "triton_scaled_mm")
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"], torch.bfloat16)}


def _want_scaled(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"]) * it["scale_a"].double() * it["scale_b"].double().T}


def _blocks(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = (quantised.fp8(*size, device=device) for size in ((M, K), (N, K)))
    scale_a, scale_b = (quantised.scales(*size, device=device) for size in ((M, K // 128), (-(-N // 128), K // 128)))
    return {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}


def _run_blocks(it: Inputs) -> Outputs:
    import torch

    run = op(f"{_QUANTISATION}.utils.fp8_utils", "w8a8_triton_block_scaled_mm")
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"], [128, 128], torch.bfloat16)}


def _want_blocks(it: Inputs) -> Outputs:
    a, b = block_scaled(it["a"], it["scale_a"], 1, 128), block_scaled(it["b"], it["scale_b"], 128, 128)
    return {"c": a @ b.T}


# --- LoRA ---


def _adapters(M: int, H: int, R: int, A: int, device: str) -> Inputs:
    """M tokens, each of one of A adapters of rank R; sorted by adapter as the kernels want them."""
    import torch

    of_token = torch.randint(0, A, (M,), dtype=torch.int32, device=device)
    order = of_token.argsort(stable=True).to(torch.int32)
    counts = torch.bincount(of_token, minlength=A)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)
    none = starts.new_full((1,), -1)
    return {
        "x": torch.randn(M, H, device=device).bfloat16(),
        "down": torch.randn(A, R, H, device=device).bfloat16(),
        "up": torch.randn(A, H, R, device=device).bfloat16(),
        "low": torch.randn(1, M, R, device=device),
        "of_token": of_token,
        "meta": (of_token, order, torch.cat([counts.to(torch.int32), starts.new_zeros(1)]),
                 torch.cat([starts, starts[-1:]]),
                 torch.cat([torch.arange(A, dtype=torch.int32, device=device), none]),
                 torch.tensor([False]), torch.tensor([A], dtype=torch.int32)),
    }  # fmt: skip


def _run_shrink(it: Inputs) -> Outputs:
    import torch

    y = torch.zeros(1, it["x"].shape[0], it["down"].shape[1], device=it["x"].device)
    op("lora.ops.triton_ops.lora_shrink_op", "_lora_shrink")(it["x"], [it["down"]], y, *it["meta"], 1.0)
    return {"y": y[0]}


def _want_shrink(it: Inputs) -> Outputs:
    return {"y": _by_adapter(it["x"], it["down"], it["of_token"])}


def _run_expand(it: Inputs) -> Outputs:
    import torch

    y = torch.zeros(it["x"].shape, device=it["x"].device, dtype=it["x"].dtype)
    op("lora.ops.triton_ops.lora_expand_op", "_lora_expand")(it["low"], [it["up"]], y, *it["meta"], 0, False)
    return {"y": y}


def _want_expand(it: Inputs) -> Outputs:
    return {"y": _by_adapter(it["low"][0], it["up"], it["of_token"])}


def _by_adapter(x: Any, weights: Any, of_token: Any) -> Any:
    import torch

    y = torch.zeros(x.shape[0], weights.shape[1], device=x.device)
    for at in range(weights.shape[0]):
        mine = torch.where(of_token == at)[0]
        y[mine] = x[mine].float() @ weights[at].float().T
    return y


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, source: str, **shape: Any) -> None:
        about = {**shape, "dtype": shape.get("dtype", "bf16")}
        found.append(Entry(name, about, make, run, want, _TOLERANCE, f"tests/{source}", configs=1))

    for M, N, K in ((4096, 4096, 4096), (33, 136, 200)):  # rows of a descriptor are multiples of 16 bytes
        size: Any = {"M": M, "N": N, "K": K}
        for name in ("matmul_persistent", "matmul_descriptor_persistent"):
            run: Any = partial(_run_invariant, name)
            add(
                name, partial(_dense, 0, M, N, K), run, _want_product, "v1/determinism/test_batch_invariance.py", **size
            )
    for B, M, N, K in ((16, 1024, 1024, 512), (3, 33, 130, 200)):
        run = partial(_run_invariant, "bmm_batch_invariant")
        add("bmm_batch_invariant", partial(_dense, B, M, N, K), run, _want_product,
            "v1/determinism/test_batch_invariance.py", B=B, M=M, N=N, K=K)  # fmt: skip
    for M, N, K in ((2048, 4096, 4096), (16, 128, 256)):
        size = {"M": M, "N": N, "K": K}
        weights: Any = {**size, "weights": "int4", "dtype": "fp16"}
        add("triton_w4a16_gemm", partial(_int4, "gptq", M, N, K), _run_w4a16, _want_product,
            "kernels/quantization/test_triton_w4a16.py", **weights)  # fmt: skip
        add("awq_gemm_triton", partial(_int4, "awq", M, N, K), _run_awq, _want_product,
            "kernels/quantization/test_awq_triton.py", **weights)  # fmt: skip
        for dtype in ("int8", "fp8"):
            add("triton_scaled_mm", partial(_scaled, dtype, M, N, K), _run_scaled, _want_scaled,
                "kernels/quantization/test_triton_scaled_mm.py", **size, dtype=dtype)  # fmt: skip
        add("w8a8_triton_block_scaled_mm", partial(_blocks, M, N, K), _run_blocks, _want_blocks,
            "kernels/quantization/test_block_fp8.py", **size, dtype="fp8")  # fmt: skip
    for M, H, R, A in ((4096, 4096, 64, 4), (20, 256, 16, 2)):
        make = partial(_adapters, M, H, R, A)
        for name, run, want in (("shrink", _run_shrink, _want_shrink), ("expand", _run_expand, _want_expand)):
            add(f"lora_{name}", make, run, want, "lora/test_punica_ops.py", M=M, H=H, R=R, A=A)
    return found


ENTRIES = tuple(_entries())
