"""The list of attention cases: forms of the forward pass, masks, heads, lengths, element types; the backward pass.

Small problems on purpose: every element is checked in float64. `bench_case` makes the large ones that are timed.
"""

from __future__ import annotations

from typing import Any

from tests.cases.attention.builders import (
    backward_case,
    biased_case,
    dq_of_sums_case,
    flex_case,
    forward_case,
    from_registers_case,
    gradient_rows_case,
    largest_of_keys_case,
    packed_backward_case,
    packed_case,
    ragged_case,
    tutorial_case,
    two_part_case,
)
from tests.cases.case import Specimen

BOTH = (False, True)
MASK = {False: "full", True: "causal"}
RAGGED = ((200, 333), (333, 200), (1, 333), (200, 1), (1, 1), (129, 127))
GROUPS = {"gqa": {"H": 4, "HK": 2}, "mqa": {"H": 3, "HK": 1}}
TILES = ((64, 64, 4), (128, 64, 4), (64, 128, 4), (128, 64, 8))

MATRIX = [
    forward_case(f"two_loops_{dtype}_d{dim}_{MASK[causal]}", dtype=dtype, dim=dim, causal=causal)
    for dtype in ("fp16", "bf16", "fp8e4nv")
    for dim in (64, 96, 128, 256)
    for causal in BOTH
]
ONE_LOOP = [
    forward_case(f"{form}_{dtype}_d{dim}_{MASK[causal]}", form, dtype=dtype, dim=dim, causal=causal)
    for form in ("one_loop", "branch")
    for dtype, dim in (("fp16", 64), ("fp16", 128), ("bf16", 128), ("fp8e4nv", 128), ("fp16", 256))
    for causal in BOTH
]
LENGTHS = [
    forward_case(f"{form}_{MASK[causal]}_{queries}x{keys}", form, causal=causal, SQ=queries, SK=keys)
    for form in ("two_loops", "one_loop")
    for causal in BOTH
    for queries, keys in RAGGED
]
VARIANTS = [
    forward_case("top_left_200x333", top_left=True, SQ=200, SK=333),
    *(forward_case(f"two_loops_tile{bm}x{bn}_{warps}warps", tile=(bm, bn, warps), dim=128) for bm, bn, warps in TILES),
    *(forward_case(f"{form}_{name}", form, **sizes) for form in ("two_loops", "one_loop")
      for name, sizes in GROUPS.items()),
    *(forward_case(f"{form}_window{window}", form, window=window) for form in ("two_loops", "one_loop", "branch")
      for window in (100, 128)),
    forward_case("two_loops_window_200x333", window=70, SQ=200, SK=333),
    forward_case("two_loops_window_333x200", window=70, SQ=333, SK=200),
    *(forward_case(f"{form}_alibi_{MASK[causal]}", form, alibi=True, causal=causal, H=4, HK=2)
      for form in ("two_loops", "one_loop") for causal in BOTH),
    *(forward_case(f"{form}_softcap_{MASK[causal]}", form, softcap=True, causal=causal)
      for form in ("two_loops", "one_loop") for causal in BOTH),
    forward_case("two_loops_alibi_softcap_window", alibi=True, softcap=True, window=100),
    forward_case("two_loops_no_lse", lse=False),
    *(forward_case(f"persistent_{dtype}_d{dim}_{MASK[causal]}", "persistent", dtype=dtype, dim=dim, causal=causal,
                   tags="persistent")
      for dtype, dim in (("fp16", 64), ("fp16", 128), ("bf16", 128), ("fp8e4nv", 128), ("fp16", 256))
      for causal in BOTH),
    *(forward_case(f"reordered_{form}_d{dim}_{MASK[causal]}", form, dtype="fp8e4nv", dim=dim, causal=causal,
                   reordered=True, tags="persistent" if form == "persistent" else "")
      for form, dim in (("two_loops", 64), ("persistent", 128), ("persistent", 256)) for causal in BOTH),
    *(forward_case(f"{form}_{dtype}_factors", form, dtype=dtype, dim=128, factors=True, H=4, HK=2)
      for form, dtype in (("two_loops", "fp8e4nv"), ("persistent", "fp8e4nv"), ("two_loops", "fp8e5"))),
    *(forward_case(f"rows_{form}_d{dim}_{MASK[causal]}", form, dtype="fp8e4nv", dim=dim, causal=causal, rows=True,
                   tags="persistent" if form == "persistent" else "")
      for form, dim, causal in (("two_loops", 128, False), ("two_loops", 256, True), ("persistent", 64, True))),
    forward_case("reordered_fp8e5_d128_full", dtype="fp8e5", dim=128, causal=False, reordered=True),
    forward_case("reordered_200x333", dtype="fp8e4nv", dim=128, reordered=True, SQ=200, SK=333),
    forward_case("persistent_200x333", "persistent", SQ=200, SK=333, tags="persistent"),
    forward_case("two_loops_gqa_together", together=3, **GROUPS["gqa"]),
    forward_case("persistent_gqa_window", "persistent", window=100, tags="persistent", **GROUPS["gqa"]),
]  # fmt: skip

