"""Damaged mappings: each is read, and its names looked up, or it is refused with what is wrong and the cure."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings

from tawa.errors import PlanError
from tawa.mapping import Mapping
from tawa.mapping.program import Program
from tawa.mapping.resolve import resolve
from tests.mapping.conftest import program_named
from tests.support.damage import damaged_data, damaged_text, seeds
from tests.support.sample import examples

TEXT = """\
[kernel]
name = "attend"
signature = "q=tensordesc<fp16[128, 64]>, N=i32"
persistent = true
order = "grouped"
order_group = 4
early_slots = 2
launches = "always"

[groups]
count = 2
split = "rows of q"
ping_pong_sections = [[0, 1]]

[operands.k]
path = "tma"
ring = "keys"
prefetched = false

[operands."v"]
ring = 2
rows = "in order"

[stores."*"]
staged = true

[loops.n]
stages = 2
carry = { p = "float16" }
steps = ["0: s = dot", "1: acc = dot"]
kept = [0]

[rings.keys]
slots = 3

[partitions.producer]
warps = 1
registers = 24
role = "producer"
"""


def looked_up(mapping: Mapping, program: Program) -> None:
    """Everything that is done with a mapping before the kernel is laid out."""
    assert Mapping.parse(mapping.toml()) == mapping and hash(mapping) == hash(Mapping.parse(mapping.toml()))
    assert mapping.needs_launch in (True, False) and mapping.keeps_order in (True, False)
    resolve(mapping, program, True)


@settings(max_examples=examples(200))
@given(seeds)
def test_a_damaged_file_is_a_mapping_or_is_refused_with_a_cure(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "attend.mapping.toml"
    file.write_bytes(damaged_text(TEXT, seed))
    try:
        looked_up(Mapping.read(file), program_named("attend"))
    except PlanError as error:
        assert "cure: " in str(error)


@settings(max_examples=examples(200))
@given(seeds)
def test_damaged_data_is_a_mapping_or_is_refused_with_a_cure(seed: int) -> None:
    try:
        looked_up(Mapping.of(damaged_data(tomllib.loads(TEXT), seed)), program_named("attend"))
    except PlanError as error:
        assert "cure: " in str(error) and str(error).encode()


def test_a_file_that_is_not_utf_8_is_refused_with_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "attend.mapping.toml"
    file.write_bytes(b'[kernel]\nname = "\xe9"\n')
    with pytest.raises(
        PlanError, match=r"attend.mapping.toml is not UTF-8: byte 0xe9 at offset 17\); cure: a path, or"
    ):
        Mapping.read(file)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a" + ".a" * 5000 + " = 1"])
def test_a_text_that_nests_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="cure: "):
        Mapping.parse(f"{text}\n")
