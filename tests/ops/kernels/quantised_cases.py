"""Cases of the kernels of scaled, batched and weight-only products, and simulated launches of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.ops.kernels.products import batched, scaled, weight_only, weight_only_foreign
from tawa.ops.products.tile_choice import Tile
from tawa.plan import Plan, PlanOptions
from tawa.sim import from_floats, to_floats
from tests.cases.arrays import simulate_case
from tests.cases.attention.builders import SPECIALISED
from tests.cases.case import Absent, Argument, Descriptor, Number, Pointer, Specimen, Tensor
from tests.matrix.compiling import signature, specialised_levels

SPAN = 128
AUTOMATIC = PlanOptions(only_if_faster=False)


def scaled_case(
    tile: Tile, kinds: tuple[int, int] = (2, 3), sizes: tuple[int, int, int] = (136, 160, 272),
    types: tuple[str, str] = ("fp8e4nv", "fp8e4nv"), bias: bool = False, out: str = "bf16", tma: bool = True,
    unit: bool = False,
) -> Specimen:  # fmt: skip
    """`scaled_mm`; kinds: of the scales of A and B. unit: those of neighbouring rows of A are neighbours."""
    (M, N, K), steps = sizes, -(-sizes[2] // SPAN)
    shapes = [{0: (1, 1), 1: (rows, 1), 2: (rows, steps), 3: (-(-rows // SPAN), steps)}[kind]
              for rows, kind in zip((M, N), kinds, strict=True)]  # fmt: skip
    if unit:
        shapes[0] = (steps, -(-M // 4) * 4)
    strides = [
        (0, 0) if kind == 0 else (shape[1], int(shape[1] > 1)) for kind, shape in zip(kinds, shapes, strict=True)
    ]
    if unit:
        strides[0] = 1, shapes[0][1]
    tensors = {
        "a": Tensor((M, K), types[0]), "b": Tensor((N, K), types[1]), "c": Tensor((M, N), out, "nan"),
        "scale_a": Tensor(shapes[0], "fp32"), "scale_b": Tensor(shapes[1], "fp32"),
        **({"bias": Tensor((N,), "fp32")} if bias else {}),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        "a": Descriptor("a", (tile.BM, tile.BK)), "b": Descriptor("b", (tile.BN, tile.BK)),
        "c": Descriptor("c", (tile.BM, tile.BN)) if tma else Pointer("c"), "scale_a": Pointer("scale_a"),
        "scale_b": Pointer("scale_b"), "bias": Pointer("bias") if bias else Absent(), "M": Number(M), "N": Number(N),
        "K": Number(K), "a_stride": Number(strides[0][0]), "a_step": Number(strides[0][1]),
        "b_stride": Number(strides[1][0]), "b_step": Number(strides[1][1]),
    }  # fmt: skip
    constants = {"BM": tile.BM, "BN": tile.BN, "BK": tile.BK, "GROUP": 8, "A_SCALE": kinds[0], "B_SCALE": kinds[1],
                 "A_UNIT": unit, "B_UNIT": False, "BIAS": bias, "C_TMA": tma}  # fmt: skip
    tiles = -(-M // tile.BM) * -(-N // tile.BN)
    return specimen_of("scaled", scaled.scaled_mm, arguments, tensors, constants, tile, tiles)


def batched_case(
    tile: Tile, dtype: str = "bf16", rows: tuple[bool, bool] = (True, True), one: bool = False,
    sizes: tuple[int, int, int, int] = (2, 136, 160, 200), tma: bool = True,
) -> Specimen:  # fmt: skip
    """`batched_mm`; rows: whether A has K and B has N innermost. one: all batches share B."""
    B, M, N, K = sizes
    of_a, of_b = (M, K) if rows[0] else (K, M), (K, N) if rows[1] else (N, K)
    tensors = {"a": Tensor((B, *of_a), dtype), "b": Tensor((1 if one else B, *of_b), dtype),
               "c": Tensor((B, M, N), dtype, "nan")}  # fmt: skip
    arguments: dict[str, Argument] = {
        "a": Descriptor("a", (1, tile.BM, tile.BK) if rows[0] else (1, tile.BK, tile.BM)),
        "b": Descriptor("b", (1, tile.BK, tile.BN) if rows[1] else (1, tile.BN, tile.BK)),
        "c": Descriptor("c", (1, tile.BM, tile.BN)) if tma else Pointer("c"), "M": Number(M), "N": Number(N),
        "K": Number(K),
    }  # fmt: skip
    constants = {"BM": tile.BM, "BN": tile.BN, "BK": tile.BK, "GROUP": 8, "A_K": rows[0], "B_K": not rows[1],
                 "A_ONE": False, "B_ONE": one, "C_TMA": tma}  # fmt: skip
    tiles = B * -(-M // tile.BM) * -(-N // tile.BN)
    return specimen_of("batched", batched.batched_mm, arguments, tensors, constants, tile, tiles)


def weights_case(
    tile: Tile, kind: int = 0, dtype: str = "fp16", sizes: tuple[int, int, int] = (20, 72, 528), span: int = 128,
    zeros: bool = True, splits: int = 1, tma: bool = True,
) -> Specimen:  # fmt: skip
    """`weight_only`; sizes: M, N and K."""
    M, N, K = sizes
    block = 256 if kind == 0 else 128
    groups, tiles = -(-K // span), -(-N // tile.BN) * -(-M // tile.BM)
    tensors = {
        "w": Tensor((N, -(-K // block) * 32), "i32"), "x": Tensor((M, K), dtype), "y": Tensor((M, N), dtype, "nan"),
        "scales": Tensor((groups, N), dtype), "zeros": Tensor((groups, N), dtype),
        "parts": Tensor((tiles * splits * tile.BN * tile.BM,), "fp32", "nan"),
        "semaphores": Tensor((tiles,), "i32", "zero"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        "w": Descriptor("w", (tile.BN, 32)), "x": Descriptor("x", (tile.BM, block)),
        "y": Descriptor("y", (tile.BM, tile.BN)) if tma else Pointer("y"), "scales": Pointer("scales"),
        "zeros": Pointer("zeros") if zeros else Absent(), "bias": Absent(), "parts": Pointer("parts"),
        "semaphores": Pointer("semaphores"), "M": Number(M), "N": Number(N), "K": Number(K),
    }  # fmt: skip
    constants = {"BN": tile.BN, "BM": tile.BM, "SPAN": span, "KIND": kind, "ZEROS": zeros, "ZERO": 8, "BIAS": False,
                 "SPLIT": splits, "Y_TMA": tma}  # fmt: skip
    return specimen_of("weights", weight_only.weight_only, arguments, tensors, constants, tile, tiles * splits)


def foreign_case(
    tile: Tile, awq: bool, dtype: str = "fp16", sizes: tuple[int, int, int] = (20, 96, 520), splits: int = 1
) -> Specimen:
    """`weight_only_foreign` with zeros for each 128 elements of K. Rows of words are multiples of 16 bytes."""
    plain = weights_case(tile, dtype=dtype, sizes=sizes, splits=splits)
    _, N, K = sizes
    shape, box = ((K, N // 8), (64, tile.BN // 8)) if awq else ((K // 8, N), (8, tile.BN))
    tensors = {**plain.tensors, "w": Tensor(shape, "i32"), "zeros": Tensor((-(-K // SPAN), N // 8), "i32")}
    arguments = {**plain.arguments, "w": Descriptor("w", box), "x": Descriptor("x", (tile.BM, 64))}
    known = {name: it for name, it in plain.constexprs.items() if name != "KIND"}
    constants = {**known, "BK": 64, "AWQ": awq, "ADD": 0}
    kernel, programs = weight_only_foreign.weight_only_foreign, plain.sizes["PROGRAMS"]
    return specimen_of("foreign", kernel, arguments, tensors, constants, tile, programs)


def specimen_of(
    name: str, kernel: Any, arguments: Any, tensors: Any, constants: dict[str, Any], tile: Tile, programs: int
) -> Specimen:
    """A case of a kernel with a tile, named after its constants."""
    of = "-".join(str(it) for it in constants.values())
    return Specimen(f"{name}-{of}", kernel, arguments, tensors, constants, {"PROGRAMS": programs}, "programs", "",
                    SPECIALISED, num_warps=tile.num_warps, num_stages=tile.num_stages)  # fmt: skip


def compiled_for(case: Specimen, tile: Tile) -> Any:
    """The kernel of a case with what the tile asks of Tawa, specialised wherever that is legal."""
    options = tile.launch(case.constexprs.get("C_TMA", True))
    asked = PlanOptions(
        only_if_faster=False, num_consumer_groups=options.get("num_consumer_groups"), ping_pong=options.get("ping_pong")
    )
    plan = Plan.of(json.loads(options["plan"])) if "plan" in options else None
    launched = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    with launched_by_us():
        return compile_kernel(case.kernel, signature(case), Request(asked, plan), **launched)


def run_simulated(case: Specimen, arrays: dict[str, Any]) -> None:
    """One launch on arrays, whose outputs it writes. Asynchronous work lands in a random order."""
    simulate_case(case, read_levels(specialised_levels(case, AUTOMATIC))[1], arrays, "random")


def normal(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Normal numbers in a type, as the simulator has them."""
    return from_floats(np.random.default_rng(seed).standard_normal(shape), dtype)


def floats(array: Any, dtype: str) -> Any:
    """Their values in float64."""
    return to_floats(array, dtype).astype(np.float64)
