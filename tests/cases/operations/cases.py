"""The list of whole operations: state spaces, mLSTM, experts, products with scales for blocks, a loss, attention.

The problems are small, because every element is checked in float64. The expectation is for automatic mode without
regard to speed (``only_if_faster=False``).
"""

from __future__ import annotations

from tests.cases.case import Specimen
from tests.cases.operations.attention_builders import (
    flex_gradients_case,
    int8_case,
    pages_case,
    prefill_case,
    sparse_case,
)
from tests.cases.operations.product_builders import experts_scaled_case, linear_loss_case, scaled_case
from tests.cases.operations.state_builders import mlstm_case, products_case, scan_case, states_case

SPACES = [
    products_case("chunk_products"),
    products_case("chunk_products_sequences", dtype="bf16", lengths=(90, 60, 50), H=4, G=2),
    products_case("chunk_products_128x128", tile=(128, 128, 64), STATE=128),
    states_case("chunk_states"),
    states_case("chunk_states_sequences", dtype="bf16", lengths=(90, 60, 50), H=4, G=2),
    states_case("chunk_states_64x128", tile=(64, 128, 64), warps=4, STATE=128, CHUNK=256, S=400),
    scan_case("chunk_scan"),
    scan_case("chunk_scan_gated_sequences", dtype="bf16", gated=True, lengths=(90, 60, 50), H=4, G=2),
    scan_case("chunk_scan_128x64", tile=(128, 64, 64), STATE=128, CHUNK=256, S=400),
    scan_case("chunk_scan_wide_state", STATE=256),
]

MLSTM = [
    mlstm_case("mlstm_states", "mlstm_states"),
    mlstm_case("mlstm_states_fp16_8warps", "mlstm_states", dtype="fp16", dk=128, tile=(128, 128), warps=8),
    mlstm_case("mlstm_outputs", "mlstm_outputs", steps=128, dk=128),
    mlstm_case("mlstm_outputs_128", "mlstm_outputs", dk=256, chunk=128, warps=8),
    mlstm_case("mlstm_state_gradients", "mlstm_state_gradients"),
    mlstm_case("mlstm_gradients", "mlstm_gradients", steps=128),
    mlstm_case("mlstm_gradients_two_parts", "mlstm_gradients", dk=128, dv=256),
]

PRODUCTS = [
    scaled_case("scaled"),
    scaled_case("scaled_rows", rows=True),
    scaled_case("scaled_128x128", tile=(128, 128, 128), warps=8),
    experts_scaled_case("experts_scaled"),
    experts_scaled_case("experts_scaled_uneven", even=False),
    experts_scaled_case("experts_scaled_elsewhere", elsewhere=True),
    linear_loss_case("linear_loss"),
    linear_loss_case("linear_loss_128x128", tile=(128, 128, 64), warps=8, dtype="fp16"),
]

ATTENTION = [
    prefill_case("prefill", (70, 1), (100, 0)),
    prefill_case("prefill_of_three", (70, 1, 130), (100, 64, 0)),
    prefill_case("prefill_128x64_d128", (130, 64), (0, 200), dim=128, tile=(128, 64), warps=8, dtype="bf16"),
    pages_case("pages", (40, 1), (100, 64)),
    pages_case("pages_of_three", (70, 1, 40), (100, 64, 200)),
    pages_case("pages_of_64", (70, 40), (100, 200), page=64, dtype="bf16"),
    int8_case("int8_scores"),
    int8_case("int8_scores_causal", causal=True),
    int8_case("int8_scores_d128_8warps", dim=128, warps=8, queries=200, keys=333),
    sparse_case("sparse_forward", "sparse_forward", tokens=40, block=32),
    sparse_case("sparse_forward_blocks_of_64", "sparse_forward", tokens=200, dim=128),
    sparse_case("sparse_forward_16_heads", "sparse_forward", tokens=70, group=16, key_heads=2),
    sparse_case("sparse_gradient_queries", "sparse_gradient_queries", tokens=40, block=32),
    sparse_case("sparse_gradient_keys", "sparse_gradient_keys", group=2),
    flex_gradients_case("flex_gradients", length=200, window=100),
    flex_gradients_case("flex_gradients_320"),
    flex_gradients_case("flex_gradients_d128_8warps", dim=128, length=384, tile=(64, 128, 128, 64), warps=8),
    flex_gradients_case("flex_gradients_alibi", alibi=True),
    flex_gradients_case("flex_gradients_cap", cap=4.0),
    flex_gradients_case(
        "flex_gradients_documents", length=384, tile=(64, 128, 128, 64), warps=8, window=1 << 20, documents=(150, 300)
    ),
    flex_gradients_case("flex_gradients_one_block", window=400, size=1 << 30, constant=True),
]

CASES: tuple[Specimen, ...] = (*SPACES, *MLSTM, *PRODUCTS, *ATTENTION)


def find(name: str) -> Specimen:
    """The case called `name`; raises KeyError naming all cases."""
    for candidate in CASES:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no case {name!r}; cases: {', '.join(case.name for case in CASES)}")
