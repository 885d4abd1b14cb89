"""The list of GEMM cases: everything that must specialise, and everything that must be declined.

The problems are small (a few tiles, with sizes that the tiles do not divide), because the GPU run checks every element
in float64. Tests and benches add trip counts around the depth of the pipeline (`Specimen.with_sizes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.demo.kernels import gemm as shown
from tests.cases.case import Absent, Argument, Descriptor, Expectation, Grid, Number, Pointer, Specimen, Tensor
from tests.cases.gemm import declined, epilogues, kernel, persistent, structure

ONE_DOT = Expectation("specialised")
NOT_IN_FLIGHT = Expectation("specialised", in_flight=False)
ONE_COPIED = Expectation("specialised", payloads=(1, 1), sites=2, copied=1)
BOTH_COPIED = Expectation("specialised", payloads=(1, 1), sites=2, copied=2)
GATED = Expectation("specialised", payloads=(1, 1, 1), sites=3, dots=(2,))
PROBLEM = {"M": 384, "N": 512, "K": 328}
PERSISTENT = {**PROBLEM, "PROGRAMS": 4}
PLANS = ((1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2))
SIZES: dict[str, Argument] = {name: Number(name) for name in ("M", "N", "K")}


def operands(dtype: str, out: str, a_t: bool = False, b_t: bool = False) -> dict[str, Tensor]:
    """A, B and C, each operand stored in either order."""
    return {
        "a": Tensor(("K", "M") if a_t else ("M", "K"), dtype),
        "b": Tensor(("N", "K") if b_t else ("K", "N"), dtype),
        "c": Tensor(("M", "N"), out, "nan"),
    }


def descriptors(a_t: bool = False, b_t: bool = False, c_block: str = "BN") -> dict[str, Argument]:
    """Host descriptors of A, B and C."""
    return {
        "a_desc": Descriptor("a", ("BK", "BM") if a_t else ("BM", "BK")),
        "b_desc": Descriptor("b", ("BN", "BK") if b_t else ("BK", "BN")),
        "c_desc": Descriptor("c", ("BM", c_block)),
    }


def block(bm: int = 128, bn: int = 128, bk: int = 64, **more: Any) -> dict[str, Any]:
    """The tile and further constexprs."""
    return {"BM": bm, "BN": bn, "BK": bk, **more}


def case(name: str, fn: Any, tensors: Mapping[str, Tensor], arguments: Mapping[str, Argument],
     constexprs: Mapping[str, Any],
         sizes: Mapping[str, int], grid: Grid, reference: str, expect: Expectation = ONE_DOT, tags: str = "",
         **more: Any) -> Specimen:  # fmt: skip
    """A case whose `tags` are words in one text."""
    return Specimen(
        name, fn, arguments, tensors, constexprs, sizes, grid, reference, expect, tags=frozenset(tags.split()), **more
    )


# --- operands: element type and storage order ---


def tile_case(
    dtype: str, a_t: bool, b_t: bool, tile: tuple[int, int, int], expect: Expectation = ONE_DOT, **more: Any
) -> Specimen:
    """`gemm_tile` for one element type and storage order."""
    out = "fp32" if dtype == "fp32" else "bf16" if dtype == "bf16" else "fp16"
    order = ("t" if a_t else "n") + ("t" if b_t else "n")
    k = {"fp32": 164, "fp16": 328, "bf16": 328}.get(dtype, 656)
    return case(f"tile_{dtype}_{order}", shown.gemm_tile, operands(dtype, out, a_t, b_t),
                {**descriptors(a_t, b_t), **SIZES}, block(*tile, GROUP_M=4, A_T=a_t, B_T=b_t), {**PROBLEM, "K": k},
                "tiles", "gemm", expect, **more)  # fmt: skip


BOTH = (False, True)
OPERANDS = [
    *(tile_case(dtype, a_t, b_t, (128, 128, 64), plans=PLANS if dtype == "fp16" else ((3, 1),))
      for dtype in ("fp16", "bf16") for a_t in BOTH for b_t in BOTH),
    *(tile_case(dtype, False, True, (128, 128, 128), plans=((2, 1), (3, 1), (3, 2))) for dtype in ("fp8e4nv", "fp8e5")),
    tile_case("fp32", False, True, (128, 128, 32)),
    # Not K-major: wgmma takes only fp16 and bf16 in that order, so Triton transposes the tile in registers.
    tile_case("fp32", False, False, (128, 128, 32)),
    tile_case("fp32", True, False, (128, 128, 32), BOTH_COPIED),
    tile_case("fp32", True, True, (128, 128, 32), ONE_COPIED),
    tile_case("fp8e4nv", False, False, (128, 128, 128)),
    tile_case("fp8e4nv", True, True, (128, 128, 128), ONE_COPIED),
    case("precise_fp8e4nv_nt", kernel.gemm_precise, operands("fp8e4nv", "fp16", b_t=True), {**descriptors(b_t=True),
         **SIZES}, block(bk=128, GROUP_M=4), {**PROBLEM, "K": 656}, "tiles", "gemm", Expectation("either")),
]  # fmt: skip

# --- loops, tiles, warps, stages ---

NN = {**descriptors(), **SIZES}
NT = {**descriptors(b_t=True), **SIZES}
FP16 = operands("fp16", "fp16")
FP16_T = operands("fp16", "fp16", b_t=True)
POINTERS: dict[str, Argument] = {"a_ptr": Pointer("a"), "b_ptr": Pointer("b"), "c_ptr": Pointer("c"), **SIZES}


def named_tile(name: str, sizes: Mapping[str, int], tile: tuple[int, int, int], b_t: bool, **more: Any) -> Specimen:
    """`gemm_tile` in fp16 with a name of its own."""
    return case(name, shown.gemm_tile, FP16_T if b_t else FP16, NT if b_t else NN,
                block(*tile, GROUP_M=4, A_T=False, B_T=b_t), sizes, "tiles", "gemm", **more)  # fmt: skip


LARGE = {"M": 512, "N": 768, "K": 328}
TILES = [
    *(named_tile(f"tile_stages{stages}", PROBLEM, (128, 128, 64), True, num_stages=stages) for stages in (1, 2, 4, 5)),
    *(named_tile(f"tile_8warps_{order}", LARGE, (128, 256, 64), order == "nt", num_warps=8, plans=((3, 1), (3, 2)))
      for order in ("nn", "nt")),
    named_tile("tile_8warps_128x128", LARGE, (128, 128, 64), False, num_warps=8),
    named_tile("tile_64x64", PROBLEM, (64, 64, 64), True),
    named_tile("tile_64x256", PROBLEM, (64, 256, 64), False),
    named_tile("tile_bk32", PROBLEM, (128, 128, 32), False),
    named_tile("tile_bk128", PROBLEM, (128, 128, 128), True, plans=((2, 1),)),
    named_tile("tile_edges", {"M": 200, "N": 264, "K": 104}, (128, 128, 64), True),
    named_tile("tile_k_below_block", {**PROBLEM, "K": 40}, (128, 128, 64), True, plans=PLANS),
    named_tile("tile_k_zero", {**PROBLEM, "K": 0}, (128, 128, 64), True, plans=PLANS),
    case("plus_equals", kernel.gemm_plus_equals, FP16, {**descriptors(), "K": Number("K")}, block(), PROBLEM,
         "tiles_2d", "gemm"),
    case("device_desc_nn", kernel.gemm_device_desc, FP16, POINTERS, block(GROUP_M=4, B_T=False), PROBLEM, "tiles",
         "gemm"),
    case("device_desc_nt", kernel.gemm_device_desc, FP16_T, POINTERS, block(GROUP_M=4, B_T=True), PROBLEM, "tiles",
         "gemm"),
    case("device_desc_8warps", kernel.gemm_device_desc, FP16, POINTERS, block(128, 256, GROUP_M=4, B_T=False), LARGE,
         "tiles", "gemm", num_warps=8),
    case("split_k", kernel.gemm_split_k, {**FP16, "c": Tensor(("Z", "M", "N"), "fp32", "nan")},
         {"a_desc": Descriptor("a", ("BM", "BK")), "b_desc": Descriptor("b", ("BK", "BN")), "c_ptr": Pointer("c"),
         **SIZES, "stride_cz": Number("M*N")},
         block(GROUP_M=4, SPLIT=2), {**PROBLEM, "Z": 2}, "tiles_batch", "split_k"),
]  # fmt: skip


def persistent_case(name: str, flatten: bool, a_t: bool = False, b_t: bool = True,
                    sizes: Mapping[str, int] = PERSISTENT, tile: tuple[int, int, int] = (128, 128, 64),
                    dtype: str = "fp16", **more: Any) -> Specimen:  # fmt: skip
    """`gemm_persistent` with a name."""
    return case(name, shown.gemm_persistent, operands(dtype, "fp16", a_t, b_t), {**descriptors(a_t, b_t), **SIZES},
                block(*tile, GROUP_M=4, A_T=a_t, B_T=b_t, FLATTEN=flatten), sizes, "programs", "gemm",
                tags="persistent", **more)  # fmt: skip


LOOPS = [
    persistent_case("persistent", False, plans=PLANS),
    persistent_case("persistent_flat", True, plans=PLANS),
    persistent_case("persistent_nn", False, b_t=False),
    persistent_case("persistent_flat_nn", True, b_t=False),
    persistent_case("persistent_tt", False, a_t=True),
    persistent_case("persistent_8warps", False, tile=(128, 256, 64), num_warps=8, sizes={**LARGE, "PROGRAMS": 4}),
    persistent_case("persistent_flat_8warps", True, b_t=False, tile=(128, 256, 64), num_warps=8, sizes={**LARGE,
         "PROGRAMS": 4}),
    persistent_case("persistent_fp8e4nv", False, tile=(128, 256, 128), dtype="fp8e4nv", num_warps=8,
               sizes={**LARGE, "K": 656, "PROGRAMS": 4}),
    persistent_case("persistent_flat_fp8e4nv", True, tile=(128, 256, 128), dtype="fp8e4nv", num_warps=8,
               sizes={**LARGE, "K": 656, "PROGRAMS": 4}),
    persistent_case("persistent_k_zero", False, sizes={**PERSISTENT, "K": 0}),
    persistent_case("persistent_flat_k_zero", True, sizes={**PERSISTENT, "K": 0}),
    persistent_case("persistent_k_below_block", True, sizes={**PERSISTENT, "K": 40}),
    case("persistent_range", persistent.gemm_persistent_range, FP16_T, NT, block(GROUP_M=4), PERSISTENT, "programs",
         "gemm", tags="persistent"),
    case("persistent_while", persistent.gemm_persistent_while, FP16_T, NT, block(GROUP_M=4), PERSISTENT, "programs",
         "gemm", tags="persistent"),
    *(case(f"persistent_device_desc{'_flat' if flat else ''}", persistent.gemm_persistent_device_desc, FP16, POINTERS,
           block(GROUP_M=4, B_T=False, FLATTEN=flat), PERSISTENT, "programs", "gemm",
           tags="persistent") for flat in BOTH),
    *(case(f"triangular{'_flat' if flat else ''}", persistent.gemm_triangular, FP16, NN, block(GROUP_M=2, FLATTEN=flat),
           {"M": 640, "N": 256, "K": 640, "PROGRAMS": 3}, "programs", "triangular", tags="persistent varying",
           plans=PLANS)
      for flat in BOTH),
    case("ragged", persistent.gemm_ragged, {**FP16, "trips": Tensor((6,), "i32", "trips")},
         {**descriptors(), "trips_ptr": Pointer("trips"), "M": Number("M"), "N": Number("N")}, block(GROUP_M=4),
         {"M": 768, "N": 256, "K": 384, "PROGRAMS": 5}, "programs", "ragged", tags="persistent varying"),
]  # fmt: skip

# --- batches, several dots, several loops, ifs ---

BATCH = {"M": 256, "N": 256, "K": 136, "Z": 3}


def batch_operands(b_t: bool) -> dict[str, Tensor]:
    """A, B and C with the batch as first dimension."""
    return {
        name: Tensor(("Z", *tensor.shape), tensor.dtype, tensor.fill)
        for name, tensor in operands("fp16", "fp16", b_t=b_t).items()
    }


def batch_descriptors(b_t: bool) -> dict[str, Argument]:
    """3-D boxes of one matrix each."""
    return {"a_desc": Descriptor("a", (1, "BM", "BK")), "b_desc": Descriptor("b", (1, "BN", "BK") if b_t else (1,
         "BK", "BN")),
            "c_desc": Descriptor("c", (1, "BM", "BN")), **SIZES}  # fmt: skip


STACKED = {
    "a": Tensor(("Z*M", "K"), "fp16"),
    "b": Tensor(("Z*K", "N"), "fp16"),
    "c": Tensor(("Z*M", "N"), "fp16", "nan"),
}
GATE_UP = {**FP16, "u": Tensor(("K", "N"), "fp16")}
TWO = {**FP16, "a2": Tensor(("M", "K2"), "fp16"), "b2": Tensor(("K2", "N"), "fp16")}
STRUCTURE = [
    case("with_barrier", structure.with_barrier, FP16, {**descriptors(), "K": Number("K")}, block(), PROBLEM,
         "tiles_2d", "gemm"),
    case("batched_grid", structure.gemm_batched_grid, STACKED, NN, block(GROUP_M=4), BATCH, "tiles_batch", "stacked"),
    *(case(f"batched_desc_{'nt' if b_t else 'nn'}", structure.gemm_batched_desc, batch_operands(b_t),
         batch_descriptors(b_t), block(GROUP_M=4, B_T=b_t), BATCH, "tiles_batch", "batched") for b_t in BOTH),
    case("gate_up", shown.gemm_gate_up, GATE_UP,
         {"a_desc": Descriptor("a", ("BM", "BK")), "gate_desc": Descriptor("b", ("BK", "BN")),
         "up_desc": Descriptor("u", ("BK", "BN")), "c_desc": Descriptor("c", ("BM", "BN")), **SIZES},
         block(bn=64, GROUP_M=4), PROBLEM, "tiles", "gate_up", GATED, plans=PLANS),
    case("gate_up_8warps", shown.gemm_gate_up, GATE_UP,
         {"a_desc": Descriptor("a", ("BM", "BK")), "gate_desc": Descriptor("b", ("BK", "BN")),
         "up_desc": Descriptor("u", ("BK", "BN")), "c_desc": Descriptor("c", ("BM", "BN")), **SIZES},
         block(bn=128, GROUP_M=4), PROBLEM, "tiles", "gate_up", GATED, num_warps=8),
    case("two_loops", structure.gemm_two_loops, TWO,
         {**descriptors(), "a2_desc": Descriptor("a2", ("BM", "BK")), "b2_desc": Descriptor("b2", ("BK", "BN")),
         **SIZES, "K2": Number("K2")},
         block(GROUP_M=4), {**PROBLEM, "K2": 200}, "tiles", "two_loops", Expectation("specialised", sites=2, dots=(1,
         1)), plans=((2, 1), (3, 1), (1, 0))),
    case("lower_only", structure.gemm_lower_only, FP16_T, NT, block(GROUP_M=4), {**PROBLEM, "M": 512}, "tiles",
         "lower_only"),
    *(case(f"if_accumulate_skip{skip}", structure.gemm_if_accumulate, {**FP16, "c0": Tensor(("M", "N"), "fp16")},
           {**descriptors(), "c0_desc": Descriptor("c0", ("BM", "BN")), **SIZES, "skip": Number("SKIP")},
           block(GROUP_M=4), {**PROBLEM, "SKIP": skip}, "tiles", "if_accumulate", plans=((2, 1),)) for skip in (0, 2)),
    case("early_return", structure.gemm_early_return, FP16,
         {**descriptors(), "limit": Number("LIMIT"), "K": Number("K")}, block(), {**PROBLEM, "LIMIT": 4096},
         "tiles_2d", "gemm"),
]  # fmt: skip

# --- epilogues ---


def epilogue(name: str, bias: bool = False, act: str = "", scale: str = "", residual: str = "",
     store: str = "descriptor",
             dtype: str = "fp16", out: str = "fp16", sizes: Mapping[str, int] = PROBLEM, bn: int = 128,
             **more: Any) -> Specimen:  # fmt: skip
    """`gemm_epilogue` with the parts named."""
    tensors = operands(dtype, out, b_t=True)
    tensors |= {"bias": Tensor(("N",), "fp16"), "scale": Tensor(("M",), "fp32"), "residual": Tensor(("M", "N"), "fp16")}
    arguments: dict[str, Argument] = {
        **descriptors(b_t=True), "c_ptr": Absent(), "bias_ptr": Pointer("bias") if bias else Absent(),
        "scale_ptr": Pointer("scale") if scale == "rows" else Absent(), "residual_desc": Absent(),
             "residual_ptr": Absent(),
        "scale": Number(0.37) if scale == "scalar" else Absent(), **SIZES,
    }  # fmt: skip
    if store == "pointer":
        arguments |= {"c_desc": Absent(), "c_ptr": Pointer("c")}
    if residual == "descriptor":
        arguments["residual_desc"] = Descriptor("residual", ("BM", "BN"))
    elif residual == "pointer":
        arguments["residual_ptr"] = Pointer("residual")
    constexprs = block(
        bn=bn,
        bk=128 if dtype.startswith("fp8") else 64,
        GROUP_M=4,
        BIAS=bias,
        ACT=act,
        SCALE=scale,
        RESIDUAL=residual,
        STORE=store,
    )
    return case(
        f"epilogue_{name}", epilogues.gemm_epilogue, tensors, arguments, constexprs, sizes, "tiles", "epilogue", **more
    )


ODD = {"M": 200, "N": 259, "K": 104}
EPILOGUES = [
    epilogue("bias", bias=True),
    epilogue("relu", act="relu"),
    epilogue("silu", act="silu"),
    epilogue("gelu", act="gelu"),
    epilogue("scalar", scale="scalar"),
    epilogue("rows", scale="rows"),
    epilogue("residual_descriptor", residual="descriptor"),
    epilogue("residual_pointer", residual="pointer"),
    epilogue("pointer_store", store="pointer", sizes=ODD),
    epilogue("fp32_store", store="pointer", out="fp32"),
    epilogue("bf16_cast", out="bf16"),
    epilogue("all", bias=True, act="gelu", scale="rows", residual="descriptor", num_warps=8),
    epilogue("all_pointers", bias=True, act="silu", scale="rows", residual="pointer", store="pointer", sizes=ODD,
         bn=64),
    epilogue("fp8_scaled", bias=True, scale="rows", dtype="fp8e4nv", out="bf16", sizes={**PROBLEM, "K": 656}),
    *(case(f"persistent_epilogue{'_flat' if flat else ''}", epilogues.gemm_persistent_epilogue,
           {**FP16_T, "bias": Tensor(("N",), "fp16")}, {**descriptors(b_t=True), "bias_ptr": Pointer("bias"), **SIZES},
           block(GROUP_M=4, FLATTEN=flat), PERSISTENT, "programs", "bias_relu", tags="persistent") for flat in BOTH),
    *(case(f"split_epilogue{'_flat' if flat else ''}", epilogues.gemm_split_epilogue, FP16_T,
           {**descriptors(b_t=True, c_block="BN/2"), **SIZES}, block(128, 256, GROUP_M=4, B_T=True, FLATTEN=flat),
           {**LARGE, "PROGRAMS": 4}, "programs", "gemm", tags="persistent", num_warps=8) for flat in BOTH),
    case("invariant", epilogues.gemm_invariant,
         {**FP16, "x": Tensor(("M", "W"), "fp32"), "gain": Tensor(("N",), "fp32")},
         {**descriptors(), "x_ptr": Pointer("x"), "gain_ptr": Pointer("gain"), **SIZES}, block(GROUP_M=4, W=64),
         PROBLEM, "tiles", "invariant"),
    case("initial_bias", epilogues.gemm_initial_bias, {**FP16, "bias": Tensor(("N",), "fp16")},
         {**descriptors(), "bias_ptr": Pointer("bias"), **SIZES}, block(GROUP_M=4), PROBLEM, "tiles", "initial_bias"),
    case("in_loop_scale", epilogues.gemm_in_loop_scale, {**FP16_T, "scale": Tensor(("BLOCKS", "M"), "fp32")},
         {**descriptors(b_t=True), "scale_ptr": Pointer("scale"), **SIZES}, block(GROUP_M=4),
         {**PROBLEM, "BLOCKS": 16}, "tiles", "in_loop_scale", NOT_IN_FLIGHT, num_warps=8),
]  # fmt: skip

# --- declined ---


def no(reason: str) -> Expectation:
    """Declined with `reason` somewhere in the remark, whatever its case."""
    return Expectation("declined", reason=reason)


K_ONLY: dict[str, Argument] = {**descriptors(), "K": Number("K")}
SQUARE = {"M": 256, "N": 256, "K": 256}
COUNTER = {**FP16, "counter": Tensor((64,), "i32", "zero")}
DECLINED = [
    case("add", declined.add, {"x": Tensor(("M",), "fp32"), "y": Tensor(("M",), "fp32"), "c": Tensor(("M",), "fp32",
         "nan")}, {"x_ptr": Pointer("x"), "y_ptr": Pointer("y"), "c_ptr": Pointer("c"), "n": Number("M")}, {"BM": 1024},
         {"M": 4096}, "rows", "add", no("dot")),
    case("softmax_rows", declined.softmax_rows, {"x": Tensor(("M", "N"), "fp16"), "c": Tensor(("M", "N"), "fp16",
         "nan")},
         {"x_desc": Descriptor("x", ("BM", "BN")), "c_desc": Descriptor("c", ("BM", "BN"))}, {"BM": 16, "BN": 128},
         {"M": 256, "N": 128}, "rows", "softmax", no("dot")),
    case("single_dot", declined.single_dot, FP16,
         {"a_desc": Descriptor("a", ("BM", "K")), "b_desc": Descriptor("b", ("K", "BN")), "c_desc": Descriptor("c",
         ("BM", "BN"))}, {"BM": 128, "BN": 128}, {**PROBLEM, "K": 64}, "tiles_2d", "gemm", no("loop")),
    case("in_place_descriptor", declined.in_place_descriptor, {**FP16, "a": Tensor(("M", "K"), "fp16")},
         {"a_desc": Descriptor("a", ("BM", "BK")), "b_desc": Descriptor("b", ("BK", "BN")), **SIZES}, block(128, 64,
         64), SQUARE, "rows", "", no("a_desc")),
    case("in_place_pointer", declined.in_place_pointer, FP16, {"a_ptr": Pointer("a"), "b_ptr": Pointer("b"), **SIZES},
         block(128, 64, 64), SQUARE, "rows", "", no("a_ptr")),
    case("dynamic_tiles", shown.dynamic_tiles, COUNTER, {**descriptors(), "counter_ptr": Pointer("counter"),
         **SIZES}, block(), PERSISTENT, "programs", "gemm", no("atomic")),
    case("atomic_row", declined.atomic_row, COUNTER,
         {**descriptors(), "counter_ptr": Pointer("counter"), "N": Number("N"), "K": Number("K")}, block(), PROBLEM,
         "tiles_2d", "gemm", no("atomic")),
    case("row_from_reduction", declined.row_from_reduction, FP16, K_ONLY, block(), PROBLEM, "tiles_2d", "gemm",
         no("reduction")),
    case("with_impure_asm", declined.with_impure_asm, FP16, K_ONLY, block(), PROBLEM, "tiles_2d", "gemm", no("asm")),
    case("with_call", declined.with_call, FP16, K_ONLY, block(), PROBLEM, "tiles_2d", "gemm", no("call")),
    case("with_print", declined.with_print, FP16, K_ONLY, block(), PROBLEM, "tiles_2d", "gemm", Expectation("either")),
]  # fmt: skip

SPECIALISED: tuple[Specimen, ...] = tuple(OPERANDS + TILES + LOOPS + STRUCTURE + EPILOGUES)
CASES: tuple[Specimen, ...] = (*SPECIALISED, *DECLINED)


def find(name: str) -> Specimen:
    """The case called `name`; raises KeyError naming the close ones."""
    for candidate in CASES:
        if candidate.name == name:
            return candidate
    close = [candidate.name for candidate in CASES if name in candidate.name]
    raise KeyError(f"no case {name!r}; close: {', '.join(close) or 'none'}")
