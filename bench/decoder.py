"""Times a decoder as a whole, training and decoding: ``python -m bench.decoder [--only TEXT] [--layers N]``.

The model has the shape of Llama: 8 layers, 2048 wide, 16 heads of 128 (4 for keys and values), a gated MLP of 5632,
rotary positions, 32000 words, bf16, random weights. Each layer is compiled by torch.compile. A training step (4 x 4096
tokens) is forward, backward and AdamW; a decoding step is one token for each of 16 sequences with 8192 tokens in the
cache, in a CUDA graph. Ways:

    stock            FlexAttention and `torch.nn.functional.linear`, no Tawa
    stock, SDPA      PyTorch's scaled dot product attention, which calls cuDNN or FlashAttention-2
    Tawa, installed  the model of "stock" under ``tawa.install()``: launches learn before anything is timed
    Tawa, operators  `tawa.ops.attention` and `tawa.ops.linear` in its place: the residual is added in the product, and
                     the gate applied in it where no gradient is asked for (the derivative would compute it again)

All ways have the same weights. The loss of the first step may differ from that of "stock" by rounding only; the largest
relative difference is the `error` of a row. tflops: of dots, with three passes in training and causal attention counted
half. Results: ``bench/results/decoder.json``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.compiled import learned, use_caches
from bench.harness import Report, Row, describe, time_round_robin, watchdog

WORDS, WIDTH, HEADS, KEY_HEADS, D, INNER = 32000, 2048, 16, 4, 128, 5632
TRAINED = (4, 4096)
"""Sequences and their tokens in a training step."""
DECODED = (16, 8192)
"""Sequences and tokens in their caches."""
ALLOWED = 0.01
"""Relative difference of the loss, and of the logits to their largest: bf16 has 0.4 % a rounding."""
STALL_S = 400.0
WAYS = ("stock", "stock, SDPA", "Tawa, installed", "Tawa, operators")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is run: `kind` is "training" or "decoding"."""

    kind: str
    sequences: int
    tokens: int
    layers: int

    @property
    def flop(self) -> float:
        """Of the dots of one step."""
        rows = self.sequences * (self.tokens if self.kind == "training" else 1)
        weights = WIDTH * (2 * HEADS * D + 2 * KEY_HEADS * D + 3 * INNER)
        keys = self.tokens / 2 if self.kind == "training" else self.tokens
        forward = self.layers * (2.0 * rows * weights + 4.0 * rows * keys * HEADS * D) + 2.0 * rows * WIDTH * WORDS
        # The backward pass repeats each product twice; attention has five for two.
        return forward * (3.0 if self.kind == "training" else 1.0)


