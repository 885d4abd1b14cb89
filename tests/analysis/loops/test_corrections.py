"""Which accumulators a partition of its own may rewrite."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.corrections import (
    FEEDS_A_DOT,
    NEEDS_A_TILE,
    NOT_REWRITTEN,
    CorrectionInfo,
    find_correction,
)
from tests.cases.programs.corrections import corrected
from tests.cases.programs.staged import attention
from tests.cases.programs.tensor_memory import marked


def test_an_accumulator_that_vectors_rewrite_goes_with_all_that_follows_from_it() -> None:
    found = find_correction(marked(corrected()))
    assert isinstance(found, CorrectionInfo)
    assert [it.result.hint for it in found.dots] == ["next"]
    assert [it.name.partition(".")[2] for it in found.ops] == ["mulf", "truncf", "convert_layout", "descriptor_store"]
    assert [it.hint for it in found.vectors(found.ops[0].operands[1]) or ()] == ["factor"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (attention(), NOT_REWRITTEN),  # by a constant, which nobody has to send
        (corrected(factor="%p"), NEEDS_A_TILE),
        (corrected(weights="%sum"), FEEDS_A_DOT),
    ],
)
def test_others_stay_with_the_threads_that_compute(text: str, reason: str) -> None:
    assert find_correction(marked(text)) == reason
