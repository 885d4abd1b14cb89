"""Data from outside: read into declared types, or refused with the value, its place, and what is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.outside import Unfit, json_of, read, shown, text_of
from tests.support.damage import OTHERS, damaged_data, seeds


@dataclass(frozen=True)
class Inner:
    name: str
    size: int | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    word: Literal["a", "b"] | None = None
    share: float | None = None
    flag: bool = False
    by_name: Mapping[str, int] | None = None
    more: Any = None


WHOLE = Outer(Inner("x", 1), (Inner("y"), Inner("z", 3)), (4, "t"), "b", 0.5, True, {"k": 1}, ["any"])


def test_data_becomes_what_the_fields_declare() -> None:
    assert read(Outer, json.loads(json.dumps(asdict(WHOLE)))) == WHOLE
    assert read(Outer, {"inner": {"name": "x"}}) == Outer(Inner("x"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inner": None}, "inner is None, not names and values"),
        ({"inner": {}}, "inner.name is missing"),
        ({"inner": {"name": "x", "sise": 1}}, "inner has no 'sise': did you mean 'size'?"),
        ({"inner": {"name": "x", "size": [1]}}, "inner.size is [1], not a whole number"),
        ({"many": [{"name": "x"}, {"name": 3}]}, "many[1].name is 3, not a text"),
        ({"many": {"0": 1}}, "many is {'0': 1}, not a list"),
        ({"pair": [1]}, "pair is [1], not a list of 2"),
        ({"pair": ["1", "t"]}, "pair[0] is '1', not a whole number"),
        ({"word": "c"}, "word is 'c', not one of a, b"),
        ({"word": ["a"]}, "word is ['a'], not one of a, b"),
        ({"share": "0.5"}, "share is '0.5', not a number"),
        ({"share": True}, "share is True, not a number"),
        ({"flag": 1}, "flag is 1, not true or false"),
        ({"inner": {"name": "x", "size": True}}, "inner.size is True, not a whole number"),
        ({"by_name": {"k": "1"}}, "by_name.k is '1', not a whole number"),
        ({"inner": {"name": "\ud800"}}, r"inner.name is '\ud800', not a text"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_told_its_value_its_place_and_what_is_needed(change: Any, said: str) -> None:
    with pytest.raises(Unfit) as caught:
        read(Outer, {"inner": {"name": "x"}, **change})
    assert str(caught.value) == said


def test_a_number_has_64_bits() -> None:
    assert read(Inner, {"name": "", "size": -(2**63)}).size == -(2**63)
    with pytest.raises(Unfit, match=r"pair\[0\] is 9223372036854775808, not a whole number of 64 bits"):
        read(Outer, {"inner": {"name": "x"}, "pair": [2**63, ""]})


@given(st.sampled_from(OTHERS))
def test_data_of_another_kind_is_refused(data: Any) -> None:
    with pytest.raises(Unfit):
        read(Outer, data)


@given(seeds)
def test_damaged_data_is_refused_or_has_the_declared_types(seed: int) -> None:
    try:
        found = read(Outer, damaged_data(asdict(WHOLE), seed))
    except Unfit as error:
        assert str(error).encode()
        return
    assert read(Outer, json.loads(json.dumps(asdict(found)))) == found


def test_text_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(b'{"\xe9": 1}')
    with pytest.raises(Unfit, match=r"plan.json is not UTF-8: byte 0xe9 at offset 2"):
        text_of(file)
    file.write_text("é", encoding="utf-8")
    assert text_of(file) == "é"
    with pytest.raises(Unfit, match="is no path"):
        text_of(Path("a\0b"))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": ' * 100_000, "9" * 5000])
def test_another_text_is_no_json(text: str) -> None:
    with pytest.raises(Unfit, match="it is not JSON: "):
        json_of(text)


def test_a_long_value_is_cut_off_in_a_message() -> None:
    assert len(shown("x" * 1000)) < 100
    assert shown(10**5000) == "of type int"
