"""Recurrent layers of vLLM: lightning attention, and the chunked scan of Mamba-2 over packed sequences.

The references are the quadratic forms in float32: scores that decay with the distance.
"""

from __future__ import annotations

from functools import partial

from bench.corpus.entry import Entry, Inputs, Outputs, RmsRatio
from bench.corpus.packages.vllm.modules import op


def _lightning(B: int, H: int, S: int, D: int, device: str) -> Inputs:
    import torch

    made: Inputs = {name: 0.1 * torch.randn(B, H, S, D, device=device) for name in ("q", "k", "v")}
    return {**made, "slopes": 2.0 ** (-8.0 * torch.arange(1, H + 1, device=device) / H)}


def _run_lightning(it: Inputs) -> Outputs:
    run = op("model_executor.layers.lightning_attn", "lightning_attention")
    return {"o": run(it["q"], it["k"], it["v"], it["slopes"])[0]}


def _want_lightning(it: Inputs) -> Outputs:
    import torch

    q, k, v = (it[name].float() for name in ("q", "k", "v"))
    at = torch.arange(q.shape[2], device=q.device)
    distance = (at[:, None] - at[None, :]).float()
    decay = torch.exp(-it["slopes"][:, None, None] * distance.clamp(min=0)) * (distance >= 0)
    return {"o": ((q @ k.transpose(-1, -2)) * decay) @ v}


def _scan(sizes: tuple[int, ...], H: int, D: int, G: int, N: int, chunk: int, device: str) -> Inputs:
    """Packed sequences; a chunk belongs to one of them."""
    import torch

    total = sum(sizes)
    ends: list[int] = [0]
    of_chunk: list[int] = []
    last: list[int] = []
    for at, size in enumerate(sizes):
        first = ends[-1]
        steps = [first + done for done in range(chunk, size, chunk)] + [first + size]
        ends += steps
        of_chunk += [at] * len(steps)
        last.append(len(of_chunk) - 1)

    def numbers(values: list[int]) -> object:
        return torch.tensor(values, dtype=torch.int32, device=device)

    return {
        "x": torch.randn(total, H, D, device=device).bfloat16(),
        "dt": torch.nn.functional.softplus(torch.randn(total, H, device=device) - 4),
        "A": -torch.exp(torch.rand(H, device=device)),
        "B": torch.randn(total, G, N, device=device).bfloat16(),
        "C": torch.randn(total, G, N, device=device).bfloat16(),
        "chunk": chunk,
        "sizes": sizes,
        "starts": torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32),
        "ends": numbers(ends),
        "of_chunk": numbers(of_chunk),
        "last": numbers(last),
    }


def _run_scan(it: Inputs) -> Outputs:
    import torch

    run = op("model_executor.layers.mamba.ops.ssd_combined", "mamba_chunk_scan_combined_varlen")
    y = torch.empty_like(it["x"])
    state = run(it["x"], it["dt"], it["A"], it["B"], it["C"], it["chunk"], it["starts"], it["ends"], it["last"],
                it["of_chunk"], y)  # fmt: skip
    return {"y": y, "state": state}


def _want_scan(it: Inputs) -> Outputs:
    import torch

    parts: list[torch.Tensor] = []
    states: list[torch.Tensor] = []
    lots = [it[name].float().split(list(it["sizes"])) for name in ("x", "dt", "B", "C")]
    for x, dt, b, c in zip(*lots, strict=True):
        heads = x.shape[1] // b.shape[1]
        b, c = (value.repeat_interleave(heads, 1).transpose(0, 1) for value in (b, c))
        logs = (dt * it["A"]).T.cumsum(-1)
        decay = (logs[:, :, None] - logs[:, None, :]).tril().exp().tril()
        fed = (x * dt[..., None]).transpose(0, 1)
        parts.append((((c @ b.transpose(1, 2)) * decay) @ fed).transpose(0, 1))
        states.append((fed * (logs[:, -1:] - logs).exp()[..., None]).transpose(1, 2) @ b)
    return {"y": torch.cat(parts), "state": torch.stack(states)}


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for B, H, S, D in ((2, 16, 4096, 128), (1, 4, 300, 64)):
        shape = {"B": B, "H": H, "S": S, "D": D, "dtype": "fp32"}  # 16 bits do not compile
        source = "tests/kernels/attention/test_lightning_attn.py"
        make = partial(_lightning, B, H, S, D)
        found.append(Entry("lightning_attention", shape, make, _run_lightning, _want_lightning, RmsRatio(1e-2), source,
                           configs=1))  # fmt: skip
    for sizes, H, D, G, N, chunk in (((2048, 1000, 512), 32, 64, 1, 128, 256), ((70, 129), 4, 64, 1, 64, 64)):
        shape = {"sizes": "+".join(map(str, sizes)), "H": H, "D": D, "G": G, "N": N, "dtype": "bf16"}
        source = "tests/kernels/mamba/test_mamba_ssm_ssd.py"
        make = partial(_scan, sizes, H, D, G, N, chunk)
        found.append(
            Entry("mamba_chunk_scan_combined_varlen", shape, make, _run_scan, _want_scan, RmsRatio(1e-2), source)
        )
    return found


ENTRIES = tuple(_entries())
