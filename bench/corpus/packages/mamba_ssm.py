"""mamba_ssm: the chunked state-space scan of Mamba-2, forward and backward.

B sequences of S tokens, H heads of D, N states, G groups of B and C. The reference is the quadratic form in float32:
y = (C Bᵀ ∘ decay) · (Δ x). Shapes are those of ``tests/ops/triton/test_ssd.py`` and of the models; the tolerance, an
RMS ratio of 1e-2, is stricter than the test's.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.entry import Archive, Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_COMMIT = "e9594ce1c732d97440f0332fdc43170a2294dbfa"
_SOURCE = "tests/ops/triton/test_ssd.py"
_PACKAGE = PartialPackage(
    "mamba_ssm",
    ("mamba_ssm.ops.triton.*", "mamba_ssm.utils.*", "mamba_ssm.modules.mamba2"),
    lambda: {"causal_conv1d": {"causal_conv1d_fn": None, "causal_conv1d_update": None}},
    absent=("causal_conv1d", "huggingface_hub", "selective_scan_cuda"),
)


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"mamba_ssm.ops.triton.{module}"), name)


def _make(B: int, S: int, H: int, D: int, G: int, N: int, device: str) -> Inputs:
    import torch

    x = torch.randn(B, S, H, D, device=device).bfloat16()
    dt = torch.nn.functional.softplus(torch.randn(B, S, H, device=device) - 4)
    A = -torch.exp(torch.rand(H, device=device))
    b, c = (torch.randn(B, S, G, N, device=device).bfloat16() for _ in range(2))
    return {name: it.requires_grad_() for name, it in (("x", x), ("dt", dt), ("A", A), ("B", b), ("C", c))}


def _run(it: Inputs) -> Outputs:
    scan = _op("ssd_combined", "mamba_chunk_scan_combined")
    return {"y": scan(it["x"], it["dt"], it["A"], it["B"], it["C"], 128)}


def _want(it: Inputs) -> Outputs:
    x, dt, A, b, c = (it[name].float() for name in ("x", "dt", "A", "B", "C"))
    heads = x.shape[2] // b.shape[2]
    b, c = (value.repeat_interleave(heads, 2).transpose(1, 2) for value in (b, c))
    logs = (dt * A).transpose(1, 2).cumsum(-1)
    decay = (logs[..., :, None] - logs[..., None, :]).tril().exp().tril()
    y = ((c @ b.transpose(-1, -2)) * decay) @ (x * dt[..., None]).transpose(1, 2)
    return {"y": y.transpose(1, 2)}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for B, S, H, D, G, N in ((2, 2048, 8, 64, 1, 128), (1, 1024, 16, 128, 2, 64)):
        shape = {"B": B, "S": S, "H": H, "D": D, "G": G, "N": N, "dtype": "bf16"}
        make = partial(_make, B, S, H, D, G, N)
        found.append(Entry("mamba_chunk_scan_combined", shape, make, _run, _want, RmsRatio(1e-2), _SOURCE,
                           backward=True, configs=4))  # fmt: skip
    return found


PACKAGE = Package(
    name="mamba-ssm",
    home="https://github.com/state-spaces/mamba",
    licence="Apache-2.0",
    requires=(),
    module="mamba_ssm.ops.triton.ssd_combined",
    partial=_PACKAGE,
    entries=tuple(_entries()),
    archives=(Archive(f"https://codeload.github.com/state-spaces/mamba/tar.gz/{_COMMIT}", ("mamba_ssm",)),),
)
