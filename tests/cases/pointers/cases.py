"""The list of pointer cases: products, weights, groups, attention, recurrences, and the safety list.

The problems are small, because every element is checked in float64. The expectation is for automatic mode without
regard to speed (``only_if_faster=False``): "either" if both verdicts are right.
"""

from __future__ import annotations

from tests.cases.case import Number, Pointer, Specimen, Tensor
from tests.cases.pointers import edges, exits, gemm, persistent, safety
from tests.cases.pointers.builders import (
    EITHER,
    EVEN,
    PROBLEM,
    SPECIALISED,
    attention_case,
    batched_case,
    chain_case,
    experts_case,
    flex_case,
    gate_up_case,
    gemm_case,
    gram_case,
    int4_case,
    lengths_case,
    linear_backwards_case,
    linear_case,
    mixed_case,
    no,
    offsets_case,
    packed_case,
    paged_case,
    safety_case,
    segments_case,
    states_case,
    strided_case,
    weights_case,
)
from tests.cases.pointers.forms.cases import FORMS
from tests.cases.pointers.table_builders import array_case, grouped_case

BOTH = (False, True)
ORDER = {False: "nn", True: "nt"}
LARGE = {"M": 392, "N": 784, "K": 336}
PERSISTENT = {**PROBLEM, "PROGRAMS": 4}
TILES = {(bm, bn, bk): (warps, stages) for bm, bn, bk, warps, stages in gemm.CONFIGS if warps >= 4 and bm >= 64}

PRODUCTS = [
    *(gemm_case(f"tutorial_{dtype}_{ORDER[b_t]}", dtype=dtype, b_t=b_t) for dtype in ("fp16", "bf16") for b_t in BOTH),
    gemm_case("tutorial_fp16_tn", a_t=True),
    gemm_case("tutorial_fp8e4nv_nt", dtype="fp8e4nv", b_t=True, tile=(128, 128, 128), sizes={**PROBLEM, "K": 656}),
    gemm_case("tutorial_fp8e4nv_nn", dtype="fp8e4nv", tile=(128, 128, 128), sizes={**PROBLEM, "K": 656}, expect=EITHER),
    gemm_case("tutorial_fp8e5_nt", dtype="fp8e5", b_t=True, tile=(128, 128, 128), sizes={**PROBLEM, "K": 656}),
    *(gemm_case(f"tutorial_tile_{bm}x{bn}x{bk}", tile=(bm, bn, bk), warps=warps, stages=stages, sizes=LARGE,
                expect=SPECIALISED if bn >= 64 else EITHER)
      for (bm, bn, bk), (warps, stages) in TILES.items() if bk < 128),
    gemm_case("tutorial_8warps_nt", b_t=True, tile=(128, 256, 64), warps=8, sizes=LARGE),
    gemm_case("tutorial_leaky_relu", ACT="leaky_relu"),
    gemm_case("tutorial_even", sizes={"M": 384, "N": 512, "K": 320}),
    gemm_case("tutorial_rows_unaligned", sizes={**PROBLEM, "K": 328}, expect=EITHER),
    gemm_case("tutorial_odd", sizes={"M": 201, "N": 267, "K": 107}, expect=EITHER),
    gemm_case("tutorial_one_trip", sizes={**PROBLEM, "K": 48}),
    gemm_case("tutorial_k_zero", sizes={**PROBLEM, "K": 0}),
    *(gemm_case(f"tutorial_16_rows_{dtype}", dtype=dtype, b_t=True, tile=(16, 128, 64))
      for dtype in ("fp16", "fp8e4nv")),
    gemm_case("tutorial_smaller_than_tile", sizes={"M": 40, "N": 48, "K": 336}),
    strided_case("tutorial_stride2"),
    *(gemm_case(f"masked_{ORDER[b_t]}", gemm.gemm_masked, b_t=b_t) for b_t in BOTH),
    gemm_case("even_k", gemm.gemm_even_k, EVEN_K=True, sizes={**PROBLEM, "K": 320}),
    gemm_case("uneven_k", gemm.gemm_even_k, EVEN_K=False),
    gemm_case("block_pointers", gemm.gemm_block_pointers),
    gemm_case("block_pointers_nt", gemm.gemm_block_pointers, b_t=True),
    mixed_case("mixed"),
    *(batched_case(f"batched_{ORDER[b_t]}", b_t) for b_t in BOTH),
]  # fmt: skip