TWO_PARTS = [
    *(two_part_case(f"two_parts_{dtype}_d{dim}_{MASK[causal]}", dtype=dtype, dim=dim, causal=causal, tile=tile)
      for dtype, dim, tile in (("fp16", 96, (128, 128, 8)), ("bf16", 96, (128, 128, 8)), ("fp16", 192, (128, 64, 8)))
      for causal in BOTH),
    *(two_part_case(f"two_parts_d192_128_{MASK[causal]}", dim=192, values=128, causal=causal, tile=tile)
      for causal, tile in ((False, (128, 128, 8)), (True, (128, 128, 8)))),
    two_part_case("two_parts_200x333", SQ=200, SK=333),
    two_part_case("two_parts_gqa", dim=96, **GROUPS["gqa"]),
]  # fmt: skip

UNEVEN = ((200, 1, 128, 77), (200, 300, 129, 1))
PACKED = [
    *(packed_case(f"varlen_{dtype}_d{dim}_{MASK[causal]}", *UNEVEN, dtype=dtype, dim=dim, causal=causal)
      for dtype, dim in (("fp16", 64), ("fp16", 96), ("bf16", 128), ("fp8e4nv", 128)) for causal in BOTH),
    packed_case("varlen_gqa", *UNEVEN, heads=4, key_heads=2),
    packed_case("varlen_window", *UNEVEN, window=70),
    *(ragged_case(f"ragged_{dtype}_d{dim}_{MASK[causal]}", *UNEVEN, dtype=dtype, dim=dim, causal=causal)
      for dtype, dim in (("fp16", 64), ("fp16", 96), ("bf16", 128), ("fp16", 256)) for causal in BOTH),
    ragged_case("ragged_gqa", *UNEVEN, heads=4, key_heads=2),
    ragged_case("ragged_window", *UNEVEN, window=70),
    *(ragged_case(f"ragged_d192_128_{MASK[causal]}", *UNEVEN, dim=192, causal=causal, tile=(128, 128, 8),
                  persistent=False) for causal in BOTH),
    ragged_case("ragged_softcap", *UNEVEN, softcap=True),
    *(ragged_case(f"ragged_one_tile_d{dim}", *UNEVEN, dim=dim, persistent=False) for dim in (128, 256)),
]  # fmt: skip

TUTORIAL = [
    *(tutorial_case(f"tutorial_{dtype}_d{dim}_{MASK[causal]}", dtype, dim, causal)
      for dtype, dim in (("fp16", 64), ("fp16", 128), ("bf16", 128), ("fp8e4nv", 128)) for causal in BOTH),
    tutorial_case("tutorial_64x32_4warps", "fp16", 64, True, (64, 32, 4)),
]  # fmt: skip


FLEX = [
    flex_case("flex_d64"),
    flex_case("flex_bf16_d128", dim=128, dtype="bf16"),
    flex_case("flex_d256", dim=256),
    flex_case("flex_gqa", **GROUPS["gqa"]),
    flex_case("flex_window", window=100),
    flex_case("flex_200x333", SQ=200, SK=333),
]

BIASED = [
    biased_case("biased_d64"),
    biased_case("biased_d128", dim=128),
    biased_case("biased_4warps", tile=(64, 64, 4)),
    biased_case("biased_pointers", by_descriptor=False),
    biased_case("biased_gqa_200x336", SQ=200, SK=336, **GROUPS["gqa"]),
]

GRADIENTS_OF: dict[str, Any] = {
    "window": {"window": 100, "SQ": 300, "SK": 333},
    "window_alone": {"window": 100, "causal": False},
    "softcap": {"softcap": True, "causal": False},
    "alibi": {"alibi": True, "SQ": 200, "SK": 333},
    "alibi_full": {"alibi": True, "causal": False, "SQ": 200, "SK": 333},
    "every_option": {"window": 100, "softcap": True, "alibi": True, "SQ": 300, "SK": 333},
}

PACKED_GRADIENTS: dict[str, Any] = {
    "full": {"causal": False},
    "causal": {},
    "d128": {"dim": 128, "dtype": "bf16"},
    "window_softcap": {"window": 100, "softcap": True},
    "gqa": {"heads": 4, "key_heads": 2},
}

