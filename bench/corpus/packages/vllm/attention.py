"""Attention of vLLM: prompts, prompts with a cached prefix, decoding, and all in one kernel over a paged cache.

Sequences of `prefix` cached and `new` tokens, H heads of queries, KV heads of keys, D. Tolerances are those of
``tests/kernels/attention``, where results are of order 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.corpus.common.caches import latent, paged, starts_of, want_paged
from bench.corpus.common.references import packed_attention
from bench.corpus.entry import AllClose, Entry, Inputs, Outputs
from bench.corpus.packages.vllm.modules import op

_TOLERANCE = AllClose(2e-2, 1e-2)
_TESTS = "tests/kernels/attention"
_OPS = "v1.attention.ops"


def _prompts(sizes: tuple[int, ...], H: int, KV: int, D: int, device: str) -> Inputs:
    import torch

    q = torch.randn(sum(sizes), H, D, device=device).bfloat16()
    k, v = (torch.randn(sum(sizes), KV, D, device=device).bfloat16() for _ in range(2))
    return {"q": q, "k": k, "v": v, "starts": starts_of(sizes, device), "longest": max(sizes)}


def _run_prompts(it: Inputs) -> Outputs:
    import torch

    run = op(f"{_OPS}.triton_prefill_attention", "context_attention_fwd")
    o, starts = torch.empty_like(it["q"]), it["starts"]
    run(it["q"], it["k"], it["v"], o, starts[:-1], starts[1:] - starts[:-1], it["longest"], is_causal=True)
    return {"o": o}


def _want_prompts(it: Inputs) -> Outputs:
    return {"o": packed_attention(it["q"], it["k"], it["v"], it["starts"], causal=True)}


# --- a paged cache ---


def _run_unified(segments: int, it: Inputs) -> Outputs:
    """segments: into which decoding divides the cache, with a second kernel that reduces them; 0: it does not."""
    import torch

    run = op(f"{_OPS}.triton_unified_attention", "unified_attention")
    q = it["q"]
    o = torch.empty_like(q)
    more: dict[str, Any] = {}
    if segments:
        tokens, H, D = q.shape
        more = {
            "seq_threshold_3D": 1 << 16,
            "num_par_softmax_segments": segments,
            "softmax_segm_output": torch.empty(tokens, H, segments, D, device=q.device),
            "softmax_segm_max": torch.empty(tokens, H, segments, device=q.device),
            "softmax_segm_expsum": torch.empty(tokens, H, segments, device=q.device),
        }
    run(q=q, k=it["k_pages"], v=it["v_pages"], out=o, cu_seqlens_q=it["starts"], max_seqlen_q=max(it["new"]),
        seqused_k=it["totals"], max_seqlen_k=it["longest"], softmax_scale=q.shape[-1] ** -0.5, causal=True,
        window_size=(-1, -1), block_table=it["table"], softcap=0, q_descale=None, k_descale=None, v_descale=None,
        kv_quant_mode=0, **more)  # fmt: skip
    return {"o": o}


def _prefixed(alibi: bool, *shape: Any) -> Inputs:
    """As `paged`; also the pages in vLLM's older layout, and the new keys and values one after the other."""
    import torch

    it = paged(*shape)
    count, page, KV, D = it["k_pages"].shape
    it["k_cache"] = it["k_pages"].view(count, page, KV, D // 8, 8).permute(0, 2, 3, 1, 4).contiguous()
    it["v_cache"] = it["v_pages"].permute(0, 2, 3, 1).contiguous()
    for name, of_all in (("k", it["keys"]), ("v", it["values"])):
        it[name] = torch.cat([part[part.shape[0] - new :] for part, new in zip(of_all, it["new"], strict=True)])
    if alibi:
        H = it["q"].shape[1]
        it["slopes"] = 2.0 ** (-8.0 * torch.arange(1, H + 1, device=it["q"].device) / H)
    return it


def _run_prefixed(it: Inputs) -> Outputs:
    import torch

    run = op(f"{_OPS}.prefix_prefill", "context_attention_fwd")
    o, one = torch.empty_like(it["q"]), torch.ones(1, device=it["q"].device)
    run(it["q"], it["k"], it["v"], o, "auto", it["k_cache"], it["v_cache"], it["table"], it["starts"], it["totals"],
        it["longest"], max(it["new"]), one, one, alibi_slopes=it.get("slopes"))  # fmt: skip
    return {"o": o}


def _decoded(make: Callable[..., Inputs], *shape: Any) -> Inputs:
    import torch

    it = make(*shape)
    return {**it, "one": torch.ones(1, device=it["q"].device)}


def _run_decode(splits: int, it: Inputs) -> Outputs:
    import torch

    run = op(f"{_OPS}.triton_decode_attention", "decode_attention_fwd")
    q = it["q"]
    (tokens, H, D), (_, page, KV, of_values) = q.shape, it["v_pages"].shape
    o, lse = torch.empty(tokens, H, of_values, device=q.device, dtype=q.dtype), torch.empty(tokens, H, device=q.device)
    parts = torch.empty(tokens, H, splits, of_values + 1, device=q.device)
    run(q, it["k_pages"], it["v_pages"], o, lse, it["table"], it["totals"], parts, splits, D**-0.5, page,
        k_scale=it["one"], v_scale=it["one"], is_mla=KV == 1)  # fmt: skip
    return {"o": o}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for sizes, H, KV, D in (((2048, 4096, 1000), 32, 8, 128), ((300, 77), 4, 2, 64)):
        shape = {"sizes": "+".join(map(str, sizes)), "H": H, "KV": KV, "D": D, "dtype": "bf16"}
        make = partial(_prompts, sizes, H, KV, D)
        source = f"{_TESTS}/test_triton_prefill_attention.py"
        found.append(
            Entry("context_attention_fwd", shape, make, _run_prompts, _want_prompts, _TOLERANCE, source, configs=1)
        )
    unified = f"{_TESTS}/test_triton_unified_attention.py"
    mixed, edges = ((1024, 0, 523, 4000), (512, 1024, 37, 96)), ((18, 462), (5, 129))
    for (prefix, new), H, KV, D, page in ((mixed, 32, 8, 128, 16), (edges, 16, 2, 64, 16)):
        shape = {"prefix": "+".join(map(str, prefix)), "new": "+".join(map(str, new)), "H": H, "KV": KV, "D": D}
        make = partial(paged, prefix, new, H, KV, D, page)
        run: Any = partial(_run_unified, 0)
        found.append(Entry("unified_attention", shape, make, run, want_paged, _TOLERANCE, unified, configs=1))
        for alibi in (False, True):
            name = f"prefix_prefill{' with ALiBi' if alibi else ''}"
            make = partial(_prefixed, alibi, prefix, new, H, KV, D, page)
            source = f"{_TESTS}/test_prefix_prefill.py"
            found.append(Entry(name, shape, make, _run_prefixed, want_paged, _TOLERANCE, source, configs=1))
    decoding, few = (tuple(range(1000, 9000, 500)), (1,) * 16), ((40, 333), (1, 1))
    for (prefix, new), H, KV, D, page in ((decoding, 64, 8, 128, 16), (few, 16, 2, 64, 16)):
        shape = {"B": len(new), "longest": max(prefix) + 1, "H": H, "KV": KV, "D": D, "page": page, "dtype": "bf16"}
        make = partial(paged, prefix, new, H, KV, D, page)
        run = partial(_run_unified, 16)
        found.append(
            Entry("unified_attention in segments", shape, make, run, want_paged, _TOLERANCE, unified, configs=1)
        )
        source = f"{_TESTS}/test_triton_decode_attention.py"
        make = partial(_decoded, paged, prefix, new, H, KV, D, page)
        run = partial(_run_decode, 8)
        found.append(Entry("decode_attention_fwd", shape, make, run, want_paged, _TOLERANCE, source, configs=1))
    for prefix in (decoding[0], few[0]):
        shape = {"B": len(prefix), "longest": max(prefix) + 1, "H": 16, "page": 16, "dtype": "bf16"}
        name, make = "decode_attention_fwd, MLA", partial(_decoded, latent, prefix, 16, 16)
        found.append(Entry(name, shape, make, run, want_paged, _TOLERANCE, source, configs=1))
    return found


ENTRIES = tuple(_entries())
