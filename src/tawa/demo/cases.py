"""The problems of the demo: each kernel at one configuration, as a `Case` on a small problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tawa.demo.kernels import gemm
from tawa.ops.kernels.attention.forward import attention_two_loops
from tawa.runtime.case import Absent, Argument, Case, Descriptor, Grid, Number, Pointer, Tensor

_SIZES: dict[str, Argument] = {name: Number(name) for name in ("M", "N", "K")}
_SMALL = {"M": 384, "N": 512, "K": 328}
_LARGE = {"M": 512, "N": 768, "K": 328}
_INVERSE_ROOT_OF_128 = 0.08838835


def attention(name: str) -> Case:
    """Causal attention in fp16, head dimension 128, in two loops."""
    rows = ("B", "H", "SQ", "DIM")
    keys = ("B", "HK", "SK", "DIM")
    tensors = {
        "q": Tensor(rows, "fp16"),
        "k": Tensor(keys, "fp16"),
        "v": Tensor(keys, "fp16"),
        "o": Tensor(rows, "fp16", "nan"),
        "lse": Tensor(rows[:3], "fp32", "nan"),
    }
    arguments: dict[str, Argument] = {
        "q_desc": Descriptor("q", (1, 1, "BM", "D")),
        "k_desc": Descriptor("k", (1, 1, "BN", "D")),
        "v_desc": Descriptor("v", (1, 1, "BN", "D")),
        "o_desc": Descriptor("o", (1, 1, "BM", "D")),
        "lse_ptr": Pointer("lse"),
        "slopes_ptr": Absent(),
        **{f"{letter}_factors_ptr": Absent() for letter in "qkv"},
        **{size: Number(size) for size in ("H", "SQ", "SK")},
        "diagonal": Number("DIAGONAL"),
        "scale": Number(_INVERSE_ROOT_OF_128),
        "softcap": Number(1.0),
        **{f"F{letter}_{axis}": Number(0) for letter in "QKV" for axis in "BH"},
    }
    constexprs = {"GROUP": 1, "BM": 128, "BN": 128, "D": 128, "V_T": False, "CAUSAL": True, "WINDOW": 0,
                  "ALIBI": False, "SOFTCAP": False, "EVEN": True}  # fmt: skip
    sizes = {"B": 2, "H": 2, "HK": 2, "SQ": 384, "SK": 384, "DIM": 128, "DIAGONAL": 0}
    return Case(name, attention_two_loops, arguments, tensors, constexprs, sizes, "queries", num_warps=8)


def with_lengths(case: Case, queries: int, keys: int) -> Case:
    """The attention case on other lengths: the last query sees the last key."""
    even = keys % case.size("BN") == 0
    return replace(
        case,
        sizes={**case.sizes, "SQ": queries, "SK": keys, "DIAGONAL": keys - queries},
        constexprs={**case.constexprs, "EVEN": even},
    )


def is_attention(case: Case) -> bool:
    """Whether a case of the demo is attention; the others are products."""
    return "SQ" in case.sizes


def flops(case: Case) -> float:
    """Floating-point operations of a case of the demo; for attention, of the pairs that the causal mask leaves."""
    if is_attention(case):
        return 4.0 * case.size("B*H*DIM") * case.size("SQ*SK") / 2
    dots = 2 if "u" in case.tensors else 1
    return 2.0 * dots * case.size("M*N*K")


def _gemm(
    name: str,
    kernel: object,
    sizes: Mapping[str, int],
    grid: Grid,
    tile: tuple[int, int, int],
    b_t: bool,
    dtype: str = "fp16",
    num_warps: int = 8,
    **constexprs: object,
) -> Case:
    """A product of A (M x K) and B, which is stored N x K if `b_t`."""
    bm, bn, bk = tile
    tensors = {
        "a": Tensor(("M", "K"), dtype),
        "b": Tensor(("N", "K") if b_t else ("K", "N"), dtype),
        "c": Tensor(("M", "N"), "fp16", "nan"),
    }
    arguments: dict[str, Argument] = {
        "a_desc": Descriptor("a", ("BM", "BK")),
        "b_desc": Descriptor("b", ("BN", "BK") if b_t else ("BK", "BN")),
        "c_desc": Descriptor("c", ("BM", "BN")),
        **_SIZES,
    }
    known = {"BM": bm, "BN": bn, "BK": bk, **constexprs}
    return Case(name, kernel, arguments, tensors, known, sizes, grid, num_warps=num_warps)


def gate_up(name: str) -> Case:
    """The gate and up projection: two products that share A."""
    case = _gemm(name, gemm.gemm_gate_up, _SMALL, "tiles", (128, 128, 64), False, GROUP_M=4)
    arguments = dict(case.arguments)
    arguments["gate_desc"] = arguments.pop("b_desc")
    arguments["up_desc"] = Descriptor("u", ("BK", "BN"))
    return replace(case, arguments=arguments, tensors={**case.tensors, "u": Tensor(("K", "N"), "fp16")})


def counted(name: str) -> Case:
    """Tiles from an atomic counter, in a persistent kernel."""
    sizes = {**_SMALL, "PROGRAMS": 4}
    case = _gemm(name, gemm.dynamic_tiles, sizes, "programs", (128, 128, 64), False, num_warps=4)
    counter = Tensor((64,), "i32", "zero")
    return replace(
        case,
        arguments={**case.arguments, "counter_ptr": Pointer("counter")},
        tensors={**case.tensors, "counter": counter},
    )


def _persistent(name: str, k: int, bk: int, dtype: str) -> Case:
    sizes = {**_LARGE, "K": k, "PROGRAMS": 4}
    more = {"GROUP_M": 4, "A_T": False, "B_T": True, "FLATTEN": False}
    return _gemm(name, gemm.gemm_persistent, sizes, "programs", (128, 256, bk), True, dtype, **more)


CASES = (
    attention("two_loops_fp16_d128_causal"),
    _gemm("tile_8warps_nt", gemm.gemm_tile, _LARGE, "tiles", (128, 256, 64), True, GROUP_M=4, A_T=False, B_T=True),
    _persistent("persistent_8warps", 328, 64, "fp16"),
    _persistent("persistent_fp8e4nv", 656, 128, "fp8e4nv"),
    gate_up("gate_up_8warps"),
    counted("dynamic_tiles"),
)


def find(name: str) -> Case:
    """The case of the demo called `name`."""
    return next(case for case in CASES if case.name == name)
