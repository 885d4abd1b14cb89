"""Attention candidates: stock Triton, Tawa, its operator, cuDNN, FlashAttention-2, the hand-written kernel.

A `Configuration` is plain data, so that other processes can compile and check it before anything is timed; `make_call`
turns it into a callable on given tensors. Stock and Tawa run the *same* kernel functions (`tests.cases.attention`). So
does the operator, `tawa.ops.attention`, which chooses tile and form by the head dimension.

Forms: two loops over the keys (blocks without a mask, then blocks on the diagonal); the same in a persistent kernel
with the longest tiles first; for a causal mask also one loop with a branch around the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tests.cases.attention.cases import bench_case
from tests.cases.case import Specimen

Kind = Literal["stock", "tawa", "operator", "gluon"]
Tensors = Mapping[str, Any]
DTYPES = {"fp16": "fp16", "bf16": "bf16", "fp8": "fp8e4nv"}
TOKENS, HIDDEN = 16384, 2048
SMS = 132
_SHORT = {
    "aref_depth": "D",
    "num_consumer_groups": "g",
    "ping_pong": "pp",
    "only_if_faster": "faster",
}


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

    @property
    def flop(self) -> float:
        """Floating-point operations of one launch: two dots over the pairs that are not masked."""
        about = self.about
        return 4.0 * about["B"] * about["H"] * self.S * self.S * self.d * (0.5 if self.causal else 1.0)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run it. options: Tawa's launch options, by name, in order. flat: every loop has one stage."""

    kind: Kind
    form: str
    BM: int
    BN: int
    num_warps: int
    num_stages: int = 2
    options: tuple[tuple[str, Any], ...] = ()
    flat: bool = False

    @property
    def label(self) -> str:
        """A short name, unique in its list."""
        if self.kind == "operator":
            return "operator"
        stages = f" s{self.num_stages}" if self.kind == "stock" else ""
        more = "".join(f" {_SHORT.get(name, name)}{int(value)}" for name, value in self.options)
        flat = " flat" * self.flat
        return f"{self.kind} {self.form} {self.BM}x{self.BN} w{self.num_warps}{stages}{more}{flat}"

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` is the way back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Configuration:
        """The inverse of `to_json`, also after a round trip through JSON."""
        return Configuration(**{**data, "options": tuple((name, value) for name, value in data["options"])})


OPERATOR = Configuration("operator", "two_loops", 0, 0, 0)
"""The operator chooses form, tile and warps itself."""

# --- the lists ---

# By head dimension: form, BM, BN, warps, stages; all fit shared memory.
_STOCK: dict[int, tuple[tuple[str, int, int, int, int], ...]] = {
    64: (("two_loops", 128, 128, 8, 2), ("two_loops", 128, 64, 8, 3), ("two_loops", 128, 64, 4, 3),
         ("two_loops", 64, 64, 4, 3), ("persistent", 128, 128, 8, 2), ("persistent", 128, 64, 4, 3)),
    128: (("two_loops", 128, 128, 8, 2), ("two_loops", 128, 128, 8, 3), ("two_loops", 128, 64, 8, 3),
          ("two_loops", 64, 64, 4, 3), ("persistent", 128, 128, 8, 2), ("persistent", 128, 64, 8, 2)),
    256: (("two_loops", 128, 64, 8, 2), ("two_loops", 128, 32, 8, 2), ("two_loops", 128, 32, 8, 3),
          ("two_loops", 64, 64, 4, 2), ("persistent", 64, 64, 4, 2), ("persistent", 128, 32, 8, 2)),
}  # fmt: skip
_TILES = {64: ((128, 128, 8), (128, 64, 8)), 128: ((128, 128, 8), (128, 64, 8)), 256: ((128, 64, 8), (128, 32, 8))}
_BY_HAND = {64: (128, 128, 3), 128: (128, 128, 2), 256: (128, 64, 2)}
"""BM, BN and D of the hand-written kernel."""


def configurations(dtype: str, d: int, causal: bool) -> list[Configuration]:
    """The candidates: the operator, six of stock Triton, Tawa automatic, with ping-pong or other tiles, one by hand."""

    def tawa(form: str, tile: tuple[int, int, int], **options: Any) -> Configuration:
        return Configuration("tawa", form, *tile, options=tuple(options.items()))

    large, small = _TILES[d]
    found = [OPERATOR, *(Configuration("stock", *each) for each in _STOCK[d])]
    found += [tawa(form, large) for form in ("two_loops", "persistent")]
    found += [tawa(form, large, ping_pong=True) for form in ("two_loops", "persistent")]
    found += [tawa(form, small, only_if_faster=False) for form in ("two_loops", "persistent")]
    if d < 256:  # several CTAs of stock Triton share an SM: automatic mode declines most such kernels
        found += [Configuration("tawa", "two_loops", 64, 64, 4, 3)]
    if causal:
        found += [tawa("branch", large), Configuration("stock", "branch", *large, 2)]
    if dtype != "fp8":
        BM, BN, D = _BY_HAND[d]
        found += [Configuration("gluon", "two_loops", BM, BN, 4, options=(("D", D), ("PP", pp))) for pp in (0, 1)]
    return found


# --- calls ---


def make_case(shape: Shape, configuration: Configuration) -> Specimen:
    """The case of a shape with the blocks of a configuration."""
    tile = (configuration.BM, configuration.BN, configuration.num_warps)
    return bench_case(configuration.form, DTYPES[shape.dtype], shape.d, shape.causal, shape.S, tile=tile,
                      tokens=shape.tokens, hidden=HIDDEN, programs=_programs(shape, configuration))  # fmt: skip


def _programs(shape: Shape, configuration: Configuration) -> int:
    tiles = -(-shape.S // configuration.BM) * shape.about["B"] * shape.about["H"]
    return min(SMS, tiles)


def make_tensors(shape: Shape) -> dict[str, Any]:
    """The tensors of a shape; all configurations share them."""
    from tests.cases import launch

    return launch.make_tensors(make_case(shape, Configuration("stock", "two_loops", 128, 64, 8)), seed=0)


def make_call(shape: Shape, configuration: Configuration, tensors: Tensors) -> Callable[[], Any]:
    """A callable that launches the configuration once; returns the compiled kernel, or O if it allocates O."""
    options = dict(configuration.options)
    if configuration.kind == "operator":
        from tawa.ops import attention

        q, k, v = (tensors[name] for name in "qkv")
        v = v.mT if shape.dtype == "fp8" else v  # stored with the keys innermost, as the kernel expects
        return lambda: attention(q, k, v, causal=shape.causal)
    if configuration.kind == "gluon":
        from bench.peers import gluon_attention

        q, k, v, o, lse = (tensors[name] for name in ("q", "k", "v", "o", "lse"))
        return lambda: gluon_attention.run(
            q, k, v, o, lse, causal=shape.causal, BM=configuration.BM, BN=configuration.BN, D=options["D"],
            PP=bool(options["PP"]),
        )  # fmt: skip
    import tawa as package
    from tests.cases import launch

    case = make_case(shape, configuration)
    kernel = package.jit(case.kernel) if configuration.kind == "tawa" else case.kernel
    if configuration.flat:
        from bench.attention.schedule import flat_plan

        options = {"plan": flat_plan(case, options)}
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
    """Errors against float64 on the first and the last head, and the allowed error."""

    def __init__(self, shape: Shape, tensors: Tensors) -> None:
        from tests.cases.attention.problem import Problem
        from tests.cases.attention.reference import one_head
        from tests.cases.gemm.reference import Exact, SamePrecision

        problem = Problem.of(make_case(shape, Configuration("stock", "two_loops", 128, 64, 8)))
        self.heads = tuple(dict.fromkeys([(0, 0), (problem.batches - 1, problem.heads - 1)]))
        self.exact: list[Any] = []
        self.allowed = 0.0
        for b, h in self.heads:
            q, k, v = (tensors[name][b, h] for name in "qkv")
            v = v.t()[: problem.keys] if problem.v_transposed else v
            exact = one_head(problem, q, k, v, 0.0, 0, Exact())[0]
            peer = one_head(problem, q, k, v, 0.0, 0, SamePrecision())[0]
            self.exact.append(exact)
            self.allowed = max(self.allowed, 2 * _worst(peer.to(tensors["o"].dtype), exact))

    def error(self, o: Any) -> float:
        """The largest error of some heads, relative to the largest exact value there; infinite if O has a NaN."""
        errors = [_worst(o[b, h], exact) for (b, h), exact in zip(self.heads, self.exact, strict=True)]
        return max(errors) if not bool(o.isnan().any()) else float("inf")


def _worst(o: Any, exact: Any) -> float:
    error = float((o.double() - exact).abs().max() / exact.abs().max())
    return error if error == error else float("inf")
