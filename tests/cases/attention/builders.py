"""Builders of attention cases: tensors, descriptors, arguments and constexprs of each kernel, from a few choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tawa.ops.kernels.attention import backward, backward_varlen, forward, persistent, two_parts
from tawa.ops.kernels.attention import varlen as ragged
from tests.cases.attention import biased, flex, from_registers, one_loop, tutorial, varlen
from tests.cases.attention.problem import first_column
from tests.cases.case import Absent, Argument, Descriptor, Expectation, Grid, Number, Pointer, Specimen, Tensor

SPECIALISED = Expectation("specialised")
EITHER = Expectation("either")
BIG = (128, 128, 8)
"""BM, BN, warps."""
PLANS = ((2, 0), (1, 0))
"""(D, P) to be run."""
ONE_SLOT = ((1, 0),)
"""For cases in which two slots do not fit beside a large Q and the staged O."""
SCALE = {64: 0.125, 96: 0.10206207, 128: 0.08838835, 192: 0.07216878, 256: 0.0625}
"""The inverse square root of each head dimension."""
PROBLEM = {"B": 2, "H": 2, "HK": 2, "SQ": 384, "SK": 384}
SOFTCAP = 5.0
STEPS = 2.0**22
"""About how many steps make 1, where dQ is added up in integers: no sum of the cases reaches 2^31."""


def box(dim: int) -> int:
    """The head dimension of a block: a power of two."""
    return 1 << (dim - 1).bit_length()


def tile_for(dim: int) -> tuple[int, int, int]:
    """BM, BN and warps for a head dimension."""
    return BIG if dim <= 128 else (128, 64, 8)


def lengths(sizes: Mapping[str, int], top_left: bool = False) -> dict[str, int]:
    """The sizes, and those that depend on them: the diagonal that ends at the last query and key, padded rows."""
    diagonal = 0 if top_left else sizes["SK"] - sizes["SQ"]
    rows = -(-sizes["SQ"] // backward.PADDED.value) * backward.PADDED.value
    return {**sizes, "DIAGONAL": diagonal, "SK_PADDED": -(-sizes["SK"] // 16) * 16, "SP": rows}


def resized(case: Specimen, queries: int, keys: int) -> Specimen:
    """The same kernel on other lengths, with all sizes that depend on them."""
    constexprs = dict(case.constexprs)
    if "EVEN" in constexprs:
        constexprs["EVEN"] = keys % case.size("BN") == 0
    return replace(case, sizes=lengths({**case.sizes, "SQ": queries, "SK": keys}), constexprs=constexprs)


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """The slopes of ALiBi: a geometric sequence from 2^(-8/H)."""
    return tuple(2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads))


# --- forward ---


def forward_tensors(dtype: str, v_t: bool, heads: int, dim: str = "DIM") -> dict[str, Tensor]:
    """Q, K, V, O, the logarithms of the sums, and the slopes of ALiBi."""
    return {
        "q": Tensor(("B", "H", "SQ", dim), dtype),
        "k": Tensor(("B", "HK", "SK", dim), dtype),
        "v": Tensor(("B", "HK", dim, "SK_PADDED") if v_t else ("B", "HK", "SK", dim), dtype),
        "o": Tensor(("B", "H", "SQ", dim), output_of(dtype), "nan"),
        "lse": Tensor(("B", "H", "SQ"), "fp32", "nan"),
        "slopes": Tensor(("H",), "fp32", "values", values=alibi_slopes(heads)),
    }


def output_of(dtype: str) -> str:
    """The element type of O: that of Q, and fp16 for fp8."""
    return "fp16" if dtype.startswith("fp8") else dtype


def forward_descriptors(v_t: bool) -> dict[str, Argument]:
    """4-D boxes of one head each."""
    return {
        "q_desc": Descriptor("q", (1, 1, "BM", "D")),
        "k_desc": Descriptor("k", (1, 1, "BN", "D")),
        "v_desc": Descriptor("v", (1, 1, "D", "BN") if v_t else (1, 1, "BN", "D")),
        "o_desc": Descriptor("o", (1, 1, "BM", "D")),
    }


FACTORS = tuple(f"{letter}_factors" for letter in "qkv")


def factor_arguments(given: bool) -> dict[str, Argument]:
    """The factors of Q, K and V, and their strides; all of them, or none."""
    of = {f"{name}_ptr": Pointer(name) if given else Absent() for name in FACTORS}
    strides: dict[str, Argument] = {
        f"F{letter}_{axis}": Number(size if given else 0) for letter in "QKV" for axis, size in (("B", "HK"), ("H", 1))
    }
    return {**of, **strides}


FORMS: dict[str, tuple[Any, Grid]] = {
    "two_loops": (forward.attention_two_loops, "queries"),
    "one_loop": (one_loop.attention_one_loop, "queries"),
    "branch": (one_loop.attention_one_loop, "queries"),
    "persistent": (persistent.attention_persistent, "programs"),
}


def forward_case(name: str, form: str = "two_loops", *, dtype: str = "fp16", dim: int = 64, causal: bool = True,
                 tile: tuple[int, int, int] | None = None, window: int = 0, alibi: bool = False, softcap: bool = False,
                 lse: bool = True, top_left: bool = False, expect: Expectation = SPECIALISED,
                 tags: str = "", reordered: bool = False, rows: bool = False, factors: bool = False,
                 together: int = 0, paired: int = 1, **sizes: int) -> Specimen:  # fmt: skip
    """One of the FORMS; `sizes` over those of PROBLEM. top_left: the first query lines up with the first key.

    reordered: V has its keys in the order of `tawa.ops.kernels.attention.reordered`. rows: V in fp8 is stored as rows,
    as in other types. factors: of Q, K and V, by batch and key head. together: heads that start together; 0: the order
    of the grid. paired: heads whose tiles come in pairs.
    """
    kernel, grid = FORMS[form]
    bm, bn, warps = tile or tile_for(dim)
    large = dim > (64 if form == "persistent" else 128) and not dtype.startswith("fp8")
    known = lengths({**PROBLEM, "DIM": dim, "PROGRAMS": 3, **sizes}, top_left)
    v_t = dtype.startswith("fp8") and not rows
    tensors = forward_tensors(dtype, v_t, known["H"])
    arguments: dict[str, Argument] = {
        **forward_descriptors(v_t),
        "lse_ptr": Pointer("lse") if lse else Absent(),
        "slopes_ptr": Pointer("slopes") if alibi else Absent(),
        **({"HEADS": Number("B*H"), "PAIRED": Number(paired)} if form == "persistent" else {}),
        **({"together": Number(together) if together else Absent()} if form == "two_loops" else {}),
        **numbers("H", "SQ", "SK"),
        "diagonal": Number("DIAGONAL"),
        "scale": Number(SCALE[dim]),
        "softcap": Number(SOFTCAP),
        **(factor_arguments(factors) if form in ("two_loops", "persistent") else {}),
    }
    if factors:
        count = known["B"] * known["HK"]
        for at, of in enumerate(FACTORS):
            values = tuple(0.5 + (3 * number + at) % 7 / 4 for number in range(count))
            tensors[of] = Tensor(("B", "HK"), "fp32", "values", values=values)
    if window and form in ("two_loops", "persistent"):
        expect = EITHER  # loops whose lower bounds are not 0; one leaves blocks in the middle out
    constexprs: dict[str, Any] = {
        "GROUP": known["H"] // known["HK"],
        "BM": bm,
        "BN": bn,
        "D": box(dim),
        "V_T": 2 if reordered else int(v_t),
        "CAUSAL": causal,
        "WINDOW": window,
        "ALIBI": alibi,
        "SOFTCAP": softcap,
    }
    if form in ("one_loop", "branch"):
        constexprs["BRANCH"] = form == "branch"
    else:
        constexprs["EVEN"] = known["SK"] % bn == 0
    if not lse:
        del tensors["lse"]
    return Specimen(
        name,
        kernel,
        arguments,
        tensors,
        constexprs,
        known,
        grid,
        "attention",
        expect,
        num_warps=warps,
        plans=ONE_SLOT if large else PLANS,
        tags=frozenset(tags.split()),
    )


def numbers(*names: str) -> dict[str, Argument]:
    """Sizes passed under their own names."""
    return {name: Number(name) for name in names}


def two_part_case(name: str, *, dtype: str = "fp16", dim: int = 96, values: int = 0, causal: bool = True,
                  tile: tuple[int, int, int] = BIG, **sizes: int) -> Specimen:  # fmt: skip
    """A head dimension in two boxes. values: the head dimension of V, 0 for that of Q and K."""
    first, second = {96: (64, 32), 192: (128, 64)}[dim]
    dim_v = values or dim
    case = forward_case(name, dtype=dtype, dim=dim, causal=causal, tile=tile, alibi=False, **sizes)
    tensors = {**case.tensors, "v": Tensor(("B", "HK", "SK", "DIM_V"), dtype),
               "o": Tensor(("B", "H", "SQ", "DIM_V"), dtype, "nan")}  # fmt: skip
    first_v = 64 if dim_v <= 64 else 128
    part_v = second if dim_v > first_v else 0
    arguments: dict[str, Argument] = {
        **{name: given for name, given in case.arguments.items() if name not in factor_arguments(False)},
        "v_desc": Descriptor("v", (1, 1, "BN", "V1")),
        "o_desc": Descriptor("o", (1, 1, "BM", "V1")),
        "q2_desc": Descriptor("q", (1, 1, "BM", "D2")),
        "k2_desc": Descriptor("k", (1, 1, "BN", "D2")),
        "v2_desc": Descriptor("v", (1, 1, "BN", "V2")) if part_v else Absent(),
        "o2_desc": Descriptor("o", (1, 1, "BM", "V2")) if part_v else Absent(),
    }
    constexprs = {**case.constexprs, "D": first, "D2": second, "V1": first_v, "V2": part_v}
    del constexprs["V_T"]
    return replace(case, kernel=two_parts.attention_two_parts, arguments=arguments, constexprs=constexprs,
                   tensors=tensors, sizes={**case.sizes, "DIM_V": dim_v},
                   plans=PLANS if dim < 128 else ONE_SLOT)  # fmt: skip


def biased_case(name: str, *, dim: int = 64, tile: tuple[int, int, int] = BIG, by_descriptor: bool = True,
                **sizes: int) -> Specimen:  # fmt: skip
    """A bias tile beside each block of K and V."""
    case = forward_case(name, "one_loop", dim=dim, causal=False, tile=tile, lse=False, **sizes)
    kept = ("q_desc", "k_desc", "v_desc", "o_desc", "H", "SK", "scale")
    arguments: dict[str, Argument] = {
        **{name: case.arguments[name] for name in kept},
        "bias_desc": Descriptor("bias", (1, "BM", "BN")) if by_descriptor else Absent(),
        "bias_ptr": Absent() if by_descriptor else Pointer("bias"),
        "SQ": Number("SQ"),
    }
    constexprs = {name: case.constexprs[name] for name in ("GROUP", "BM", "BN", "D")}
    tensors = {name: case.tensors[name] for name in "qkvo"}
    tensors["bias"] = Tensor(("H", "SQ", "SK"), "fp16")
    return replace(case, kernel=biased.attention_biased, arguments=arguments, constexprs=constexprs, tensors=tensors)


# --- packed sequences ---


def packed_case(name: str, queries: tuple[int, ...], keys: tuple[int, ...], *, dtype: str = "fp16", dim: int = 64,
                causal: bool = True, window: int = 0, expect: Expectation = SPECIALISED, heads: int = 2,
                key_heads: int = 2) -> Specimen:  # fmt: skip
    """Sequences of the given lengths, packed one after the other."""
    bm, bn, warps = tile_for(dim)
    v_t = dtype.startswith("fp8")
    total = sum(keys)
    sizes = {"B": len(queries), "H": heads, "HK": key_heads, "SQ": sum(queries), "SK": total, "DIM": dim,
             "DIAGONAL": 0, "SK_PADDED": first_column(total, len(keys)), "LONGEST": max(queries),
             "OFFSETS": len(queries) + 1}  # fmt: skip
    tensors = {
        "q": Tensor(("SQ", "H", "DIM"), dtype),
        "k": Tensor(("SK", "HK", "DIM"), dtype),
        "v": Tensor(("HK", "DIM", "SK_PADDED") if v_t else ("SK", "HK", "DIM"), dtype),
        "o": Tensor(("SQ", "H", "DIM"), output_of(dtype), "nan"),
        "lse": Tensor(("H", "SQ"), "fp32", "nan"),
        "cu_q": Tensor(("OFFSETS",), "i32", "values", values=offsets(queries)),
        "cu_k": Tensor(("OFFSETS",), "i32", "values", values=offsets(keys)),
    }
    arguments: dict[str, Argument] = {
        "q_desc": Descriptor("q", ("BM", 1, "D")),
        "k_desc": Descriptor("k", ("BN", 1, "D")),
        "v_desc": Descriptor("v", (1, "D", "BN") if v_t else ("BN", 1, "D")),
        "o_ptr": Pointer("o"),
        "lse_ptr": Pointer("lse"),
        "cu_q_ptr": Pointer("cu_q"),
        "cu_k_ptr": Pointer("cu_k"),
        "H": Number("H"),
        "TOTAL_Q": Number("SQ"),
        "HEAD_DIM": Number("DIM"),
        "scale": Number(SCALE[dim]),
    }
    constexprs = {"GROUP": heads // key_heads, "BM": bm, "BN": bn, "D": box(dim), "V_T": v_t, "CAUSAL": causal,
                  "WINDOW": window}  # fmt: skip
    return Specimen(
        name,
        varlen.attention_varlen,
        arguments,
        tensors,
        constexprs,
        sizes,
        "sequences",
        "attention_packed",
        expect,
        num_warps=warps,
        plans=PLANS,
        tags=frozenset({"varying"}),
    )


def ragged_case(name: str, queries: tuple[int, ...], keys: tuple[int, ...], *, dtype: str = "fp16", dim: int = 64,
                causal: bool = True, window: int = 0, softcap: bool = False, heads: int = 2, key_heads: int = 2,
                tile: tuple[int, int, int] | None = None, persistent: bool = True) -> Specimen:  # fmt: skip
    """Sequences of the given lengths, packed one after the other, with descriptors that end with each sequence.

    dim = 192: in two boxes, with 128 columns of V.
    """
    bm, bn, warps = tile or tile_for(dim)
    case = packed_case(name, queries, keys, dtype=dtype, dim=dim, causal=causal, window=window, heads=heads,
                       key_heads=key_heads)  # fmt: skip
    paired = persistent and causal and not window
    rows = listed(queries, keys, 2 * bm if paired else bm, causal and not paired)
    sizes = {**case.sizes, "ITEMS": len(rows), "PROGRAMS": 3 if persistent else rows[0] * heads + 1}
    arguments: dict[str, Argument] = {
        "q_desc": ragged_descriptor("q", "BM", heads, dim),
        "k_desc": ragged_descriptor("k", "BN", key_heads, dim),
        "v_desc": ragged_descriptor("v", "BN", key_heads, dim),
        "o_desc": ragged_descriptor("o", "BM", heads, dim),
        "lse_ptr": Pointer("lse"),
        "items_ptr": Pointer("items"),
        "H": Number("H"),
        "TOTAL_Q": Number("SQ"),
        "scale": Number(SCALE[dim]),
        "softcap": Number(SOFTCAP),
    }
    constexprs = {"GROUP": heads // key_heads, "BM": bm, "BN": bn, "D": box(dim), "CAUSAL": causal, "WINDOW": window,
                  "SOFTCAP": softcap, "PERSISTENT": persistent}  # fmt: skip
    tensors = {**case.tensors, "items": Tensor(("ITEMS",), "i32", "values", values=rows)}
    if dim != 192:
        return replace(case, kernel=ragged.attention_varlen, arguments=arguments, constexprs=constexprs, sizes=sizes,
                       tensors=tensors, num_warps=warps, grid="programs",
                       plans=ONE_SLOT if dim > 128 else PLANS)  # fmt: skip
    arguments |= {
        "v_desc": ragged_descriptor("v", "BN", key_heads, 128),
        "o_desc": ragged_descriptor("o", "BM", heads, 128),
        "q2_desc": ragged_descriptor("q", "BM", heads, dim, "D2"),
        "k2_desc": ragged_descriptor("k", "BN", key_heads, dim, "D2"),
        "v2_desc": Absent(),
        "o2_desc": Absent(),
    }
    tensors |= {"v": Tensor(("SK", "HK", "DIM_V"), dtype), "o": Tensor(("SQ", "H", "DIM_V"), dtype, "nan")}
    return replace(case, kernel=ragged.attention_varlen_two_parts, arguments=arguments, tensors=tensors,
                   constexprs={**constexprs, "D": 128, "D2": 64, "V1": 128, "V2": 0}, num_warps=warps, grid="programs",
                   sizes={**sizes, "DIM_V": 128}, plans=ONE_SLOT)  # fmt: skip


def listed(queries: tuple[int, ...], keys: tuple[int, ...], tile: int, last_first: bool) -> tuple[int, ...]:
    """The list that `tawa.ops.kernels.attention.varlen.list_shares` makes, as numbers; `tile`: queries of a share.

    For shares of keys, queries and keys change places.
    """
    rows = list[tuple[int, ...]]()
    for at in sorted(range(len(queries)), key=lambda at: -keys[at]):
        tiles = range(-(-queries[at] // tile))
        ends = offsets(queries)[at + 1], queries[at], offsets(keys)[at + 1], keys[at]
        rows.extend((number, *ends, at, 0, 0) for number in (reversed(tiles) if last_first else tiles))
    return (len(rows), *[0] * 7, *(number for row in rows for number in row))


def ragged_descriptor(tensor: str, rows: str, heads: int, dim: int, columns: str = "D") -> Descriptor:
    """A descriptor of a packed tensor (rows, heads, dim) whose fourth axis ends with the sequence."""
    row = heads * dim
    shape = (2**31 - 2**16, 2**31 - 2**16, heads, 2**30, dim)
    return Descriptor(tensor, (1, 1, 1, rows, columns), shape, (2**34 - row, row, dim, row, 1))


def offsets(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Where each sequence begins, and the end of the last."""
    return tuple(sum(sizes[:count]) for count in range(len(sizes) + 1))