LOOPS = [
    *(gemm_case(f"persistent_{ORDER[b_t]}", persistent.gemm_persistent, b_t=b_t, sizes=PERSISTENT, tags="persistent")
      for b_t in BOTH),
    gemm_case("persistent_announced", persistent.gemm_persistent, tile=(128, 256, 64), warps=8, stages=2,
              sizes={**LARGE, "PROGRAMS": 3}, tags="persistent"),
    gemm_case("persistent_k_zero", persistent.gemm_persistent, sizes={**PERSISTENT, "K": 0}, tags="persistent"),
    gemm_case("persistent_one_trip", persistent.gemm_persistent, sizes={**PERSISTENT, "K": 48}, tags="persistent"),
    gemm_case("persistent_fused", persistent.gemm_persistent_fused, sizes=PERSISTENT, tags="persistent"),
]  # fmt: skip

WEIGHTS = [
    *(weights_case(f"weights_{weight}_{dtype}{'_scaled_first' if first else ''}", dtype, weight, first)
      for weight in ("i8", "fp8e4nv") for dtype in ("fp16", "bf16") for first in BOTH),
    weights_case("weights_i8_nt", "fp16", "i8", b_t=True),
    weights_case("weights_i8_8warps", "fp16", "i8", tile=(128, 256, 64), warps=8, sizes=LARGE),
    weights_case("weights_i8_k_zero", "fp16", "i8", sizes={**PROBLEM, "K": 0}),
    *(int4_case(f"weights_i4_{dtype}_group{group}", dtype, group) for dtype in ("fp16", "bf16") for group in (64, 128)),
    packed_case("weights_packed"),
    packed_case("weights_packed_bf16_8warps", "bf16", tile=(128, 256, 64), warps=8, M=600, N=1040, K=520),
    packed_case("weights_packed_32_columns", tile=(64, 32, 64), K=512),
    packed_case("weights_packed_odd", K=340),
    packed_case("weights_packed_strided", step=2),
    packed_case("weights_packed_k_zero", K=0),
]  # fmt: skip

LISTS = [
    grouped_case("grouped", "pointers"),
    grouped_case("grouped_tma", "tma", ((256, 384, 128), (136, 120, 520), (384, 256, 64))),
    grouped_case(
        "grouped_lengths",
        "pointers",
        ((128, 128, 64), (0, 128, 256), (128, 256, 0), (192, 64, 320), (64, 64, 32)),
        tile=(64, 64, 32),
    ),
    grouped_case("grouped_bf16_8warps", "pointers", ((256, 256, 192), (128, 512, 64)), 2, (128, 256, 64), 8, "bf16"),
    grouped_case(
        "grouped_tma_lengths",
        "tma",
        ((200, 136, 24), (0, 128, 256), (64, 264, 520), (8, 8, 8)),
        3,
        (64, 128, 64),
        dtype="bf16",
    ),
    grouped_case("grouped_tma_fp8_8warps", "tma", ((256, 272, 656), (144, 528, 128)), 2, (128, 256, 128), 8, "fp8e4nv"),
    grouped_case("grouped_anew", "anew", ((200, 136, 152), (64, 264, 520)), 2, (64, 128, 64)),
    grouped_case("grouped_strides", "pointers", leading=((136, 400), (1024, 128), (64, 264))),
    grouped_case("grouped_transposed", "pointers", leading=((-128, 384), (512, 0), (72, 256))),
    grouped_case(
        "grouped_edges",
        "edges",
        ((200, 136, 72), (128, 128, 0), (1, 264, 200), (77, 8, 24)),
        3,
        leading=((72, 144), (8, 128), (-200, 272), (32, -16)),
    ),
    array_case("array", 3),
    array_case("array_tiles"),
    offsets_case("offsets", (200, 1, 128, 0, 77)),
    segments_case("segments", (70, 0, 64, 3, 0, 40, 0, 0), 1280),
    experts_case("experts"),
    experts_case("experts_one_choice", tokens=40, top_k=1, weighted=False),
    experts_case("experts_early_exit", exit=True),
]

