"""mlstm_kernels: the matrix memory of xLSTM, chunkwise and parallel, forward and backward.

B sequences of S tokens, H heads with queries and keys of D and values of V. The reference is the package's own parallel
form in PyTorch, in float32, with a backward pass like that of the kernels, which takes the normaliser as constant. The
tolerance is an RMS ratio of 2e-2: the kernels keep states and scores in bf16. The input gate is about 1, the forget
gate near 1, as in a trained model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.corpus.entry import Entry, Inputs, Outputs, Package, RmsRatio

_SOURCE = "tests/torch/test_chunkwise_fwbw_triton_xl_chunk.py"


def _make(B: int, H: int, S: int, D: int, V: int, device: str) -> Inputs:
    import torch

    q, k = (torch.randn(B, H, S, D, device=device).bfloat16() for _ in range(2))
    v = torch.randn(B, H, S, V, device=device).bfloat16()
    i = torch.randn(B, H, S, device=device)
    f = torch.randn(B, H, S, device=device) + 4.5
    return {name: it.requires_grad_() for name, it in (("q", q), ("k", k), ("v", v), ("i", i), ("f", f))}


def _of(name: str, own_dtype: bool, it: Inputs) -> Outputs:
    import torch
    from mlstm_kernels.torch import get_mlstm_kernel

    q, k, v, i, f = (it[key] for key in "qkvif")
    if own_dtype:
        return {"h": get_mlstm_kernel(name)(q, k, v, i, f, autocast_kernel_dtype=torch.bfloat16)}
    return {"h": get_mlstm_kernel(name)(*(x.float() for x in (q, k, v, i, f)))}


_KERNELS: dict[str, tuple[str, tuple[tuple[int, int, int, int, int], ...]]] = {
    "chunkwise--triton_xl_chunk": ("parallel--native_stablef_custbw", ((2, 4, 2048, 128, 256), (1, 8, 4096, 64, 64))),
    "chunkwise--triton_xl_chunk_siging": ("parallel--native_siging_custbw", ((2, 4, 2048, 128, 256),)),
    "chunkwise--triton_limit_chunk": ("parallel--native_stablef_custbw", ((2, 4, 2048, 128, 128),)),
    "parallel--triton_limit_headdim": ("parallel--native_stablef_custbw", ((2, 8, 2048, 64, 64),)),
}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for kernel, (reference, shapes) in _KERNELS.items():
        for B, H, S, D, V in shapes:
            run: Callable[[Inputs], Outputs] = partial(_of, kernel, True)
            want: Callable[[Inputs], Outputs] = partial(_of, reference, False)
            shape = {"B": B, "H": H, "S": S, "D": D, "V": V, "dtype": "bf16"}
            make = partial(_make, B, H, S, D, V)
            found.append(Entry(kernel, shape, make, run, want, RmsRatio(2e-2), _SOURCE, backward=True, configs=1))
    return found


PACKAGE = Package(
    name="mlstm-kernels",
    home="https://github.com/NX-AI/mlstm_kernels",
    licence="NXAI Community License",
    requires=("mlstm-kernels==2.0.6",),
    module="mlstm_kernels.torch",
    entries=tuple(_entries()),
)
