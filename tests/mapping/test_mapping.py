"""Mappings as values and as TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

import tawa
from tawa.errors import PlanError
from tawa.mapping import GroupWords, KernelWords, LoopWords, Mapping, OperandWords, PartitionWords
from tests.mapping.test_resolve import WHOLE

IN_PYTHON = Mapping(
    kernel=KernelWords(persistent=True, order="longest first"),
    groups=GroupWords(count=2, split="rows of q"),
    operands={"q": OperandWords(memory="registers"), "k": OperandWords(path="tma", ring=2)},
    loops={"n": LoopWords(stages=2, carry=(("p", "float32"),))},
    partitions={"producer": PartitionWords(warps=1, registers=24)},
)


def test_python_and_toml_say_the_same() -> None:
    assert Mapping.parse(WHOLE) == IN_PYTHON and IN_PYTHON.toml().strip() == WHOLE.strip()
    assert hash(Mapping.parse(WHOLE)) == hash(IN_PYTHON) and tawa.Mapping is Mapping


def test_a_mapping_comes_from_text_data_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(WHOLE)
    assert Mapping.of(WHOLE) == Mapping.of(str(file)) == Mapping.of(file) == Mapping.read(file) == IN_PYTHON
    assert (
        Mapping.of({"groups": {"count": 2}}) == Mapping(groups=GroupWords(count=2)) == Mapping.of("[groups]\ncount=2")
    )
    assert Mapping.of("") == Mapping()


@pytest.mark.parametrize(
    "text, parts",
    [
        ("[groups", ["not TOML (line 1): Expected ']'", "cure: start from tawa explain"]),
        ("[group]\ncount = 1", ["no section [group]", "cure: groups (of kernel"]),
        ("[groups]\ncounts = 1", ["[groups] has no word 'counts'", "cure: count (of count"]),
        ("[groups]\ncount = 0", ["[groups] count = 0 is not legal (line 2 of the mapping); cure: 1 or more"]),
        ("[groups]\ncount = true", ["[groups] count = true is not legal", "cure: a whole number"]),
        ('[groups]\nsplit = "row"', ['split = "row"', '"rows"']),
        ("groups = 3", ["[groups] is 3 (line 1 of the mapping)", "cure: words with values, of count, split"]),
        ('[operands."k.1"]\nring = 0', ['[operands."k.1"] ring = 0 is not legal (line 2', "cure: 1 slot or more"]),
        ("[operands.k]\nring = 1.5", ["[operands.k] ring = 1.5", "a number of slots, or the name"]),
        ('[operands.k]\npath = "tna"', ['path = "tna" is not legal', 'cure: "tma"']),
        ('[loops.n]\ncarry = { p = "float31" }', ["[loops.n] carry", 'cure: "float32"']),
        ("[loops.n]\ncarry = 3", ["cure: names with types"]),
        ("[loops.n]\nkept = 3", ["cure: a list"]),
        ("[kernel]\npersistent = 1", ["persistent = 1 is not legal", "cure: true or false"]),
        ("[kernel]\nname = 1", ["cure: a text, in quotes"]),
    ],
)
def test_a_bad_word_names_section_word_and_the_nearest_choice(text: str, parts: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        Mapping.parse(text)
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[groups]\ncount = 0\n")
    with pytest.raises(PlanError, match=r"count = 0 is not legal \(a\.toml:2\); cure: 1 or more"):
        Mapping.read(file)
    with pytest.raises(PlanError, match="no such file"):
        Mapping.of(tmp_path / "none.toml")
    with pytest.raises(PlanError, match="of type int; cure: a Mapping, TOML"):
        Mapping.of(3)


@pytest.mark.parametrize(
    "text, keeps",
    [
        ("", True), ("[groups]\ncount = 2", True), ('[kernel]\nsums = "after loops"', False),
        ("[kernel]\nprograms_per_tile = 2", False), ("[operands.k]\nreordered = true", False),
        ('[operands.k]\nrows = "for next dot"', False), ('[operands.k]\nrows = "in order"', True),
    ],
)  # fmt: skip
def test_a_mapping_says_whether_sums_keep_their_order(text: str, keeps: bool) -> None:
    assert Mapping.of(text).keeps_order == keeps
