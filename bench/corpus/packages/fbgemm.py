"""FBGEMM: attention and products of jagged tensors, forward and backward.

Sequences of different lengths lie one after the other. H heads of D; T targets that attend to a sequence. The kernels
have no scale of the scores, so queries are small; attention without targets divides by the largest length. The tests in
``fbgemm_gpu/test/sll`` compare in float32 with 1e-3; here the products are in TF32, and an RMS ratio of 1e-2 is used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.corpus.entry import Archive, Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.partial_package import PartialPackage

_COMMIT = "71d6f8b229d964e61cac24df9bbd2ffcc4b4d378"
_FOLDER = "fbgemm_gpu.sll.triton"
_PACKAGE = PartialPackage("fbgemm_gpu", ("fbgemm_gpu.sll.triton.*",))
_TESTS = "fbgemm_gpu/test/sll"


def _op(module: str, name: str) -> Any:
    return getattr(_PACKAGE.load(f"{_FOLDER}.triton_{module}"), name)


def _base(sizes: tuple[int, ...], device: str) -> Inputs:
    import torch

    starts = torch.tensor([0, *sizes], device=device).cumsum(0)
    return {"starts": starts, "sizes": sizes, "longest": max(sizes)}


def _leaf(*shape: int, device: str, scale: float = 1.0) -> Any:
    import torch

    return (scale * torch.randn(*shape, device=device)).requires_grad_()


def _attention(sizes: tuple[int, ...], H: int, D: int, device: str) -> Inputs:
    shape = (H, sum(sizes), D) if H else (sum(sizes), D)
    made = {name: _leaf(*shape, device=device, scale=D**-0.25) for name in ("q", "k", "v")}
    return {**made, **_base(sizes, device)}


def _run_attention(heads: bool, it: Inputs) -> Outputs:
    name = "multi_head_jagged_flash_attention" if heads else "jagged_flash_attention_basic"
    return {"o": _op(name, name)(it["q"], it["k"], it["v"], it["starts"], it["longest"], allow_tf32=True)}


def _want_attention(it: Inputs) -> Outputs:
    import torch

    axis, longest = it["q"].dim() - 2, it["longest"]
    lots = zip(*(it[name].split(list(it["sizes"]), axis) for name in ("q", "k", "v")), strict=True)
    return {"o": torch.cat([torch.softmax(q @ k.transpose(-1, -2), -1) @ v / longest for q, k, v in lots], axis)}


def _dense(sizes: tuple[int, ...], T: int, D: int, device: str) -> Inputs:
    scale, total, B = D**-0.25, sum(sizes), len(sizes)
    return {
        "q": _leaf(total, D, device=device, scale=scale),
        "k": _leaf(B, D, T, device=device, scale=scale),
        "v": _leaf(total, D, device=device),
        "bias": _leaf(B, max(sizes), T, device=device),
        **_base(sizes, device),
    }


def _run_dense(it: Inputs) -> Outputs:
    run = _op("jagged_dense_flash_attention", "jagged_dense_flash_attention")
    return {"o": run(it["q"], it["k"], it["v"], it["bias"], it["starts"], it["longest"], True)}


def _want_dense(it: Inputs) -> Outputs:
    """The softmax is over the tokens of a sequence, for each target."""
    import torch

    parts: list[Any] = []
    lots = zip(*(it[name].split(list(it["sizes"])) for name in ("q", "v")), it["k"], it["bias"], strict=True)
    for q, v, k, bias in lots:
        parts.append(torch.softmax(q @ k + bias[: q.shape[0]], 0).T @ v)
    return {"o": torch.stack(parts)}


def _product(sizes: tuple[int, ...], T: int, D: int, device: str) -> Inputs:
    return {
        "x": _leaf(sum(sizes), D, device=device),
        "y": _leaf(len(sizes), D, T, device=device),
        **_base(sizes, device),
    }


def _run_product(it: Inputs) -> Outputs:
    run = _op("jagged_bmm", "jagged_dense_bmm")
    return {"z": run(it["x"], it["y"], it["starts"], it["longest"], True, use_fbgemm_kernel=False)}


def _want_product(it: Inputs) -> Outputs:
    import torch

    return {"z": torch.cat([x @ y for x, y in zip(it["x"].split(list(it["sizes"])), it["y"], strict=True)])}


def _entries() -> list[Entry]:
    found: list[Entry] = []

    def add(name: str, make: Any, run: Any, want: Any, **shape: Any) -> None:
        about = {**shape, "dtype": "fp32"}
        source = f"{_TESTS}/{name}_test.py"
        found.append(Entry(name, about, make, run, want, RmsRatio(1e-2), source, backward=True, configs=1))

    for sizes, H, D, T in (((2048, 1000, 300, 1500), 8, 64, 128), ((40, 77), 2, 32, 24)):
        size: Any = {"sizes": "+".join(map(str, sizes)), "D": D}
        make: Any = partial(_attention, sizes, H, D)
        add("multi_head_jagged_flash_attention", make, partial(_run_attention, True), _want_attention, **size, H=H)
        make = partial(_attention, sizes, 0, D)
        add("jagged_flash_attention_basic", make, partial(_run_attention, False), _want_attention, **size)
        add("jagged_dense_flash_attention", partial(_dense, sizes, T, D), _run_dense, _want_dense, **size, T=T)
        add("jagged_dense_bmm", partial(_product, sizes, T, D), _run_product, _want_product, **size, T=T)
    return found


PACKAGE = Package(
    name="fbgemm",
    home="https://github.com/pytorch/FBGEMM",
    licence="BSD-3-Clause",
    requires=(),
    archives=(
        Archive(
            f"https://codeload.github.com/pytorch/FBGEMM/tar.gz/{_COMMIT}", ("fbgemm_gpu/sll",), under="fbgemm_gpu"
        ),
    ),
    module="fbgemm_gpu.sll.triton.triton_jagged_bmm",
    partial=_PACKAGE,
    entries=tuple(_entries()),
)
