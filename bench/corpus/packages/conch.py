"""conch-triton-kernels: GEMMs with weights of 4 and 8 bits, and scaled GEMMs of 8 bits.

M, N, K of C = A · B. Shapes, inputs and tolerances are those of ``tests/mixed_precision_gemm_test.py`` and
``tests/scaled_gemm_test.py``; references are in float64.
"""

from __future__ import annotations

import math
from functools import partial

from bench.corpus.entry import AllClose, Entry, Inputs, Outputs, Package

_GROUP = 128
_SHAPES = ((1024, 1024, 1024), (4096, 4096, 2048))


def _weights(M: int, N: int, K: int, bits: int, device: str) -> Inputs:
    """Weights of `bits`, several in each 32-bit word along K, with a scale for every `_GROUP` rows."""
    import torch

    a = (10 * (torch.rand(M, K, device=device) - 0.3)).half()
    quantised = torch.randint(0, 2**bits, (K, N), device=device)
    scales = (torch.rand(K // _GROUP, N, device=device) * 10 / 2**bits).half()
    per_word = 32 // bits
    words = torch.zeros(K // per_word, N, dtype=torch.int64, device=device)
    for at in range(per_word):
        words |= quantised[at::per_word] << (at * bits)
    packed = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    return {"a": a, "packed": packed, "quantised": quantised, "scales": scales, "bits": bits}


def _run_weights(it: Inputs) -> Outputs:
    from conch.ops.quantization.gemm import mixed_precision_gemm

    bits = it["bits"]
    return {"c": mixed_precision_gemm(it["a"], it["packed"], it["scales"], None, bits, 2 ** (bits - 1), _GROUP)}


def _want_weights(it: Inputs) -> Outputs:
    shifted = (it["quantised"] - 2 ** (it["bits"] - 1)).double()
    weights = shifted * it["scales"].double().repeat_interleave(_GROUP, 0)
    return {"c": it["a"].double() @ weights}


def _scaled(M: int, N: int, K: int, dtype: str, device: str) -> Inputs:
    import torch

    if dtype == "int8":
        a, b = (torch.randint(-32, 32, size, dtype=torch.int8, device=device) for size in ((M, K), (N, K)))
    else:
        a, b = ((0.25 * torch.rand(size, device=device)).to(torch.float8_e4m3fn) for size in ((M, K), (N, K)))
    scale_a, scale_b = (0.25 * torch.rand(size, 1, device=device) for size in (M, N))
    return {"a": a, "b": b.T, "scale_a": scale_a, "scale_b": scale_b}


def _run_scaled(it: Inputs) -> Outputs:
    import torch
    from conch.ops.quantization.gemm import scaled_gemm

    return {"c": scaled_gemm(it["a"], it["b"], it["scale_a"], it["scale_b"], torch.bfloat16, None)}


def _want_scaled(it: Inputs) -> Outputs:
    product = it["a"].double() @ it["b"].double()
    return {"c": product * it["scale_a"].double() * it["scale_b"].double().T}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for M, N, K in _SHAPES:
        for bits in (4, 8):
            tolerance = AllClose(min(5e-2 * math.sqrt(K), 1), 1e-1)
            shape = {"M": M, "N": N, "K": K, "weights": f"int{bits}", "dtype": "fp16"}
            make = partial(_weights, M, N, K, bits)
            source = "tests/mixed_precision_gemm_test.py"
            found.append(Entry("mixed_precision_gemm", shape, make, _run_weights, _want_weights, tolerance, source,
                               shape_source=source, configs=1))  # fmt: skip
        for dtype in ("int8", "fp8"):
            shape = {"M": M, "N": N, "K": K, "dtype": dtype}
            make = partial(_scaled, M, N, K, dtype)
            tolerance, source = AllClose(1e-1, 1e-1), "tests/scaled_gemm_test.py"
            found.append(Entry("scaled_gemm", shape, make, _run_scaled, _want_scaled, tolerance, source,
                               shape_source=source, configs=1))  # fmt: skip
    return found


PACKAGE = Package(
    name="conch-triton-kernels",
    home="https://github.com/stackav-oss/conch",
    licence="Apache-2.0",
    requires=("conch-triton-kernels==1.3",),
    module="conch.ops.quantization.gemm",
    entries=tuple(_entries()),
)
