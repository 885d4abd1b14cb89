"""Errors about a Plan in the words of mappings."""

from __future__ import annotations

import pytest

from tawa.bridge.mapping.told import Told, mapping_words
from tawa.errors import PlanError, ResourceError
from tawa.mapping import Mapping
from tawa.mapping.program import Program


@pytest.mark.parametrize(
    "said, told",
    [
        ("the Plan has P = 2; cure: mma_depth=1", "the mapping has in_flight = 2; cure: in_flight = 1"),
        ("with a ring of D = 2", "with a ring of 2 slots"),
        ("cure: path='host_descriptor' or 'consumer'", 'cure: path = "tma" or "consumer"'),
        ("cure: path='promoted_in_kernel'", 'cure: path = "tma in kernel"'),
        ("consumer 'consumer' has 3 warps", "consumer 'consumer' has 3 warps"),
        ("the Plan has rings {'x': ()}, the kernel has {'a': ('i32',)}", "the mapping has rings x, the kernel has a"),
    ],
)  # fmt: skip
def test_words_of_a_plan_become_words_of_a_mapping(said: str, told: str) -> None:
    assert mapping_words(said).startswith(told)


def test_only_plan_errors_are_told_otherwise() -> None:
    with pytest.raises(PlanError, match="in_flight = 1"), Told(Mapping()):
        raise PlanError("P = 1")
    with pytest.raises(ValueError, match="P = 1"), Told(Mapping()):
        raise ValueError("P = 1")
    with pytest.raises(PlanError, match="P = 1"), Told():
        raise PlanError("P = 1")


@pytest.mark.parametrize(
    "said, told",
    [
        ("ctas_per_sm=3: 2 can share an SM; cure: fewer", "ctas_per_sm = 3: 2 can share an SM (a.toml:2); cure: fewer"),
        ("the Plan has P = 1 (fa.py:3); cure: P = 0", "the mapping has in_flight = 1 (fa.py:3); cure: in_flight = 0"),
        ("partition 'consumer' asks", "partition 'consumer' asks (a.toml:3); cure: leave a word out"),
        ("none of it", "none of it (attend (fa.py:1)); cure: leave a word out"),
    ],
)
def test_an_error_without_a_line_or_a_cure_gets_one(said: str, told: str) -> None:
    mapping = Mapping.parse("[kernel]\nctas_per_sm = 3\n[partitions.consumer]\nregisters = 24\n", "/x/a.toml")
    program = Program("attend", "/x/fa.py:1", {}, (), (), (), (), (), (), ())
    with pytest.raises(PlanError) as caught, Told(mapping, program):
        raise PlanError(said)
    assert str(caught.value).startswith(told)


def test_a_resource_error_keeps_its_class() -> None:
    with pytest.raises(ResourceError, match=r"ring = 7 .*cure: ring = 6"), Told(Mapping()):
        raise ResourceError("aref_depth=7 needs too much; cure: aref_depth=6")
