"""SageAttention 1: attention whose scores are a product of int8, quantised by block; both products in one loop.

B sequences of S tokens, H heads of D. ``example/`` in the repository compares with a mean cosine similarity; the
tolerance here is an RMS ratio of 5e-2, which quantised scores need.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

from bench.corpus.common.references import attention, packed_attention
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio

_SOURCE = "README.md"


def _qkv(B: int, H: int, S: int, D: int, causal: bool, device: str) -> Inputs:
    import torch

    made: Inputs = {name: torch.randn(B, H, S, D, device=device).half() for name in ("q", "k", "v")}
    return {**made, "causal": causal}


def _run(it: Inputs) -> Outputs:
    return {
        "o": import_module("sageattention").sageattn(it["q"], it["k"], it["v"], is_causal=it["causal"], smooth_k=False)
    }


def _want(it: Inputs) -> Outputs:
    return {"o": attention(it["q"], it["k"], it["v"], it["causal"])}


def _packed(sizes: tuple[int, ...], H: int, D: int, causal: bool, device: str) -> Inputs:
    import torch

    made: Inputs = {name: torch.randn(sum(sizes), H, D, device=device).half() for name in ("q", "k", "v")}
    starts = torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32)
    return {**made, "starts": starts, "longest": max(sizes), "causal": causal}


def _run_packed(it: Inputs) -> Outputs:
    run = import_module("sageattention").sageattn_varlen
    q, k, v, starts, longest = (it[name] for name in ("q", "k", "v", "starts", "longest"))
    given = {"is_causal": it["causal"], "smooth_k": False}
    return {"o": run(q, k, v, starts, starts, longest, longest, **given)}


def _want_packed(it: Inputs) -> Outputs:
    return {"o": packed_attention(it["q"], it["k"], it["v"], it["starts"], it["causal"])}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    tolerance = RmsRatio(5e-2)
    for B, H, S, D in ((2, 16, 4096, 128), (2, 16, 4096, 64), (2, 16, 2048, 96), (1, 4, 300, 64)):
        for causal in (False, True):
            shape = {"B": B, "H": H, "S": S, "D": D, "causal": causal, "dtype": "fp16"}
            make = partial(_qkv, B, H, S, D, causal)
            found.append(Entry("sageattn", shape, make, _run, _want, tolerance, _SOURCE, configs=1))
    for sizes, D in (((1024, 2048, 300, 4096), 128),):
        for causal in (False, True):
            shape = {"sizes": "+".join(map(str, sizes)), "H": 16, "D": D, "causal": causal, "dtype": "fp16"}
            make = partial(_packed, sizes, 16, D, causal)
            run, want = _run_packed, _want_packed
            found.append(Entry("sageattn_varlen", shape, make, run, want, tolerance, _SOURCE, configs=1))
    return found


PACKAGE = Package(
    name="sageattention",
    home="https://github.com/thu-ml/SageAttention",
    licence="BSD-3-Clause",
    requires=("sageattention==1.0.6",),
    module="sageattention",
    entries=tuple(_entries()),
)