# --- other styles ---


def tutorial_case(name: str, dtype: str, dim: int, causal: bool, tile: tuple[int, int, int] = BIG,
                  expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """The tutorial's style: 2-D descriptors, lengths that divide."""
    bm, bn, warps = tile
    fp8 = dtype.startswith("fp8")
    tensors = {
        "q": Tensor(("B*H*SQ", "DIM"), dtype),
        "k": Tensor(("B*H*SK", "DIM"), dtype),
        "v": Tensor(("B*H*DIM", "SK") if fp8 else ("B*H*SK", "DIM"), dtype),
        "o": Tensor(("B*H*SQ", "DIM"), output_of(dtype), "nan"),
        "lse": Tensor(("B", "H", "SQ"), "fp32", "nan"),
    }
    arguments: dict[str, Argument] = {
        "sm_scale": Number(SCALE[dim]),
        "M": Pointer("lse"),
        "Z": Number("B"),
        "H": Number("H"),
        "desc_q": Descriptor("q", ("BM", "DIM")),
        "desc_k": Descriptor("k", ("BN", "DIM")),
        "desc_v": Descriptor("v", ("DIM", "BN") if fp8 else ("BN", "DIM")),
        "desc_o": Descriptor("o", ("BM", "DIM")),
        "N_CTX": Number("SQ"),
    }
    constexprs = {"HEAD_DIM": dim, "BLOCK_M": bm, "BLOCK_N": bn, "FP8": fp8, "STAGE": 3 if causal else 1}
    sizes = lengths({**PROBLEM, "DIM": dim, "BM": bm, "BN": bn})
    return Specimen(
        name,
        tutorial.attention_tutorial,
        arguments,
        tensors,
        constexprs,
        sizes,
        "queries",
        "attention",
        expect,
        num_warps=warps,
        plans=PLANS,
    )


def block_lists(case: Specimen, window: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each tile of queries, the key blocks that a causal mask cuts, and those that it leaves whole.

    Returns by kind ("part", "full") the lengths of the lists and the padded lists. The lists are the same for every
    head, but the second head has them in reverse order: any order is right.
    """
    bm, bn, diagonal, keys = (case.size(name) for name in ("BM", "BN", "DIAGONAL", "SK"))
    found: dict[str, tuple[list[int], list[int]]] = {"part": ([], []), "full": ([], [])}
    for head in range(case.size("B*H")):
        for tile in range(case.size("TILES")):
            rows = range(tile * bm, (tile + 1) * bm)
            lists: dict[str, list[int]] = {"part": [], "full": []}
            for block in range(case.size("BLOCKS")):
                first, last = block * bn, block * bn + bn - 1
                seen = last < keys and last <= rows[0] + diagonal
                if seen and (not window or first > rows[-1] + diagonal - window):
                    lists["full"].append(block)
                elif first <= rows[-1] + diagonal and (not window or last > rows[0] + diagonal - window):
                    lists["part"].append(block)
            for kind, blocks in lists.items():
                counts, indices = found[kind]
                counts.append(len(blocks))
                indices += (blocks if head % 2 == 0 else blocks[::-1]) + [0] * (case.size("BLOCKS") - len(blocks))
    return {kind: (tuple(counts), tuple(indices)) for kind, (counts, indices) in found.items()}


def flex_case(name: str, *, dim: int = 64, dtype: str = "fp16", window: int = 0, expect: Expectation = EITHER,
              tile: tuple[int, int, int] | None = None, **sizes: int) -> Specimen:  # fmt: skip
    """Causal attention driven by lists of key blocks."""
    bm, bn, warps = tile or tile_for(dim)
    known = lengths({**PROBLEM, "DIM": dim, **sizes})
    known |= {"TILES": -(-known["SQ"] // bm), "BLOCKS": -(-known["SK"] // bn)}
    arguments: dict[str, Argument] = {
        **forward_descriptors(False),
        "lse_ptr": Pointer("lse"),
        "kv_num_blocks_ptr": Pointer("part_counts"),
        "kv_indices_ptr": Pointer("part_indices"),
        "full_kv_num_blocks_ptr": Pointer("full_counts"),
        "full_kv_indices_ptr": Pointer("full_indices"),
        **numbers("H", "SQ", "SK", "TILES", "BLOCKS"),
        "diagonal": Number("DIAGONAL"),
        "scale": Number(SCALE[dim]),
    }
    constexprs = {"GROUP": known["H"] // known["HK"], "BM": bm, "BN": bn, "D": box(dim), "WINDOW": window}
    tensors = forward_tensors(dtype, False, known["H"])
    del tensors["slopes"]
    case = Specimen(
        name,
        flex.attention_flex,
        arguments,
        tensors,
        constexprs,
        known,
        "queries",
        "attention",
        expect,
        num_warps=warps,
        plans=ONE_SLOT if dim > 128 else PLANS,
        tags=frozenset({"varying"}),
    )
    for kind, (counts, indices) in block_lists(case, window).items():
        tensors[f"{kind}_counts"] = Tensor(("B", "H", "TILES"), "i32", "values", values=counts)
        tensors[f"{kind}_indices"] = Tensor(("B", "H", "TILES", "BLOCKS"), "i32", "values", values=indices)
    return case


# --- backward ---


def backward_case(name: str, kind: str, *, dim: int = 64, dtype: str = "fp16", causal: bool = True,
                  tile: tuple[int, int, int] | None = None, window: int = 0, alibi: bool = False,
                  softcap: bool = False, steps: bool = False, **sizes: int) -> Specimen:  # fmt: skip
    """`kind` is "dkdv", "dq", "added" (dQ is added up) or "owned" (from registers, for groups that own dots).

    lse and delta are random: the formulas hold for any values.

    The mean of lse makes the weights as large as with about two hundred keys.
    """
    known = lengths({**PROBLEM, "DIM": dim, **sizes})
    bm, bn, warps = tile or {"dq": (128, 64, 8), "owned": (64, 64, 8)}.get(kind, (64, 128, 8))
    tensors = {name: forward_tensors(dtype, False, 1)[name] for name in ("q", "k", "v")}
    tensors |= {"do": Tensor(("B", "H", "SQ", "DIM"), dtype), "lse": Tensor(("B", "H", "SP"), "fp32", mean=8.0),
                "delta": Tensor(("B", "H", "SP"), "fp32")}  # fmt: skip
    arguments: dict[str, Argument] = {
        **{key: value for key, value in forward_descriptors(False).items() if key != "o_desc"},
        "do_desc": Descriptor("do", (1, 1, "BM", "D")),
    }
    if kind != "dq":
        kernel, grid = backward.attention_dkdv, "keys"
        tensors |= {"dk": replace(tensors["k"], fill="nan"), "dv": replace(tensors["v"], fill="nan")}
        arguments |= {"dk_desc": Descriptor("dk", (1, 1, "BN", "D")), "dv_desc": Descriptor("dv", (1, 1, "BN", "D"))}
        arguments |= {"dq_desc": Absent()}
    if kind in ("added", "owned"):
        width = backward.WIDTH.value
        tensors |= {"sums": Tensor(("B*H*SP/64*D/4", width), "i32" if steps else "fp32", "zero")}
        arguments |= {"dq_desc": Descriptor("sums", ("BM/16*D/16", width)) if kind == "added" else Pointer("sums")}
        if steps:
            tensors |= {"steps": Tensor(("B", "H", "SP"), "fp32", mean=STEPS)}
    if kind == "dq":
        kernel, grid = backward.attention_dq, "queries"
        tensors |= {"dq": replace(tensors["q"], fill="nan")}
        arguments |= {"dq_desc": Descriptor("dq", (1, 1, "BM", "D"))}
    arguments |= {"lse_ptr": Pointer("lse"), "delta_ptr": Pointer("delta"), **numbers("H", "SP", "SK"),
                  "slopes_ptr": Pointer("slopes") if alibi else Absent(), "softcap": Number(SOFTCAP),
                  "diagonal": Number("DIAGONAL"), "scale": Number(SCALE[dim])}  # fmt: skip
    if kind != "dq":
        arguments |= {"steps_ptr": Pointer("steps") if steps else Absent()}
    if alibi:
        tensors["slopes"] = Tensor(("H",), "fp32", "values", values=alibi_slopes(known["H"]))
    constexprs = {"GROUP": known["H"] // known["HK"], "BM": bm, "BN": bn, "D": box(dim), "CAUSAL": causal,
                  "WINDOW": window, "ALIBI": alibi, "SOFTCAP": softcap}  # fmt: skip
    if kind != "dq":
        arguments |= {**numbers("SQ"), "together": Number(2) if causal and kind != "dkdv" else Absent()}
        constexprs |= {"ADDED": kind in ("added", "owned"), "EVEN": not causal and known["SK"] % bn == 0}
        constexprs |= {"OWNED": kind == "owned"}
    expect = EITHER if kind != "dq" and causal else SPECIALISED  # the lower bound of its first loop is not 0
    return Specimen(
        name,
        kernel,
        arguments,
        tensors,
        constexprs,
        known,
        grid,
        "attention_backward",
        expect,
        num_warps=warps,
        plans=PLANS,
    )


def from_registers_case(name: str, dim: int, tile: tuple[int, int, int]) -> Specimen:
    """As `backward_case` "added", in bf16 and without a mask, but dQ is added through pointers."""
    case = backward_case(name, "added", dim=dim, dtype="bf16", causal=False, tile=tile)
    absent = ("dq_desc", "steps_ptr", "slopes_ptr", "softcap", "diagonal", "together", "SK")
    arguments = {it: value for it, value in case.arguments.items() if it not in absent}
    constexprs = {it: case.constexprs[it] for it in ("BM", "BN", "D")}
    return replace(case, kernel=from_registers.attention_from_registers,
                   arguments={**arguments, "sums_ptr": Pointer("sums")}, constexprs=constexprs)  # fmt: skip


def packed_backward_case(name: str, kind: str, queries: tuple[int, ...], keys: tuple[int, ...], *, dim: int = 64,
                         dtype: str = "fp16", causal: bool = True, window: int = 0, softcap: bool = False,
                         heads: int = 2, key_heads: int = 2,
                         tile: tuple[int, int, int] | None = None) -> Specimen:  # fmt: skip
    """`backward_case` for packed sequences; lse and delta are random, as there."""
    bm, bn, warps = tile or ((128, 64, 8) if kind == "dq" else (64, 128, 8))
    case = packed_case(name, queries, keys, dtype=dtype, dim=dim, causal=causal, window=window, heads=heads,
                       key_heads=key_heads)  # fmt: skip
    rows = listed(queries, keys, bm, False) if kind == "dq" else listed(keys, queries, bn, False)
    padded = backward.PADDED.value
    of_list = heads if kind == "dq" else key_heads
    sizes = {**case.sizes, "SP": (sum(queries) // padded + len(queries)) * padded, "ITEMS": len(rows),
             "PROGRAMS": rows[0] * of_list + 1}  # fmt: skip
    tensors = {**{name: case.tensors[name] for name in ("q", "k", "v", "cu_q", "cu_k")},
               "do": replace(case.tensors["q"]), "lse": Tensor(("H", "SP"), "fp32", mean=8.0),
               "delta": Tensor(("H", "SP"), "fp32"),
               "items": Tensor(("ITEMS",), "i32", "values", values=rows)}  # fmt: skip
    arguments: dict[str, Argument] = {
        "q_desc": ragged_descriptor("q", "BM", heads, dim),
        "k_desc": ragged_descriptor("k", "BN", key_heads, dim),
        "v_desc": ragged_descriptor("v", "BN", key_heads, dim),
        "do_desc": ragged_descriptor("do", "BM", heads, dim),
        "dq_desc": Absent(),
        "lse_ptr": Pointer("lse"),
        "delta_ptr": Pointer("delta"),
        "items_ptr": Pointer("items"),
        **numbers("SP"),
        "scale": Number(SCALE[dim]),
        "softcap": Number(SOFTCAP),
    }
    constexprs = {"GROUP": heads // key_heads, "BM": bm, "BN": bn, "D": box(dim), "CAUSAL": causal, "WINDOW": window,
                  "SOFTCAP": softcap}  # fmt: skip
    if kind == "dq":
        tensors["dq"] = replace(tensors["q"], fill="nan")
        arguments |= {"dq_desc": ragged_descriptor("dq", "BM", heads, dim), **numbers("H")}
    else:
        tensors |= {"dk": replace(tensors["k"], fill="nan"), "dv": replace(tensors["v"], fill="nan")}
        arguments |= {f"{name}_desc": ragged_descriptor(name, "BN", key_heads, dim) for name in ("dk", "dv")}
        arguments |= numbers("HK")
        constexprs["ADDED"] = kind == "added"
    if kind == "added":
        width = backward.WIDTH.value
        tensors["sums"] = Tensor(("H*SP/64*D/4", width), "fp32", "zero")
        arguments["dq_desc"] = Descriptor("sums", ("BM/16*D/16", width))
    kernel = backward_varlen.varlen_dq if kind == "dq" else backward_varlen.varlen_dkdv
    return replace(case, kernel=kernel, arguments=arguments, constexprs=constexprs, sizes=sizes, tensors=tensors,
                   num_warps=warps, grid="programs", plans=PLANS,
                   reference="attention_packed_backward", expect=EITHER)  # fmt: skip


def gradient_rows_case(
    name: str, dtype: str, dim: int, *, added: bool = False, with_lse: bool = False, steps: bool = False
) -> Specimen:
    """Rows of logarithms and of sums of O * dO: no dot.

    added: dQ is added up. with_lse: the logarithms have gradients. steps: dQ is added up in steps.
    """
    known = lengths({**PROBLEM, "DIM": dim, "SQ": 200, **({"H": 4, "SK": 130 * 64, "TILES": 130} if steps else {})})
    tensors = {
        "o": Tensor(("B", "H", "SQ", "DIM"), dtype),
        "do": Tensor(("B", "H", "SQ", "DIM"), dtype),
        "lse": Tensor(("B", "H", "SQ"), "fp32"),
        "dlse": Tensor(("B", "H", "SQ"), "fp32"),
        "lse_rows": Tensor(("B", "H", "SP"), "fp32", "nan"),
        "delta": Tensor(("B", "H", "SP"), "fp32", "nan"),
        "sums": Tensor(("B", "H", "SP", "D"), "i32" if steps else "fp32", "integers" if steps else "nan"),
        "largest": Tensor((2, "B*HK", "TILES"), "fp32", mean=5.0),
        "steps": Tensor(("B", "H", "SP"), "fp32", "nan"),
    }
    arguments: dict[str, Argument] = {
        "o_desc": Descriptor("o", (1, 1, "BM", "D")),
        "do_desc": Descriptor("do", (1, 1, "BM", "D")),
        "lse_ptr": Pointer("lse"),
        "dlse_ptr": Pointer("dlse") if with_lse else Absent(),
        "lse_rows_ptr": Pointer("lse_rows"),
        "delta_ptr": Pointer("delta"),
        "dq_ptr": Pointer("sums") if added else Absent(),
        "largest_ptr": Pointer("largest") if steps else Absent(),
        "steps_ptr": Pointer("steps") if steps else Absent(),
        **numbers("H", "SQ", "SP", "SK"),
        "diagonal": Number("DIAGONAL"),
    }
    absent = {"sums": not added, "dlse": not with_lse, "largest": not steps, "steps": not steps}
    return Specimen(
        name,
        backward.gradient_rows,
        arguments,
        {key: tensor for key, tensor in tensors.items() if not absent.get(key)},
        {"GROUP": known["H"] // known["HK"], "BM": 128, "D": box(dim), "CAUSAL": False},
        known,
        "queries",
        "attention_gradient_rows",
        Expectation("declined", reason="dot"),
    )


def largest_of_keys_case(name: str, dtype: str, dim: int) -> Specimen:
    """The largest elements of K, and rows of V, of tiles: no dot."""
    known = lengths({**PROBLEM, "DIM": dim, "SK": 200, "TILES": 4})
    return Specimen(
        name,
        backward.largest_of_keys,
        {
            "k_desc": Descriptor("k", (1, 1, "BN", "D")),
            "v_desc": Descriptor("v", (1, 1, "BN", "D")),
            "largest_ptr": Pointer("largest"),
            **numbers("HK"),
        },
        {
            "k": Tensor(("B", "HK", "SK", "DIM"), dtype),
            "v": Tensor(("B", "HK", "SK", "DIM"), dtype),
            "largest": Tensor((2, "B*HK", "TILES"), "fp32", "nan"),
        },
        {"BN": 64, "D": box(dim)},
        known,
        "keys",
        "attention_largest_of_keys",
        Expectation("declined", reason="dot"),
    )


def dq_of_sums_case(
    name: str, dtype: str, dim: int, rows: int, *, steps: bool = False, singly: bool = False
) -> Specimen:
    """dQ from sums in the order of accumulators: no dot. steps, singly: as in the kernel."""
    known = lengths({**PROBLEM, "DIM": dim, "SQ": 200})
    width = backward.WIDTH.value
    sums = Tensor(("B*H*SP/64*D/4", width), "i32", "integers", span=(-(2**30), 2**30))
    return Specimen(
        name,
        backward.attention_dq_of_sums,
        {
            "sums_ptr": Pointer("sums"),
            "dq_desc": Descriptor("dq", (1, 1, "BM", "D")),
            "steps_ptr": Pointer("steps") if steps else Absent(),
            "largest_ptr": Absent(),
            **numbers("H", "SP", "SK"),
            "scale": Number(SCALE[dim]),
        },
        {
            "sums": sums if steps else replace(sums, dtype="fp32", fill="normal"),
            "dq": Tensor(("B", "H", "SQ", "DIM"), dtype, "nan"),
            **({"steps": Tensor(("B", "H", "SP"), "fp32", mean=STEPS)} if steps else {}),
        },
        {"GROUP": 1, "BM": rows, "D": box(dim), "SINGLY": singly},
        known,
        "queries",
        "attention_dq_of_sums",
        Expectation("declined", reason="dot"),
    )
