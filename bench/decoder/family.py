"""What every model has: words, layers, a norm and logits; and the steps that are timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

WORDS, WIDTH, INNER = 32000, 2048, 5632
Step = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is run. kind: "training", "prompt" (a forward pass over it, without gradients) or "decoding".

    tokens: of each sequence; for decoding, those that are in the caches, 1 where a model has a state instead.
    """

    model: str
    kind: str
    sequences: int
    tokens: int
    layers: int


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of model.

    package: with its version, from which its layers are. ways: the first is stock Triton's, with which the others are
    compared; "Tawa" begins the names of this project's. shapes: sequences and tokens by kind. make: the model of a way
    on the GPU, of so many layers. caches: what decoding begins with, for each layer. enter: is called before each step
    of a way. before: is called once for each way, before its first step is timed. flop: of the products that are
    counted in one step.
    """

    name: str
    package: str
    ways: Sequence[str]
    shapes: dict[str, tuple[int, int]]
    make: Callable[[str, int], Any]
    caches: Callable[[Any, Shape], list[Any]]
    enter: Callable[[str], None]
    before: Callable[[str, Callable[[], Step]], None]
    flop: Callable[[Shape], float]

    def chosen(self, texts: Sequence[str]) -> list[str]:
        """Stock Triton's way, and those with one of these texts in their names."""
        return [it for it in self.ways if it == self.ways[0] or any(text in it for text in texts)]


def make_decoder(
    layers: Sequence[Any], norm: Any, context: Callable[[Any, bool, int], tuple[Any, ...]] = lambda *_: ()
) -> Any:
    """A model; its ``forward(tokens, caches, length, last)`` returns logits, with `last` of the last token alone.

    A layer is called with the hidden states, its cache and what `context` makes of the tokens, whether there are
    caches, and the length.
    """
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.norm = torch.nn.Embedding(WORDS, WIDTH), norm
            self.words = torch.nn.Linear(WIDTH, WORDS, bias=False)
            self.layers = torch.nn.ModuleList(layers)

        def forward(self, tokens: Any, caches: Any = None, length: int = 0, last: bool = False) -> Any:
            more = context(tokens, caches is not None, length)
            x = self.tokens(tokens)
            for number, layer in enumerate(self.layers):
                x = layer(x, caches[number] if caches else None, *more)
            return self.words(self.norm(x[:, -1:] if last else x))

    return Decoder()


def make_step(family: Family, way: str, shape: Shape) -> Step:
    """A step of a way. It returns the loss, taken before the weights change, or the logits of the last tokens."""
    import torch

    model = family.make(way, shape.layers)
    generator = torch.Generator("cuda").manual_seed(1)
    rows = 1 if shape.kind == "decoding" else shape.tokens
    words = torch.randint(0, WORDS, (shape.sequences, rows + 1), device="cuda", generator=generator)
    if shape.kind == "training":
        return _training(model, words)
    model.requires_grad_(False).eval()
    decodes = shape.kind == "decoding"
    caches = family.caches(model, shape) if decodes else None

    def step() -> Any:
        with torch.no_grad():
            return model(words[:, :-1], caches, shape.tokens if decodes else 0, last=True)

    return step


def _training(model: Any, words: Any) -> Step:
    import torch
    from torch.nn import functional

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    @torch.compile(dynamic=False)
    def loss_of(logits: Any, wanted: Any) -> Any:
        return functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    def step() -> Any:
        loss = loss_of(model(words[:, :-1]), words[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
