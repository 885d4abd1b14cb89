"""What `bench.pointers.timing` times: families of unmodified kernels with pointer loads, their shapes and problems.

A `Configuration` is plain data, so that other processes can compile and check it before anything is timed. Stock Triton
and Tawa run the same kernels (`tests.cases.pointers`) over the same list of tiles, warps and stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tests.cases.attention.builders import lengths
from tests.cases.case import Specimen
from tests.cases.operations.attention_builders import pages_case, prefill_case
from tests.cases.pointers import gemm, persistent
from tests.cases.pointers.builders import attention_case, gemm_case, weights_case
from tests.cases.pointers.table_builders import grouped_case

Kind = Literal["stock", "auto", "legal", "single", "pinned"]
Sizes = Mapping[str, int]
NAMES: dict[str, str] = {
    "stock": "stock Triton", "auto": "Tawa", "legal": "Tawa, wherever legal",
    "single": "Tawa, one tile a program", "pinned": "Tawa, as announced",
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "legal": {"only_if_faster": False},
    "single": {"persistent": False},
    "pinned": {
        "enable_warp_specialization": True,
        **{name: it for name, it in persistent.ANNOUNCED.items() if name not in ("num_warps", "num_stages")},
    },
}
SMS = 132
WIDE = 8192
LIST = tuple(it for it in gemm.CONFIGS if it[0] >= 64 and it[1] >= 64)
"""The tutorial's list without its smallest tiles, which are far from the best for all sizes here."""
FEW = (
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (256, 128, 64, 8, 3),
    (64, 256, 64, 4, 4), (128, 64, 64, 4, 4),
)  # fmt: skip
PREFILL = ((128, 64, 0, 8, 1), (128, 64, 0, 4, 1), (64, 64, 0, 4, 1))
ATTENTION = ((128, 128, 0, 8, 2), (128, 64, 0, 4, 3), (128, 64, 0, 8, 3), (64, 64, 0, 4, 3), (128, 128, 0, 8, 3))


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run a kernel: what compiles it, its tile, its warps and stages."""

    kind: Kind
    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int

    @property
    def label(self) -> str:
        """A short name, unique in its list."""
        return f"{self.kind} {self.BM}x{self.BN}x{self.BK} w{self.num_warps} s{self.num_stages}"

    @property
    def tile(self) -> tuple[int, int, int]:
        """BM, BN, BK."""
        return self.BM, self.BN, self.BK

    def to_json(self) -> dict[str, Any]:
        """As plain data; ``Configuration(**data)`` is the way back."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Family:
    """One line of comparison.

    build: makes the case from a configuration and the sizes of a problem. problems: those that are timed. checked: the
    small problem that each configuration must compute correctly first. flop: of one launch. wanted: the smallest ratio
    of the rate of the `judged` kind to stock Triton's. library: the library call that computes the same, with B
    transposed or not.
    """

    name: str
    title: str
    build: Callable[[Configuration, Sizes], Specimen]
    problems: tuple[Sizes, ...]
    checked: Sizes
    flop: Callable[[Sizes], float]
    tiles: tuple[tuple[int, int, int, int, int], ...] = LIST
    kinds: tuple[Kind, ...] = ("stock", "auto", "legal")
    wanted: float = 0.0
    judged: Kind = "auto"
    extra: tuple[Configuration, ...] = ()
    library: Literal["product", "attention", "grouped", ""] = ""
    b_t: bool = False

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Every tile by every kind."""
        return (*(Configuration(kind, *tile) for kind in self.kinds for tile in self.tiles), *self.extra)


def _square(*ks: int) -> tuple[Sizes, ...]:
    return tuple({"M": WIDE, "N": WIDE, "K": k} for k in ks)


def _product(sizes: Sizes) -> float:
    return 2.0 * sizes["M"] * sizes["N"] * sizes["K"]


SMALL = {"M": 2032, "N": 2320, "K": 464}
"""No size divides the tiles, but all are multiples of 16, so that the compiled kernels serve the large problems too."""
SINGLE: tuple[Kind, ...] = ("stock", "auto", "legal", "single")


def _gemm(name: str, title: str, ks: tuple[int, ...], dtype: str, b_t: bool, wanted: float) -> Family:
    def build(it: Configuration, sizes: Sizes) -> Specimen:
        return gemm_case(f"{name} {it.label}", dtype=dtype, b_t=b_t, tile=it.tile, warps=it.num_warps,
                         stages=it.num_stages, sizes=sizes, GROUP_M=8)  # fmt: skip

    return Family(name, title, build, _square(*ks), SMALL, _product, kinds=SINGLE, wanted=wanted, library="product",
                  b_t=b_t)  # fmt: skip


def _persistent() -> Family:
    def build(it: Configuration, sizes: Sizes) -> Specimen:
        tiles = -(-sizes["M"] // it.BM) * -(-sizes["N"] // it.BN)
        return gemm_case(f"announced {it.label}", persistent.gemm_persistent, tile=it.tile, warps=it.num_warps,
                         stages=it.num_stages, sizes={**sizes, "PROGRAMS": min(SMS, tiles)}, GROUP_M=8)  # fmt: skip

    stages = persistent.ANNOUNCED["num_stages"]
    pinned = tuple(Configuration("pinned", 128, 256, 64, warps, stages) for warps in (4, 8))
    return Family("announced", "fp16, persistent, as in the announcement of warp specialisation", build,
                  _square(1024, 4096, 16384), {"M": 2512, "N": 2560, "K": 464}, _product, FEW, wanted=1.0,
                  judged="pinned", extra=pinned, library="product")  # fmt: skip


def _weights(weight: str, title: str) -> Family:
    def build(it: Configuration, sizes: Sizes) -> Specimen:
        case = weights_case(f"weights {it.label}", "fp16", weight, tile=it.tile, warps=it.num_warps, sizes=sizes,
                            span=(-16, 17))  # fmt: skip  # sums of long rows stay in the range of fp16
        return replace(case, num_stages=it.num_stages)

    problems = ({"M": 4096, "N": WIDE, "K": WIDE}, {"M": 512, "N": WIDE, "K": WIDE})
    return Family(f"weights_{weight}", title, build, problems, SMALL, _product, FEW, SINGLE, wanted=1.1)


def groups_of(sizes: Sizes) -> tuple[tuple[int, int, int], ...]:
    """M, N and K of each group: `GROUPS` of them, M from half of S to twice S."""
    size = sizes["S"]
    return tuple((max(256, size * (1 + g % 4) // 2 // 256 * 256), size, size) for g in range(sizes["GROUPS"]))


def _grouped(tma: bool) -> Family:
    def build(it: Configuration, sizes: Sizes) -> Specimen:
        case = grouped_case(
            f"grouped {it.label}", "tma" if tma else "pointers", groups_of(sizes), SMS, it.tile, it.num_warps
        )
        return replace(case, num_stages=it.num_stages)

    def flop(sizes: Sizes) -> float:
        return sum(2.0 * m * n * k for m, n, k in groups_of(sizes))

    name, title = ("grouped_tma", "descriptors in the kernel") if tma else ("grouped", "pointers")
    problems = ({"S": 2048, "GROUPS": 4}, {"S": 4096, "GROUPS": 8})
    return Family(name, f"fp16, grouped as in the tutorial, {title}", build, problems, {"S": 512, "GROUPS": 4}, flop,
                  FEW, wanted=1.1, library="grouped", b_t=tma)  # fmt: skip


def _attention(causal: bool) -> Family:
    def build(it: Configuration, sizes: Sizes) -> Specimen:
        case = attention_case(f"attention {it.label}", dim=128, causal=causal, tile=(it.BM, it.BN, it.num_warps))
        return replace(case, num_stages=it.num_stages, sizes=lengths({**case.sizes, **sizes}))

    def flop(sizes: Sizes) -> float:
        return 4.0 * sizes["B"] * sizes["H"] * 128 * sizes["SQ"] * sizes["SK"] / (2 if causal else 1)

    mask = "causal" if causal else "full"
    problem: dict[str, int] = {"B": 4, "H": 16, "HK": 16, "SQ": 4096, "SK": 4096}
    return Family(f"attention_{mask}", f"fp16, pointers, head dimension 128, {mask}", build, (problem,),
                  {"B": 3, "H": 16, "HK": 16, "SQ": 496, "SK": 496}, flop, ATTENTION, SINGLE,
                  library="attention")  # fmt: skip


def _prefill(one_cache: bool) -> Family:
    """one_cache: all keys are in pages; else the new ones are beside them, as in vLLM and LightLLM."""
    heads, key_heads, dim, page = 32, 8, 128, 16

    def lengths_of(sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """New and cached keys of each sequence; every second one has half of both."""
        parts = [1 + b % 2 for b in range(sizes["B"])]
        return tuple(sizes["NEW"] // part for part in parts), tuple(sizes["CACHED"] // part for part in parts)

    def build(it: Configuration, sizes: Sizes) -> Specimen:
        new, cached = lengths_of(sizes)
        keys = tuple(map(sum, zip(new, cached, strict=True))) if one_cache else cached
        case = (pages_case if one_cache else prefill_case)(
            f"prefill {it.label}", new, keys, page=page, dim=dim, heads=heads, key_heads=key_heads,
            tile=(it.BM, it.BN), warps=it.num_warps, dtype="bf16",
        )  # fmt: skip
        return replace(case, num_stages=it.num_stages)

    def flop(sizes: Sizes) -> float:
        pairs = (n * c + n * n / 2 for n, c in zip(*lengths_of(sizes), strict=True))
        return 4.0 * heads * dim * sum(pairs)

    name, title = ("prefill_pages", "all keys in pages") if one_cache else ("prefill", "keys in pages, then new keys")
    problems = tuple({"B": b, "NEW": n, "CACHED": c} for b, n, c in ((4, 2048, 1024), (8, 512, 4096), (4, 4096, 256)))
    return Family(name, f"bf16, prompts that continue a cache, {title}", build, problems,
                  {"B": 2, "NEW": 250, "CACHED": 250}, flop, PREFILL)  # fmt: skip


def families() -> dict[str, Family]:
    """All families by name."""
    every = (512, 1024, 2048, 4096, 8192, 16384)
    known = (
        _gemm("tutorial_nn", "fp16, Triton's third tutorial", every, "fp16", False, 1.0),
        _gemm("tutorial_nt", "fp16, Triton's third tutorial, B transposed", (512, 2048, 4096, 16384), "fp16", True,
              1.05),
        _gemm("tutorial_fp8", "fp8 e4m3, Triton's third tutorial, B transposed", (1024, 4096, 16384), "fp8e4nv", True,
              1.15),
        _persistent(),
        _weights("i8", "int8 weights, fp16 activations, scaled by column"),
        _weights("fp8e4nv", "fp8 weights, fp16 activations, scaled by column"),
        _grouped(False),
        _grouped(True),
        _attention(False),
        _attention(True),
        _prefill(False),
        _prefill(True),
    )  # fmt: skip
    return {family.name: family for family in known}