ATTENTION = [
    *(attention_case(f"attention_{form}_{dtype}_d{dim}_{mask}", dtype=dtype, dim=dim, causal=mask == "causal",
                     two_loops=form == "two_loops")
      for form in ("two_loops", "one_loop") for dtype, dim in (("fp16", 64), ("bf16", 128))
      for mask in ("causal", "full")),
    *(attention_case(f"attention_{queries}x{keys}_{mask}", causal=mask == "causal", SQ=queries, SK=keys)
      for queries, keys in ((200, 333), (333, 200), (1, 130)) for mask in ("causal", "full")),
    attention_case("attention_gqa", H=4, HK=2),
    attention_case("attention_4warps", tile=(64, 64, 4)),
    paged_case("paged", 130, (300, 130, 257)),
    paged_case("paged_gqa_d128", 64, (64, 200), dim=128, heads=4),
    flex_case("flex_pointers"),
    flex_case("flex_pointers_bf16_d128", dtype="bf16", dim=128),
    flex_case("flex_pointers_whole_blocks", keys=128),
    flex_case("flex_pointers_window", window=100),
    flex_case("flex_pointers_200x333", SQ=200, SK=333),
]  # fmt: skip

RECURRENT = [
    linear_case("linear_attention"),
    linear_case("linear_attention_uneven", steps=200),
    linear_case("linear_attention_bf16_8warps", dtype="bf16", warps=8, values=128, chunk=128),
    linear_backwards_case("linear_backwards"),
    linear_backwards_case("linear_backwards_uneven", steps=200),
    linear_backwards_case("linear_backwards_bf16_8warps", dtype="bf16", warps=8, dim=128, values=128),
    states_case("states"),
    states_case("states_uneven", steps=200),
    states_case("states_bf16_8warps", dtype="bf16", warps=8),
    gate_up_case("pointer_gate_up", 64, 4),
    gate_up_case("pointer_gate_up_8warps", 128, 8),
    gram_case("gram"),
]

FLAGS = {"flags": Tensor((64,), "i32", "zero")}
RAISED = {"flags": Tensor((64,), "i32", "values", values=(1,) * 64)}
LIST = (2, 0, 3, -1)
SAFE = [
    safety_case("adds_to_c", safety.adds_to_c, SPECIALISED, reference="pointer_adds_to_c",
                tensors={"c0": Tensor(("M", "N"), "fp16")}, more={"c0_ptr": Pointer("c0")}),
    safety_case("cached_load", safety.cached_load, SPECIALISED),
    safety_case("barrier_between", safety.barrier_between, SPECIALISED,
                tensors={"c": Tensor(("M", "N"), "fp32", "nan")}),
    safety_case("barriers_in_loop", safety.barriers_in_loop, SPECIALISED,
                tensors={"c": Tensor(("M", "N"), "fp32", "nan")}),
    safety_case("sums_in_memory", safety.sums_in_memory, EITHER, tensors={"c": Tensor(("M", "N"), "fp32", "zero")}),
    safety_case("assembly_in_loop_pure", safety.assembly_in_loop, EITHER, PURE=True),
    safety_case("print_in_loop", safety.print_in_loop, EITHER),
    safety_case("dependent_launch", safety.dependent_launch, SPECIALISED, options={"launch_pdl": True}),
    safety_case("early_return", safety.early_return, SPECIALISED, more={"M": Number("M")}),
    safety_case("while_listed", safety.while_listed, SPECIALISED, reference="pointer_listed",
                tensors={"list": Tensor((4,), "i32", "values", values=LIST)}, more={"list_ptr": Pointer("list")}),
    safety_case("while_counted", safety.while_counted, SPECIALISED),
    safety_case("scan_behind", safety.scan_behind, SPECIALISED, reference="pointer_scan"),
    *(safety_case(f"atomics_behind_{order}", safety.atomics_behind, expect, grid="tiles_3d",
                  tensors={"c": Tensor(("M", "N"), "fp32", "zero")},
                  sizes={"M": 128, "N": 128, "K": 256, "Z": 2}, SPLIT=2, ORDER=order)
      for order, expect in (("relaxed", SPECIALISED), ("acq_rel", EITHER))),
    safety_case("fill_with_one", safety.fill_with_one, EITHER, reference="pointer_fill_one",
                tensors={"b": Tensor(("KP", "N"), "fp16")}, sizes={**EVEN, "K": 208, "KP": 256}),
    safety_case("mask_from_memory", safety.mask_from_memory, EITHER, reference="pointer_kept",
                tensors={"keep": Tensor(("M", "K"), "i8", "integers", span=(0, 2))},
                more={"keep_ptr": Pointer("keep")}),
]  # fmt: skip

