"""Launch options: what is understood, and what each refusal says."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.plan import PlanOptions


@pytest.mark.parametrize("depth", [None, 1, 2, 3, 4, 8])
@pytest.mark.parametrize("mma_depth", [None, 0, 1, 2, 3])
def test_d_must_exceed_p(depth: int | None, mma_depth: int | None) -> None:
    if depth is not None and mma_depth is not None and depth <= mma_depth:
        with pytest.raises(PlanError) as caught:
            PlanOptions(aref_depth=depth, mma_depth=mma_depth)
        text = str(caught.value)
        assert f"aref_depth={depth}, mma_depth={mma_depth}" in text and "D >= P + 1" in text
        assert f"cure: aref_depth={mma_depth + 1} or mma_depth={depth - 1}" in text
    else:
        options = PlanOptions(aref_depth=depth, mma_depth=mma_depth)
        assert (options.aref_depth, options.mma_depth) == (depth, mma_depth)


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("aref_depth", 0, ["aref_depth=0: at least 1", "cure: aref_depth=1 or more"]),
        ("aref_depth", -3, ["aref_depth=-3: at least 1"]),
        ("aref_depth", 2.0, ["aref_depth=2.0: a whole number is needed, not float"]),
        ("aref_depth", "3", ["aref_depth='3': a whole number is needed, not str"]),
        ("aref_depth", True, ["aref_depth=True: a whole number is needed, not bool"]),
        ("mma_depth", -1, ["mma_depth=-1: at least 0", "cure: mma_depth=0 or more"]),
        ("num_consumer_groups", 0, ["num_consumer_groups=0: 1 and 2 are possible", "cure: 1 (", "or 2 ("]),
        ("num_consumer_groups", -1, ["num_consumer_groups=-1: 1 and 2 are possible"]),
        ("num_consumer_groups", True, ["num_consumer_groups=True: a whole number is needed, not bool"]),
        ("num_consumer_groups", 3, ["num_consumer_groups=3: 1 and 2 are possible", "cure: 1 (", "or 2 ("]),
        ("num_consumer_groups", 4, ["num_consumer_groups=4: 1 and 2 are possible", "cure: 1 "]),
        ("enable_warp_specialization", 1, ["enable_warp_specialization=1: True, False or None"]),
        ("compile_budget_s", -1, ["compile_budget_s=-1: a number of seconds is needed, 0 or more"]),
        ("compile_budget_s", "10", ["compile_budget_s='10': a number of seconds is needed"]),
        ("only_if_faster", "no", ["only_if_faster='no': True, False or None"]),
    ],
)
def test_a_bad_value_is_named_with_its_cure(name: str, value: object, parts: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        PlanOptions.from_mapping({name: value})
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("aref_dept", "did you mean 'aref_depth'?"), ("mma_dpeth", "did you mean 'mma_depth'?"), ("xyzzy", "known: ")],
)
def test_an_unknown_option_is_named_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        PlanOptions.from_mapping({name: 3})
    assert str(caught.value).startswith(f"unknown option {name!r}") and hint in str(caught.value)


def test_num_buffers_warp_spec_is_another_name_for_d() -> None:
    assert PlanOptions.from_mapping({"num_buffers_warp_spec": 3}) == PlanOptions(aref_depth=3)
    assert PlanOptions.from_mapping({"num_buffers_warp_spec": 3, "aref_depth": 3}) == PlanOptions(aref_depth=3)
    with pytest.raises(PlanError, match="num_buffers_warp_spec=3 and aref_depth=2 are two names for D"):
        PlanOptions.from_mapping({"num_buffers_warp_spec": 3, "aref_depth": 2})


def test_every_name_is_understood() -> None:
    for name in PlanOptions.names():
        PlanOptions.from_mapping({name: None})


def test_a_mapping_is_not_changed_by_reading_it() -> None:
    given = {"num_buffers_warp_spec": 2}
    PlanOptions.from_mapping(given)
    assert given == {"num_buffers_warp_spec": 2}


@pytest.mark.parametrize(
    ("options", "pinned", "wherever_legal"),
    [
        (PlanOptions(), False, False),
        (PlanOptions(enable_warp_specialization=True), True, True),
        (PlanOptions(enable_warp_specialization=True, only_if_faster=True), True, True),
        (PlanOptions(enable_warp_specialization=False), False, False),
        (PlanOptions(aref_depth=2), False, True),
        (PlanOptions(mma_depth=0), False, True),
        (PlanOptions(aref_depth=2, only_if_faster=True), False, False),
        (PlanOptions(only_if_faster=False), False, True),
    ],
)
def test_what_pins_a_kernel_and_what_asks_if_it_pays(options: PlanOptions, pinned: bool, wherever_legal: bool) -> None:
    assert (options.pinned, options.wherever_legal) == (pinned, wherever_legal)


def test_the_key_tells_options_apart_and_does_not_depend_on_how_they_were_given() -> None:
    made = [PlanOptions(), PlanOptions(aref_depth=2), PlanOptions(aref_depth=3), PlanOptions(mma_depth=2)]
    assert len({options.key() for options in made}) == len(made)
    assert PlanOptions.from_mapping({"num_buffers_warp_spec": 2}).key() == PlanOptions(aref_depth=2).key()
