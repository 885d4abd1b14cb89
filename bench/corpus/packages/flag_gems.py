"""FlagGems: Triton kernels for PyTorch's operators: GEMMs, stream-K, convolutions, attention, sparse latent attention.

M, N, K of C = A · B; B batches. The package tunes with a library of its own, which keeps its choices in a database.
Here Triton's autotuner chooses among a few of the configurations in its files. Tolerances are RMS ratios; the tests in
``tests`` compare with PyTorch's own tolerances.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.corpus.common import quantised
from bench.corpus.common.references import attention, block_scaled, product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_TUNED: dict[str, tuple[tuple[str, ...], tuple[tuple[tuple[int, ...], int, int], ...]]] = {
    # names, then values, warps and stages
    "mm": (("BLOCK_M", "BLOCK_N", "BLOCK_K"), (((128, 128, 64), 8, 3), ((64, 128, 64), 4, 3), ((128, 256, 64), 8, 3))),
    "mm_self_transpose": (("BLOCK_M", "BLOCK_K"), (((128, 64), 8, 3), ((64, 64), 4, 4))),
    "bmm": (("TILE_M", "TILE_N", "TILE_K", "GROUP_M"), (((128, 128, 32, 2), 4, 2), ((64, 64, 32, 2), 4, 2))),
    "baddbmm": (("TILE_M", "TILE_N", "TILE_K", "GROUP_M"), (((128, 128, 32, 2), 4, 2), ((64, 64, 32, 2), 4, 2))),
    "addmm": (
        ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"),
        (((128, 256, 64), 8, 3), ((128, 128, 32), 4, 4), ((64, 32, 32), 2, 5)),
    ),
    "attention": (
        ("BLOCK_M", "BLOCK_N", "PRE_LOAD_V"),
        (((128, 64, 0), 8, 3), ((128, 128, 0), 8, 2), ((64, 64, 1), 4, 3)),
    ),
    "attention_bwd": (
        ("BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2"),
        (((32, 128, 128, 32), 4, 3), ((64, 128, 64, 64), 8, 2)),
    ),
    "conv2d_forward": (("BLOCK_NI_HO_WO", "BLOCK_CO", "BLOCK_CI"), (((128, 128, 32), 4, 2), ((64, 64, 32), 4, 2))),
    "conv2d_backward_weight": (
        ("BLOCK_CI_HK_WK", "BLOCK_CO", "BLOCK_NO"),
        (((64, 64, 32), 4, 3), ((128, 64, 32), 4, 3)),
    ),
    "conv3d_forward": (("BLOCK_NI_DO_HO_WO", "BLOCK_CO", "BLOCK_CI"), (((128, 32, 16), 4, 2), ((256, 32, 16), 2, 1))),
}


def _values() -> Mapping[str, Mapping[str, Any]]:
    import torch
    import triton

    def tuned(name: str) -> list[Any]:
        names, found = _TUNED.get(name, ((), ()))
        return [triton.Config(dict(zip(names, values, strict=True)), warps, stages) for values, warps, stages in found]

    def divisible(name: str) -> Any:
        return {f"DIVISIBLE_{axis}": partial(_divides, axis) for axis in "MNK"}

    def tuner(configs: Any, key: Any, prune_configs_by: Any = None, **more: Any) -> Any:
        return triton.autotune(list(configs), key, prune_configs_by=prune_configs_by)

    return {
        "flag_gems.runtime": {
            "get_tuned_config": tuned,
            "get_heuristic_config": divisible,
            "torch_device_fn": torch.cuda,
            "device": "cuda",
        },
        "flag_gems.utils": {"libentry": lambda: lambda kernel: kernel, "libtuner": tuner, "broadcastable_to": _yes},
        "flag_gems.utils.device_info": {"get_device_capability": lambda: (9, 0), "get_sm_count": lambda: 132},
        "flag_gems.config": {"use_c_extension": False},
        "flag_gems.ops.flash_kernel": {"keep": _yes},  # which configurations are tried
    }


def _divides(axis: str, args: Mapping[str, Any]) -> bool:
    return args[axis] % args[f"TILE_{axis}"] == 0


def _yes(*_: Any, **__: Any) -> bool:
    return True


_PACKAGE = PartialPackage(
    "flag_gems",
    (
        *(f"flag_gems.ops.{it}" for it in ("mm", "mm_streamk", "bmm", "addmm", "baddbmm", "group_gemm", "fp8_matmul")),
        *(f"flag_gems.ops.{it}" for it in ("attention", "conv2d", "conv3d")),
        *(f"flag_gems.fused.{it}" for it in ("flash_mla", "sparse_attention", "flashmla_sparse", "cutlass_scaled_mm")),
        "flag_gems.fused.DSA.sparse_mla",
        "flag_gems.utils.triton_lang_extension",
    ),
    _values,
)


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"flag_gems.{module}"), name)


def _random(*shape: int, device: str, dtype: str = "bfloat16") -> Any:
    import torch

    return torch.randn(*shape, device=device).to(getattr(torch, dtype))


# --- products ---


def _operands(batch: int, M: int, N: int, K: int, dtype: str, device: str) -> Inputs:
    first = (batch,) if batch else ()
    a, b = (_random(*first, *size, device=device, dtype=dtype) for size in ((M, K), (K, N)))
    return {"a": a, "b": b, "bias": _random(*first, M, N, device=device, dtype=dtype)}


def _run_product(name: str, it: Inputs) -> Outputs:
    import torch

    a, b = it["a"], it["b"]
    c = torch.empty(*a.shape[:-1], b.shape[-1], device=a.device, dtype=a.dtype)
    if name == "addmm":
        return {"c": _op("ops.addmm", name)(it["bias"], a, b)}
    if name == "baddbmm":
        return {"c": _op("ops.baddbmm", name)(it["bias"], a, b)}
    if name == "bmm":
        return {"c": _op("ops.bmm", name)(a, b)}
    if name == "syrk_mm":
        c = torch.empty(a.shape[0], a.shape[0], device=a.device, dtype=a.dtype)
        return {"c": _op("ops.mm", name)(a, c, *a.shape)}
    module = "ops.mm_streamk" if name == "streamk_mm" else "ops.mm"
    return {"c": _op(module, name)(a, b, c, a.shape[0], b.shape[1], a.shape[1])}


def _want_product(name: str, it: Inputs) -> Outputs:
    c = product(it["a"], it["a"].T if name == "syrk_mm" else it["b"])
    return {"c": c + it["bias"].double() if name in ("addmm", "baddbmm") else c}


def _groups(sizes: tuple[int, ...], N: int, K: int, device: str) -> Inputs:
    import torch

    ends = torch.tensor(sizes, device=device).cumsum(0).to(torch.int32)
    a, b = _random(sum(sizes), K, device=device), _random(len(sizes), K, N, device=device)
    return {"a": a, "b": b, "ends": ends, "sizes": sizes}


def _run_groups(it: Inputs) -> Outputs:
    return {"c": _op("ops.group_gemm", "group_mm")(it["a"], it["b"], it["ends"])}


def _want_groups(it: Inputs) -> Outputs:
    import torch

    return {"c": torch.cat([product(a, b) for a, b in zip(it["a"].split(list(it["sizes"])), it["b"], strict=True)])}


def _scaled(kind: str, M: int, N: int, K: int, device: str) -> Inputs:
    made = quantised.int8 if kind == "int8" else quantised.fp8
    a, b = made(M, K, device=device), made(N, K, device=device)
    if kind != "blocks":
        scale_a, scale_b = quantised.scales(M, device=device), quantised.scales(N, device=device)
        return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": scale_b}
    scale_a = quantised.scales(M, K // 128, device=device)
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": quantised.scales(N // 128, K // 128, device=device).T}


def _run_scaled(it: Inputs) -> Outputs:
    import torch

    c = torch.empty(it["a"].shape[0], it["b"].shape[1], device=it["a"].device, dtype=torch.bfloat16)
    module = "fused.cutlass_scaled_mm"
    name = "_block_wise_128_smm_launcher" if it["scale_a"].dim() == 2 else "_pertensor_or_pertoken_smm_launcher"
    bias = () if it["scale_a"].dim() == 2 else (None,)
    _op(module, name)(c, it["a"], it["b"], it["scale_a"], it["scale_b"], *bias)
    return {"c": c}


def _run_fp8(it: Inputs) -> Outputs:
    run = _op("ops.fp8_matmul", "fp8_matmul")
    return {"c": run(it["a"], it["scale_a"], it["b"].T, it["scale_b"].T.contiguous())}


def _want_scaled(it: Inputs) -> Outputs:
    a, b = it["a"], it["b"]
    if it["scale_a"].dim() == 1:
        return {"c": product(a, b) * it["scale_a"].double()[:, None] * it["scale_b"].double()}
    return {"c": block_scaled(a, it["scale_a"], 1, 128) @ block_scaled(b, it["scale_b"], 128, 128)}


# --- attention and convolution ---


def _qkv(B: int, H: int, S: int, D: int, causal: bool, device: str) -> Inputs:
    made: Inputs = {name: _random(B, H, S, D, device=device).requires_grad_() for name in ("q", "k", "v")}
    return {**made, "causal": causal}


def _run_attention(it: Inputs) -> Outputs:
    run = _op("ops.attention", "ScaleDotProductAttention")
    return {"o": run.apply(it["q"], it["k"], it["v"], None, 0.0, it["causal"], None, False)}


def _want_attention(it: Inputs) -> Outputs:
    return {"o": attention(it["q"], it["k"], it["v"], it["causal"])}


def _images(shape: tuple[int, ...], kernel: tuple[int, ...], device: str) -> Inputs:
    """shape: images, channels, and two or three sizes. kernel: channels of the result, and the size in each axis."""
    x = _random(*shape, device=device, dtype="float16")
    w = _random(kernel[0], shape[1], *kernel[1:], device=device, dtype="float16")
    leaf = len(shape) == 4
    return {"x": x.requires_grad_() if leaf else x, "w": w.requires_grad_() if leaf else w}


def _run_conv(it: Inputs) -> Outputs:
    name = "conv2d" if it["x"].dim() == 4 else "conv3d"
    return {"y": _op(f"ops.{name}", name)(it["x"], it["w"], padding=1)}


def _want_conv(it: Inputs) -> Outputs:
    import torch

    run = torch.nn.functional.conv2d if it["x"].dim() == 4 else torch.nn.functional.conv3d
    return {"y": run(it["x"].float(), it["w"].float(), padding=1)}


def _sparse(name: str, S: int, H: int, top: int, device: str) -> Inputs:
    """Each of S queries of one head of keys sees `top` of them, all before it or itself; the others are -1."""
    import torch

    D = 512 if name == "sparse_attn_triton" else 576
    at = torch.arange(S, device=device)[:, None]
    order = torch.rand(S, S, device=device).masked_fill(at < at.T, 2.0).argsort(dim=1)[:, :top]
    index = torch.where(order <= at, order, -1).to(torch.int32)
    sink = torch.zeros(H, device=device)
    return {"q": _random(S, H, D, device=device), "kv": _random(S, D, device=device), "index": index, "sink": sink}


def _run_sparse(name: str, it: Inputs) -> Outputs:
    q, kv, index = it["q"], it["kv"], it["index"]
    scale = q.shape[-1] ** -0.5
    if name == "sparse_attn_triton":
        run = _op("fused.sparse_attention", name)
        return {"o": run(q[None], kv[None], it["sink"], index[None], scale)[0]}
    if name == "flash_mla_sparse_fwd":
        return {"o": _op("fused.flashmla_sparse", name)(q, kv[:, None], index[:, None], scale)[0]}
    run = _op("fused.DSA.sparse_mla", name)
    return {"o": run(q[None], kv[None, :, None], index[None, :, None])[0][0]}


def _want_sparse(name: str, it: Inputs) -> Outputs:
    import torch

    q, kv, index = it["q"].float(), it["kv"].float(), it["index"].long()
    seen = torch.zeros(q.shape[0], kv.shape[0] + 1, dtype=torch.bool, device=q.device)
    seen.scatter_(1, index.where(index >= 0, kv.shape[0]), True)
    scores = torch.einsum("shd,td->sht", q, kv) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~seen[:, None, :-1], float("-inf"))
    if name == "sparse_attn_triton":  # one more key, whose value is 0
        scores = torch.cat([scores, it["sink"][None, :, None].expand(scores.shape[0], -1, 1)], -1)
        return {"o": torch.softmax(scores, -1)[..., :-1] @ kv}
    return {"o": torch.softmax(scores, -1) @ kv[:, :512]}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, source: str, backward: bool = False, **shape: Any) -> None:
        about = {**shape, "dtype": shape.get("dtype", "bf16")}
        tolerance = RmsRatio(2e-2 if "attention" in source else 1e-2)
        found.append(Entry(name, about, make, run, want, tolerance, f"tests/{source}", backward=backward, configs=3))

    for M, N, K in ((4096, 4096, 4096), (160, 256, 384)):
        size: Any = {"M": M, "N": N, "K": K}
        for name in ("general_mm", "addmm", "syrk_mm", "streamk_mm"):
            for dtype in ("bfloat16", "float16") if name == "streamk_mm" else ("bfloat16",):
                make: Any = partial(_operands, 0, M, N, K, dtype)
                about: Any = {**size, "dtype": "fp16" if dtype == "float16" else "bf16"}
                add(name, make, partial(_run_product, name), partial(_want_product, name), "test_blas_ops.py", **about)
        for name in ("bmm", "baddbmm"):
            B = 8 if M == 4096 else 3
            make = partial(_operands, B, M // 4, N // 4, K // 4, "bfloat16")
            about: Any = {"B": B, "M": M // 4, "N": N // 4, "K": K // 4}
            add(name, make, partial(_run_product, name), partial(_want_product, name), "test_blas_ops.py", **about)
        for kind in ("int8", "fp8", "blocks"):
            make = partial(_scaled, kind, M // 2, N, K)
            add("cutlass_scaled_mm", make, _run_scaled, _want_scaled, "test_cutlass_scaled_mm.py",
                M=M // 2, N=N, K=K, scales="blocks" if kind == "blocks" else "rows",
                dtype="int8" if kind == "int8" else "fp8")  # fmt: skip
        add("fp8_matmul", partial(_scaled, "blocks", M // 2, N, K), _run_fp8, _want_scaled, "test_fp8_matmul.py",
            M=M // 2, N=N, K=K, dtype="fp8")  # fmt: skip
    for sizes, N, K in (((1024, 512, 2048, 37), 2048, 2048), ((17, 64, 5), 128, 128)):
        make = partial(_groups, sizes, N, K)
        add(
            "group_mm", make, _run_groups, _want_groups, "test_group_gemm.py", sizes="+".join(map(str, sizes)), N=N, K=K
        )
    for B, H, S, D in ((2, 16, 2048, 128), (1, 4, 256, 64)):
        for causal in (False, True):  # the backward pass is always causal
            make = partial(_qkv, B, H, S, D, causal)
            add("scaled_dot_product_attention", make, _run_attention, _want_attention, "test_attention_ops.py", causal,
                B=B, H=H, S=S, D=D, causal=causal)  # fmt: skip
    for shape, kernel in (((16, 256, 32, 32), (256, 3, 3)), ((2, 16, 9, 11), (24, 3, 3))):
        add("conv2d", partial(_images, shape, kernel), _run_conv, _want_conv, "test_convolution_ops.py", True,
            x="x".join(map(str, shape)), w="x".join(map(str, kernel)), dtype="fp16")  # fmt: skip
    for shape, kernel in (((4, 64, 8, 32, 32), (64, 3, 3, 3)), ((1, 16, 5, 9, 11), (24, 3, 3, 3))):
        add("conv3d", partial(_images, shape, kernel), _run_conv, _want_conv, "test_convolution_ops.py",
            x="x".join(map(str, shape)), w="x".join(map(str, kernel)), dtype="fp16")  # fmt: skip
    for S, H, top in ((2048, 64, 512), (96, 64, 64)):
        for name in ("sparse_attn_triton", "flash_mla_sparse_fwd", "triton_sparse_mla_fwd_interface"):
            make, run, want = (partial(it, name) for it in (_sparse, _run_sparse, _want_sparse))
            add(name, partial(make, S, H, top), run, want, "test_DSA/test_sparse_mla_ops.py", S=S, H=H, top=top)
    return found


PACKAGE = Package(
    name="flag-gems",
    home="https://github.com/FlagOpen/FlagGems",
    licence="Apache-2.0",
    requires=(),
    sources=("flag_gems==5.0.2",),
    module="flag_gems.ops.mm",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
