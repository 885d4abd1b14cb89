"""Builders of pointer cases: tensors, strides and constexprs of each kernel, from a few choices."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.cases.attention.builders import SCALE, block_lists, lengths
from tests.cases.case import Argument, Descriptor, Expectation, Grid, Number, One, Pointer, Size, Specimen, Tensor
from tests.cases.pointers import attention, exits, gemm, groups, recurrent, weights

SPECIALISED = Expectation("specialised")
EITHER = Expectation("either")
SIZES: dict[str, Argument] = {name: Number(name) for name in ("M", "N", "K")}
PROBLEM = {"M": 392, "N": 528, "K": 336}
"""No size divides the tiles; K and N are multiples of 16, so that Triton knows that rows are aligned."""
HEADS = {"B": 2, "H": 2, "HK": 2, "SQ": 384, "SK": 384}


def no(reason: str) -> Expectation:
    """Declined with `reason` somewhere in the remark, whatever its case."""
    return Expectation("declined", reason=reason)


def block(bm: int = 128, bn: int = 128, bk: int = 64, **more: Any) -> dict[str, Any]:
    """The tile and further constexprs."""
    return {"BM": bm, "BN": bn, "BK": bk, **more}


def strides(name: str, *shape: tuple[str, Size | None]) -> dict[str, Argument]:
    """Arguments ``stride_<name><dim>``: of each dimension its letter and its stride, None for 1."""
    return {f"stride_{name}{dim}": One() if size is None else Number(size) for dim, size in shape}


def operands(dtype: str, out: str, a_t: bool = False, b_t: bool = False) -> dict[str, Tensor]:
    """A, B and C, each operand stored in either order."""
    return {
        "a": Tensor(("K", "M") if a_t else ("M", "K"), dtype),
        "b": Tensor(("N", "K") if b_t else ("K", "N"), dtype),
        "c": Tensor(("M", "N"), out, "nan"),
    }


def gemm_arguments(a_t: bool = False, b_t: bool = False) -> dict[str, Argument]:
    """Pointers, sizes and strides of a GEMM."""
    return {
        "a_ptr": Pointer("a"), "b_ptr": Pointer("b"), "c_ptr": Pointer("c"), **SIZES,
        **(strides("a", ("m", None), ("k", "M")) if a_t else strides("a", ("m", "K"), ("k", None))),
        **(strides("b", ("k", None), ("n", "K")) if b_t else strides("b", ("k", "N"), ("n", None))),
        **strides("c", ("m", "N"), ("n", None)),
    }  # fmt: skip


def output_of(dtype: str) -> str:
    """The element type of C: that of A, and fp16 for fp8."""
    return "fp16" if dtype.startswith("fp8") else dtype


def gemm_case(name: str, kernel: Any = gemm.gemm_tutorial, *, dtype: str = "fp16", a_t: bool = False,
              b_t: bool = False, tile: tuple[int, int, int] = (128, 128, 64), warps: int = 4, stages: int = 3,
              sizes: Mapping[str, int] = PROBLEM, expect: Expectation = SPECIALISED, tags: str = "",
              plans: tuple[tuple[int, int], ...] = ((3, 1),), **constexprs: Any) -> Specimen:  # fmt: skip
    """A kernel with the arguments of `gemm.py`; persistent ones have PROGRAMS among their sizes."""
    known = {"GROUP_M": 4, **({"ACT": ""} if kernel is gemm.gemm_tutorial else {}), **constexprs}
    grid: Grid = "tiles"
    if "PROGRAMS" in sizes:
        known["PROGRAMS"], grid = sizes["PROGRAMS"], "programs"
    return Specimen(
        name,
        kernel,
        gemm_arguments(a_t, b_t),
        operands(dtype, output_of(dtype), a_t, b_t),
        block(*tile, **known),
        sizes,
        grid,
        "pointer_gemm",
        expect,
        num_warps=warps,
        num_stages=stages,
        plans=plans,
        tags=frozenset(tags.split()),
    )


def strided_case(name: str) -> Specimen:
    """A is every second column of a wider matrix: its inner stride is 2."""
    case = gemm_case(name, expect=EITHER)
    tensors = {**case.tensors, "a": Tensor(("M", "STEP*K"), "fp16")}
    arguments = {**case.arguments, "stride_am": Number("STEP*K"), "stride_ak": Number("STEP")}
    return replace(case, tensors=tensors, arguments=arguments, sizes={**PROBLEM, "STEP": 2})


def mixed_case(name: str) -> Specimen:
    """A by pointers, B by a descriptor."""
    arguments = {key: it for key, it in gemm_arguments().items() if key not in ("b_ptr", "stride_bk", "stride_bn")}
    return Specimen(
        name,
        gemm.gemm_mixed,
        {**arguments, "b_desc": Descriptor("b", ("BK", "BN"))},
        operands("fp16", "fp16"),
        block(),
        PROBLEM,
        "tiles_2d",
        "pointer_gemm",
        SPECIALISED,
    )


def batched_case(name: str, b_t: bool, dtype: str = "fp16") -> Specimen:
    """A batch of three."""
    tensors = {key: Tensor(("Z", *it.shape), it.dtype, it.fill) for key, it in operands(dtype, dtype, b_t=b_t).items()}
    batch = {f"stride_{x}z": Number(size) for x, size in (("a", "M*K"), ("b", "K*N"), ("c", "M*N"))}
    return Specimen(
        name,
        gemm.gemm_batched,
        {**gemm_arguments(b_t=b_t), **batch},
        tensors,
        block(GROUP_M=4),
        {"M": 200, "N": 272, "K": 208, "Z": 3},
        "tiles_batch",
        "pointer_batched",
        SPECIALISED,
    )


# --- weights ---


def weights_case(name: str, dtype: str, weight: str, scale_first: bool = False, tile: tuple[int, int, int] = (128, 128,
                 64), warps: int = 4, b_t: bool = False, sizes: Mapping[str, int] = PROBLEM,
                 span: tuple[int, int] = (-128, 128)) -> Specimen:  # fmt: skip
    """int8 or fp8 weights for activations of `dtype`."""
    tensors = operands(dtype, dtype, b_t=b_t)
    shape = tensors["b"].shape
    tensors["b"] = Tensor(shape, "i8", "integers", span=span) if weight == "i8" else Tensor(shape, weight)
    tensors["scale"] = Tensor(("N",), "fp32")
    return Specimen(
        name,
        weights.gemm_weights,
        {**gemm_arguments(b_t=b_t), "scale_ptr": Pointer("scale")},
        tensors,
        block(*tile, GROUP_M=4, SCALE_FIRST=scale_first),
        sizes,
        "tiles",
        "pointer_weights",
        SPECIALISED,
        num_warps=warps,
    )


def int4_case(name: str, dtype: str, group: int) -> Specimen:
    """Two weights in a byte."""
    sizes = {**PROBLEM, "K": 384, "GROUPS": -(-384 // group)}
    tensors = {**operands(dtype, dtype), "b": Tensor(("K/2", "N"), "i8", "integers"),
               "scale": Tensor(("GROUPS", "N"), "fp32")}  # fmt: skip
    return Specimen(
        name,
        weights.gemm_int4,
        {**gemm_arguments(), "scale_ptr": Pointer("scale")},
        tensors,
        block(GROUP_M=4, GROUP=group),
        sizes,
        "tiles",
        "pointer_int4",
        EITHER,
    )


def packed_case(name: str, dtype: str = "fp16", *, step: int = 1, tile: tuple[int, int, int] = (128, 128, 64),
                warps: int = 4, expect: Expectation = SPECIALISED, **sizes: int) -> Specimen:  # fmt: skip
    """Eight weights in a word. step: the inner stride of A, which is unknown at compile time."""
    known = {**PROBLEM, "STEP": step, **sizes}
    known |= {"WORDS": -(-known["K"] // 8), "GROUPS": max(1, -(-known["K"] // 64))}
    tensors = {
        **operands(dtype, dtype), "a": Tensor(("M", "STEP*K"), dtype),
        "b": Tensor(("WORDS", "N"), "i32", "integers", span=(-(2**31), 2**31)),
        "scale": Tensor(("GROUPS", "N"), dtype), "zero": Tensor(("GROUPS", "N"), dtype, mean=8.0),
    }  # fmt: skip
    arguments = {key: Number(1) if isinstance(it, One) else it for key, it in gemm_arguments().items()}
    arguments |= {"stride_am": Number("STEP*K"), "stride_ak": Number("STEP")}
    arguments |= {"scale_ptr": Pointer("scale"), "zero_ptr": Pointer("zero")}
    arguments |= {"stride_sg": Number("N"), "stride_sn": Number(1)}
    return Specimen(
        name,
        weights.gemm_packed,
        arguments,
        tensors,
        block(*tile, GROUP_M=4, GROUP=64),
        known,
        "tiles",
        "pointer_packed",
        expect,
        num_warps=warps,
    )


# --- groups ---


def chain_case(name: str, steps: int = 2) -> Specimen:
    """Each product is the first operand of the next; each table has addresses in one tensor."""
    sizes = {"M": 256, "STEPS": steps, "X": 256 * 128 * (steps + 1), "B": 128 * 128 * steps}
    places = {"x": tuple(256 * 128 * g for g in range(steps + 1)), "b": tuple(128 * 128 * g for g in range(steps))}
    tensors = {
        "x": Tensor(("X",), "fp16"), "b": Tensor(("B",), "fp16"),
        **{f"{key}_addresses": Tensor((len(found),), "i64", "addresses", values=found, base=key)
           for key, found in places.items()},
    }  # fmt: skip
    arguments: dict[str, Argument] = {f"{key}_addresses": Pointer(f"{key}_addresses") for key in "xb"}
    return Specimen(
        name,
        groups.gemm_chain,
        {**arguments, "STEPS": Number("STEPS")},
        tensors,
        block(),
        sizes,
        "rows",
        "",
        no("x_addresses"),
    )


def offsets_case(name: str, rows: tuple[int, ...], n: int = 272, k: int = 208) -> Specimen:
    """Stacked rows, `rows` of each group."""
    ends = tuple(sum(rows[:i]) for i in range(len(rows) + 1))
    sizes = {"M": max(rows), "N": n, "K": k, "Z": len(rows), "ROWS": ends[-1], "ENDS": len(ends)}
    tensors = {"a": Tensor(("ROWS", "K"), "fp16"), "b": Tensor(("Z", "K", "N"), "fp16"),
               "c": Tensor(("ROWS", "N"), "fp16", "nan"),
               "offsets": Tensor(("ENDS",), "i32", "values", values=ends)}  # fmt: skip
    arguments = {key: it for key, it in gemm_arguments().items() if key != "M"}
    return Specimen(
        name,
        groups.gemm_offsets,
        {**arguments, "offsets_ptr": Pointer("offsets"), "stride_be": Number("K*N")},
        tensors,
        block(),
        sizes,
        "tiles_3d",
        "pointer_offsets",
        SPECIALISED,
        tags=frozenset({"varying"}),
    )


def segments_case(name: str, rows: tuple[int, ...], k: int, tile: tuple[int, int, int] = (64, 64, 64)) -> Specimen:
    """Stacked rows, `rows` of each group; all sizes are constants of the kernel."""
    ends = tuple(sum(rows[: i + 1]) for i in range(len(rows)))
    sizes = {"Z": len(rows), "M": ends[-1], "N": 2 * tile[1], "K": k, "PROGRAMS": 3}
    tensors = {"a": Tensor(("M", "K"), "fp16"), "b": Tensor(("Z", "N", "K"), "fp16"),
               "c": Tensor(("M", "N"), "fp16", "nan"),
               "ends": Tensor(("Z",), "i32", "values", values=ends)}  # fmt: skip
    known = block(*tile, GROUPS=len(rows), ROWS=ends[-1], N=sizes["N"], K=k, PROGRAMS=sizes["PROGRAMS"])
    arguments: dict[str, Argument] = {f"{key}_ptr": Pointer(key) for key in ("a", "b", "c", "ends")}
    return Specimen(
        name,
        groups.gemm_segments,
        arguments,
        tensors,
        known,
        sizes,
        "programs",
        "pointer_segments",
        SPECIALISED,
        tags=frozenset({"persistent", "transposed"}),
    )


def experts_case(name: str, *, tokens: int = 100, experts: int = 4, top_k: int = 2, weighted: bool = True,
                 exit: bool = False, elsewhere: bool = False, n: int = 144, k: int = 208,
                 tile: tuple[int, int, int] = (64, 128, 64)) -> Specimen:  # fmt: skip
    """Every token goes to `top_k` experts; the last expert gets none. elsewhere: expert 1 is on another machine."""
    lot = random.Random(tokens)
    choice = [e for _ in range(tokens) for e in lot.sample(range(experts - 1), top_k)]
    rows: list[int] = []
    owners: list[int] = []
    for expert in range(experts):
        mine = [pair for pair, chosen in enumerate(choice) if chosen == expert]
        mine += [len(choice)] * (-len(mine) % tile[0])
        rows += mine
        owners += [-1 if elsewhere and expert == 1 else expert] * (len(mine) // tile[0])
    used = len(rows)
    rows += [len(choice)] * tile[0]
    owners.append(0)
    sizes = {"M": len(rows), "N": n, "K": k, "E": experts, "T": tokens, "TOKENS": len(choice),
             "BLOCKS": len(owners)}  # fmt: skip
    tensors = {
        "a": Tensor(("T", "K"), "fp16"), "b": Tensor(("E", "N", "K"), "fp16"),
        "c": Tensor(("TOKENS", "N"), "fp16", "nan"), "weights": Tensor(("TOKENS",), "fp32"),
        "tokens": Tensor(("M",), "i32", "values", values=tuple(rows)),
        "experts": Tensor(("BLOCKS",), "i32", "values", values=tuple(owners)),
        "padded": Tensor((1,), "i32", "values", values=(used,)),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **gemm_arguments(b_t=True), "stride_be": Number("K*N"), "TOKENS": Number("TOKENS"),
        **{f"{key}_ptr": Pointer(key) for key in ("weights", "tokens", "experts", "padded")},
    }  # fmt: skip
    kernel, more = (exits.gemm_experts_elsewhere, {}) if elsewhere else (groups.gemm_experts, {"EXIT": exit})
    return Specimen(
        name,
        kernel,
        arguments,
        tensors,
        block(*tile, GROUP_M=4, TOP_K=top_k, WEIGHTED=weighted, **more),
        sizes,
        "tiles",
        "pointer_experts",
        SPECIALISED,
    )


# --- attention, recurrent ---


def attention_tensors(dtype: str) -> dict[str, Tensor]:
    """Q, K, V, O and the logarithms of the sums."""
    return {
        "q": Tensor(("B", "H", "SQ", "DIM"), dtype),
        "k": Tensor(("B", "HK", "SK", "DIM"), dtype),
        "v": Tensor(("B", "HK", "SK", "DIM"), dtype),
        "o": Tensor(("B", "H", "SQ", "DIM"), dtype, "nan"),
        "lse": Tensor(("B", "H", "SQ"), "fp32", "nan"),
    }


def pointers_to(names: str) -> dict[str, Argument]:
    """``<name>_ptr`` for each word."""
    return {f"{name}_ptr": Pointer(name) for name in names.split()}


def attention_case(name: str, *, dtype: str = "fp16", dim: int = 64, causal: bool = True, two_loops: bool = True,
                   tile: tuple[int, int, int] = (128, 128, 8), **sizes: int) -> Specimen:  # fmt: skip
    """`attention_pointers`; tile: BM, BN and warps."""
    known = lengths({**HEADS, "DIM": dim, **sizes})
    arguments: dict[str, Argument] = {**pointers_to("q k v o lse"), "H": Number("H"), "SQ": Number("SQ"),
                                      "SK": Number("SK"), "diagonal": Number("DIAGONAL"),
                                      "scale": Number(SCALE[dim])}  # fmt: skip
    for x, heads, length, dim_of in (("q", "H", "SQ", "m"), ("k", "HK", "SK", "n"), ("v", "HK", "SK", "n"),
                                     ("o", "H", "SQ", "m")):  # fmt: skip
        arguments |= strides(x, ("b", f"{heads}*{length}*DIM"), ("h", f"{length}*DIM"), (dim_of, "DIM"), ("d", None))
    constexprs = {"GROUP": known["H"] // known["HK"], "BM": tile[0], "BN": tile[1], "D": dim, "CAUSAL": causal,
                  "TWO_LOOPS": two_loops}  # fmt: skip
    return Specimen(
        name,
        attention.attention_pointers,
        arguments,
        attention_tensors(dtype),
        constexprs,
        known,
        "queries",
        "attention",
        SPECIALISED,
        num_warps=tile[2],
        plans=((2, 0), (1, 0)),
    )


def paged_case(name: str, queries: int, keys: tuple[int, ...], *, page: int = 64, dim: int = 64, heads: int = 2,
               key_heads: int = 2) -> Specimen:  # fmt: skip
    """`attention_paged`; keys: the number for each sequence, at least as many as queries. Pages are in random order."""
    pages = max(-(-length // page) for length in keys)
    order = random.Random(pages).sample(range(pages * len(keys)), pages * len(keys))
    sizes = {"B": len(keys), "H": heads, "HK": key_heads, "SQ": queries, "SK": max(keys), "DIM": dim, "DIAGONAL": 0,
             "PAGES": pages, "ALL": pages * len(keys)}  # fmt: skip
    tensors = {
        "q": Tensor(("B", "H", "SQ", "DIM"), "fp16"), "o": Tensor(("B", "H", "SQ", "DIM"), "fp16", "nan"),
        "k": Tensor(("ALL", "HK", "PAGE", "DIM"), "fp16"), "v": Tensor(("ALL", "HK", "PAGE", "DIM"), "fp16"),
        "pages": Tensor(("B", "PAGES"), "i32", "values", values=tuple(order)),
        "lengths": Tensor(("B",), "i32", "values", values=keys),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o pages lengths"), "H": Number("H"), "SQ": Number("SQ"), "scale": Number(SCALE[dim]),
        "stride_qb": Number("H*SQ*DIM"), "stride_qh": Number("SQ*DIM"), "stride_qm": Number("DIM"),
        "stride_kp": Number("HK*PAGE*DIM"), "stride_kh": Number("PAGE*DIM"), "stride_kn": Number("DIM"),
        "stride_pb": Number("PAGES"),
    }  # fmt: skip
    constexprs = {"GROUP": heads // key_heads, "BM": 128, "PAGE": page, "D": dim}
    return Specimen(
        name,
        attention.attention_paged,
        arguments,
        tensors,
        constexprs,
        sizes,
        "queries",
        "pointer_paged",
        SPECIALISED,
        num_warps=8,
        plans=((2, 0),),
        tags=frozenset({"varying"}),
    )


def lengths_case(name: str, keys: tuple[int, ...], *, dim: int = 64, warps: int = 8) -> Specimen:
    """`attention_lengths`; keys: the number for each sequence. Rows past the end of a sequence stay zero."""
    sizes = {"B": len(keys), "H": 2, "HK": 2, "SQ": max(keys), "SK": max(keys), "DIM": dim, "DIAGONAL": 0}
    tensors = {x: Tensor(("B", "H", "SQ", "DIM"), "fp16", "zero" if x == "o" else "normal") for x in "qkvo"}
    tensors["lengths"] = Tensor(("B",), "i32", "values", values=keys)
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o lengths"), "H": Number("H"), "scale": Number(SCALE[dim]),
        "stride_qb": Number("H*SQ*DIM"), "stride_qh": Number("SQ*DIM"), "stride_qm": Number("DIM"),
    }  # fmt: skip
    constexprs = {"BM": 128 if warps == 8 else 64, "BN": 64, "D": dim}
    return Specimen(
        name,
        exits.attention_lengths,
        arguments,
        tensors,
        constexprs,
        sizes,
        "queries",
        "pointer_lengths",
        SPECIALISED,
        num_warps=warps,
        plans=((2, 0),),
        tags=frozenset({"varying"}),
    )


def flex_case(
    name: str, *, dim: int = 64, dtype: str = "fp16", window: int = 0, keys: int = 64, **sizes: int
) -> Specimen:
    """`attention_flex`: lists of blocks of 128 keys, visited `keys` at a time."""
    known = lengths({**HEADS, "DIM": dim, **sizes})
    known |= {"TILES": -(-known["SQ"] // 128), "BLOCKS": -(-known["SK"] // 128)}
    constexprs = {"GROUP": known["H"] // known["HK"], "BM": 128, "BN": keys, "BLOCK": 128, "D": dim, "WINDOW": window}
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o lse counts blocks full_counts full_blocks"),
        **{key: Number(key) for key in ("H", "SQ", "SK", "TILES", "BLOCKS")}, "diagonal": Number("DIAGONAL"),
        "scale": Number(SCALE[dim]), "stride_qb": Number("H*SQ*DIM"), "stride_qh": Number("SQ*DIM"),
        "stride_qm": Number("DIM"), "stride_kb": Number("HK*SK*DIM"), "stride_kh": Number("SK*DIM"),
        "stride_kn": Number("DIM"),
    }  # fmt: skip
    case = Specimen(
        name,
        attention.attention_flex,
        arguments,
        attention_tensors(dtype),
        constexprs,
        known,
        "queries",
        "attention",
        SPECIALISED,
        num_warps=8,
        plans=((2, 0), (1, 0)),
    )
    lists = block_lists(replace(case, constexprs={**constexprs, "BN": 128}), window)
    tensors = dict(case.tensors)
    for kind, words in (("part", ("counts", "blocks")), ("full", ("full_counts", "full_blocks"))):
        counts, indices = lists[kind]
        tensors[words[0]] = Tensor(("B*H", "TILES"), "i32", "values", values=counts)
        tensors[words[1]] = Tensor(("B*H", "TILES", "BLOCKS"), "i32", "values", values=indices)
    return replace(case, tensors=tensors)


def linear_case(name: str, *, steps: int = 320, dim: int = 64, values: int = 64, chunk: int = 64, heads: int = 3,
                dtype: str = "fp16", warps: int = 4) -> Specimen:  # fmt: skip
    """`linear_attention`: `steps` of time in chunks."""
    sizes = {"S": steps, "H": heads, "PROGRAMS": heads, "D": dim, "DV": values}
    tensors = {
        "q": Tensor(("H", "S", "D"), dtype), "k": Tensor(("H", "S", "D"), dtype), "v": Tensor(("H", "S", "DV"), dtype),
        "o": Tensor(("H", "S", "DV"), dtype, "nan"), "state": Tensor(("H", "D", "DV"), "fp32", "nan"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {**pointers_to("q k v o state"), "S": Number("S"), "scale": Number(0.125)}
    return Specimen(
        name,
        recurrent.linear_attention,
        arguments,
        tensors,
        {"BT": chunk, "D": dim, "DV": values},
        sizes,
        "programs",
        "pointer_linear",
        SPECIALISED,
        num_warps=warps,
        plans=((2, 0),),
    )


def linear_backwards_case(name: str, *, steps: int = 320, dim: int = 64, values: int = 64, chunk: int = 64,
                          dtype: str = "fp16", warps: int = 4) -> Specimen:  # fmt: skip
    """`linear_attention_backwards`: `steps` of time in chunks, the last first."""
    sizes = {"S": steps, "H": 3, "PROGRAMS": 3, "D": dim, "DV": values, "CHUNKS": -(-steps // chunk)}
    tensors = {
        "q": Tensor(("H", "S", "D"), dtype), "do": Tensor(("H", "S", "DV"), dtype),
        "dh": Tensor(("H", "CHUNKS", "D", "DV"), "fp32", "nan"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {**pointers_to("q do dh"), "S": Number("S")}
    return Specimen(
        name,
        recurrent.linear_attention_backwards,
        arguments,
        tensors,
        {"BT": chunk, "D": dim, "DV": values},
        sizes,
        "programs",
        "pointer_linear_backwards",
        SPECIALISED,
        num_warps=warps,
    )


def chunk_case(name: str, *, steps: int = 320, heads: int = 3, dtype: str = "fp16", warps: int = 4) -> Specimen:
    """`chunk_output`: `steps` of time in chunks, a program for each chunk and head."""
    chunk, dim = 64, 64
    sizes = {"S": steps, "H": heads, "D": dim, "DV": dim, "CHUNKS": -(-steps // chunk)}
    tensors = {
        "q": Tensor(("H", "S", "D"), dtype), "k": Tensor(("H", "S", "D"), dtype), "v": Tensor(("H", "S", "DV"), dtype),
        "h": Tensor(("H", "CHUNKS", "D", "DV"), dtype), "g": Tensor(("H", "S"), "fp32"),
        "o": Tensor(("H", "S", "DV"), dtype, "nan"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {**pointers_to("q k v h g o"), "S": Number("S")}
    grid = {"M": steps, "BM": chunk, "N": heads, "BN": 1}
    return Specimen(
        name,
        recurrent.chunk_output,
        arguments,
        tensors,
        {"BT": chunk, "D": dim, "DV": dim},
        {**sizes, **grid},
        "tiles_2d",
        "pointer_chunk_output",
        SPECIALISED,
        num_warps=warps,
    )


def states_case(name: str, *, steps: int = 320, values: int = 256, dtype: str = "fp16", warps: int = 4) -> Specimen:
    """`products_with_states`: `steps` of time in chunks, two blocks of columns."""
    chunk, dim, block_d, block_v = 64, 64, 32, 64
    sizes = {"S": steps, "H": 2, "D": dim, "DV": values, "CHUNKS": -(-steps // chunk)}
    tensors = {
        "do": Tensor(("H", "S", "DV"), dtype), "v": Tensor(("H", "S", "DV"), dtype),
        "h": Tensor(("H", "CHUNKS", "D", "DV"), "fp32"), "dh": Tensor(("H", "CHUNKS", "D", "DV"), "fp32"),
        "dq": Tensor(("H", "S", "D"), "fp32", "nan"), "dk": Tensor(("H", "S", "D"), "fp32", "nan"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {**pointers_to("do v h dh dq dk"), "S": Number("S")}
    constexprs = {"BT": chunk, "BD": block_d, "BV": block_v, "D": dim, "DV": values}
    grid = {"M": dim, "BM": block_d, "N": steps, "BN": chunk, "Z": 2}
    return Specimen(
        name,
        recurrent.products_with_states,
        arguments,
        tensors,
        constexprs,
        {**sizes, **grid},
        "tiles_3d",
        "pointer_states",
        SPECIALISED,
        num_warps=warps,
        plans=((2, 0), (3, 0), (4, 1)),
    )


# --- the safety list ---

EVEN = {"M": 256, "N": 256, "K": 256}
PLAIN: dict[str, Argument] = {**pointers_to("a b c"), "N": Number("N"), "K": Number("K")}


def safety_case(name: str, kernel: Any, expect: Expectation, *, drop: str = "", reference: str = "pointer_gemm",
                tensors: Mapping[str, Tensor] | None = None, sizes: Mapping[str, int] = EVEN, grid: Grid = "tiles_2d",
                more: Mapping[str, Argument] | None = None, options: Mapping[str, Any] | None = None, tags: str = "",
                tile: tuple[int, int, int] = (128, 128, 64), **constexprs: Any) -> Specimen:  # fmt: skip
    """A case of `safety.py`; drop: an argument that the kernel does not have; more: further arguments."""
    arguments = {key: it for key, it in {**PLAIN, **(more or {})}.items() if key != drop}
    known = {**operands("fp16", "fp16"), **(tensors or {})}
    return Specimen(
        name,
        kernel,
        arguments,
        known,
        block(*tile, **constexprs),
        sizes,
        grid,
        reference,
        expect,
        tags=frozenset(tags.split()),
        more_options=options or {},
    )


def gram_case(name: str) -> Specimen:
    """Diagonal blocks of A @ A^T."""
    tensors = {"a": Tensor(("M", "K"), "fp16"), "c": Tensor(("M", "BM"), "fp16", "nan")}
    arguments: dict[str, Argument] = {
        **pointers_to("a c"), "M": Number("M"), "K": Number("K"), **strides("a", ("m", "K"), ("k", None)),
        **strides("c", ("m", "BM"), ("n", None)),
    }  # fmt: skip
    return Specimen(
        name,
        recurrent.gemm_gram,
        arguments,
        tensors,
        {"BM": 128, "BK": 64},
        PROBLEM,
        "rows",
        "pointer_gram",
        SPECIALISED,
    )


def gate_up_case(name: str, bn: int, warps: int) -> Specimen:
    """Gate and up: two dots on one tile of A."""
    tensors = {**operands("fp16", "fp16"), "u": Tensor(("K", "N"), "fp16")}
    return Specimen(
        name,
        recurrent.gemm_gate_up,
        {**gemm_arguments(), "u_ptr": Pointer("u")},
        tensors,
        block(bn=bn),
        PROBLEM,
        "tiles_2d",
        "pointer_gate_up",
        SPECIALISED,
        num_warps=warps,
    )
