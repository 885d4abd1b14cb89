"""The tutorials of Triton: GEMM (03), attention (06), grouped GEMM (08), persistent GEMM (09).

The scripts run benchmarks when they are imported, so only the wanted functions are loaded from them
(`bench.corpus.module_slice`). Absolute tolerances are those of the checks in the scripts. The GEMM's tolerance grows
with the square root of K, and has a relative part for results that are larger than the script's; the persistent GEMM in
fp16 has a stricter one (its script allows 1). Autotuners choose among all of their configurations, except for the
persistent GEMM with descriptors, which has 48, and attention, which has 21.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bench.corpus.entry import OURS, AllClose, Entry, Inputs, Outputs, Package

_FOLDER = "triton_tutorials"
_COMMIT = "6cc4505027d7b39fe18a44a7f89085b8babb7400"  # Triton 3.6.0
_SCRIPTS = ("03-matrix-multiplication", "06-fused-attention", "08-grouped-gemm", "09-persistent-matmul")
_modules: dict[tuple[str, tuple[str, ...]], Any] = {}


def _script(name: str, *wanted: str) -> Any:
    """The functions of one script."""
    import importlib

    from bench.corpus.module_slice import load_slice

    if (name, wanted) not in _modules:
        folder = next(iter(importlib.import_module(_FOLDER).__path__))
        _modules[name, wanted] = load_slice(Path(folder) / f"{name}.py", wanted)
    return _modules[name, wanted]


def _operands(M: int, N: int, K: int, dtype: str, b_transposed: bool, device: str) -> Inputs:
    """A (M, K) and B (K, N); B as the transpose of a matrix in memory where asked for."""
    import torch

    element = {"fp16": torch.float16, "fp8": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}[dtype]
    a, b = (torch.rand(size, device=device).half() - 0.5 for size in ((M, K), (N, K) if b_transposed else (K, N)))
    b = b.to(element)
    return {"a": a.to(element), "b": b.T if b_transposed else b}


def _want_product(it: Inputs) -> Outputs:
    return {"c": it["a"].double() @ it["b"].double()}


def _run_matmul(it: Inputs) -> Outputs:
    return {"c": _script("03-matrix-multiplication", "matmul", "leaky_relu").matmul(it["a"], it["b"])}


def _run_persistent(it: Inputs) -> Outputs:
    return {"c": _script("09-persistent-matmul", "matmul_persistent").matmul_persistent(it["a"], it["b"])}


def _run_persistent_tma(it: Inputs) -> Outputs:
    """This one takes B as (N, K)."""
    run = _script("09-persistent-matmul", "matmul_tma_persistent").matmul_tma_persistent
    return {"c": run(it["a"], it["b"].T, False)}


def _group(sizes: tuple[int, ...], device: str) -> Inputs:
    """Square GEMMs, and the lists of addresses and sizes that the kernel reads; C is allocated here."""
    import torch

    found: Inputs = {"a": [], "b": [], "c": []}
    for size in sizes:
        for name in "abc":
            found[name].append(torch.rand(size, size, device=device).half())
    for name in "abc":
        found[f"{name}_at"] = torch.tensor([it.data_ptr() for it in found[name]], device=device)
    numbers = [size for size in sizes for _ in range(3)]
    found["sizes"] = torch.tensor(
        numbers, dtype=torch.int32, device=device
    )  # M, N, K, and the three leading dimensions
    return found


def _run_grouped(it: Inputs) -> Outputs:
    """The launch alone, as the script times it."""
    run = _script("08-grouped-gemm", "triton_perf_fn").triton_perf_fn
    run(it["a_at"], it["b_at"], it["c_at"], it["sizes"], it["sizes"], len(it["a"]))
    return {f"c{at}": c for at, c in enumerate(it["c"])}


def _reset_grouped(it: Inputs) -> None:
    for c in it["c"]:
        c.fill_(float("nan"))


def _want_grouped(it: Inputs) -> Outputs:
    return {f"c{at}": a.double() @ b.double() for at, (a, b) in enumerate(zip(it["a"], it["b"], strict=True))}


def _heads(Z: int, H: int, S: int, D: int, causal: bool, device: str) -> Inputs:
    import torch

    made = {name: torch.empty(Z, H, S, D, device=device).normal_(0.0, 0.5).half() for name in ("q", "k", "v")}
    return {**{name: value.requires_grad_() for name, value in made.items()}, "causal": causal}


def _run_attention(it: Inputs) -> Outputs:
    run = _script("06-fused-attention", "attention").attention
    return {"o": run(it["q"], it["k"], it["v"], it["causal"], 0.5, False)}


def _want_attention(it: Inputs) -> Outputs:
    import torch

    q, k, v = (it[name].float() for name in ("q", "k", "v"))
    scores = (q @ k.transpose(2, 3)) * 0.5
    if it["causal"]:
        keep = torch.ones(scores.shape[-2:], device=q.device, dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, float("-inf"))
    return {"o": torch.softmax(scores, dim=-1) @ v}


def _matmuls() -> list[Entry]:
    found: list[Entry] = []
    for size in (512, 2048, 4096):
        for dtype, b_transposed in (("fp16", False), ("fp16", True), ("fp8e5", True)):
            make = partial(_operands, size, size, size, dtype, b_transposed)
            shape = {"M": size, "N": size, "K": size, "dtype": dtype, "B": "transposed" if b_transposed else "plain"}
            tolerance = AllClose(0.125 if dtype == "fp8e5" else 1e-2 * max(1.0, (size / 512) ** 0.5), 1e-2)
            source = "03-matrix-multiplication.py"
            theirs = b_transposed == (dtype == "fp8e5")  # its test and its benchmark transpose B for fp8 alone
            found.append(Entry("matmul", shape, make, _run_matmul, _want_product, tolerance, source,
                               shape_source=source if theirs else OURS, configs=0))  # fmt: skip
    operations = (("matmul_persistent", _run_persistent, 0), ("matmul_tma_persistent", _run_persistent_tma, 16))
    for name, run, configs in operations:
        for M, N, K, dtype in ((8192, 8192, 512, "fp16"), (8192, 8192, 4096, "fp16"), (8192, 8192, 4096, "fp8")):
            make = partial(_operands, M, N, K, dtype, True)
            shape = {"M": M, "N": N, "K": K, "dtype": dtype}
            tolerance = AllClose(1.0, 1e-1) if dtype == "fp8" else AllClose(1e-1, 1e-2)
            source = "09-persistent-matmul.py"
            found.append(Entry(name, shape, make, run, _want_product, tolerance, source,
                               shape_source=source if K == 512 else OURS, configs=configs))  # fmt: skip
    return found


def _others() -> list[Entry]:
    found: list[Entry] = []
    for sizes in ((1024, 512, 256, 128), (4096, 4096, 4096, 4096)):
        make = partial(_group, sizes)
        shape = {"sizes": "+".join(map(str, sizes)), "dtype": "fp16"}
        source = "08-grouped-gemm.py"
        entry = Entry("grouped_matmul", shape, make, _run_grouped, _want_grouped, AllClose(1e-2, 1e-2), source,
                      shape_source=source if 4096 not in sizes else OURS, reset=_reset_grouped, configs=0)  # fmt: skip
        found.append(entry)
    for Z, H, S, D in ((4, 48, 1024, 64), (1, 2, 4096, 128), (4, 32, 2048, 128)):
        for causal in (False, True):
            source = "06-fused-attention.py"
            make = partial(_heads, Z, H, S, D, causal)
            shape = {"Z": Z, "H": H, "S": S, "D": D, "mask": "causal" if causal else "full", "dtype": "fp16"}
            entry = Entry("attention", shape, make, _run_attention, _want_attention, AllClose(1e-2, 0.0),
                          source, backward=True, shape_source=source, configs=8)  # fmt: skip
            found.append(entry)
    return found


PACKAGE = Package(
    name="triton-tutorials",
    home="https://github.com/triton-lang/triton",
    licence="MIT",
    requires=(),
    module=_FOLDER,
    entries=(*_matmuls(), *_others()),
    files={
        f"{_FOLDER}/{name}.py": f"https://raw.githubusercontent.com/triton-lang/triton/{_COMMIT}/python/tutorials/{name}.py"
        for name in _SCRIPTS
    },
    notes="Not in Triton's wheel: four scripts are downloaded at a pinned commit.",
)
