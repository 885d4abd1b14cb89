"""Builders of cases whose operands are found through tables of addresses."""

from __future__ import annotations

from typing import Any, Literal

from tests.cases.case import Argument, Number, Pointer, Specimen, Tensor
from tests.cases.pointers import groups, tables
from tests.cases.pointers.builders import SPECIALISED, block, output_of
from tests.cases.pointers.groups import ELEMENTS

Form = Literal["pointers", "edges", "tma", "anew"]
KERNELS: dict[Form, Any] = {
    "pointers": groups.gemm_grouped,
    "edges": tables.gemm_grouped_edges,
    "tma": groups.gemm_grouped_tma,
    "anew": groups.gemm_grouped_anew,
}
"""Triton's tutorial 08: through pointers, or by descriptors that are made for each group or for each tile."""
GROUPS = ((256, 384, 128), (128, 128, 512), (384, 256, 64))


def grouped_case(name: str, form: Form, groups: tuple[tuple[int, int, int], ...] = GROUPS, programs: int = 4,
                 tile: tuple[int, int, int] = (128, 128, 64), warps: int = 4, dtype: str = "fp16",
                 leading: tuple[tuple[int, int], ...] = ()) -> Specimen:  # fmt: skip
    """Triton's tutorial 08; groups: M, N and K of each; leading: the row strides of A and B, dense if left out.

    With descriptors B is (N, K), and N and K are multiples of 16 bytes; "edges" takes any sizes; otherwise the tile
    divides all sizes.
    """
    b_t = form in ("tma", "anew")
    leading = leading or tuple((k, k if b_t else n) for _, n, k in groups)
    starts, ends = dict[str, list[int]](a=[], b=[], c=[]), {"a": 0, "b": 0, "c": 0}
    for (m, n, k), (lda, ldb) in zip(groups, leading, strict=True):
        for key, rows, length, stride in (("a", m, k, lda), ("b", *((n, k) if b_t else (k, n)), ldb), ("c", m, n, n)):
            below, above = (max(0, rows - 1) * max(0, step) for step in (-stride, stride))
            starts[key].append(ends[key] + below)
            ends[key] += -(-(below + above + (length if rows else 0)) // 8) * 8
    sizes = {"G": len(groups), "G3": 3 * len(groups), "PROGRAMS": programs}
    sizes |= {f"{key.upper()}_SIZE": end for key, end in ends.items()}
    strides = tuple(stride for (_, n, _), both in zip(groups, leading, strict=True) for stride in (*both, n))
    tensors = {
        "a": Tensor(("A_SIZE",), dtype), "b": Tensor(("B_SIZE",), dtype),
        "c": Tensor(("C_SIZE",), output_of(dtype), "nan"),
        "sizes": Tensor(("G3",), "i32", "values", values=tuple(x for group in groups for x in group)),
        "strides": Tensor(("G3",), "i32", "values", values=strides),
        **{f"{key}_addresses": Tensor(("G",), "i64", "addresses", values=tuple(found), base=key)
           for key, found in starts.items()},
    }  # fmt: skip
    arguments: dict[str, Argument] = {f"{key}_addresses": Pointer(f"{key}_addresses") for key in "abc"}
    arguments |= {"sizes_ptr": Pointer("sizes"), "strides_ptr": Pointer("strides"), "GROUPS": Number("G")}
    tags = frozenset({"persistent", *(["transposed"] if b_t else [])})
    known = block(*tile, PROGRAMS=programs, ELEMENT=ELEMENTS[dtype], OUT=ELEMENTS[output_of(dtype)])
    return Specimen(
        name,
        KERNELS[form],
        arguments,
        tensors,
        known,
        sizes,
        "programs",
        "pointer_grouped",
        SPECIALISED,
        num_warps=warps,
        tags=tags,
    )


def array_case(name: str, programs: int = 0, places: tuple[int, ...] = (2, 0, 3),
               sizes: tuple[int, int, int] = (200, 272, 208)) -> Specimen:  # fmt: skip
    """One product for each of `places`, which are numbers of matrices B; programs: 0 for one tile per program."""
    m, n, k = sizes
    known_sizes = {"M": m, "N": n, "K": k, "Z": len(places), "MATRICES": 1 + max(places)}
    tensors = {
        "a": Tensor(("Z", "M", "K"), "fp16"), "b": Tensor(("MATRICES", "K", "N"), "fp16"),
        "c": Tensor(("Z", "M", "N"), "fp16", "nan"),
        "b_addresses": Tensor(("Z",), "i64", "addresses", values=tuple(n * k * at for at in places), base="b"),
    }  # fmt: skip
    arguments: dict[str, Argument] = {
        key: Pointer(key.removesuffix("_ptr")) for key in ("a_ptr", "b_addresses", "c_ptr")
    }
    arguments |= {key: Number(key) for key in "MNK"}
    strides = (("az", "M*K"), ("am", "K"), ("bk", "N"), ("cz", "M*N"), ("cm", "N"))
    arguments |= {f"stride_{key}": Number(size) for key, size in strides}
    known = block(ELEMENT=ELEMENTS["fp16"])
    if not programs:
        return Specimen(
            name,
            tables.gemm_array_tiles,
            arguments,
            tensors,
            known,
            known_sizes,
            "tiles_3d",
            "pointer_array",
            SPECIALISED,
        )
    return Specimen(
        name,
        tables.gemm_array,
        {**arguments, "COUNT": Number("Z")},
        tensors,
        {**known, "PROGRAMS": programs},
        {**known_sizes, "PROGRAMS": programs},
        "programs",
        "pointer_array",
        SPECIALISED,
        tags=frozenset({"persistent"}),
    )
