"""What is launched: a workload makes a step, and a step launches what a program launches again and again.

Kernels of the tests' cases on problems of the size of models, kernels that are tuned, what torch.compile makes, and
operations of other packages (`bench.corpus`). A step allocates nothing that the program would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tests.cases.case import Case

Step = Callable[[], Any]
ENTRIES = ("parallel_attn B=4", "chunk_gla B=4", "fused_moe T=512 E=8 H=256", "mlp T=2048", "scaled_gemm M=1024")
"""Of the corpus."""
CONFIGS = 2
"""Most of each list that an autotuner of another package tries."""


@dataclass(frozen=True, slots=True)
class Workload:
    """make: the tensors, and the step. compiled: by torch.compile, which is warmed up as well."""

    name: str
    make: Callable[[], Step]
    compiled: bool = False


def workloads(corpus: bool = False) -> dict[str, Workload]:
    """All workloads by name. corpus: those of other packages too."""
    found = [*(Workload(name, _of_case(case)) for name, case in CASES.items()), *_OTHERS]
    if corpus:
        found += _of_corpus()
    return {it.name: it for it in found}


# --- kernels of the tests ---------------------------------------------------------------------------------------------


def _of_case(make_case: Callable[[], Case]) -> Callable[[], Step]:
    def make() -> Step:
        from bench.launch_time import device
        from tests.cases import launch

        launch.allow_device_descriptors()
        case = make_case()
        tensors = launch.make_tensors(case, 0, device())
        bound, grid, options = launch.bind(case, tensors), case.launch_grid(), case.options()
        return lambda: case.kernel[grid](**bound, **options)

    return make


def _sized(room: str, name: str, m: int, n: int, k: int) -> Callable[[], Case]:
    def make() -> Case:
        from bench.compile_ratio import find_case
        from bench.regret.problems import sized

        return sized(find_case(f"{room}: {name}"), (m, n, k))

    return make


def _split_k() -> Case:
    from bench.compile_ratio import find_case

    return find_case("gemm: split_k").with_sizes(M=2048, N=2048, K=8192)


def _batched() -> Case:
    from bench.compile_ratio import find_case

    return find_case("gemm: batched_desc_nt").with_sizes(Z=16, M=1024, N=1024, K=1024)


def _grouped(form: Any) -> Callable[[], Case]:
    def make() -> Case:
        from tests.cases.pointers.table_builders import grouped_case

        groups = ((2048, 2048, 1024), (1024, 2048, 1024), (4096, 2048, 1024), (512, 2048, 1024))
        return grouped_case(f"grouped_{form}", form, groups, 132, (128, 256, 64), 8)

    return make


def _experts() -> Case:
    from tests.cases.pointers.builders import experts_case

    return experts_case("experts", tokens=4096, experts=8, n=2048, k=2048)


def _attention(
    form: str, dtype: str, dim: int, causal: bool, tile: tuple[int, int, int] = (128, 128, 8)
) -> Callable[[], Case]:
    def make() -> Case:
        from tests.cases.attention.cases import bench_case

        return bench_case(form, dtype, dim, causal, 4096, tile=tile)

    return make


def _gradients(kind: str) -> Callable[[], Case]:
    def make() -> Case:
        from tests.cases.attention.builders import backward_case

        return backward_case(kind, kind, dim=128, B=4, H=16, HK=16, SQ=2048, SK=2048)

    return make


def _linear_attention() -> Case:
    from tests.cases.pointers.builders import linear_case

    return linear_case("linear", steps=4096, heads=132)


def _chunk_states() -> Case:
    from tests.cases.operations.state_builders import states_case

    return states_case("states", dtype="bf16", tile=(64, 128, 64), B=4, S=4096, H=32, STATE=128, CHUNK=256)


def _chunk_scan() -> Case:
    from tests.cases.operations.state_builders import scan_case

    return scan_case("scan", dtype="bf16", tile=(128, 64, 64), B=4, S=4096, H=32, STATE=128, CHUNK=256)


def _mlstm() -> Case:
    from tests.cases.operations.state_builders import mlstm_case

    return mlstm_case("mlstm", "mlstm_outputs", steps=4096, dk=256, dv=512, chunk=128, heads=8, warps=8)


CASES: dict[str, Callable[[], Case]] = {
    "descriptor GEMM": _sized("gemm", "tile_8warps_nn", 4096, 4096, 2048),
    "pointer GEMM": _sized("pointers", "tutorial_fp16_nn", 4096, 4096, 2048),
    "fp8 GEMM": _sized("gemm", "tile_fp8e4nv_nt", 4096, 4096, 4096),
    "persistent GEMM": _sized("gemm", "persistent_8warps", 4096, 4096, 2048),
    "split-K GEMM": _split_k,
    "batched GEMM": _batched,
    "gate and up": _sized("gemm", "gate_up_8warps", 4096, 4096, 2048),
    "GEMM with an epilogue": _sized("gemm", "epilogue_all_pointers", 4096, 4096, 2048),
    "8-bit weights": _sized("pointers", "weights_i8_8warps", 2048, 4096, 4096),
    "grouped GEMM": _grouped("pointers"),
    "grouped GEMM, TMA": _grouped("tma"),
    "experts": _experts,
    "attention": _attention("two_loops", "bf16", 128, True),
    "attention, d = 64": _attention("two_loops", "fp16", 64, False),
    "fp8 attention": _attention("two_loops", "fp8e4nv", 128, False),
    "persistent attention": _attention("persistent", "bf16", 128, True, (128, 64, 8)),
    "gradients of keys": _gradients("dkdv"),
    "gradients of queries": _gradients("dq"),
    "linear attention": _linear_attention,
    "chunk states": _chunk_states,
    "chunk scan": _chunk_scan,
    "mLSTM": _mlstm,
}


# --- other kernels ----------------------------------------------------------------------------------------------------


def _int8() -> Step:
    import torch

    from bench.first_launch.kernels import gemm_int8
    from bench.launch_time import device

    kernel, n = cast("Any", gemm_int8), 4096
    a, b = (torch.randint(-128, 128, (n, n), device=device(), dtype=torch.int8) for _ in "ab")
    c = torch.empty(n, n, device=device(), dtype=torch.int32)
    tile = {"BM": 128, "BN": 128, "BK": 128, "num_warps": 8, "num_stages": 3}
    return lambda: kernel[(n // 128, n // 128)](a, b, c, n, n, n, **tile)


def _softmax() -> Step:
    from bench.launch_time import tensor
    from tests.bridge.kernels import softmax_rows

    kernel, x, y = cast("Any", softmax_rows), tensor(4096, 4096), tensor(4096, 4096)
    return lambda: kernel[(4096,)](x, y, 4096, BLOCK=4096)


def _tuned() -> Step:
    """The GEMM of Triton's tutorial over its 16 configurations: the first launch tunes."""
    import torch
    import triton

    from bench.launch_time import device
    from tests.cases.pointers.gemm import CONFIGS, gemm_tutorial

    m, n, k = 4096, 4096, 2048
    configs = [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
        for bm, bn, bk, warps, stages in CONFIGS
    ]
    kernel = triton.autotune(configs, key=["M", "N", "K"])(gemm_tutorial)
    a, b, c = (torch.randn(shape, device=device()).half() for shape in ((m, k), (k, n), (m, n)))
    strides = [step for x in (a, b, c) for step in x.stride()]

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (-(-m // meta["BM"]) * -(-n // meta["BN"]),)

    return lambda: kernel[grid](a, b, c, m, n, k, *strides, ACT="")


# --- torch.compile ----------------------------------------------------------------------------------------------------


def _flex(variant: str) -> Callable[[], Step]:
    """FlexAttention, forward and backward."""

    def make() -> Step:
        import torch

        from bench.attention.flex import compile_one, variants
        from bench.launch_time import device

        shape = (4, 16, 2048, 128)
        inputs = [torch.randn(shape, device=device(), dtype=torch.bfloat16) for _ in range(4)]
        made = compile_one(f"step_{variant}", variants(shape[2], device())[variant], None, inputs, None)
        return lambda: [run() for run in made.values()]

    return make


def _mlp() -> Step:
    """Two layers, whose products Inductor tunes among its templates."""
    import torch

    from bench.launch_time import device

    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    layers = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 2048))
    compiled: Any = torch.compile(layers.to(device(), torch.bfloat16), options=options, dynamic=False)
    x = torch.randn(4096, 2048, device=device(), dtype=torch.bfloat16)

    def step() -> Any:
        with torch.no_grad():
            return compiled(x)

    return step