UNEVEN = {"M": 200, "N": 272, "K": 208}
ROWS = {"M": Number("M")}
EDGES = [
    safety_case("wraps_into_sums", edges.wraps_into_sums, EITHER, reference="pointer_column_sums", sizes={
                **UNEVEN, "TILES": 2}, tensors={"c": Tensor(("TILES", "N"), "fp32", "nan")}, more=ROWS),
    safety_case("clamped", edges.clamped, SPECIALISED, sizes=UNEVEN, more=ROWS),
    *(safety_case(f"shifted_base_{shift}", edges.shifted_base, EITHER, reference="pointer_shifted",
                  sizes={**UNEVEN, "SHIFT": shift, "LINE": 240}, tensors={"a": Tensor(("M", "LINE"), "fp16")},
                  more={**ROWS, "shift": Number("SHIFT"), "LINE": Number("LINE")}) for shift in (4, 16, 19)),
    safety_case("reads_on", edges.reads_on, EITHER, reference="pointer_reads_on",
                sizes={**UNEVEN, "LINE": 256, "KP": 256}, more={**ROWS, "LINE": Number("LINE")},
                tensors={"a": Tensor(("M", "LINE"), "fp16"), "b": Tensor(("KP", "N"), "fp16")}),
    *(safety_case(f"windows_step{step}", edges.windows, EITHER, reference="pointer_windows",
                  sizes={**UNEVEN, "STEP": step, "LENGTH": 200 * step + 208}, more={**ROWS, "STEP": Number("STEP")},
                  tensors={"a": Tensor(("LENGTH",), "fp16")}) for step in (16, 3)),
]  # fmt: skip

SKIPPED = {"c": Tensor(("M", "N"), "fp16", "zero"), "skip": Tensor((3,), "i32", "values", values=(0, 1, 0))}
BEYOND = {"M": Number("ROWS"), "skip_ptr": Pointer("skip")}
EXITS = [
    safety_case("two_returns", exits.two_returns, SPECIALISED, reference="pointer_left_out",
                sizes={**UNEVEN, "M": 392, "ROWS": 136}, tensors=SKIPPED, more=BEYOND),
    safety_case("return_in_branch", exits.return_in_branch, SPECIALISED, reference="pointer_left_out", tags="meets",
                sizes={**UNEVEN, "M": 392, "ROWS": 136}, tensors=SKIPPED, more=BEYOND),
    experts_case("experts_elsewhere", elsewhere=True),
    experts_case("experts_elsewhere_one_choice", tokens=40, top_k=1, weighted=False, elsewhere=True),
    lengths_case("attention_lengths", (300, 130, 0, 257)),
    lengths_case("attention_lengths_4warps", (64, 200), warps=4),
]  # fmt: skip

DECLINED = [
    safety_case("in_place", safety.in_place, no("a_ptr"), drop="c_ptr", grid="rows", reference=""),
    chain_case("chain"),
    safety_case("store_in_loop", safety.store_in_loop, no("b_ptr"), reference=""),
    safety_case("adds_in_place", safety.adds_in_place, EITHER, reference="",
                tensors={"c": Tensor(("M", "N"), "fp16", "zero")}),
    safety_case("volatile_load", safety.volatile_load, no("may wait for what others write")),
    safety_case("acquire_in_loop", safety.acquire_in_loop, EITHER, tensors=FLAGS,
                more={"flags_ptr": Pointer("flags")}),
    safety_case("waits_for_flag", safety.waits_for_flag, no("atomic"), tensors=RAISED,
                more={"flags_ptr": Pointer("flags")}),
    safety_case("assembly_in_loop", safety.assembly_in_loop, no("asm"), PURE=False),
    safety_case("clusters", safety.plain, no("num_ctas"), options={"num_ctas": 2}),
    safety_case("cooperative", safety.plain, no("launch_cooperative_grid"), options={"launch_cooperative_grid": True}),
    safety_case("with_call", safety.with_call, no("call")),
]  # fmt: skip

CASES: tuple[Specimen, ...] = (
    *PRODUCTS, *LOOPS, *WEIGHTS, *LISTS, *ATTENTION, *RECURRENT, *SAFE, *EDGES, *EXITS, *FORMS, *DECLINED,
)  # fmt: skip


def find(name: str) -> Specimen:
    """The case called `name`; raises KeyError naming the close ones."""
    for candidate in CASES:
        if candidate.name == name:
            return candidate
    close = [candidate.name for candidate in CASES if name in candidate.name]
    raise KeyError(f"no case {name!r}; close: {', '.join(close) or 'none'}")
