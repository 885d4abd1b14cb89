"""PyTorch's Inductor: its templates of GEMM, convolution, and FlexAttention forward, backward and for decoding.

``torch.compile`` with Triton as the only choice, so a template is used where a library would win. Each mode compiles
and tunes for itself. Inductor launches its kernels by itself, so modes with Plans do not reach them. It compiles for
the GPU that it finds: without one there is nothing to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.compiled import own_function
from bench.corpus.common.references import attention, product
from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio
from bench.corpus.modes import current

_OPTIONS = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
}
_compiled: dict[tuple[str, str], Callable[..., Any]] = {}


def _under(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function as compiled in the current mode."""
    import torch

    if arguments[0].device.type != "cuda":
        raise RuntimeError("Inductor's templates are compiled where there is a GPU")
    key = (name, current())
    if key not in _compiled:
        own = own_function(function, f"{name}_{len(_compiled)}")
        _compiled[key] = torch.compile(own, options=_OPTIONS, dynamic=False, fullgraph=True)
    return _compiled[key](*arguments)


def _random(*shape: int, device: str) -> Any:
    import torch

    return torch.randn(*shape, device=device).bfloat16()


def _operands(batch: int, M: int, N: int, K: int, device: str) -> Inputs:
    first = (batch,) if batch else ()
    a, b = (_random(*first, *size, device=device) for size in ((M, K), (K, N)))
    return {"a": a, "b": b, "bias": _random(N, device=device)}


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _biased(a: Any, b: Any, bias: Any) -> Any:
    import torch

    return torch.relu(torch.addmm(bias, a, b))


def _run_product(name: str, it: Inputs) -> Outputs:
    if name == "addmm":
        return {"c": _under(name, _biased, it["a"], it["b"], it["bias"])}
    return {"c": _under(name, _product, it["a"], it["b"])}


def _want_product(name: str, it: Inputs) -> Outputs:
    c = product(it["a"], it["b"])
    return {"c": (c + it["bias"].double()).relu() if name == "addmm" else c}


def _images(N: int, C: int, size: int, F: int, kernel: int, device: str) -> Inputs:
    import torch

    x, w = _random(N, C, size, size, device=device), _random(F, C, kernel, kernel, device=device)
    return {name: it.to(memory_format=torch.channels_last) for name, it in (("x", x), ("w", w))}


def _convolved(x: Any, w: Any) -> Any:
    import torch

    return torch.nn.functional.conv2d(x, w, padding=w.shape[-1] // 2)


def _run_convolution(it: Inputs) -> Outputs:
    return {"y": _under("convolution", _convolved, it["x"], it["w"])}


def _want_convolution(it: Inputs) -> Outputs:
    return {"y": _convolved(it["x"].float(), it["w"].float())}


def _qkv(B: int, H: int, KV: int, queries: int, S: int, D: int, device: str) -> Inputs:
    from torch.nn.attention.flex_attention import create_block_mask

    def causal(b: Any, h: Any, row: Any, column: Any) -> Any:
        return row + (S - queries) >= column

    sizes = {"q": (B, H, queries, D), "k": (B, KV, S, D), "v": (B, KV, S, D)}
    made = {name: _random(*size, device=device) for name, size in sizes.items()}
    if queries > 1:
        made = {name: it.requires_grad_() for name, it in made.items()}
    return {**made, "mask": create_block_mask(causal, None, None, queries, S, device=device)}


def _flex(q: Any, k: Any, v: Any, mask: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def _run_flex(name: str, it: Inputs) -> Outputs:
    return {"o": _under(name, _flex, it["q"], it["k"], it["v"], it["mask"])}


def _want_flex(it: Inputs) -> Outputs:
    return {"o": attention(it["q"], it["k"], it["v"], causal=True)}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    source = "test/inductor/test_max_autotune.py"
    for name, batch, M, N, K in (
        ("mm", 0, 4096, 4096, 4096),
        ("addmm", 0, 2048, 8192, 2048),
        ("bmm", 16, 1024, 1024, 512),
    ):
        shape: dict[str, Any] = {"B": batch, "M": M, "N": N, "K": K, "dtype": "bf16"}
        make: Any = partial(_operands, batch, M, N, K)
        run, want = partial(_run_product, name), partial(_want_product, name)
        found.append(Entry(name, shape, make, run, want, RmsRatio(1e-2), source, configs=0))
    shape = {"N": 32, "C": 256, "size": 32, "F": 256, "kernel": 3, "dtype": "bf16"}
    make = partial(_images, 32, 256, 32, 256, 3)
    run, want = _run_convolution, _want_convolution
    found.append(Entry("convolution", shape, make, run, want, RmsRatio(1e-2), source, configs=0))
    flex = "test/inductor/test_flex_attention.py"
    for name, B, H, KV, queries, S, D in (
        ("flex_attention", 2, 16, 16, 4096, 4096, 128),
        ("flex_decoding", 16, 32, 8, 1, 8192, 128),
    ):
        shape = {"B": B, "H": H, "KV": KV, "queries": queries, "S": S, "D": D, "dtype": "bf16"}
        make, run = partial(_qkv, B, H, KV, queries, S, D), partial(_run_flex, name)
        found.append(Entry(name, shape, make, run, _want_flex, RmsRatio(2e-2), flex, backward=queries > 1, configs=0))
    return found


PACKAGE = Package(
    name="inductor",
    home="https://github.com/pytorch/pytorch",
    licence="BSD-3-Clause",
    requires=(),
    module="torch._inductor",
    entries=tuple(_entries()),
    notes="Comes with PyTorch.",
)
