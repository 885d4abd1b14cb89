"""Attention candidates: stock Triton, Tawa, cuDNN, FlashAttention-2 and the hand-written kernel, with configurations.

A `Configuration` is plain data, so that other processes can compile and check it before anything is timed; `make_call`
turns it into a callable on given tensors. Stock and Tawa run the *same* kernel functions (`tawa.kernels.attention`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tawa.kernels.attention.cases import bench_case
from tawa.kernels.case import Case

Kind = Literal["stock", "tawa", "gluon"]
Tensors = Mapping[str, Any]
DTYPES = {"fp16": "fp16", "bf16": "bf16", "fp8": "fp8e4nv"}
TOKENS, HIDDEN = 16384, 2048
SMS = 132


@dataclass(frozen=True, slots=True)
class Shape:
    """What is computed: B * S = `tokens`, H * d = 2048. S: of queries and of keys."""

    dtype: str
    d: int
    causal: bool
    S: int
    tokens: int = TOKENS

    @property
    def about(self) -> dict[str, Any]:
        """The case of a result row."""
        B = max(1, self.tokens // self.S)
        return {"dtype": self.dtype, "d": self.d, "causal": self.causal, "S": self.S, "B": B, "H": HIDDEN // self.d}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run it. options: Tawa's launch options, by name, in order."""

    kind: Kind
    form: str
    BM: int
    BN: int
    num_warps: int
    num_stages: int = 2
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """A short name, unique in its list."""
        stages = f" s{self.num_stages}" if self.kind == "stock" else ""
        more = "".join(f" {_SHORT.get(name, name)}{int(value)}" for name, value in self.options)
        return f"{self.kind} {self.form} {self.BM}x{self.BN} w{self.num_warps}{stages}{more}"

    @property
    def automatic(self) -> bool:
        """Whether Tawa decides everything, also whether to specialise."""
        return self.kind == "tawa" and not self.options

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` is the way back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Configuration:
        """Out of `to_json`, or of JSON made of it."""
        return Configuration(**{**data, "options": tuple((name, value) for name, value in data["options"])})


_SHORT = {"aref_depth": "D", "num_consumer_groups": "g", "ping_pong": "pp", "only_if_faster": "faster"}


def tawa(form: str, bm: int, bn: int, warps: int, D: int = 0, groups: int = 0, pp: bool = False) -> Configuration:
    """Specialised wherever it is legal; D and groups are the planner's where they are 0."""
    options: dict[str, Any] = {"only_if_faster": False}
    options |= {"aref_depth": D} if D else {}
    options |= {"num_consumer_groups": groups} if groups else {}
    options |= {"ping_pong": True} if pp else {}
    return Configuration("tawa", form, bm, bn, warps, 2, tuple(options.items()))


def configurations(dtype: str, d: int) -> list[Configuration]:
    """The list that stock and Tawa choose from. A stock configuration has stages, one of Tawa's has D."""
    tiles = {
        64: ((128, 128, 8), (128, 64, 8), (128, 64, 4), (64, 128, 4), (64, 64, 4)),
        128: ((128, 128, 8), (128, 64, 8), (64, 128, 4), (64, 64, 4)),
        256: ((128, 64, 8), (128, 32, 8), (64, 64, 4), (128, 128, 8)),
    }[d]
    found = [Configuration("stock", "two_loops", *tile, stages) for tile in tiles for stages in (2, 3)]
    found += [Configuration("stock", "persistent", *tile, 2) for tile in tiles[:2]]
    found += [Configuration("tawa", form, *tile) for form in ("two_loops", "persistent") for tile in tiles[:2]]
    depths = (2, 3, 4) if dtype == "fp8" or d == 64 else (1, 2, 3)
    for tile in tiles[:2]:
        found += [tawa("two_loops", *tile, D=D, pp=pp) for D in depths for pp in (False, True)]
        found += [tawa("two_loops", *tile, D=depths[1], groups=1)]
        found += [tawa("persistent", *tile, pp=pp) for pp in (False, True)]
    found += [tawa("two_loops", *tile) for tile in tiles if tile[2] == 4]
    if dtype == "fp16" and d <= 128:
        found += [Configuration("gluon", "two_loops", 128, 128, 4, options=(("D", 2), ("PP", pp))) for pp in (0, 1)]
    return found


# --- calls ---


def make_case(shape: Shape, configuration: Configuration) -> Case:
    """The case of a shape with the blocks of a configuration."""
    tile = (configuration.BM, configuration.BN, configuration.num_warps)
    return bench_case(configuration.form, DTYPES[shape.dtype], shape.d, shape.causal, shape.S, tile=tile,
                      tokens=shape.tokens, hidden=HIDDEN, programs=_programs(shape, configuration))  # fmt: skip


def _programs(shape: Shape, configuration: Configuration) -> int:
    tiles = -(-shape.S // configuration.BM) * shape.about["B"] * shape.about["H"]
    return min(SMS, tiles)


def make_tensors(shape: Shape) -> dict[str, Any]:
    """The tensors of a shape; all configurations share them."""
    from tawa.kernels import launch

    return launch.make_tensors(make_case(shape, Configuration("stock", "two_loops", 128, 64, 8)), seed=0)


def make_call(shape: Shape, configuration: Configuration, tensors: Tensors) -> Callable[[], Any]:
    """A callable that launches the configuration once and returns the compiled kernel."""
    options = dict(configuration.options)
    if configuration.kind == "gluon":
        from peers import gluon_attention

        q, k, v, o, lse = (tensors[name] for name in ("q", "k", "v", "o", "lse"))
        return lambda: gluon_attention.run(
            q, k, v, o, lse, causal=shape.causal, BM=configuration.BM, BN=configuration.BN, D=options["D"],
            PP=bool(options["PP"]),
        )  # fmt: skip
    import tawa as package
    from tawa.kernels import launch

    case = make_case(shape, configuration)
    kernel = package.jit(case.kernel) if configuration.kind == "tawa" else case.kernel
    bound, launched = launch.bind(case, tensors), kernel[case.launch_grid()]
    common = {"num_warps": configuration.num_warps, "num_stages": configuration.num_stages}
    return lambda: launched(**bound, **common, **options)


def torch_calls(shape: Shape, tensors: Tensors) -> dict[str, Callable[[], Any]]:
    """cuDNN and FlashAttention-2 through PyTorch; neither takes fp8. The result is returned."""
    if shape.dtype == "fp8":
        return {}
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (tensors[name] for name in "qkv")

    def through(backend: SDPBackend) -> Callable[[], Any]:
        def call() -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

        return call

    return {"cuDNN": through(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2": through(SDPBackend.FLASH_ATTENTION)}


# --- checking ---


class Judge:
    """Errors of results against float64 on the first and the last head, and what is allowed of them."""

    def __init__(self, shape: Shape, tensors: Tensors) -> None:
        from tawa.kernels.attention.problem import Problem
        from tawa.kernels.attention.reference import one_head
        from tawa.kernels.gemm.reference import Exact, SamePrecision

        problem = Problem.of(make_case(shape, Configuration("stock", "two_loops", 128, 64, 8)))
        self.heads = tuple(dict.fromkeys([(0, 0), (problem.batches - 1, problem.heads - 1)]))
        self.exact: list[Any] = []
        self.allowed = 0.0
        for b, h in self.heads:
            q, k, v = (tensors[name][b, h] for name in "qkv")
            v = v.t()[: problem.keys] if problem.v_transposed else v
            exact, peer = (one_head(problem, q, k, v, 0.0, 0, math)[0] for math in (Exact(), SamePrecision()))
            self.exact.append(exact)
            self.allowed = max(self.allowed, 2 * _worst(peer.to(tensors["o"].dtype), exact))

    def error(self, o: Any) -> float:
        """The largest error of some heads, relative to the largest exact value there; infinite where O has a NaN."""
        errors = [_worst(o[b, h], exact) for (b, h), exact in zip(self.heads, self.exact, strict=True)]
        return max(errors) if not bool(o.isnan().any()) else float("inf")


def _worst(o: Any, exact: Any) -> float:
    error = float((o.double() - exact).abs().max() / exact.abs().max())
    return error if error == error else float("inf")
