"""A decoder of Llama's shape: 16 heads of 128 (4 for keys and values), rotary positions; layers under torch.compile.

stock            FlexAttention and `torch.nn.functional.linear`, no Tawa
stock, SDPA      PyTorch's scaled dot product attention, which calls cuDNN or FlashAttention-2
Tawa, installed  the model of "stock" under ``tawa.install()``: launches learn before anything is timed
Tawa, operators  `tawa.ops.attention` and `tawa.ops.linear` in its place: the residual is added in the product, and
                 the gate applied in it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.decoder.family import INNER, WIDTH, WORDS, Family, Shape, Step, make_decoder

HEADS, KEY_HEADS, D = 16, 4, 128


def make(way: str, layers: int) -> Any:
    """The model of one way on the GPU."""
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

        def forward(self, x: Any, cache: Any, angles: Any, mask: Any, length: int) -> Any:
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
            if by_operators:
                return ops.linear(x, self.gate_up.weight, activation="silu", gated=True)
            gate, up = functional.linear(x, self.gate_up.weight).chunk(2, -1)
            return functional.silu(gate) * up

    masks: dict[int, Any] = {}

    def context(tokens: Any, cached: bool, length: int) -> tuple[Any, ...]:
        rows = tokens.shape[1]
        at = torch.arange(rows, device=tokens.device) + (length - rows if cached else 0)
        angles = at[:, None] * 10000.0 ** (-torch.arange(D // 2, device=tokens.device) / (D // 2))
        both = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
        mask = None
        if not cached and way in ("stock", "Tawa, installed"):
            if rows not in masks:
                masks[rows] = create_block_mask(lambda b, h, q, k: q >= k, None, None, rows, rows)
            mask = masks[rows]
        return both, mask, length

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = make_decoder([Layer() for _ in range(layers)], torch.nn.RMSNorm(WIDTH), context).to(torch.bfloat16)
    for layer in model.layers:
        layer.compile(dynamic=False)
    return model


def caches(model: Any, shape: Shape) -> list[Any]:
    """Keys and values of each layer; they hold the same random numbers in all ways."""
    import torch

    generator = torch.Generator("cuda").manual_seed(2)
    size = shape.sequences, KEY_HEADS, shape.tokens, D
    return [
        tuple(torch.randn(size, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(2))
        for _ in model.layers
    ]


def enter(way: str) -> None:
    """Nothing: what torch.compile has made for a way is used by it alone."""


def before(way: str, made: Callable[[], Step]) -> None:
    """Installs Tawa for the ways that use it, which come last; nothing is compiled yet."""
    import torch

    import tawa

    if way.startswith("Tawa"):
        tawa.install()
    torch.compiler.reset()


def flop(shape: Shape) -> float:
    """Of the dots of one step."""
    rows = shape.sequences * (1 if shape.kind == "decoding" else shape.tokens)
    weights = WIDTH * (2 * HEADS * D + 2 * KEY_HEADS * D + 3 * INNER)
    keys = shape.tokens if shape.kind == "decoding" else shape.tokens / 2
    forward = shape.layers * (2.0 * rows * weights + 4.0 * rows * keys * HEADS * D) + 2.0 * rows * WIDTH * WORDS
    # The backward pass repeats each product twice; attention has five for two.
    return forward * (3.0 if shape.kind == "training" else 1.0)


LLAMA = Family(
    "Llama",
    "PyTorch",
    ("stock", "stock, SDPA", "Tawa, installed", "Tawa, operators"),
    {"training": (4, 4096), "decoding": (16, 8192)},
    make,
    caches,
    enter,
    before,
    flop,
)
