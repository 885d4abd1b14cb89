"""SGLang: attention over a cache addressed by token, MLA, LoRA for several adapters, experts, blocks of int8 and fp8.

Sequences of `prefix` cached and `new` tokens, H heads of queries, KV heads of keys, D; M, N, K of C = A · B. The tests
in ``test/srt`` compare with 1e-2 and more; RMS ratios are used here.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from bench.corpus.common import quantised, routing
from bench.corpus.common.caches import by_token, latent, paged, want_paged
from bench.corpus.common.references import block_scaled, product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_TOLERANCE = RmsRatio(1e-2)
_PACKAGE = PartialPackage(
    "sglang",
    (
        "sglang.srt.layers.attention.triton_ops.*",
        "sglang.srt.layers.quantization.fp8_kernel",
        "sglang.srt.layers.quantization.int8_kernel",
        "sglang.srt.layers.moe.fused_moe_triton.fused_moe_triton_kernels",
        "sglang.srt.layers.moe.router",
        "sglang.srt.lora.triton_ops.*",
        "sglang.srt.layers.attention.linear.seg_la",
    ),
    lambda: {
        "sglang.srt.utils": {
            "is_cuda": lambda: True,
            "is_hip": lambda: False,
            "get_device_name": lambda: "NVIDIA H200",
            "cached_triton_kernel": lambda key: lambda kernel: kernel,  # it saves host time; the kernel is the same
        },
        "sglang.srt.layers.dp_attention": {"is_dp_attention_enabled": lambda: False},
    },
    absent=("sgl_kernel",),
)
_ATTENTION = "srt.layers.attention.triton_ops"


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"sglang.{module}"), name)


# --- attention ---


def _cached(prefix: tuple[int, ...], new: tuple[int, ...], H: int, KV: int, D: int, device: str) -> Inputs:
    """Also the new keys and values one after the other, and the addresses of the cached tokens alone."""
    import torch

    it = _totals(by_token(paged(prefix, new, H, KV, D, 1, device)))
    tables = zip(it["table"], prefix, strict=True)
    it["cached"] = torch.cat([row[:size] for row, size in tables])
    for name, of_all in (("new_k", it["keys"]), ("new_v", it["values"])):
        it[name] = torch.cat([part[part.shape[0] - size :] for part, size in zip(of_all, new, strict=True)])
    it["cached_starts"] = torch.cat([it["before"].new_zeros(1), it["before"].cumsum(0).to(torch.int32)])
    return it


def _latent(prefix: tuple[int, ...], H: int, device: str) -> Inputs:
    return _totals(by_token(latent(prefix, H, 1, device)))


def _totals(it: Inputs) -> Inputs:
    """Adds where the tokens of each sequence begin."""
    import torch

    totals = it["totals"]
    return {**it, "total_starts": torch.cat([totals.new_zeros(1), totals.cumsum(0).to(torch.int32)])}


def _run_extend(unified: bool, it: Inputs) -> Outputs:
    import torch

    o = torch.empty_like(it["q"])
    if unified:
        run = _op(f"{_ATTENTION}.extend_attention", "extend_attention_fwd_unified")
        run(it["q"], o, it["k"], it["v"], 1.0, 1.0, it["starts"], it["total_starts"], it["addresses"], it["before"],
            max(it["new"]))  # fmt: skip
    else:
        run = _op(f"{_ATTENTION}.extend_attention", "extend_attention_fwd")
        run(it["q"], it["new_k"], it["new_v"], o, it["k"], it["v"], it["starts"], it["cached_starts"], it["cached"],
            None, True, None, max(it["new"]), 1.0, 1.0)  # fmt: skip
    return {"o": o}


def _run_decode(splits: int, it: Inputs) -> Outputs:
    import torch

    q = it["q"]
    B, H, D = q.shape
    o = torch.empty(B, H, it["v"].shape[-1], device=q.device, dtype=q.dtype)
    parts = torch.empty(*o.shape[:2], splits, o.shape[2], device=q.device)
    sums = torch.empty(B, H, splits, device=q.device)
    counts = torch.full((B,), splits, dtype=torch.int32, device=q.device)
    run = _op(f"{_ATTENTION}.decode_attention", "decode_attention_fwd_grouped")
    run(q, it["k"], it["v"], o, it["total_starts"], it["addresses"], parts, sums, counts, splits, D**-0.5, 1.0)
    return {"o": o}


def _recurrent(sizes: tuple[int, ...], H: int, D: int, device: str) -> Inputs:
    """Linear attention whose state decays, for packed sequences."""
    import torch

    total, B = sum(sizes), len(sizes)
    made: Inputs = {name: (0.1 * torch.randn(total, H, D, device=device)).bfloat16() for name in ("q", "k", "v")}
    starts = torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32)
    ones = torch.zeros(B, dtype=torch.int32, device=device)
    meta = SimpleNamespace(
        batch_size=B,
        mask=None,
        q_offsets=starts,
        q_lengths=starts[1:] - starts[:-1],
        s_offsets=torch.arange(B, dtype=torch.int32, device=device),
        s_scales=ones,  # no state before
    )
    slopes = 2.0 ** (-8.0 * torch.arange(1, H + 1, device=device) / H)
    return {**made, "state": torch.zeros(B, H, D, D, device=device), "slopes": slopes, "meta": meta, "sizes": sizes}


def _run_recurrent(it: Inputs) -> Outputs:
    run = _op("srt.layers.attention.linear.seg_la", "seg_la_fwd")
    return {"o": run(it["q"], it["k"], it["v"], it["state"].clone(), it["slopes"], it["meta"])}


def _want_recurrent(it: Inputs) -> Outputs:
    import torch

    parts: list[Any] = []
    lots = [it[name].float().split(list(it["sizes"])) for name in ("q", "k", "v")]
    for lot in zip(*lots, strict=True):
        q, k, v = (x.transpose(0, 1) for x in lot)
        at = torch.arange(q.shape[1], device=q.device)
        distance = (at[:, None] - at[None, :]).float()
        decay = torch.exp(-it["slopes"][:, None, None] * distance.clamp(min=0)) * (distance >= 0)
        scores = (q @ k.transpose(1, 2)) * q.shape[-1] ** -0.5
        parts.append(((scores * decay) @ v).transpose(0, 1))
    return {"o": torch.cat(parts)}


# --- LoRA ---


def _adapters(sizes: tuple[int, ...], H: int, R: int, A: int, parts: int, device: str) -> Inputs:
    """Packed sequences, each with one of A adapters of rank R; weights for `parts` projections one after the other."""
    import torch

    total = sum(sizes)
    starts = torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32)
    of_sequence = torch.randint(0, A, (len(sizes),), device=device).to(torch.int32)
    batch = SimpleNamespace(
        bs=len(sizes),
        num_segments=len(sizes),
        max_len=max(sizes),
        seg_indptr=starts,
        seg_lens=starts[1:] - starts[:-1],
        weight_indices=of_sequence,
        lora_ranks=torch.full((A,), R, dtype=torch.int32, device=device),
        scalings=torch.ones(A, device=device),
        permutation=None,
        use_cuda_graph=False,
    )

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=device).bfloat16()

    of_token = of_sequence.repeat_interleave((starts[1:] - starts[:-1]).long()).long()
    return {"x": random(total, H), "low": random(total, parts * R), "down": random(A, parts * R, H),
            "up": random(A, parts * H, R), "batch": batch, "of_token": of_token, "parts": parts}  # fmt: skip


def _run_adapters(name: str, it: Inputs) -> Outputs:
    import torch

    batch, parts, H = it["batch"], it["parts"], it["x"].shape[1]
    if name == "sgemm_lora_a":
        return {"y": _op(f"srt.lora.triton_ops.{name}", f"{name}_fwd")(it["x"], it["down"], batch, parts)}
    run = _op(f"srt.lora.triton_ops.{name}", f"{name}_fwd")
    if name == "qkv_lora_b":
        offsets = torch.arange(4, dtype=torch.int32, device=it["x"].device) * H
        return {"y": run(it["low"], it["up"], batch, offsets, H)}
    if name == "gate_up_lora_b":
        return {"y": run(it["low"], it["up"], batch, H)}
    return {"y": run(it["low"], it["up"], batch)}


def _want_adapters(name: str, it: Inputs) -> Outputs:
    import torch

    down = name == "sgemm_lora_a"
    x, weights, parts = it["x"] if down else it["low"], it["down"] if down else it["up"], it["parts"]
    y = torch.zeros(x.shape[0], weights.shape[1], device=x.device)
    for at in range(weights.shape[0]):
        mine = torch.where(it["of_token"] == at)[0]
        if down:
            y[mine] = x[mine].float() @ weights[at].float().T
            continue
        lots = zip(x[mine].float().chunk(parts, 1), weights[at].float().chunk(parts, 0), strict=True)
        y[mine] = torch.cat([low @ up.T for low, up in lots], 1)
    return {"y": y}


# --- products ---


def _blocks(dtype: str, M: int, N: int, K: int, device: str) -> Inputs:
    codes = quantised.int8 if dtype == "int8" else quantised.fp8
    a, b = codes(M, K, device=device), codes(N, K, device=device)
    scale_a, scale_b = (quantised.scales(*size, device=device) for size in ((M, K // 128), (N // 128, K // 128)))
    return {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}


def _run_blocks(module: str, name: str, it: Inputs) -> Outputs:
    import torch

    run = _op(f"srt.layers.quantization.{module}", name)
    return {"c": run(it["a"], it["b"], it["scale_a"], it["scale_b"], [128, 128], torch.bfloat16)}


def _want_blocks(it: Inputs) -> Outputs:
    a, b = block_scaled(it["a"], it["scale_a"], 1, 128), block_scaled(it["b"], it["scale_b"], 128, 128)
    return {"c": a @ b.T}


def _experts(T: int, E: int, P: int, N: int, K: int, device: str) -> Inputs:
    import torch

    chosen, factors = routing.choose(T, E, P, device)
    x, w = (torch.randn(*size, device=device).bfloat16() for size in ((T, K), (E, N, K)))
    return {"x": x, "w": w, "chosen": chosen, "factors": factors, "rows": routing.aligned(chosen, E, _block(T, E))}


def _block(T: int, E: int) -> int:
    """BLOCK_SIZE_M of the package where it has no tuned configuration."""
    return 16 if T <= E else 64


def _run_experts(it: Inputs) -> Outputs:
    import torch
    import triton.language as tl

    T, P, E = *it["chosen"].shape, it["w"].shape[0]
    few = {"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    many = {"BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}
    config = {"BLOCK_SIZE_M": _block(T, E), **(few if T <= E else many)}
    rows, of_block, count = it["rows"]
    y = torch.zeros(T, P, it["w"].shape[1], device=it["x"].device, dtype=torch.bfloat16)
    run = _op("srt.layers.moe.fused_moe_triton.fused_moe_triton_kernels", "invoke_fused_moe_kernel")
    run(it["x"], it["w"], None, y, None, None, None, it["factors"], it["chosen"], rows, of_block, count, True, P,
        config, tl.bfloat16, False, False, False, False, False)  # fmt: skip
    return {"y": y}


def _want_experts(it: Inputs) -> Outputs:
    return {"y": routing.product_of_experts(it["x"], it["w"], it["chosen"], it["factors"])}


def _router(T: int, E: int, K: int, device: str) -> Inputs:
    import torch

    x, w = (torch.randn(*size, device=device).bfloat16() for size in ((T, K), (E, K)))
    return {"x": x, "w": w * K**-0.5}


def _run_router(it: Inputs) -> Outputs:
    run = _op("srt.layers.moe.router", "fused_moe_router_tensorcore")
    return {"weights": run(it["x"], it["w"], 2, 30.0, 32, 32, 64)[0]}


def _want_router(it: Inputs) -> Outputs:
    import torch

    logits = 30.0 * torch.tanh(product(it["x"], it["w"].T) / 30.0)
    return {"weights": torch.softmax(logits, dim=-1).topk(2, dim=-1).values}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, source: str, **shape: Any) -> None:
        about = {**shape, "dtype": shape.get("dtype", "bf16")}
        found.append(Entry(name, about, make, run, want, _TOLERANCE, f"test/srt/{source}", configs=1))

    mixed, edges = ((1024, 0, 523), (512, 1024, 37)), ((18, 462), (5, 129))
    for (prefix, new), H, KV, D in ((mixed, 32, 8, 128), (edges, 4, 2, 64)):
        size: Any = {"prefix": "+".join(map(str, prefix)), "new": "+".join(map(str, new)), "H": H, "KV": KV, "D": D}
        for unified in (False, True):
            name = f"extend_attention_fwd{'_unified' if unified else ''}"
            make, run = partial(_cached, prefix, new, H, KV, D), partial(_run_extend, unified)
            add(name, make, run, want_paged, "test_triton_attention_kernels.py", **size)
    decoding, few = (tuple(range(1000, 9000, 500)), (1,) * 16), ((40, 333), (1, 1))
    for (prefix, new), H, KV, D in ((decoding, 64, 8, 128), (few, 16, 2, 64)):
        size = {"B": len(new), "longest": max(prefix) + 1, "H": H, "KV": KV, "D": D}
        make, run = partial(_cached, prefix, new, H, KV, D), partial(_run_decode, 8)
        add("decode_attention_fwd_grouped", make, run, want_paged, "test_triton_attention_kernels.py", **size)
    for prefix in (decoding[0], few[0]):
        make, run = partial(_latent, prefix, 16), partial(_run_decode, 8)
        add("decode_attention_fwd_grouped, MLA", make, run, want_paged, "test_triton_attention_kernels.py",
            B=len(prefix), longest=max(prefix) + 1, H=16)  # fmt: skip
    for sizes, H, D in (((2048, 1000), 16, 128), ((70, 129), 4, 128)):
        make = partial(_recurrent, sizes, H, D)
        add("seg_la_fwd", make, _run_recurrent, _want_recurrent, "layers/attention/test_seg_la.py",
            sizes="+".join(map(str, sizes)), H=H, D=D)  # fmt: skip
    projections = {"sgemm_lora_a": 3, "sgemm_lora_b": 1, "qkv_lora_b": 3, "gate_up_lora_b": 2}
    for sizes, H, R, A in (((1024, 2048, 300), 4096, 64, 4), ((20, 37), 256, 16, 2)):
        for name, parts in projections.items():
            make = partial(_adapters, sizes, H, R, A, parts)
            run, want = partial(_run_adapters, name), partial(_want_adapters, name)
            add(name, make, run, want, "lora/test_lora_backend.py", sizes="+".join(map(str, sizes)), H=H, R=R, A=A)
    scaled = {
        "int8": ("int8_kernel", "w8a8_block_int8_matmul", ((2048, 4096, 4096), (24, 256, 512))),
        "fp8": ("fp8_kernel", "w8a8_block_fp8_matmul_triton", ((2048, 4096, 4096), (64, 4096, 7168), (24, 256, 512))),
    }
    for dtype, (module, name, shapes) in scaled.items():
        for M, N, K in shapes:
            make, run = partial(_blocks, dtype, M, N, K), partial(_run_blocks, module, name)
            add(name, make, run, _want_blocks, f"quant/test_block_{dtype}.py", M=M, N=N, K=K, dtype=dtype)
    for T, E, P, N, K in ((4096, 8, 2, 4096, 2048), (64, 64, 8, 1536, 2048), (33, 8, 2, 128, 128)):
        add("invoke_fused_moe_kernel", partial(_experts, T, E, P, N, K), _run_experts, _want_experts,
            "test_fused_moe.py", T=T, E=E, P=P, N=N, K=K)  # fmt: skip
    for T, E, K in ((4096, 8, 6144), (33, 8, 256)):
        add("fused_moe_router_tensorcore", partial(_router, T, E, K), _run_router, _want_router,
            "test_fused_moe_router.py", T=T, E=E, K=K)  # fmt: skip
    return found


PACKAGE = Package(
    name="sglang",
    home="https://github.com/sgl-project/sglang",
    licence="Apache-2.0",
    requires=(),
    sources=("sglang==0.5.10.post1",),
    module="sglang.srt.layers.attention.triton_ops.extend_attention",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