def _decoder() -> Step:
    """A training step of a decoder with two layers, under torch.compile: forward, backward, AdamW."""
    import torch
    from torch.nn import functional
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from bench.launch_time import device

    batch, length, width, heads, words = 4, 1024, 1024, 8, 8192
    block_mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device=device())

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.gate_up, self.down = torch.nn.Linear(width, 8 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                it.view(batch, length, heads, -1).transpose(1, 2) for it in self.qkv(self.norms[0](x)).chunk(3, -1)
            )
            y: Any = flex_attention(q, k, v, block_mask=block_mask)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.words = torch.nn.Embedding(words, width), torch.nn.Linear(width, words)
            self.layers = torch.nn.Sequential(Layer(), Layer())

        def forward(self, tokens: Any, next_tokens: Any) -> Any:
            logits = self.words(self.layers(self.tokens(tokens)))
            return functional.cross_entropy(logits.flatten(0, 1).float(), next_tokens.flatten())

    model = Decoder().to(device(), torch.bfloat16)
    compiled: Any = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, next_tokens = (torch.randint(0, words, (batch, length), device=device()) for _ in range(2))

    def step() -> None:
        loss = compiled(tokens, next_tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


_OTHERS = (
    Workload("int8 GEMM", _int8),
    Workload("softmax", _softmax),
    Workload("GEMM tuned over 16", _tuned),
    *(Workload(f"FlexAttention, {it}", _flex(it), compiled=True) for it in ("full", "causal", "window")),
    Workload("MLP, max-autotune", _mlp, compiled=True),
    Workload("decoder, training step", _decoder, compiled=True),
)


# --- other packages ---------------------------------------------------------------------------------------------------


def _of_corpus() -> Iterator[Workload]:
    from bench.corpus.__main__ import chosen

    for package, entry in chosen(list(ENTRIES)):

        def make(package: Any = package, entry: Any = entry) -> Step:
            from bench.corpus.modes import Tuning, begin_tuning, keep_tunings_apart
            from bench.corpus.running import evaluate, make_inputs
            from bench.launch_time import device

            keep_tunings_apart(bench=False)
            begin_tuning(Tuning(CONFIGS))
            package.load()
            inputs = make_inputs(entry, device(), 0)
            return lambda: evaluate(entry, inputs, entry.run)

        yield Workload(f"{package.name}: {entry.key}", make)
