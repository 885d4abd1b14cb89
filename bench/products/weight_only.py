"""Times products with weights in few bits: ``python -m bench.products.weight_only [--only TEXT] [--candidates]``.

Groups of 128 with zeros (fp8: without), from 1 to 4096 tokens. Candidates: `tawa.ops.weight_only_mm`; the same kernel
in stock Triton; cuBLAS with weights in 16 bits. For 4 bits also a kernel of the tests in stock Triton, which reads
weights as GPTQ packs them; the kernels of gemlite and vLLM if they are installed; PyTorch's `_weight_int4pack_mm`
(bf16); and our kernels on the packings of GPTQ and AWQ.

Results: ``bench/results/weight_only.json``, or ``weight_only_candidates.json`` with ``--candidates``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.products.measuring import Bench, Calls, in_stock, main, named, on_first_call, pinned, share_of
from tawa.ops.products.tile_choice import Tile

GROUP = 128
LEAST = {"fp16": 2e-3, "bf16": 1e-2}
"""Of the largest value: twice what rounding the weights costs is less."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Y (M, N) of M tokens."""

    format: str
    M: int
    N: int
    K: int
    dtype: str = "fp16"

    @property
    def flop(self) -> float:
        """Operations."""
        return 2.0 * self.M * self.N * self.K

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        return f"{self.format} {self.dtype} {self.M}x{self.N}x{self.K}"


PROBLEMS = (
    *(Problem("int4", M, 4096, 4096) for M in (1, 16, 32, 64, 128, 512, 4096)),
    *(Problem("int4", M, 2048, 4096) for M in (16, 64, 128)),
    *(Problem("int4", M, 14336, 4096, "bf16") for M in (16, 64, 128)),
    *(Problem("int8", M, 4096, 4096) for M in (16, 128, 4096)),
    *(Problem("fp8_e4m3", M, 4096, 4096) for M in (16, 128)),
)
SPLITS = (1, 2, 4, 8)
TILES_OF_TESTS = (
    (16, 64, 128, 4, 4), (16, 128, 128, 4, 3), (64, 64, 64, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3),
)  # fmt: skip
"""BM, BN, BK, warps and stages."""


def tiles_for(tokens: int) -> tuple[Tile, ...]:
    """The tiles that are tried for so many tokens."""
    most = max(16, min(128, 1 << (tokens - 1).bit_length())) if tokens > 1 else 16
    narrow = [Tile(most, 64, 0, 4, stages) for stages in (2, 3, 4)]
    wide = [Tile(most, 128, 0, 8, stages) for stages in (2, 3, 4)]
    many = [
        Tile(128, 128, 0, 8, 2, options=(("num_consumer_groups", 2),)),
        Tile(256, 128, 0, 8, 2, options=(("num_consumer_groups", 2),)),
        Tile(128, 64, 0, 4, 2),
    ]
    return pinned(*narrow, *wide) if tokens <= 128 else pinned(*many, *wide[:2])


def calls_of(problem: Problem, every: bool) -> tuple[Calls, Callable[[Any], float]]:
    """The candidates, and the check of a result."""
    import torch

    from tawa.ops import weight_only_mm
    from tawa.ops.products.weight_only_launch import WeightOnly
    from tests.ops.expected_quantised import random_weights

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    M, N, K, format = problem.M, problem.N, problem.K, problem.format
    weights = random_weights(format, N, K, GROUP, not format.startswith("fp8"), dtype, "cuda")
    x = torch.randn(M, K, generator=torch.Generator(device="cuda").manual_seed(0), device="cuda").to(dtype)
    exact, dense = x.double() @ weights.exact.t(), weights.exact.to(dtype)
    packed = weights.qweight, weights.scales, weights.zeros
    calls: Calls = {
        "Tawa": lambda: weight_only_mm(x, *packed, group_size=GROUP, format=format),
        "cuBLAS, 16 bits": lambda: x @ dense.t(),
    }

    def add(tile: Tile, splits: int, way: str) -> None:
        calls[f"{named(tile, way)}, {splits} splits"] = on_first_call(
            lambda: WeightOnly(x, *packed, None, GROUP, format, tile, splits), x, *packed, None
        )

    chosen = WeightOnly(x, *packed, None, GROUP, format)
    add(in_stock(chosen.tile), chosen.splits, "stock")
    add(in_stock(chosen.tile, stages=4), chosen.splits, "stock")
    if format == "int4":
        calls |= peers(problem, x, weights)
    if every:
        for tile in tiles_for(M):
            for splits in SPLITS if M <= 256 and "num_consumer_groups" not in dict(tile.options) else (1,):
                add(tile, splits, "Tawa")
    return calls, lambda y: share_of(y, exact, LEAST[problem.dtype])


