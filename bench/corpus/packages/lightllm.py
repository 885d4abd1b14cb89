"""lightllm: attention of several models over a cache addressed by token, quantised GEMMs, and a mixture of experts.

Sequences of `prefix` cached and `new` tokens, H heads of queries, KV heads of keys, D; M, N, K of C = A · B. The tests
in ``unit_tests`` and ``test/kernel`` compare with 1e-2; RMS ratios are used here.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from bench.corpus.common import quantised, routing
from bench.corpus.common.caches import by_token, paged, starts_of, want_paged
from bench.corpus.common.references import attention, block_scaled, packed_attention, product
from bench.corpus.entry import Archive, Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_COMMIT = "fc72ffab9a3455cfb571f22d45ab777cc29de0de"
_TOLERANCE = RmsRatio(1e-2)
_MODELS = "lightllm/models"
_TESTED = "unit_tests/models/llama/test_context_flashattention_nopad.py"
_PACKAGE = PartialPackage(
    "lightllm",
    (
        "lightllm.models.llama.triton_kernel.*",
        "lightllm.models.mistral.triton_kernel.*",
        "lightllm.models.phi3.triton_kernel.*",
        "lightllm.models.bloom.triton_kernel.*",
        "lightllm.models.vit.triton_kernel.*",
        "lightllm.models.deepseek2.triton_kernel.*",
        "lightllm.common.basemodel.triton_kernel.*",
        "lightllm.common.quantization.triton_quant.fp8.*",
        "lightllm.common.fused_moe.*",
    ),
    lambda: {"lightllm.utils.device_utils": {"is_tesla": lambda: False, "is_hopper": lambda: True}},
    absent=("frozendict",),
)


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"lightllm.{module}"), name)


def _cached(prefix: tuple[int, ...], new: tuple[int, ...], H: int, KV: int, D: int, device: str) -> Inputs:
    import torch

    it = by_token(paged(prefix, new, H, KV, D, 1, device))
    return {**it, "requests": torch.arange(len(new), dtype=torch.int32, device=device)}


def _run_cached(model: str, it: Inputs) -> Outputs:
    import torch

    o, starts = torch.empty_like(it["q"]), it["starts"]
    run = _op(f"models.{model}.triton_kernel.context_flashattention_nopad", "context_attention_fwd")
    more = (it["slopes"],) if model == "bloom" else ()
    run(it["q"], it["k"], it["v"], o, it["requests"], *more, starts[:-1], it["totals"], it["before"], max(it["new"]),
        it["table"])  # fmt: skip
    return {"o": o}


def _with_slopes(*shape: Any) -> Inputs:
    import torch

    it = _cached(*shape)
    H = it["q"].shape[1]
    return {**it, "slopes": 2.0 ** (-8.0 * torch.arange(1, H + 1, device=it["q"].device) / H)}


def _run_decode(split: bool, it: Inputs) -> Outputs:
    import torch

    q = it["q"]
    o = torch.empty_like(q)
    folder = "models.llama.triton_kernel"
    if not split:
        run = _op(f"{folder}.gqa_decode_flashattention_nopad", "gqa_decode_attention_fwd")
        run(q, it["k"], it["v"], o, it["table"], it["requests"], it["totals"])
        return {"o": o}
    block = 256
    parts = torch.empty(*q.shape[:2], it["longest"] // block + 1, q.shape[2], device=q.device)
    sums = torch.empty(parts.shape[:-1], device=q.device)
    first = _op(f"{folder}.gqa_flash_decoding_stage1", "flash_decode_stage1")
    first(q, it["k"], it["v"], it["table"], it["requests"], it["totals"], it["longest"], parts, sums, block)
    second = _op(f"{folder}.gqa_flash_decoding_stage2", "flash_decode_stage2")
    second(parts, sums, it["totals"], o, block)
    return {"o": o}


# --- prompts without a cache ---


def _prompts(sizes: tuple[int, ...], H: int, KV: int, D: int, device: str) -> Inputs:
    import torch

    q = torch.randn(sum(sizes), H, D, device=device).bfloat16()
    k, v = (torch.randn(sum(sizes), KV, D, device=device).bfloat16() for _ in range(2))
    return {"q": q, "k": k, "v": v, "starts": starts_of(sizes, device), "longest": max(sizes)}


def _run_prompts(model: str, name: str, it: Inputs) -> Outputs:
    import torch

    o, starts = torch.empty_like(it["q"]), it["starts"]
    if model == "vit":
        run = _op("models.vit.triton_kernel.flashattention_nopad", name)
        run(it["q"], it["k"], it["v"], o, starts, it["longest"])
        return {"o": o}
    run = _op(f"models.{model}.triton_kernel.context_flashattention_nopad", name)
    more = (it["longest"],) if model == "mistral" else ()  # a window over everything
    run(it["q"], it["k"], it["v"], o, starts[:-1], starts[1:] - starts[:-1], it["longest"], *more)
    return {"o": o}


def _want_prompts(causal: bool, it: Inputs) -> Outputs:
    return {"o": packed_attention(it["q"], it["k"], it["v"], it["starts"], causal)}


def _latent(sizes: tuple[int, ...], H: int, heads: bool, device: str) -> Inputs:
    """Latent attention: the parts with and without positions apart; keys are one head, or one for each of the H."""
    import torch

    total, D = sum(sizes), 128 if heads else 512

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=device).bfloat16()

    own = H if heads else 1
    k = random(total, own, D)
    v = random(total, own, D) if heads else k
    return {"q": random(total, H, D), "q_rope": random(total, H, 64), "k": k, "k_rope": random(total, 1, 64), "v": v,
            "starts": starts_of(sizes, device), "longest": max(sizes)}  # fmt: skip


def _run_latent(heads: bool, it: Inputs) -> Outputs:
    import torch

    o, starts = torch.empty_like(it["q"]), it["starts"]
    scale = (it["q"].shape[-1] + 64) ** -0.5
    sizes = starts[1:] - starts[:-1]
    folder = "models.deepseek2.triton_kernel.context_flashattention_nopad"
    if heads:
        run = _op(f"{folder}_with_v", "context_attention_fwd_with_v")
        run(it["q"], it["q_rope"], it["k"], it["k_rope"], it["v"], o, starts[:-1], starts[:-1], sizes,
            torch.zeros_like(sizes), it["longest"], scale)  # fmt: skip
    else:
        run = _op(folder, "context_attention_fwd_no_prompt_cache")
        run(it["q"], it["q_rope"], it["k"], it["k_rope"], o, starts[:-1], sizes, it["longest"], scale)
    return {"o": o}


def _want_latent(it: Inputs) -> Outputs:
    import torch

    parts: list[Any] = []
    ends = it["starts"].tolist()
    for first, last in pairwise(ends):
        q, q_rope, k, k_rope, v = (it[name][first:last] for name in ("q", "q_rope", "k", "k_rope", "v"))
        wide_q = torch.cat([q, q_rope], -1).transpose(0, 1)[None]
        wide_k = torch.cat([k, k_rope.expand(-1, k.shape[1], -1)], -1).transpose(0, 1)[None]
        parts.append(attention(wide_q, wide_k, v.transpose(0, 1)[None], True)[0].transpose(0, 1))
    return {"o": torch.cat(parts)}


# --- products ---


def _int8(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.int8(M, K, device=device), quantised.int8(N, K, device=device)
    return {
        "a": a,
        "b": b.T,
        "scale_a": quantised.scales(M, device=device),
        "scale_b": quantised.scales(N, device=device),
    }


def _run_int8(it: Inputs) -> Outputs:
    run = _op("common.basemodel.triton_kernel.quantize_gemm_int8", "matmul_int8")
    return {"c": run(it["a"], it["scale_a"], it["b"], it["scale_b"])}


def _want_int8(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"]) * it["scale_a"].double()[:, None] * it["scale_b"].double()}


def _int4(M: int, N: int, K: int, device: str) -> Inputs:
    """4-bit codes, eight rows in each int32; a scale and a zero point for every 128 rows."""
    import torch

    codes, zeros = (torch.randint(0, 16, size, device=device) for size in ((K, N), (K // 128, N)))
    scales = quantised.scales(K // 128, N, device=device).half()
    weights = (codes - zeros.repeat_interleave(128, 0)).double() * scales.double().repeat_interleave(128, 0)
    return {"a": torch.randn(M, K, device=device).half(), "packed": quantised.packed_rows(codes),
            "zeros": quantised.packed_columns(zeros), "scales": scales, "b": weights}  # fmt: skip


def _run_int4(name: str, it: Inputs) -> Outputs:
    run = _op("common.basemodel.triton_kernel.dequantize_gemm_int4", name)
    return {"c": run(it["a"], it["packed"], it["scales"], it["zeros"], 128)}


def _want_product(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"])}


def _batched(B: int, M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.fp8(B, M, K, device=device), quantised.fp8(B, N, K, device=device)
    scale_a, scale_b = quantised.scales(B, M, device=device), quantised.scales(B, N, device=device)
    return {"a": a, "b": b.transpose(1, 2), "scale_a": scale_a, "scale_b": scale_b}


def _run_batched(it: Inputs) -> Outputs:
    import torch

    run = _op("common.basemodel.triton_kernel.bmm_scaled_fp8", "bmm_scaled_fp8")
    c = torch.empty(*it["a"].shape[:2], it["b"].shape[2], device=it["a"].device, dtype=torch.bfloat16)
    config = {
        "BLOCK_SIZE_M": 64,
        "BLOCK_SIZE_N": 128,
        "BLOCK_SIZE_K": 64,
        "GROUP_SIZE_M": 8,
        "num_stages": 3,
        "num_warps": 4,
    }
    return {"c": run(it["a"], it["scale_a"], it["b"], it["scale_b"], c, **config)}


def _want_batched(it: Inputs) -> Outputs:
    return {"c": product(it["a"], it["b"]) * it["scale_a"].double()[:, :, None] * it["scale_b"].double()[:, None]}


def _blocks(M: int, N: int, K: int, device: str) -> Inputs:
    a, b = quantised.fp8(M, K, device=device), quantised.fp8(N, K, device=device)
    scale_a, scale_b = (quantised.scales(*size, device=device) for size in ((M, K // 128), (N // 128, K // 128)))
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": scale_b.T}


def _run_blocks(it: Inputs) -> Outputs:
    import torch

    run = _op("common.quantization.triton_quant.fp8.fp8w8a8_block_gemm_kernel", "w8a8_block_fp8_matmul")
    c = torch.empty(it["a"].shape[0], it["b"].shape[1], device=it["a"].device, dtype=torch.bfloat16)
    config = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"], c, [128, 128], **config)}


def _want_blocks(it: Inputs) -> Outputs:
    a, b = block_scaled(it["a"], it["scale_a"], 1, 128), block_scaled(it["b"], it["scale_b"], 128, 128)
    return {"c": a @ b}


def _experts(T: int, E: int, P: int, N: int, K: int, device: str) -> Inputs:
    import torch

    chosen, factors = routing.choose(T, E, P, device)
    flat = chosen.flatten().long()
    index = torch.zeros(E, T * P, dtype=torch.int32, device=device)
    weights = torch.zeros(E, T * P, device=device)
    counts = torch.bincount(flat, minlength=E).to(torch.int32)
    for expert in range(E):
        mine = torch.where(flat == expert)[0]
        index[expert, : mine.numel()] = mine.to(torch.int32)
        weights[expert, : mine.numel()] = factors.flatten()[mine]
    x, w = (torch.randn(*size, device=device).bfloat16() for size in ((T, K), (E, N, K)))
    return {"x": x, "w": w, "chosen": chosen, "factors": factors, "counts": counts, "index": index, "weights": weights}


def _run_experts(it: Inputs) -> Outputs:
    import torch

    T, P = it["chosen"].shape
    y = torch.zeros(T * P, it["w"].shape[1], device=it["x"].device, dtype=it["x"].dtype)
    config = {
        "BLOCK_SIZE_M": 64,
        "BLOCK_SIZE_N": 128,
        "BLOCK_SIZE_K": 64,
        "GROUP_SIZE_M": 8,
        "num_warps": 4,
        "num_stages": 3,
    }
    run = _op("common.fused_moe.grouped_fused_moe", "grouped_matmul")
    run(T * P, it["x"], None, it["counts"], it["index"], it["weights"], it["w"], None, P, y, True, False,
        **config, NEED_TRANS=False)  # fmt: skip
    return {"y": y.view(T, P, -1)}


def _want_experts(it: Inputs) -> Outputs:
    return {"y": routing.product_of_experts(it["x"], it["w"], it["chosen"], it["factors"])}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, source: str, **shape: Any) -> None:
        about = {**shape, "dtype": shape.get("dtype", "bf16")}
        found.append(Entry(name, about, make, run, want, _TOLERANCE, source, configs=4 if "int" in name else 1))

    mixed, edges = ((1024, 0, 523), (512, 1024, 37)), ((18, 462), (5, 129))
    for (prefix, new), H, KV, D in ((mixed, 32, 8, 128), (edges, 4, 2, 64)):
        shape = {"prefix": "+".join(map(str, prefix)), "new": "+".join(map(str, new)), "H": H, "KV": KV, "D": D}
        for model in ("llama", "phi3"):
            add(f"{model}.context_attention_fwd", partial(_cached, prefix, new, H, KV, D), partial(_run_cached, model),
                want_paged, _TESTED, **shape)  # fmt: skip
        source = f"{_MODELS}/bloom/triton_kernel/context_flashattention_nopad.py"
        add("bloom.context_attention_fwd", partial(_with_slopes, prefix, new, H, H, D), partial(_run_cached, "bloom"),
            want_paged, source, **{**shape, "KV": H})  # fmt: skip
    decoding, few = (tuple(range(1000, 9000, 500)), (1,) * 16), ((40, 333), (1, 1))
    for (prefix, new), H, KV, D in ((decoding, 64, 8, 128), (few, 16, 2, 64)):
        size: Any = {"B": len(new), "longest": max(prefix) + 1, "H": H, "KV": KV, "D": D}
        for name, split in (("gqa_decode_attention_fwd", False), ("flash_decode_stage1", True)):
            make, run = partial(_cached, prefix, new, H, KV, D), partial(_run_decode, split)
            add(name, make, run, want_paged, "test/kernel/llama_gqa_decode_vsm_tuning.py", **size)
    for sizes, H, KV, D in (((2048, 1000, 300), 32, 8, 128), ((200, 77), 4, 2, 64)):
        size = {"sizes": "+".join(map(str, sizes)), "H": H, "KV": KV, "D": D}
        make: Any = partial(_prompts, sizes, H, KV, D)
        for model, name in (("llama", "context_attention_fwd_no_prompt_cache"), ("mistral", "context_attention_fwd")):
            run, want = partial(_run_prompts, model, name), partial(_want_prompts, True)
            add(
                f"{model}.{name}",
                make,
                run,
                want,
                _TESTED,
                **size,
            )
        make, run = partial(_prompts, sizes, H, H, D), partial(_run_prompts, "vit", "_flash_attention_triton_fwd")
        add("vit.flash_attention_fwd", make, run, partial(_want_prompts, False),
            f"{_MODELS}/vit/triton_kernel/flashattention_nopad.py", **{**size, "KV": H})  # fmt: skip
        for heads in (False, True):
            name = f"deepseek2.context_attention_fwd{'_with_v' if heads else '_no_prompt_cache'}"
            make, run = partial(_latent, sizes, 4 if H == 4 else 16, heads), partial(_run_latent, heads)
            add(name, make, run, _want_latent, "unit_tests/models/deepseek2/test_context_flashattention_nopad.py",
                sizes=size["sizes"], H=4 if H == 4 else 16)  # fmt: skip
    for M, N, K in ((2048, 4096, 4096), (24, 256, 512)):
        size = {"M": M, "N": N, "K": K}
        folder = "lightllm/common/basemodel/triton_kernel"
        add("matmul_int8", partial(_int8, M, N, K), _run_int8, _want_int8, f"{folder}/quantize_gemm_int8.py",
            **size, dtype="int8")  # fmt: skip
        for name in ("matmul_dequantize_int4_gptq", "matmul_dequantize_int4_s2"):
            add(name, partial(_int4, M, N, K), partial(_run_int4, name), _want_product,
                f"{folder}/dequantize_gemm_int4.py", **size, weights="int4", dtype="fp16")  # fmt: skip
        add("w8a8_block_fp8_matmul", partial(_blocks, M, N, K), _run_blocks, _want_blocks,
            "unit_tests/common/quantization/test_fp8_block_gemm.py", **size, dtype="fp8")  # fmt: skip
    for B, M, N, K in ((16, 512, 512, 128), (2, 24, 128, 64)):
        add("bmm_scaled_fp8", partial(_batched, B, M, N, K), _run_batched, _want_batched,
            "lightllm/common/basemodel/triton_kernel/bmm_scaled_fp8.py", B=B, M=M, N=N, K=K, dtype="fp8")  # fmt: skip
    for T, E, P, N, K in ((4096, 8, 2, 4096, 2048), (33, 8, 2, 128, 128)):
        add("grouped_matmul", partial(_experts, T, E, P, N, K), _run_experts, _want_experts,
            "unit_tests/common/fused_moe/test_grouped_fused_moe.py", T=T, E=E, P=P, N=N, K=K)  # fmt: skip
    return found


PACKAGE = Package(
    name="lightllm",
    home="https://github.com/ModelTC/lightllm",
    licence="Apache-2.0",
    requires=(),
    archives=(Archive(f"https://codeload.github.com/ModelTC/lightllm/tar.gz/{_COMMIT}", ("lightllm",)),),
    module="lightllm.models.llama.triton_kernel.context_flashattention_nopad",
    partial=_PACKAGE,
    entries=tuple(_entries()),
    notes="The package on PyPI is older than its kernels for Hopper, so the sources are those of the repository.",
)
