"""gemlite: linear layers with weights of 16, 8 and 4 bits, fp8 too, by its tiled GEMM kernels.

M tokens through a layer from K to N features. Layers and tolerances are those of ``tests/test_int.py``, which lacks
only 8-bit weights with fp16 activations. All shapes are chosen here; that test has K = 3968, N = 2032 and M up to 250.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.entry import Entry, Inputs, MeanError, Outputs, Package

_K, _N, _GROUP = 4096, 2048, 128
_TOKENS = (512, 4096, 4)


def _layer(weights: str, device: str) -> tuple[Any, Any]:
    """A packed layer, and the weights (N, K) that it encodes, as float64."""
    import torch
    from gemlite.core import DType, GemLiteLinearTriton

    half = DType.FP16
    if weights == "fp16":
        plain = (torch.randn(_N, _K, device=device) * 0.01).half()
        layer = GemLiteLinearTriton(16, None, _K, _N, half, half, scaled_activations=False)
        layer.pack(plain, None, None, None)
        return layer, plain.double()
    if weights == "fp8":
        plain = (torch.randn(_N, _K, device=device) * 0.01).to(torch.float8_e4m3fn)
        layer = GemLiteLinearTriton(8, None, _K, _N, DType.FP8, half, scaled_activations=False)
        layer.pack(plain, None, None, None)
        return layer, plain.double()
    if weights == "int8":
        codes = torch.randint(0, 255, (_N, _K), device=device).to(torch.uint8)
        scales = (torch.rand(_N, 1, device=device) * 1e-4).half()
        layer = GemLiteLinearTriton(8, _K, _K, _N, half, half, scaled_activations=False)
        layer.pack(codes, scales, 127, None)
        return layer, (codes.double() - 127) * scales.double()
    codes = torch.randint(0, 15, (_N, _K), device=device).to(torch.uint8)
    groups = codes.numel() // _GROUP
    scales = torch.full((groups, 1), 1e-3, device=device, dtype=torch.float16)
    zeros = torch.full((groups, 1), 7.0, device=device, dtype=torch.float16)
    layer = GemLiteLinearTriton(4, _GROUP, _K, _N, half, half)
    layer.pack(codes, scales, zeros, None)
    return layer, ((codes.double().view(-1, _GROUP) - 7) * scales.double()).view(_N, _K)


def _make(M: int, weights: str, device: str) -> Inputs:
    import torch

    layer, plain = _layer(weights, device)
    x = (torch.randn(M, _K, device=device) / 10).half()
    return {"x": x.to(torch.float8_e4m3fn) if weights == "fp8" else x, "layer": layer, "plain": plain}


def _run(it: Inputs) -> Outputs:
    return {"y": it["layer"].forward_manual(it["x"], matmul_type="GEMM")}


def _want(it: Inputs) -> Outputs:
    return {"y": it["x"].double() @ it["plain"].T}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for M in _TOKENS:
        for weights in ("fp16", "fp8", "int8", "int4"):
            make = partial(_make, M, weights)
            shape = {"M": M, "N": _N, "K": _K, "weights": weights, "dtype": "fp8" if weights == "fp8" else "fp16"}
            tolerance = MeanError(5e-3 if weights == "fp8" else 1e-3)
            found.append(Entry("GemLiteLinear", shape, make, _run, _want, tolerance, "tests/test_int.py", configs=0))
    return found


PACKAGE = Package(
    name="gemlite",
    home="https://github.com/mobiusml/gemlite",
    licence="Apache-2.0",
    requires=("gemlite==0.6.0.post2", "tqdm"),
    module="gemlite",
    entries=tuple(_entries()),
)