def peers(problem: Problem, x: Any, weights: Any) -> Calls:
    """Other kernels for 4 bits, on the same weights."""
    import torch

    from tawa.ops import weight_only_mm
    from tawa.ops.products.weight_only_packing import AWQ_PLACES, unpack_weights

    M, K = problem.M, problem.K
    codes = unpack_weights(weights.qweight, K, "int4")  # (N, K)
    zeros = weights.zeros.to(torch.int32)

    def words_of(numbers: Any, axis: int, places: Any) -> Any:
        """Eight neighbours along an axis in a word."""
        parts = numbers.unflatten(axis, (-1, 8)).unbind(axis + 1)
        word = torch.zeros_like(parts[0])
        for part, place in zip(parts, places, strict=True):
            word |= part << (4 * place)
        return word.contiguous()

    of_gptq, of_awq = words_of(codes.t(), 0, range(8)), words_of(codes.t(), 1, AWQ_PLACES)
    gptq_zeros, awq_zeros = words_of(zeros, 1, range(8)), words_of(zeros, 1, AWQ_PLACES)
    found: Calls = {
        "Tawa, GPTQ": lambda: weight_only_mm(
            x, of_gptq, weights.scales, gptq_zeros, group_size=GROUP, format="gptq_v2"
        ),
        "Tawa, AWQ": lambda: weight_only_mm(x, of_awq, weights.scales, awq_zeros, group_size=GROUP, format="awq"),
    }
    for tile in TILES_OF_TESTS:
        if tile[0] <= max(16, M):
            found["stock GPTQ kernel of the tests " + "x".join(map(str, tile[:3]))] = tested(x, of_gptq, weights, tile)
    found["vLLM w4a16"] = lambda: _vllm()(x, of_columns, weights.scales, gptq_zeros, GROUP)
    of_columns = words_of(codes.t(), 1, range(8))
    if problem.dtype == "bf16":
        found["PyTorch int4"] = tinygemm(x, codes, weights)
    else:
        for way in ("GEMM_SPLITK", "GEMM"):
            found[f"gemlite {way}"] = gemlite(x, codes, weights, way)
    return found


def tested(x: Any, words: Any, weights: Any, tile: tuple[int, int, int, int, int]) -> Callable[[], Any]:
    """`tests.cases.pointers.weights.gemm_packed` in stock Triton."""
    import torch

    from tests.cases.pointers.weights import gemm_packed

    (M, K), N, (BM, BN, BK, warps, stages) = x.shape, weights.scales.shape[1], tile

    def call() -> Any:
        y = torch.empty(M, N, dtype=x.dtype, device=x.device)
        gemm_packed[(-(-M // BM) * -(-N // BN),)](
            x, words, weights.scales, weights.zeros, y, M, N, K, *x.stride(), *words.stride(), *y.stride(),
            *weights.scales.stride(), BM=BM, BN=BN, BK=BK, GROUP_M=8, GROUP=GROUP, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        return y

    return call


def _vllm() -> Any:
    from bench.corpus.packages.vllm.modules import op

    return op("model_executor.kernels.linear.mixed_precision.triton_w4a16", "_triton_w4a16_gemm_impl")


def tinygemm(x: Any, codes: Any, weights: Any) -> Callable[[], Any]:
    """PyTorch's own kernel for 4 bits: ``(code - 8) * scale + zero``."""
    import torch

    made: list[Any] = []

    def call() -> Any:
        if not made:
            halves = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8).contiguous()
            shifts = (8 - weights.zeros) * weights.scales
            pairs = torch.stack([weights.scales, shifts], dim=2).contiguous()
            made.append((torch._convert_weight_to_int4pack(halves, 8), pairs))
        return torch._weight_int4pack_mm(x, made[0][0], GROUP, made[0][1])

    return call


def gemlite(x: Any, codes: Any, weights: Any, way: str) -> Callable[[], Any]:
    """gemlite's layer, which tunes itself on its first call; an error if it is not installed."""
    made: list[Any] = []

    def call() -> Any:
        if not made:
            import torch
            from gemlite.core import DType, GemLiteLinearTriton

            N, K = codes.shape
            layer = GemLiteLinearTriton(4, GROUP, K, N, DType.FP16, DType.FP16)
            flat = (it.t().contiguous().reshape(-1, 1) for it in (weights.scales, weights.zeros))
            layer.pack(codes.to(torch.uint8), *flat, None)
            made.append(layer)
        return made[0].forward_manual(x, matmul_type=way)

    return call


if __name__ == "__main__":
    raise SystemExit(main(Bench("weight_only", PROBLEMS, calls_of), __doc__))
