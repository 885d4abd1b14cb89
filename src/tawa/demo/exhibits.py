"""The kernels that the demo shows, with their launches: small ones for the simulator, a large one for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tawa.demo.kernels import gemm
from tawa.ops.kernels.attention.forward import attention_two_loops

if TYPE_CHECKING:
    from tawa.runtime.explain.explanation import Explanation

SIDE, HEADS = 8192, 64
"""In the race: rows and columns of products, heads of attention."""
_PROGRAMS = 132
_HEAD_DIM = 128


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a launch. dtype: Triton's name of the element type. fill: normal numbers, NaN for outputs, or zeros.

    box: of a host descriptor over it; None if the kernel gets a pointer.
    """

    shape: tuple[int, ...]
    dtype: str = "fp16"
    fill: Literal["normal", "nan", "zero"] = "normal"
    box: tuple[int, ...] | None = None

    @property
    def type(self) -> str:
        """The type of the argument in Triton's notation."""
        return f"*{self.dtype}:16" if self.box is None else f"tensordesc<{self.dtype}[{_listed(self.box)}]>"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch. arguments: by name, constants left out. problem: M, N and K, or queries, keys and head dimension.

    size: the length of the problem in words. flops: of the dots; for attention, of what the causal mask leaves.
    """

    arguments: Mapping[str, Tensor | int | float | None]
    grid: tuple[int, ...]
    problem: tuple[int, int, int]
    size: str
    flops: float

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name of the argument."""
        return {name: it for name, it in self.arguments.items() if isinstance(it, Tensor)}

    @property
    def signature(self) -> str:
        """The types of the arguments in Triton's notation, as a launch specialises them."""
        return ", ".join(f"{name}={_type_of(it)}" for name, it in self.arguments.items())


@dataclass(frozen=True, slots=True, eq=False)
class Exhibit:
    """One kernel of the demo.

    constants: its constexprs. small: a launch of two by two tiles with so many steps along K, of attention a tile of
    queries that sees so many blocks of keys; a persistent kernel has one program for all of them. large: the launch in
    the race on a GPU; None for no race.
    """

    title: str
    kernel: Any
    constants: Mapping[str, Any]
    small: Callable[[int], Launch]
    large: Launch | None
    num_warps: int = 8
    num_stages: int = 3

    def compiled(self, **options: Any) -> Any:
        """Compiles the kernel with Tawa's launch options; returns Triton's `CompiledKernel`."""
        from tawa.runtime.explain.explaining import compile_with_options

        sizes = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return compile_with_options(self.kernel, self.small(1).signature, self.constants, **sizes, **options)

    def explained(self) -> tuple[Any, Explanation]:
        """Compiles it wherever legal, as under `tawa.jit`; returns Triton's `CompiledKernel` and the explanation."""
        from tawa.runtime.explain.explaining import explain_compiled

        compiled = self.compiled(only_if_faster=False)
        return compiled, explain_compiled(compiled)


def _type_of(argument: Tensor | int | float | None) -> str:
    match argument:
        case Tensor():
            return argument.type
        case int():
            return "i32" if argument % 16 else "i32:16"
        case float():
            return "fp32"
        case None:
            return "None"


def _listed(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))