BACKWARD = [
    *(backward_case(f"{kind}_{dtype}_d{dim}_{MASK[causal]}", kind, dim=dim, dtype=dtype, causal=causal)
      for kind in ("dkdv", "dq") for dtype, dim in (("fp16", 64), ("bf16", 64), ("fp16", 96), ("fp16", 128))
      for causal in BOTH),
    *(backward_case(f"{kind}_gqa", kind, **GROUPS["gqa"]) for kind in ("dkdv", "dq")),
    *(backward_case(f"{kind}_{MASK[causal]}_{queries}x{keys}", kind, causal=causal, SQ=queries, SK=keys)
      for kind in ("dkdv", "dq") for causal in BOTH for queries, keys in ((200, 333), (333, 200), (1, 1))),
    *(backward_case(f"{kind}_4warps", kind, tile=(64, 64, 4)) for kind in ("dkdv", "dq")),
    *(backward_case(f"added_{dtype}_d{dim}_{MASK[causal]}", "added", dim=dim, dtype=dtype, causal=causal, tile=tile)
      for dtype, dim, tile in (("fp16", 64, (128, 128, 8)), ("bf16", 128, (64, 128, 8)), ("fp16", 96, (64, 128, 8)))
      for causal in BOTH),
    backward_case("added_gqa", "added", **GROUPS["gqa"]),
    *(backward_case(f"added_{MASK[causal]}_{queries}x{keys}", "added", causal=causal, SQ=queries, SK=keys)
      for causal in BOTH for queries, keys in ((200, 333), (1, 1))),
    *(backward_case(f"{kind}_{name}", kind, **options) for kind in ("dkdv", "dq", "added")
      for name, options in GRADIENTS_OF.items()),
    *(packed_backward_case(f"packed_{kind}_{name}", kind, *UNEVEN, **options) for kind in ("dkdv", "dq", "added")
      for name, options in PACKED_GRADIENTS.items()),
    from_registers_case("from_registers_d64", 64, (64, 128, 8)),
    from_registers_case("from_registers_d128", 128, (64, 128, 8)),
    from_registers_case("from_registers_d256", 256, (64, 64, 8)),
    gradient_rows_case("gradient_rows", "fp16", 96),
    gradient_rows_case("gradient_rows_added", "bf16", 64, added=True, with_lse=True),
    dq_of_sums_case("dq_of_sums_64", "fp16", 96, 64),
    dq_of_sums_case("dq_of_sums_128", "bf16", 64, 128),
    *(backward_case(f"steps_{dtype}_d{dim}_{MASK[causal]}", "added", dim=dim, dtype=dtype, causal=causal, tile=tile,
                    steps=True)
      for dtype, dim, tile in (("fp16", 64, (128, 128, 8)), ("bf16", 128, (64, 128, 8))) for causal in BOTH),
    backward_case("steps_gqa", "added", steps=True, **GROUPS["gqa"]),
    backward_case("steps_full_200x333", "added", causal=False, SQ=200, SK=333, steps=True),
    backward_case("owned_steps", "owned", dim=256, dtype="bf16", causal=False, steps=True),
    largest_of_keys_case("largest_of_keys", "fp16", 96),
    gradient_rows_case("gradient_rows_steps", "bf16", 64, added=True, with_lse=True, steps=True),
    dq_of_sums_case("dq_of_sums_steps", "bf16", 64, 128, steps=True),
    dq_of_sums_case("dq_of_sums_singly", "bf16", 256, 64, steps=True, singly=True),
]  # fmt: skip

FORWARD: tuple[Specimen, ...] = (
    *MATRIX,
    *ONE_LOOP,
    *LENGTHS,
    *VARIANTS,
    *TWO_PARTS,
    *PACKED,
    *TUTORIAL,
    *FLEX,
    *BIASED,
)
CASES: tuple[Specimen, ...] = (*FORWARD, *BACKWARD)


def bench_case(form: str, dtype: str, dim: int, causal: bool, length: int, *, tile: tuple[int, int, int] | None = None,
               tokens: int = 16384, hidden: int = 2048, programs: int = 132,
               rows: bool = False, paired: int | None = None) -> Specimen:  # fmt: skip
    """A shape for timing: `tokens` = B * S, `hidden` = H * D, one of the FORMS; persistent ones on `programs` CTAs.

    rows: V in fp8 is stored as rows. paired: heads whose tiles persistent programs take in pairs; None: all.
    """
    heads, batches = hidden // dim, max(1, tokens // length)
    name = f"{form}_{dtype}_d{dim}_{MASK[causal]}_{length}"
    return forward_case(name, form, dtype=dtype, dim=dim, causal=causal, tile=tile, B=batches, H=heads,
                        HK=heads, SQ=length, SK=length, PROGRAMS=programs, rows=rows,
                        paired=batches * heads if paired is None else paired)  # fmt: skip


def flops(case: Specimen) -> float:
    """Floating-point operations of a forward case with equal lengths: two dots over the pairs that are not masked."""
    pairs = case.size("SQ*SK") / (2 if case.constexprs.get("CAUSAL") else 1)
    return 4.0 * case.size("B*H*DIM") * pairs


def find(name: str) -> Specimen:
    """The case called `name`; raises KeyError naming the close ones."""
    for candidate in CASES:
        if candidate.name == name:
            return candidate
    close = [candidate.name for candidate in CASES if name in candidate.name]
    raise KeyError(f"no case {name!r}; close: {', '.join(close) or 'none'}")