def make_model(way: str, layers: int) -> Any:
    """The model of one way on the GPU; its `forward(tokens, caches, length)` returns logits."""
    import torch
    from torch.nn import functional
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from tawa import ops

    by_operators = way == "Tawa, operators"

    def turned(x: Any, angles: Any) -> Any:
        first, second = x.chunk(2, -1)
        cos, sin = angles
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(WIDTH) for _ in range(2))
            self.qkv = torch.nn.Linear(WIDTH, (HEADS + 2 * KEY_HEADS) * D, bias=False)
            self.out = torch.nn.Linear(HEADS * D, WIDTH, bias=False)
            self.gate_up = torch.nn.Linear(WIDTH, 2 * INNER, bias=False)
            self.down = torch.nn.Linear(INNER, WIDTH, bias=False)

        def attend(self, q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
            if by_operators:
                return ops.attention(q, k, v, causal=True) if causal else ops.attention_decode(q, k, v)
            if way == "stock, SDPA" or not causal:
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)

        def forward(self, x: Any, angles: Any, mask: Any, cache: Any, length: int) -> Any:
            batch, rows, _ = x.shape
            qkv = functional.linear(self.norms[0](x), self.qkv.weight)
            q, k, v = qkv.view(batch, rows, -1, D).transpose(1, 2).split((HEADS, KEY_HEADS, KEY_HEADS), 1)
            q, k = turned(q, angles), turned(k, angles)
            if cache is not None:
                keys, values = cache
                keys[:, :, length - 1 : length].copy_(k)
                values[:, :, length - 1 : length].copy_(v)
                k, v = keys[:, :, :length], values[:, :, :length]
            y = self.attend(q, k, v, mask, cache is None).transpose(1, 2).reshape(batch, rows, HEADS * D)
            if by_operators:
                x = ops.linear(y, self.out.weight, residual=x)
                return ops.linear(self.inner(x), self.down.weight, residual=x)
            x = x + self.out(y)
            return x + self.down(self.inner(x))

        def inner(self, x: Any) -> Any:
            x = self.norms[1](x)
            if by_operators and not torch.is_grad_enabled():
                return ops.linear(x, self.gate_up.weight, activation="silu", gated=True)
            product = ops.linear if by_operators else functional.linear
            gate, up = product(x, self.gate_up.weight).chunk(2, -1)
            return functional.silu(gate) * up

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.norm = torch.nn.Embedding(WORDS, WIDTH), torch.nn.RMSNorm(WIDTH)
            self.words = torch.nn.Linear(WIDTH, WORDS, bias=False)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))
            self.masks: dict[int, Any] = {}

        def forward(self, tokens: Any, caches: Any = None, length: int = 0) -> Any:
            rows = tokens.shape[1]
            at = torch.arange(rows, device=tokens.device) + (length - rows if caches else 0)
            angles = at[:, None] * 10000.0 ** (-torch.arange(D // 2, device=tokens.device) / (D // 2))
            both = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
            mask = None
            if caches is None and way in ("stock", "Tawa, installed"):
                if rows not in self.masks:
                    self.masks[rows] = create_block_mask(lambda b, h, q, k: q >= k, None, None, rows, rows)
                mask = self.masks[rows]
            x = self.tokens(tokens)
            for number, layer in enumerate(self.layers):
                x = layer(x, both, mask, caches[number] if caches else None, length)
            return self.words(self.norm(x))

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder().to(torch.bfloat16)
    for layer in model.layers:
        layer.compile(dynamic=False)
    return model


def trained(way: str, shape: Shape) -> tuple[Callable[[], Any], Any]:
    """A training step, and the loss of the first one, taken before the weights change."""
    import torch
    from torch.nn import functional

    model = make_model(way, shape.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    generator = torch.Generator("cuda").manual_seed(1)
    size = shape.sequences, shape.tokens + 1
    words = torch.randint(0, WORDS, size, device="cuda", generator=generator)

    @torch.compile(dynamic=False)
    def loss_of(logits: Any, wanted: Any) -> Any:
        return functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    def step() -> Any:
        loss = loss_of(model(words[:, :-1]), words[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, step()


def decoded(way: str, shape: Shape) -> tuple[Callable[[], Any], Any]:
    """A decoding step, and the logits of the first one. The cache holds the same random numbers in all ways."""
    import torch

    model = make_model(way, shape.layers).requires_grad_(False)
    generator = torch.Generator("cuda").manual_seed(1)
    size = shape.sequences, KEY_HEADS, shape.tokens, D
    caches = [
        tuple(torch.randn(size, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(2))
        for _ in range(shape.layers)
    ]
    words = torch.randint(0, WORDS, (shape.sequences, 1), device="cuda", generator=generator)

    def step() -> Any:
        with torch.no_grad():
            return model(words, caches, shape.tokens)

    return step, step()


def bench_shape(shape: Shape) -> list[Row]:
    """The rows of one shape, a way each."""
    import torch

    import tawa

    steps, errors, rows = dict[str, Callable[[], Any]](), dict[str, float](), list[Row]()
    about, first_s, exact = asdict(shape), dict[str, float](), None
    for way in WAYS:
        if way.startswith("Tawa"):
            tawa.install()
        torch.compiler.reset()
        began = time.perf_counter()
        try:
            step, found = (trained if shape.kind == "training" else decoded)(way, shape)
            torch.cuda.synchronize()
            first_s[way] = round(time.perf_counter() - began, 2)
            exact = found.double() if exact is None else exact
            errors[way] = ((found.double() - exact).abs().max() / exact.abs().max()).item()
            if not errors[way] <= ALLOWED:
                raise ArithmeticError(f"the result differs by {errors[way]:.2e} from stock's")
            if way.startswith("Tawa"):
                tawa.warmup(step)
                print(learned()["reason"], flush=True)
            steps[way] = step
        except Exception as error:
            rows.append(Row(about, way, error=describe(error)))
    timings, failed = time_round_robin(steps, rounds=15, graphs=shape.kind == "decoding")
    rows += [Row(about, way, error=text) for way, text in failed.items()]
    rows += [
        Row.timed({**about, "first_s": first_s[way]}, way, it, shape.flop, errors[way]) for way, it in timings.items()
    ]
    return rows


def main() -> int:
    """Times the kinds asked for; returns 1 if a way of this project failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="training or decoding")
    parser.add_argument("--layers", type=int, default=8)
    arguments = parser.parse_args()
    report, sound = Report("decoder"), True
    shapes = (Shape("training", *TRAINED, arguments.layers), Shape("decoding", *DECODED, arguments.layers))
    with tempfile.TemporaryDirectory(prefix="tawa-decoder-") as folder:
        use_caches(folder)
        for shape in shapes:
            if arguments.only not in shape.kind:
                continue
            with watchdog(STALL_S, shape.kind):
                rows = bench_shape(shape)
            report.add(*rows)
            for row in rows:
                sound &= row.median_ms is not None or not row.candidate.startswith("Tawa")
                time_of = f"{row.median_ms:9.3f} ms" if row.median_ms else "        -   "
                print(
                    f"{shape.kind:9} {row.candidate:16} {time_of}  {row.error}  {row.case.get('first_s', '')}",
                    flush=True,
                )
    report.note_clocks()
    report.save()
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