def _attention(title: str, length: int) -> Exhibit:
    """Causal attention in fp16, head dimension 128; the last query sees the last key. length: in the race."""
    heads, rows_of_q, keys_of_k = 2, 128, 128

    def launch(batches: int, queries: int, keys: int) -> Launch:
        rows, columns = ((batches, heads, length, _HEAD_DIM) for length in (queries, keys))
        box_of_q, box_of_k = (1, 1, rows_of_q, _HEAD_DIM), (1, 1, keys_of_k, _HEAD_DIM)
        arguments = {
            "q_desc": Tensor(rows, box=box_of_q),
            "k_desc": Tensor(columns, box=box_of_k),
            "v_desc": Tensor(columns, box=box_of_k),
            "o_desc": Tensor(rows, fill="nan", box=box_of_q),
            "lse_ptr": Tensor(rows[:3], "fp32", "nan"),
            **dict.fromkeys(("slopes_ptr", "q_factors_ptr", "k_factors_ptr", "v_factors_ptr", "together")),
            "H": heads,
            "SQ": queries,
            "SK": keys,
            "diagonal": keys - queries,
            "scale": _HEAD_DIM**-0.5,
            "softcap": 1.0,
            **dict.fromkeys(("FQ_B", "FQ_H", "FK_B", "FK_H", "FV_B", "FV_H"), 0),
        }
        grid = -(-queries // rows_of_q), batches * heads
        flops = 2.0 * batches * heads * _HEAD_DIM * queries * keys
        return Launch(arguments, grid, (queries, keys, _HEAD_DIM), f"S = {keys}", flops)

    constants = {"GROUP": 1, "BM": rows_of_q, "BN": keys_of_k, "D": _HEAD_DIM, "V_T": False, "CAUSAL": True,
                 "WINDOW": 0, "ALIBI": False, "SOFTCAP": False, "EVEN": True}  # fmt: skip
    large = launch(HEADS // heads, length, length)
    return Exhibit(
        title, attention_two_loops, constants, lambda blocks: launch(1, rows_of_q, blocks * keys_of_k), large
    )


def _product(
    title: str, kernel: Any, tile: tuple[int, int, int], length: int = 0, dtype: str = "fp16", num_warps: int = 8,
    persistent: bool = False, **constants: Any,
) -> Exhibit:  # fmt: skip
    """A product of A (M x K) and B, or of A and two matrices like B; B_T: B is stored N x K. length: K in the race."""
    BM, BN, BK = tile
    along = constants.get("B_T", False)

    def launch(M: int, N: int, K: int, programs: int) -> Launch:
        b = Tensor((N, K) if along else (K, N), dtype, box=(BN, BK) if along else (BK, BN))
        known = {
            "a_desc": Tensor((M, K), dtype, box=(BM, BK)),
            **dict.fromkeys(("b_desc", "gate_desc", "up_desc"), b),
            "c_desc": Tensor((M, N), fill="nan", box=(BM, BN)),
            "counter_ptr": Tensor((64,), "i32", "zero"),
            "M": M,
            "N": N,
            "K": K,
        }
        arguments = {name: known[name] for name in kernel.arg_names if name in known}
        tiles = -(-M // BM) * -(-N // BN)
        dots = 2 if "up_desc" in arguments else 1
        grid = (programs if persistent else tiles,)
        return Launch(arguments, grid, (M, N, K), f"K = {K}", 2.0 * dots * M * N * K)

    large = launch(SIDE, SIDE, length, _PROGRAMS) if length else None
    constants = {"BM": BM, "BN": BN, "BK": BK, **constants}
    return Exhibit(title, kernel, constants, lambda steps: launch(2 * BM, 2 * BN, steps * BK, 1), large, num_warps)


_STORED_BY_N = {"GROUP_M": 4, "A_T": False, "B_T": True}
_PERSISTENT = {**_STORED_BY_N, "FLATTEN": False, "persistent": True}
EXHIBITS = (
    _attention("attention, fp16, causal", 4096),
    _product("fp16, one tile a program", gemm.gemm_tile, (128, 256, 64), 4096, **_STORED_BY_N),
    _product("fp16, persistent", gemm.gemm_persistent, (128, 256, 64), 1024, **_PERSISTENT),
    _product("fp8 e4m3, persistent", gemm.gemm_persistent, (128, 256, 128), 8192, "fp8e4nv", **_PERSISTENT),
    _product("gate and up projection", gemm.gemm_gate_up, (128, 128, 64), 4096, GROUP_M=4),
    _product("tiles from a counter", gemm.dynamic_tiles, (128, 128, 64), num_warps=4, persistent=True),
)
