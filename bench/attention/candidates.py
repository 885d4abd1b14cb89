"""Attention candidates: stock Triton, Tawa, its operator, cuDNN, FlashAttention 2 and 3, the hand-written kernel.

A `Configuration` is plain data, so that other processes can compile and check it before anything is timed; `make_call`
turns it into a callable on given tensors. Stock and Tawa run the *same* kernel functions (`tests.cases.attention`). So
does the operator, `tawa.ops.attention`, which chooses tile and form by the head dimension.

Forms: two loops over the keys (blocks without a mask, then blocks on the diagonal); the same in a persistent kernel
with the longest tiles first; for a causal mask also one loop with a branch around the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
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
    "persistent": "loop",
    "precision": "",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What is computed: B * S = `tokens`, H * d = 2048 (2016 for d = 96). S: of queries and of keys."""

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
class Way:
    """A Plan that a user could pin, in part, as JSON data. rows: V in fp8 has rows, as FlashAttention-3 takes it."""

    plan: Mapping[str, Any]
    rows: bool = False


_PERSISTENT: dict[str, Any] = {"form": "persistent"}
_COUNTER = {**_PERSISTENT, "tiles": "dynamic"}
_LONGEST = {"tile_order": "longest_first"}
_SLICES = {"stores": [{"slices": 4}]}
_JOINED = {"loops": [{"loop": 1, "joined": True}]}
_ROWS = {"operands": [{"rows": "for_next_dot"}]}
_THREE = {"groups": 3, "split": "programs", "loops": [{"kept": []}]}
"""Three programs in a CTA; their queries stay in shared memory, because registers are scarce."""


def _converter(registers: int, form: Mapping[str, Any] = _PERSISTENT) -> Way:
    """V has rows, and two warps with so many registers per thread transpose it, in the order that the scores have."""
    beside = [
        {"name": role, "role": role, "num_warps": warps, "registers": registers}
        for role, warps in (("producer", 1), ("converter", 2))
    ]
    groups = [{"name": f"consumer{number}", "role": "consumer", "num_warps": 4} for number in range(2)]
    plan = {
        "operands": [{"transposed": "converter", "rows": "in_order"}],
        "groups": 2,
        "partitions": [*beside, *groups],
    }
    return Way({**form, **plan}, rows=True)


