"""Liger-Kernel: its kernels that have a dot. Most of its kernels are normalisations and losses, which have none.

T tokens of H features, E experts, top K of them, I inner features. Tolerances are those of ``test/transformers``. The
integer GEMM must be exact (its test allows 1e-2, and is skipped because the kernel is experimental).
"""

from __future__ import annotations

from functools import partial

from bench.corpus.entry import OURS, AllClose, Entry, Inputs, Outputs, Package, RmsRatio

_BENCHMARK_MLP = "benchmark/scripts/benchmark_mlp.py"  # with --model llama_2_7b


def _moe(T: int, E: int, H: int, I: int, K: int, device: str) -> Inputs:  # noqa: E741
    import torch

    x = torch.randn(T, H, device=device).bfloat16()
    gate_up, down = (torch.randn(*size, device=device) * 0.02 for size in ((E, 2 * I, H), (E, H, I)))
    logits = torch.randn(T, E, device=device)
    index = torch.topk(logits, K, dim=-1).indices.to(torch.int32)
    weights = torch.softmax(torch.gather(logits, 1, index.long()), dim=-1).bfloat16()
    return {"x": x, "gate_up": gate_up.bfloat16(), "down": down.bfloat16(), "index": index, "weights": weights}


def _run_moe(it: Inputs) -> Outputs:
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction

    return {"y": LigerFusedMoEFunction.apply(it["x"], it["gate_up"], it["down"], it["index"], it["weights"])}


def _want_moe(it: Inputs) -> Outputs:
    """Expert by expert, in float32."""
    import torch

    x, gate_up, down, weights = (it[name].float() for name in ("x", "gate_up", "down", "weights"))
    y = torch.zeros_like(x)
    for expert in range(gate_up.shape[0]):
        token, place = torch.where(it["index"] == expert)
        gate, up = (x[token] @ gate_up[expert].T).chunk(2, dim=-1)
        part = (torch.nn.functional.silu(gate) * up) @ down[expert].T
        y.index_add_(0, token, part * weights[token, place, None])
    return {"y": y}


def _mlp(T: int, H: int, I: int, device: str) -> Inputs:  # noqa: E741
    import torch

    x = torch.randn(1, T, H, device=device).bfloat16()
    gate, up, down = (torch.randn(*size, device=device) * 0.02 for size in ((I, H), (I, H), (H, I)))
    found = {"x": x, "gate": gate.bfloat16(), "up": up.bfloat16(), "down": down.bfloat16()}
    return {name: value.requires_grad_() for name, value in found.items()}


def _run_mlp(it: Inputs) -> Outputs:
    from liger_kernel.ops.mlp import LigerMLPFunction

    return {"y": LigerMLPFunction.apply(it["x"], it["gate"], it["up"], it["down"])}


def _want_mlp(it: Inputs) -> Outputs:
    import torch

    x, gate, up, down = (it[name].float() for name in ("x", "gate", "up", "down"))
    return {"y": (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T}


def _int8int2(M: int, N: int, K: int, device: str) -> Inputs:
    import torch

    a = torch.randint(-128, 127, (M, K), dtype=torch.int8, device=device)
    packed = torch.randint(0, 255, (K // 4, N), dtype=torch.uint8, device=device)  # four weights from -1 to 2 each
    return {"a": a, "packed": packed}


def _run_int8int2(it: Inputs) -> Outputs:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul

    return {"c": matmul(it["a"], it["packed"])}


def _want_int8int2(it: Inputs) -> Outputs:
    from liger_kernel.ops.experimental.mm_int8int2 import unpack_weights

    return {"c": it["a"].double() @ unpack_weights(it["packed"]).double()}


def _neighborhood(B: int, H: int, S: int, D: int, device: str) -> Inputs:
    import torch

    made = {name: torch.randn(B, H, S, D, device=device).bfloat16() for name in ("q", "k", "v")}
    return {name: value.requires_grad_() for name, value in made.items()}


def _run_neighborhood(it: Inputs) -> Outputs:
    from liger_kernel.ops.fused_neighborhood_attention import LigerFusedNeighborhoodAttentionFunction

    return {"o": LigerFusedNeighborhoodAttentionFunction.apply(it["q"], it["k"], it["v"], 7, 1)}


def _want_neighborhood(it: Inputs) -> Outputs:
    import torch

    q, k, v = (it[name].float() for name in ("q", "k", "v"))
    at = torch.arange(q.shape[2], device=q.device)
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    scores = scores.masked_fill((at[:, None] - at[None, :]).abs() > 3, float("-inf"))
    return {"o": torch.softmax(scores, dim=-1) @ v}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for T, E, H, I, K in ((512, 8, 256, 128, 2), (512, 8, 97, 47, 2), (4096, 8, 2048, 1024, 2)):  # noqa: E741
        make = partial(_moe, T, E, H, I, K)
        shape = {"T": T, "E": E, "H": H, "I": I, "K": K, "dtype": "bf16"}
        source = "test/transformers/test_fused_moe.py"
        found.append(Entry("fused_moe", shape, make, _run_moe, _want_moe, AllClose(1e-1, 1e-2), source,
                           shape_source=source if T == 512 else OURS, configs=6))  # fmt: skip
    for T, H, I in ((2048, 1024, 2816), (4096, 4096, 11008)):  # noqa: E741
        make = partial(_mlp, T, H, I)
        shape = {"T": T, "H": H, "I": I, "dtype": "bf16"}
        source, tolerance = "test/transformers/test_mlp.py", RmsRatio(2e-5**0.5)  # its measure: ratio² / 2 < 1e-5
        found.append(Entry("mlp", shape, make, _run_mlp, _want_mlp, tolerance, source, backward=True,
                           shape_source=_BENCHMARK_MLP if H == 4096 else OURS, configs=8))  # fmt: skip
    for M, N, K in ((2048, 2048, 2048), (1024, 4096, 4096)):
        make = partial(_int8int2, M, N, K)
        shape = {"M": M, "N": N, "K": K, "dtype": "int8", "weights": "int2"}
        source = "test/transformers/test_mm_int8int2.py"
        found.append(Entry("mm_int8int2", shape, make, _run_int8int2, _want_int8int2, AllClose(1e-6, 0.0), source,
                           shape_source=source if M == 2048 else OURS, configs=0))  # fmt: skip
    for B, H, S, D in ((2, 4, 32, 32), (1, 8, 1024, 64)):
        make = partial(_neighborhood, B, H, S, D)
        shape = {"B": B, "H": H, "S": S, "D": D, "dtype": "bf16"}
        source, tolerance = "test/transformers/test_fused_neighborhood_attention.py", AllClose(5e-2, 5e-2)
        run, want = _run_neighborhood, _want_neighborhood
        found.append(Entry("neighborhood_attention", shape, make, run, want, tolerance, source, backward=True,
                           shape_source=source if S == 32 else OURS, configs=1))  # fmt: skip
    return found


PACKAGE = Package(
    name="liger-kernel",
    home="https://github.com/linkedin/Liger-Kernel",
    licence="BSD-2-Clause",
    requires=("liger-kernel==0.8.5",),
    module="liger_kernel.ops",
    entries=tuple(_entries()),
)
