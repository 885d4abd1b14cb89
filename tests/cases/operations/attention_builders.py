"""Builders of the attention cases: keys in pages, int8 scores, lists of blocks forward and backward."""

from __future__ import annotations

import random

from tests.cases.attention.builders import SCALE
from tests.cases.case import Absent, Argument, Expectation, Number, Specimen, Tensor
from tests.cases.operations import attention, flex, sparse
from tests.cases.operations.state_builders import numbers
from tests.cases.pointers.builders import SPECIALISED, pointers_to


def ends(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Where packed sequences begin, and the end."""
    return tuple(sum(lengths[:i]) for i in range(len(lengths) + 1))


def page_table(keys: tuple[int, ...], page: int) -> tuple[int, tuple[int, ...]]:
    """The longest list of pages, and the padded lists: all pages in random order."""
    pages = max(-(-length // page) for length in keys)
    return pages, tuple(random.Random(pages).sample(range(pages * len(keys)), pages * len(keys)))


def prefill_case(name: str, queries: tuple[int, ...], cached: tuple[int, ...], *, page: int = 16, dim: int = 64,
                 heads: int = 2, key_heads: int = 1, tile: tuple[int, int] = (64, 64), warps: int = 4,
                 dtype: str = "fp16", expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """`attention_prefill`; queries and cached keys of each sequence."""
    x = 8
    pages, table = page_table(tuple(max(1, length) for length in cached), page)
    sizes = {"B": len(queries), "H": heads, "HK": key_heads, "T": sum(queries), "D": dim, "LONGEST": max(queries)}
    sizes |= {"PAGES": pages, "ALL": len(table), "PAGE": page, "X": x, "DX": dim // x, "B1": len(queries) + 1}
    tensors = {
        "q": Tensor(("T", "H", "D"), dtype), "k": Tensor(("T", "HK", "D"), dtype), "v": Tensor(("T", "HK", "D"), dtype),
        "o": Tensor(("T", "H", "D"), dtype, "nan"), "k_pages": Tensor(("ALL", "HK", "DX", "PAGE", "X"), dtype),
        "v_pages": Tensor(("ALL", "HK", "D", "PAGE"), dtype),
        "table": Tensor(("B", "PAGES"), "i32", "values", values=table),
        "starts": Tensor(("B1",), "i32", "values", values=ends(queries)),
        "lengths": Tensor(("B",), "i32", "values", values=tuple(map(sum, zip(queries, cached, strict=True)))),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o k_pages v_pages table starts lengths"), "scale": Number(SCALE[dim]),
        **numbers(stride_tb="PAGES", stride_qt="H*D", stride_qh="D", stride_kt="HK*D", stride_kh="D"),
        **numbers(stride_kp="HK*D*PAGE", stride_kph="D*PAGE", stride_kpd="PAGE*X", stride_kpn="X"),
        **numbers(stride_vp="HK*D*PAGE", stride_vph="D*PAGE", stride_vpd="PAGE"),
    }  # fmt: skip
    constexprs = {"GROUP": heads // key_heads, "BM": tile[0], "BN": tile[1], "D": dim, "PAGE": page, "X": x}
    return Specimen(
        name,
        attention.attention_prefill,
        arguments,
        tensors,
        constexprs,
        sizes,
        "sequences",
        "attention_prefill",
        expect,
        num_warps=warps,
        num_stages=1,
        plans=((2, 0),),
    )


def pages_case(name: str, queries: tuple[int, ...], keys: tuple[int, ...], *, page: int = 16, dim: int = 64,
               heads: int = 4, key_heads: int = 1, tile: tuple[int, int] = (64, 64), warps: int = 4,
               dtype: str = "fp16", expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """`attention_pages`; queries and all keys of each sequence; tile: rows and keys of a block."""
    pages, table = page_table(keys, page)
    group = heads // key_heads
    sizes = {"B": len(queries), "H": key_heads, "HEADS": heads, "HK": key_heads, "T": sum(queries), "D": dim,
             "LONGEST": max(queries), "BM": tile[0] // group, "PAGES": pages, "ALL": len(table), "PAGE": page,
             "B1": len(queries) + 1}  # fmt: skip
    tensors = {
        "q": Tensor(("T", "HEADS", "D"), dtype), "o": Tensor(("T", "HEADS", "D"), dtype, "nan"),
        "k": Tensor(("ALL", "PAGE", "HK", "D"), dtype), "v": Tensor(("ALL", "PAGE", "HK", "D"), dtype),
        "table": Tensor(("B", "PAGES"), "i32", "values", values=table),
        "starts": Tensor(("B1",), "i32", "values", values=ends(queries)),
        "lengths": Tensor(("B",), "i32", "values", values=keys),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o table starts lengths"), "scale": Number(SCALE[dim]),
        **numbers(stride_tb="PAGES", stride_qt="HEADS*D", stride_qh="D", stride_kp="PAGE*HK*D", stride_kn="HK*D"),
        **numbers(stride_kh="D"),
    }  # fmt: skip
    constexprs = {"GROUP": group, "BM": tile[0], "BN": tile[1], "D": dim, "PAGE": page}
    return Specimen(
        name,
        attention.attention_pages,
        arguments,
        tensors,
        constexprs,
        sizes,
        "sequences",
        "attention_pages",
        expect,
        num_warps=warps,
        num_stages=3,
        plans=((2, 0),),
    )


def int8_case(name: str, *, queries: int = 256, keys: int = 256, dim: int = 64, heads: int = 2, key_heads: int = 1,
              causal: bool = False, tile: tuple[int, int] = (128, 64), warps: int = 4, stages: int = 3,
              expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """`attention_int8`."""
    sizes = {"B": 1, "H": heads, "HK": key_heads, "SQ": queries, "SK": keys, "D": dim,
             "ROW_BLOCKS": -(-queries // tile[0]), "KEY_BLOCKS": -(-keys // tile[1])}  # fmt: skip
    scales = 0.125 / 40**2
    tensors = {
        "q": Tensor(("H", "SQ", "D"), "i8", "integers"), "k": Tensor(("HK", "SK", "D"), "i8", "integers"),
        "v": Tensor(("HK", "SK", "D"), "fp16"), "o": Tensor(("H", "SQ", "D"), "fp16", "nan"),
        "qs": Tensor(("H", "ROW_BLOCKS"), "fp32", "values",
                     values=tuple(scales * (1 + i % 3) for i in range(heads * sizes["ROW_BLOCKS"]))),
        "ks": Tensor(("HK", "KEY_BLOCKS"), "fp32"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        **pointers_to("q k v o qs ks"), **numbers(stride_qh="SQ*D", stride_qm="D", stride_kh="SK*D", stride_kn="D"),
        **numbers(stride_vh="SK*D", stride_vn="D", H="H", SQ="SQ", SK="SK"),
    }  # fmt: skip
    constexprs = {"GROUP": heads // key_heads, "BM": tile[0], "BN": tile[1], "D": dim, "CAUSAL": causal}
    return Specimen(
        name,
        attention.attention_int8,
        arguments,
        tensors,
        constexprs,
        sizes,
        "queries",
        "attention_int8",
        expect,
        num_warps=warps,
        num_stages=stages,
        plans=((2, 0),),
    )


# --- lists of blocks ---


def chosen_blocks(tokens: int, heads: int, count: int, size: int) -> tuple[tuple[int, ...], ...]:
    """For each token and key head, `count` blocks that begin before it: its own, the first, others; repeated if few."""
    lot = random.Random(tokens)
    found: list[tuple[int, ...]] = []
    for t in range(tokens):
        for _ in range(heads):
            known = t // size + 1
            own = [t // size, *lot.sample(range(known - 1), min(count, known) - 1)]
            found.append((*own, *[-1] * (count - len(own))))
    return tuple(found)


def sparse_case(name: str, part: str, *, tokens: int = 200, dim: int = 64, group: int = 64, key_heads: int = 1,
                count: int = 3, block: int = 64, rows: int = 64, warps: int = 4, stages: int = 3,
                dtype: str = "bf16", expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """A kernel over listed blocks; `part` is its reference. rows: of the gathered tokens of an iteration."""
    sizes = {"T": tokens, "HK": key_heads, "H": key_heads * group, "D": dim, "COUNT": count}
    chosen = chosen_blocks(tokens, key_heads if part != "sparse_gradient_keys" else 1, count, block)
    q, k = (Tensor(("T", "H", "D"), dtype) for _ in range(2)), Tensor(("T", "HK", "D"), dtype)
    tensors = dict(zip(("q", "do"), q, strict=True)) | {
        "k": k, "v": k, "lse": Tensor(("T", "H"), "fp32", mean=4.0), "delta": Tensor(("T", "H"), "fp32"),
        "blocks": Tensor(("T", "HK", "COUNT"), "i32", "values", values=tuple(b for it in chosen for b in it)),
    }  # fmt: skip
    strides = numbers(stride_qt="H*D", stride_kt="HK*D", stride_kh="D")
    constexprs: dict[str, int] = {"GROUP": group, "BN": block, "D": dim}
    grid = {"M": tokens, "BM": 1, "N": key_heads, "BN": 1}
    match part:
        case "sparse_forward":
            kernel, names, written = sparse.sparse_forward, "q k v o lse blocks", {"o": ("T", "H", "D"), "lse": None}
        case "sparse_gradient_queries":
            full = tuple(max(b, 0) for it in chosen for b in it)
            tensors["blocks"] = Tensor(("T", "HK", "COUNT"), "i32", "values", values=full)
            kernel, names = sparse.sparse_gradient_queries, "q k v do lse delta dq blocks"
            written = {"dq": ("T", "H", "D")}
        case _:
            users = [[t for t, it in enumerate(chosen) if b in it] for b in range(-(-tokens // block))]
            sizes |= {"STARTS": len(users) + 1, "CHOICES": sum(map(len, users))}
            tensors["starts"] = Tensor(("STARTS",), "i32", "values", values=ends(tuple(map(len, users))))
            tensors["tokens"] = Tensor(("CHOICES",), "i32", "values", values=tuple(t for it in users for t in it))
            kernel, names = sparse.sparse_gradient_keys, "q k v do lse delta dk dv starts tokens"
            written = {"dk": ("T", "HK", "D"), "dv": ("T", "HK", "D")}
            constexprs["BM"] = rows
            grid |= {"BM": block}
    for key, shape in written.items():
        tensors[key] = Tensor(("T", "H"), "fp32", "nan") if shape is None else Tensor(shape, dtype, "nan")
    arguments = {key: it for key, it in {**pointers_to(names), **strides, **numbers(T="T", H="H", HK="HK"),
                 "COUNT": Number("COUNT"), "scale": Number(SCALE[dim])}.items() if key in kernel.arg_names}  # fmt: skip
    return Specimen(
        name,
        kernel,
        arguments,
        {key: tensors[key] for key in names.split()},
        constexprs,
        {**sizes, **grid},
        "tiles_2d",
        part,
        expect,
        num_warps=warps,
        num_stages=stages,
        plans=((2, 0),),
    )


def window_lists(
    rows: int, keys: int, window: int, size: int, documents: tuple[int, ...] = ()
) -> dict[str, tuple[list[list[int]], list[list[int]]]]:
    """By kind ("part", "full"): the blocks of keys of each block of rows, the blocks of rows of each block of keys.

    documents: as in `flex_gradients_case`.
    """
    many_rows, many_keys = -(-rows // size), -(-keys // size)
    found = {kind: ([[] for _ in range(many_rows)], [[] for _ in range(many_keys)]) for kind in ("part", "full")}
    for row in range(many_rows):
        for key in range(many_keys):
            first, last = row * size - (key * size + size - 1), row * size + size - 1 - key * size
            if last < 0 or first >= window:
                continue
            apart = any(key * size < it < (row + 1) * size for it in documents)
            kind = "full" if first >= 0 and last < window and not apart else "part"
            found[kind][0][row].append(key)
            found[kind][1][key].append(row)
    return found


def flex_gradients_case(name: str, *, length: int = 320, window: int = 160, dim: int = 64, heads: int = 2,
                        key_heads: int = 1, dtype: str = "bf16", tile: tuple[int, int, int, int] = (64, 64, 64, 64),
                        warps: int = 4, stages: int = 3, size: int = 128, constant: bool = False,
                        alibi: bool = False, cap: float = 0.0, documents: tuple[int, ...] = (),
                        expect: Expectation = SPECIALISED) -> Specimen:  # fmt: skip
    """`flex_gradients`; tile: rows and keys of a block for dK and dV, then for dQ. size: of the blocks of the lists.

    constant: lengths are constants of the kernel. alibi: scores fall with the distance, by the number of the head.
    cap: of the scores; 0 for none. documents: where each but the first begins.
    """
    numbers_of = tuple(sum(it <= token for it in documents) for token in range(length))
    blocks, programs = -(-length // size), -(-length // tile[1]) + -(-length // tile[2]) * (heads // key_heads)
    sizes = {"B": 1, "H": heads, "HK": key_heads, "SQ": length, "SK": length, "D": dim, "BLOCKS": blocks,
             "M": programs, "BM": 1, "N": key_heads, "BN": 1}  # fmt: skip
    q, k = Tensor(("B", "H", "SQ", "D"), dtype), Tensor(("B", "HK", "SK", "D"), dtype)
    tensors = {
        "q": q, "k": k, "v": k, "do": q, "lse": Tensor(("B", "H", "SQ"), "fp32", mean=4.0),
        "delta": Tensor(("B", "H", "SQ"), "fp32"), "dq": Tensor(q.shape, dtype, "nan"),
        "dk": Tensor(k.shape, dtype, "nan"), "dv": Tensor(k.shape, dtype, "nan"),
    }  # fmt: skip
    for kind, of in window_lists(length, length, window, size, documents).items():
        for side, lists in zip(("", "q_"), of, strict=True):
            prefix = f"{'full_' if kind == 'full' else ''}{side}"
            padded = tuple(b for it in lists for b in (*it, *[0] * (blocks - len(it))))
            tensors[f"{prefix}counts"] = Tensor(("BLOCKS",), "i32", "values", values=tuple(map(len, lists)))
            tensors[f"{prefix}blocks"] = Tensor(("BLOCKS", "BLOCKS"), "i32", "values", values=padded)
    if documents:
        tensors["documents"] = Tensor(("SQ",), "i64", "values", values=numbers_of)
    arguments: dict[str, Argument] = {
        "documents_ptr": Absent(),
        **pointers_to(" ".join(tensors)), **numbers(stride_qh="SQ*D", stride_qm="D", stride_kh="SK*D", stride_kn="D"),
        **numbers(SQ="SQ", SK="SK", ROW_BLOCKS="BLOCKS", KEY_BLOCKS="BLOCKS"), "scale": Number(SCALE[dim]),
    }  # fmt: skip
    lengths = {"SQ": length, "SK": length} if constant else {}
    arguments = {name: it for name, it in arguments.items() if name not in lengths}
    constexprs = {**lengths, "GROUP": heads // key_heads, "BM1": tile[0], "BN1": tile[1], "BM2": tile[2],
                  "BN2": tile[3], "BLOCK": size, "D": dim, "WINDOW": window, "ALIBI": alibi, "CAP": cap}  # fmt: skip
    return Specimen(
        name,
        flex.flex_gradients,
        arguments,
        tensors,
        constexprs,
        sizes,
        "tiles_2d",
        "flex_gradients",
        expect,
        num_warps=warps,
        num_stages=stages,
        plans=((2, 0),),
    )