WAYS: dict[str, Way] = {
    "2 programs": Way({"groups": 2, "split": "programs"}),
    "2 programs, persistent": Way({**_PERSISTENT, "groups": 2, "split": "programs"}),
    "3 programs": Way(_THREE),
    "3 programs, persistent": Way({**_PERSISTENT, **_THREE}),
    "slices": Way({**_PERSISTENT, **_SLICES}),
    "rows in order": Way({"operands": [{"rows": "in_order"}]}),
    "rows for the next dot": Way(_ROWS),
    "rows for the next dot, persistent": Way({**_PERSISTENT, **_ROWS}),
    "converter, 24 registers": _converter(24, {}),
    "converter, 40 registers": _converter(40, {}),
    "converter, 24 registers, persistent": _converter(24),
    "converter, 40 registers, persistent": _converter(40),
    "joined": Way(_JOINED),
    "joined, persistent": Way({**_PERSISTENT, **_JOINED}),
    "persistent": Way(_PERSISTENT),
    "longest first": Way({**_PERSISTENT, "tile_order": "longest_first"}),
    "counter": Way(_COUNTER),
    "counter, longest first": Way({**_COUNTER, **_LONGEST}),
    "counter, own loop": Way({"tiles": "dynamic"}),
    "3 programs, counter": Way({**_COUNTER, **_THREE}),
    "slices, counter, longest first": Way({**_COUNTER, **_LONGEST, **_SLICES}),
    "joined, counter, longest first": Way({**_COUNTER, **_LONGEST, **_JOINED}),
    "rows for the next dot, counter, longest first": Way({**_COUNTER, **_LONGEST, **_ROWS}),
}
"""What a Plan asks for, by the name in the label of a configuration."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run it.

    options: Tawa's launch options, by name, in order. flat: every loop has one stage. way: one of WAYS, or empty.
    """

    kind: Kind
    form: str
    BM: int
    BN: int
    num_warps: int
    num_stages: int = 2
    options: tuple[tuple[str, Any], ...] = ()
    flat: bool = False
    way: str = ""

    @property
    def label(self) -> str:
        """A short name, unique in its list."""
        if self.kind == "operator":
            return "operator"
        stages = f" s{self.num_stages}" if self.kind == "stock" else ""
        more = "".join(
            f" {_SHORT.get(name, name)}{value if isinstance(value, str) else int(value)}"
            for name, value in self.options
        )
        last = " flat" * self.flat + f" ({self.way})" * bool(self.way)
        return f"{self.kind} {self.form} {self.BM}x{self.BN} w{self.num_warps}{stages}{more}{last}"

    @property
    def v_has_rows(self) -> bool:
        """Whether V has rows where the kernels of fp8 take it with its keys innermost otherwise."""
        return bool(self.way) and WAYS[self.way].rows

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` is the way back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Configuration:
        """The inverse of `to_json`, also after a round trip through JSON."""
        return Configuration(**{**data, "options": tuple((name, value) for name, value in data["options"])})


V_AS_ROWS = "Tawa, V as rows"
FLASH_3, CUTE = ("fa3_fwd_interface", "flash_attn_interface"), ("flash_attn.cute",)
"""The modules of FlashAttention-3, forward alone or with gradients, and of its CuTe kernels."""
WITH_CONVERTER = "Tawa, V as rows, converter"
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
_STOCK[96] = _STOCK[128]  # in a box of 128
_TILES = dict.fromkeys((64, 96, 128), ((128, 128, 8), (128, 64, 8))) | {256: ((128, 64, 8), (128, 32, 8))}
_SHARED = {
    64: ((64, 128, 3), (64, 64, 3), (64, 128, 2)),
    96: ((64, 64, 3), (64, 128, 2)),
    128: ((64, 128, 2), (64, 64, 3)),
    256: ((64, 64, 2),),
}
"""BM, BN and programs of a CTA."""
_BY_HAND = {64: (128, 128, 3), 128: (128, 128, 2), 256: (128, 64, 2)}
"""BM, BN and D of the hand-written kernel."""


def configurations(dtype: str, d: int, causal: bool, brief: bool = False) -> list[Configuration]:
    """The candidates: the operator, stock Triton, Tawa in several forms and tiles, one by hand.

    brief: the operator and stock Triton only.
    """

    def tawa(form: str, tile: tuple[int, int, int], **options: Any) -> Configuration:
        return Configuration("tawa", form, *tile, options=tuple(options.items()))

    large, small = _TILES[d]
    found = [OPERATOR, *(Configuration("stock", *each) for each in _STOCK[d])]
    if brief:
        return found
    found += [tawa(form, large) for form in ("two_loops", "persistent")]
    found += [tawa(form, large, ping_pong=True) for form in ("two_loops", "persistent")]
    found += [tawa(form, small, only_if_faster=False) for form in ("two_loops", "persistent")]
    if d < 256:  # several CTAs of stock Triton share an SM: automatic mode declines most such kernels
        found += [Configuration("tawa", "two_loops", 64, 64, 4, 3)]
    found += _pinned(dtype, d, causal) + (_ordered(d, dtype) if causal else [])
    if causal:
        found += [tawa("branch", large), Configuration("stock", "branch", *large, 2)]
    if dtype != "fp8" and d in _BY_HAND:
        BM, BN, D = _BY_HAND[d]
        found += [Configuration("gluon", "two_loops", BM, BN, 4, options=(("D", D), ("PP", pp))) for pp in (0, 1)]
    return found


def _pinned(dtype: str, d: int, causal: bool) -> list[Configuration]:
    """The candidates that a Plan asks for, with sums in any order."""

    def pinned(tile: tuple[int, int, int], way: str, **more: Any) -> Configuration:
        return Configuration("tawa", "two_loops", *tile, options=(("precision", "relaxed"), *more.items()), way=way)

    large = _TILES[d][0]
    found = [
        pinned((BM, BN, 4), f"{programs} programs{form}")
        for BM, BN, programs in _SHARED[d]
        for form in ("", ", persistent")
    ]
    if d == 256 and dtype != "fp8":
        found.append(pinned(large, "slices"))
    if dtype == "fp8":
        tiles = (large,) if d == 256 else ((128, 256, 8), large)
        found += [pinned(tile, f"rows {rows}") for tile in tiles for rows in ("in order", "for the next dot")]
        found += [pinned(tile, "rows for the next dot", ping_pong=True) for tile in tiles]
        found.append(pinned(large, "rows for the next dot, persistent", ping_pong=True))
        for alternate in ({}, {"ping_pong": True}):
            found += [pinned(large, way, **alternate) for way in WAYS if way.startswith("converter")]
    if causal:
        found += [pinned(large, way) for way in ("joined", "joined, persistent")]
    return found


def _ordered(d: int, dtype: str) -> list[Configuration]:
    """Other orders of the tiles of a causal mask, as a Plan asks for them; groups alternate in fp8."""
    alternate = (("ping_pong", True),) if dtype == "fp8" else ()
    options = (("precision", "relaxed"), *alternate)
    own = Configuration("tawa", "persistent", *_TILES[d][0], options=options, way="counter, own loop")
    with_counter = f"{_BESIDE[d, dtype == 'fp8']}, counter, longest first"
    made = ("longest first", "counter", "counter, longest first", with_counter)
    three = [replace(own, form="two_loops", BM=64, num_warps=4, way="3 programs, counter")] if d == 64 else []
    return [*(replace(own, form="two_loops", way=way) for way in made), *three, own]


_BESIDE = {
    **{(d, False): "joined" for d in (64, 96, 128)}, (256, False): "slices",
    **{(d, True): "rows for the next dot" for d in (64, 128, 256)},
}  # fmt: skip
"""What goes together with a counter, by head dimension and whether elements have 8 bits."""


# --- calls ---


def make_case(shape: Shape, configuration: Configuration) -> Specimen:
    """The case of a shape with the blocks of a configuration."""
    tile, paired = (configuration.BM, configuration.BN, configuration.num_warps), None
    if WAYS.get(configuration.way) == WAYS["counter, own loop"]:
        tiles, heads = -(-shape.S // configuration.BM), shape.about["B"] * shape.about["H"]
        paired = max(0, heads - -(-2 * SMS // tiles))  # as the operator
    return bench_case(configuration.form, DTYPES[shape.dtype], shape.d, shape.causal, shape.S, tile=tile,
                      tokens=shape.tokens, hidden=HIDDEN, programs=_programs(shape, configuration),
                      rows=configuration.v_has_rows, paired=paired)  # fmt: skip


def _programs(shape: Shape, configuration: Configuration) -> int:
    tiles = -(-shape.S // configuration.BM) * shape.about["B"] * shape.about["H"]
    return min(SMS, tiles)


def make_tensors(shape: Shape) -> dict[str, Any]:
    """The tensors of a shape; all configurations share them."""
    from tests.cases import launch

    return launch.make_tensors(make_case(shape, Configuration("stock", "two_loops", 128, 64, 8)), seed=0)


def make_call(shape: Shape, configuration: Configuration, tensors: Tensors) -> Callable[[], Any]:
    """A callable that launches the configuration once; returns the compiled kernel, or O if it allocates O."""
    options: dict[str, Any] = dict(configuration.options)
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
    if configuration.way:
        options["plan"] = dict(WAYS[configuration.way].plan)
    if configuration.v_has_rows:
        tensors = {**tensors, "v": tensors["v"].mT.contiguous()}
    bound, launched = launch.bind(case, tensors), kernel[case.launch_grid()]
    common = {"num_warps": configuration.num_warps, "num_stages": configuration.num_stages}
    return lambda: launched(**bound, **common, **options)


def peer_calls(shape: Shape, tensors: Tensors) -> dict[str, Callable[[], Any]]:
    """cuDNN and FlashAttention-2 through PyTorch, and FlashAttention-3 if it is installed; each returns O (B, H, S, d).

    In fp8 only FlashAttention-3 is left, which takes V as rows: so there is Tawa's operator on the same V as well.
    """
    if shape.dtype == "fp8":
        return {**_rows_call(shape, tensors), **_flash_3(shape, tensors)}
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (tensors[name] for name in "qkv")

    def through(backend: SDPBackend) -> Callable[[], Any]:
        def call() -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

        return call

    found = {"cuDNN": through(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2": through(SDPBackend.FLASH_ATTENTION)}
    return {**found, **_flash_3(shape, tensors)}


def _rows_call(shape: Shape, tensors: Tensors) -> dict[str, Callable[[], Any]]:
    from tawa.ops import attention

    q, k, v = tensors["q"], tensors["k"], tensors["v"].mT.contiguous()
    return {V_AS_ROWS: lambda: attention(q, k, v, causal=shape.causal)}


def _flash_3(shape: Shape, tensors: Tensors) -> dict[str, Callable[[], Any]]:
    """FlashAttention-3 on copies in its own layout (B, S, H, d)."""
    function = flash_function("flash_attn_func")
    if function is None or shape.dtype == "fp16":  # the wheel has no kernels for fp16
        return {}
    v = tensors["v"].mT if shape.dtype == "fp8" else tensors["v"]
    q, k, v = (x.transpose(1, 2).contiguous() for x in (tensors["q"], tensors["k"], v))

    def call() -> Any:
        result = function(q, k, v, causal=shape.causal)
        return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

    return {"FlashAttention-3": call}


def flash_function(name: str, modules: Sequence[str] = FLASH_3) -> Callable[..., Any] | None:
    """A function of FlashAttention-3, or of its CuTe kernels; None if they are not installed."""
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    return None


# --- checking ---


class Judge:
    """Errors against float64 on the first and the last head, and the allowed error."""

    def __init__(self, shape: Shape, tensors: Tensors) -> None:
        from tests.cases.arithmetic import Exact, SamePrecision
        from tests.cases.attention.problem import Problem
        from tests.cases.attention.reference import one_head

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
