"""Models with linear attention or a state space, from the layers of their packages, in the sizes that those have.

GLA, KDA, gated delta net: flash-linear-attention's layer, norms and MLP, put together as in its models. Mamba-2: the
layer of mamba-ssm, without an MLP; its convolution is PyTorch's, as where causal-conv1d is not installed.

stock            stock Triton
Tawa, installed  the same under ``tawa.install()``, in the configurations that stock Triton's autotuners chose

An autotuner tries `CONFIGS` configurations of its list at most. Before the first step of a way is timed, another one
has run: kernels are on disk then, and configurations chosen, as in a second process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bench.corpus.modes import switch_to
from bench.corpus.packages import flash_linear_attention, mamba_ssm
from bench.corpus.running import forget_compiled
from bench.decoder.family import WIDTH, WORDS, Family, Shape, Step, make_decoder, make_step

CONFIGS, PARTS = 4, 2
"""How many configurations of its list an autotuner tries, and how many jobs compile them.

Some need more shared memory than there is, so that a job has to have another one.
"""
WAYS = {"stock": "stock", "Tawa, installed": "learned"}
"""The ways, and the mode of each (`bench.corpus.modes`)."""
_FLA, _MAMBA = flash_linear_attention.PACKAGE.partial, mamba_ssm.PACKAGE.partial
_LAYERS = {
    "GLA": ("fla.layers.gla", "GatedLinearAttention"),
    "KDA": ("fla.layers.kda", "KimiDeltaAttention"),
    "gated delta net": ("fla.layers.gated_deltanet", "GatedDeltaNet"),
}


class State:
    """What a layer of flash-linear-attention remembers; it has the methods of that package's cache."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.kept[number]

    def update(self, recurrent_state: Any, conv_state: Any, layer_idx: int, offset: int) -> None:
        """Writes into the tensors that are there, so that a CUDA graph finds them again."""
        new = {"recurrent_state": recurrent_state, "conv_state": conv_state}
        if not self.kept:
            self.kept.append(new)
            return
        for old, now in zip(tensors_of(self.kept[0]), tensors_of(new), strict=True):
            if old is not now:
                old.copy_(now)


def tensors_of(state: dict[str, Any]) -> list[Any]:
    """The tensors of what a layer remembers."""
    return [state["recurrent_state"], *(state["conv_state"] or ())]


def make_block(name: str) -> Any:
    """A layer with its norms."""
    import torch

    if name == "Mamba-2":
        assert _MAMBA is not None
        mamba = _MAMBA.load("mamba_ssm.modules.mamba2").Mamba2

        class MambaBlock(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm, self.mixer = torch.nn.RMSNorm(WIDTH), mamba(WIDTH, use_mem_eff_path=False)

            def forward(self, x: Any, cache: Any) -> Any:
                y = self.norm(x)
                return x + (self.mixer(y) if cache is None else self.mixer.step(y, *cache)[0])

        return MambaBlock()
    assert _FLA is not None
    module, layer = _LAYERS[name]
    modules, mixer = _FLA.load("fla.modules"), getattr(_FLA.load(module), layer)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(modules.RMSNorm(WIDTH) for _ in range(2))
            self.mixer, self.mlp = mixer(hidden_size=WIDTH, layer_idx=0), modules.GatedMLP(WIDTH)

        def forward(self, x: Any, cache: Any) -> Any:
            y = self.mixer(self.norms[0](x), past_key_values=cache, use_cache=cache is not None)[0]
            y, x = self.norms[1](y, x, True)
            return x + self.mlp(y)

    return Block()


def make(name: str, way: str, layers: int) -> Any:
    """The model on the GPU. What the packages keep in float32, because it is in an exponent, stays so."""
    import torch

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = make_decoder([make_block(name) for _ in range(layers)], torch.nn.RMSNorm(WIDTH))
    kept = {name: it.data for name, it in model.named_parameters() if getattr(it, "_no_weight_decay", False)}
    model = model.to(torch.bfloat16)
    for name, it in model.named_parameters():
        if name in kept:
            it.data = kept[name].float()
    return model


def caches(name: str, model: Any, shape: Shape) -> list[Any]:
    """The states of each layer, with the same random numbers in all ways."""
    import torch

    generator = torch.Generator("cuda").manual_seed(2)
    if name == "Mamba-2":
        found = [layer.mixer.allocate_inference_cache(shape.sequences, shape.tokens) for layer in model.layers]
        states = [it for cache in found for it in cache]
    else:
        found = [State() for _ in model.layers]
        with torch.no_grad():  # a first token makes the states
            model(torch.zeros(shape.sequences, 1, device="cuda", dtype=torch.long), found)
        states = [it for cache in found for it in tensors_of(cache[0])]
    for it in states:
        it.normal_(generator=generator)
    return found


def enter(way: str) -> None:
    """Kernels are launched one by one, so the mode is that of the way whose step runs."""
    switch_to(WAYS[way])


def before(way: str, made: Callable[[], Step]) -> None:
    """Tunes and compiles, then forgets all that is not on disk."""
    enter(way)
    made()()
    forget_compiled()


def compile_configurations(shape: Shape) -> None:
    """Runs one layer on the shape, under stock Triton: what its autotuners try is on disk afterwards."""
    import torch

    enter("stock")
    model = make(shape.model, "stock", 1)
    rows = 1 if shape.kind == "decoding" else shape.tokens
    with torch.set_grad_enabled(shape.kind == "training"):
        model.train(shape.kind == "training")
        cache = caches(shape.model, model, shape)[0] if shape.kind == "decoding" else None
        x = torch.randn(shape.sequences, rows, WIDTH, device="cuda", dtype=torch.bfloat16)
        y = model.layers[0](x, cache)
    if shape.kind == "training":
        y.sum().backward()


def compile_forms(family: Family, shape: Shape) -> None:
    """Runs a step of one layer in each way: what the first launches compile is on disk afterwards."""
    import tawa

    for way in family.ways:
        before(way, lambda way=way: make_step(family, way, replace(shape, layers=1)))
    tawa.wait()


def flop(shape: Shape) -> float:
    """Of the products of linear layers in one step, which the package leaves to cuBLAS."""
    import torch

    with torch.device("meta"):
        block = make_block(shape.model)
    weights = sum(it.weight.numel() for it in block.modules() if isinstance(it, torch.nn.Linear))
    rows = shape.sequences * shape.tokens
    last = shape.sequences if shape.kind == "prompt" else rows
    return 2.0 * (shape.layers * weights * rows + WIDTH * WORDS * last) * (3 if shape.kind == "training" else 1)


def _family(name: str, *kinds: str) -> Family:
    shapes = {"training": (4, 4096), "prompt": (4, 4096), "decoding": (64, 1)}
    package = mamba_ssm.PACKAGE if name == "Mamba-2" else flash_linear_attention.PACKAGE
    return Family(
        name, f"{package.name} {package.version}", tuple(WAYS), {kind: shapes[kind] for kind in kinds},
        partial(make, name), partial(caches, name), enter, before, flop,
    )  # fmt: skip


LINEAR = (
    _family("GLA", "training", "decoding"),
    _family("KDA", "training", "decoding"),
    _family("gated delta net", "prompt", "decoding"),  # its backward pass refuses Hopper under Triton 3.6
    _family("Mamba-2", "training", "decoding"),
)
