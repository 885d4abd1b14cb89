"""GEMM candidates: cuBLAS, stock Triton, Tawa and the hand-written kernel, each with its list of configurations.

A `Configuration` is plain data, so that other processes can compile and check it before anything is timed; `make_call`
turns it into a callable on given tensors. Stock and Tawa run the *same* kernel functions (`tawa.demo.kernels.gemm`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["stock", "tawa", "converter", "gluon"]
GROUP_M = 8


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run C = A @ B.

    kind: "converter" is Tawa with an operand that a converter transposes. kernel: "tile", "persistent" or "split"
    (persistent, stored in halves). programs: for each SM, if persistent. registers: per thread of the converter.
    dynamic: whether programs take their tiles from a counter; a kernel of one tile is made persistent then.
    """

    kind: Kind
    kernel: str
    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int = 3
    D: int = 0
    P: int = 0
    programs: int = 1
    flatten: bool = False
    registers: int = 0
    dynamic: bool = False

    @property
    def label(self) -> str:
        """A short name, unique in its list."""
        depth = f" s{self.num_stages}" if self.kind == "stock" else f" D{self.D}P{self.P}"
        more = (" flat" if self.flatten else "") + (f" x{self.programs}" if self.programs > 1 else "")
        more += f" r{self.registers}" * (self.registers > 0)
        more += " dynamic" if self.dynamic else ""
        return f"{self.kind} {self.kernel} {self.BM}x{self.BN}x{self.BK} w{self.num_warps}{depth}{more}"

    def to_json(self) -> dict[str, Any]:
        """As plain data; ``Configuration(**data)`` is the way back."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Family:
    """One line of comparison: element type, storage of B, and the configurations that may win."""

    name: str
    title: str
    dtype: Literal["fp16", "fp8"]
    b_t: bool
    configurations: tuple[Configuration, ...]


def _tiles(kind: Kind, bk: int) -> list[Configuration]:
    """One tile per program."""
    if kind == "stock":
        return [
            Configuration("stock", "tile", *tile, bk, warps, num_stages=stages)
            for tile, warps, stages in (
                ((128, 256), 8, 3), ((128, 256), 8, 4), ((256, 128), 8, 3), ((256, 128), 8, 4),
                ((128, 128), 4, 3), ((128, 128), 4, 4), ((128, 128), 8, 4),
            )
        ]  # fmt: skip
    return [
        Configuration("tawa", "tile", *tile, bk, warps, D=depth, P=mma_depth)
        for tile, warps, depth, mma_depth in (
            ((128, 256), 8, 3, 1), ((128, 256), 8, 4, 1), ((128, 256), 8, 4, 2),
            ((256, 128), 8, 3, 1), ((256, 128), 8, 4, 1),
            ((128, 128), 4, 3, 0), ((128, 128), 4, 3, 1), ((128, 128), 4, 4, 1), ((128, 128), 8, 3, 1),
        )
    ]  # fmt: skip


def _persistent(kind: Kind, bk: int) -> list[Configuration]:
    """A loop over tiles, one or two programs on each SM."""
    if kind == "stock":
        return [
            Configuration("stock", kernel, *tile, bk, warps, num_stages=stages, programs=programs, flatten=flatten)
            for kernel, tile, warps, stages, programs, flatten in (
                ("persistent", (128, 256), 8, 3, 1, False), ("persistent", (128, 256), 8, 3, 1, True),
                ("split", (128, 256), 8, 3, 1, False), ("split", (128, 256), 8, 3, 1, True),
                ("split", (128, 256), 8, 4, 1, False), ("split", (128, 256), 8, 4, 1, True),
                ("persistent", (256, 128), 8, 3, 1, False), ("persistent", (256, 128), 8, 3, 1, True),
                ("persistent", (128, 128), 4, 2, 2, False), ("persistent", (128, 128), 8, 4, 1, True),
            )
        ]  # fmt: skip
    found = [
        Configuration("tawa", kernel, *tile, bk, warps, D=depth, P=mma_depth, programs=programs)
        for kernel, tile, warps, depth, mma_depth, programs in (
            ("persistent", (128, 256), 8, 3, 1, 1), ("persistent", (128, 256), 8, 3, 2, 1),
            ("split", (128, 256), 8, 3, 1, 1), ("split", (128, 256), 8, 4, 1, 1), ("split", (128, 256), 8, 4, 2, 1),
            ("persistent", (256, 128), 8, 3, 1, 1), ("split", (256, 128), 8, 4, 1, 1),
            ("persistent", (128, 128), 4, 2, 0, 2), ("split", (128, 128), 4, 3, 0, 2),
        )
    ]  # fmt: skip
    large = (128, 256, bk, 8)
    dynamic = [("tile", 3), ("persistent", 3), ("split", 4)]
    return found + [Configuration("tawa", kernel, *large, D=depth, P=1, dynamic=True) for kernel, depth in dynamic]


def _converted(bk: int) -> list[Configuration]:
    """B is transposed between two rings, in small pieces by threads with 24 registers, or in larger ones with 40."""
    return [
        Configuration("converter", kernel, *tile, bk, warps, D=depth, P=mma_depth, registers=registers)
        for kernel, tile, warps, depth, mma_depth in (
            ("persistent", (128, 128), 8, 4, 1), ("split", (128, 256), 8, 2, 1), ("split", (256, 128), 8, 3, 1),
            ("tile", (128, 256), 8, 3, 1), ("tile", (256, 128), 8, 4, 1),
        )
        for registers in (24, 40)
    ]  # fmt: skip


def converter_plan(warps: int, registers: int) -> dict[str, Any]:
    """A Plan in which a converter with this many registers per thread transposes all operands that wgmma needs so."""
    beside = ({"name": "producer", "role": "producer", "num_warps": 1, "registers": registers},
              {"name": "converter", "role": "converter", "num_warps": 2, "registers": registers})  # fmt: skip
    consumer = {"name": "consumer", "role": "consumer", "num_warps": warps}
    return {"operands": [{"transposed": "converter"}], "partitions": [*beside, consumer]}


def _by_hand(bk: int) -> list[Configuration]:
    """The Gluon kernel."""
    return [
        Configuration("gluon", kernel, *tile, bk, 8, D=depth, P=mma_depth)
        for kernel, tile, depth, mma_depth in (
            ("persistent", (128, 256), 3, 1),
            ("split", (128, 256), 4, 1),
            ("split", (128, 256), 4, 2),
            ("split", (256, 128), 4, 1),
        )
    ]


def families() -> dict[str, Family]:
    """All families by name."""
    known = (
        Family("tile_nt", "fp16, one tile per program, host descriptors, B transposed", "fp16", True,
               (*_tiles("stock", 64), *_tiles("tawa", 64), *_by_hand(64))),
        Family("tile_nn", "fp16, one tile per program, host descriptors, B row-major", "fp16", False,
               (*_tiles("stock", 64), *_tiles("tawa", 64), *_by_hand(64))),
        Family("persistent_fp16", "fp16, persistent, B row-major", "fp16", False,
               (*_persistent("stock", 64), *_persistent("tawa", 64), *_by_hand(64))),
        Family("persistent_fp8", "fp8 e4m3, persistent, K-major", "fp8", True,
               (*_persistent("stock", 128), *_persistent("tawa", 128), *_by_hand(128))),
        Family("fp8_rows", "fp8 e4m3, B row-major", "fp8", False,
               (*_tiles("stock", 128), *_persistent("stock", 128), *_tiles("tawa", 128), *_persistent("tawa", 128),
                *_converted(128))),
    )  # fmt: skip
    return {family.name: family for family in known}


@dataclass(frozen=True, slots=True)
class Operands:
    """The tensors of one problem: A (M x K), B as stored, C (M x N, fp16)."""

    a: Any
    b: Any
    c: Any
    b_t: bool


def make_operands(dtype: str, b_t: bool, m: int, n: int, k: int, seed: int = 0) -> Operands:
    """Fresh random normal operands; C full of NaN."""
    import torch

    kind = torch.float16 if dtype == "fp16" else torch.float8_e4m3fn
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a, b = (
        torch.randn(shape, generator=generator, device="cuda", dtype=torch.float16).to(kind)
        for shape in ((m, k), (n, k) if b_t else (k, n))
    )
    return Operands(a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16), b_t)


def make_call(configuration: Configuration, operands: Operands) -> Callable[[], Any]:
    """A callable that launches the configuration once and returns the compiled kernel."""
    import torch

    a, b, c = operands.a, operands.b, operands.c
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    staging = configuration.BN // 2 if configuration.kernel == "split" else configuration.BN
    if configuration.kind == "gluon":
        from bench.peers import gluon_gemm

        return lambda: gluon_gemm.run(
            a, b, c, b_t=operands.b_t, programs=sms, BM=configuration.BM, BN=configuration.BN, BK=configuration.BK,
            D=configuration.D, P=configuration.P, EN=staging, num_warps=configuration.num_warps,
        )  # fmt: skip
    return _triton_call(configuration, operands, sms, staging)


def _triton_call(configuration: Configuration, operands: Operands, sms: int, staging: int) -> Callable[[], Any]:
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tawa
    from tawa.demo.kernels import gemm as shown
    from tests.cases.gemm import epilogues

    bm, bn, bk = configuration.BM, configuration.BN, configuration.BK
    (m, k), n = operands.a.shape, operands.c.shape[1]
    arguments: dict[str, Any] = {
        "a_desc": TensorDescriptor.from_tensor(operands.a, [bm, bk]),
        "b_desc": TensorDescriptor.from_tensor(operands.b, [bn, bk] if operands.b_t else [bk, bn]),
        "c_desc": TensorDescriptor.from_tensor(operands.c, [bm, staging]),
        "M": m, "N": n, "K": k, "BM": bm, "BN": bn, "BK": bk, "GROUP_M": GROUP_M, "B_T": operands.b_t,
    }  # fmt: skip
    tiles = -(-m // bm) * -(-n // bn)
    grid = tiles if configuration.kernel == "tile" else min(tiles, sms * configuration.programs)
    match configuration.kernel:
        case "tile":
            function = shown.gemm_tile
            arguments["A_T"] = False
        case "persistent":
            function = shown.gemm_persistent
            arguments |= {"A_T": False, "FLATTEN": configuration.flatten}
        case _:
            function = epilogues.gemm_split_epilogue
            arguments["FLATTEN"] = configuration.flatten
    options: dict[str, Any] = {"num_warps": configuration.num_warps, "num_stages": configuration.num_stages}
    launched: Any = function
    if configuration.kind != "stock":
        launched = tawa.jit(function)
        options |= {"enable_warp_specialization": True, "aref_depth": configuration.D, "mma_depth": configuration.P}
    if configuration.kind == "converter":
        options["plan"] = converter_plan(configuration.num_warps, configuration.registers)
    if configuration.dynamic:
        form = {"form": "persistent"} if configuration.kernel == "tile" else {}
        options["plan"] = {"tiles": "dynamic", **form}
    return lambda: launched[(grid,)](**arguments, **options)


def cublas_calls(operands: Operands) -> dict[str, Callable[[], Any]]:
    """cuBLAS through PyTorch: one entry for fp16; with and without fast accumulation for fp8.

    In fp8 it takes B with K innermost only; a row-major B is copied in each call.
    """
    import torch

    a, c = operands.a, operands.c
    b = operands.b.t() if operands.b_t else operands.b
    if a.dtype == torch.float16:
        return {"cuBLAS": lambda: torch.matmul(a, b, out=c)}

    def transposed(b: Any) -> Any:
        return b if operands.b_t else b.t().contiguous().t()

    one = torch.ones((), device="cuda")
    target = {"out": c}
    try:
        torch._scaled_mm(a, transposed(b), one, one, out_dtype=torch.float16, **target)
    except (TypeError, RuntimeError):
        target = {}  # this PyTorch's product takes no `out`

    def scaled(fast: bool) -> Callable[[], Any]:
        return lambda: torch._scaled_mm(
            a, transposed(b), one, one, out_dtype=torch.float16, use_fast_accum=fast, **target
        )

    return {"cuBLAS": scaled(True), "cuBLAS exact": scaled(False)}


def sampled_error(operands: Operands, rows: int = 64) -> float:
    """The largest error of C against float64 over some rows, relative to the largest exact value there."""
    import torch

    m = operands.a.shape[0]
    chosen = torch.randperm(m, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1))[:rows]
    b = (operands.b.t() if operands.b_t else operands.b).float().double()
    exact = operands.a.float()[chosen].double() @ b
    got = operands.c[chosen].double()
    error = float((got - exact).abs().max() / exact.abs().max())
    return error if error == error else float("inf")  # NaN: an element was not written
