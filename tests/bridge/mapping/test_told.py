"""Errors about a Plan in the words of mappings."""

from __future__ import annotations

import pytest

from tawa.bridge.mapping.told import Told, mapping_words
from tawa.errors import PlanError


@pytest.mark.parametrize(
    "said, told",
    [
        ("the Plan has P = 2; cure: mma_depth=1", "the mapping has in_flight = 2; cure: in_flight = 1"),
        ("with a ring of D = 2", "with a ring of 2 slots"),
        ("cure: path='host_descriptor' or 'consumer'", 'cure: path = "tma" or "consumer"'),
        ("cure: path='raised_in_kernel'", 'cure: path = "tma in kernel"'),
        ("consumer 'consumer' has 3 warps", "consumer 'consumer' has 3 warps"),
        ("the Plan has rings {'x': ()}, the kernel has {'a': ('i32',)}", "the mapping has rings x, the kernel has a"),
    ],
)  # fmt: skip
def test_words_of_a_plan_become_words_of_a_mapping(said: str, told: str) -> None:
    assert mapping_words(said).startswith(told)


def test_only_plan_errors_are_told_otherwise() -> None:
    with pytest.raises(PlanError, match="in_flight = 1"), Told():
        raise PlanError("P = 1")
    with pytest.raises(ValueError, match="P = 1"), Told():
        raise ValueError("P = 1")
