"""Every word has its row in the docs, and every field of a Plan that a person would want has a word."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tawa.mapping import sections
from tawa.mapping.words import FIELD, nearest
from tawa.plan import Plan
from tawa.plan.fields import LoopPlan, OperandPlan, PartitionPlan, StorePlan

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mapping.md").read_text()
SECTIONS = {
    "kernel": sections.KernelWords, "groups": sections.GroupWords, "operands": sections.OperandWords,
    "stores": sections.StoreWords, "loops": sections.LoopWords, "rings": sections.RingWords,
    "partitions": sections.PartitionWords,
}  # fmt: skip
TABLE = PAGE[PAGE.index("\n## Words") : PAGE.index("\n## What is refused")]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_every_word_of_a_section(name: str) -> None:
    _, _, rows = TABLE[TABLE.index(f"**`[{name}") :].partition("\n")
    own = re.split(r"\n\| \*\*|\n\n", rows)[0].splitlines()
    listed = {word for row in own for word in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert listed == {it.name for it in fields(SECTIONS[name])}


def test_every_field_of_a_plan_has_a_word() -> None:
    words = {
        name.split(".")[0 if section == "kernel" else -1] if "." not in name else name
        for section, kind in SECTIONS.items()
        for it in fields(kind)
        for name in it.metadata[FIELD].split(", ")
        if name
    }
    plain = {it.name for it in fields(Plan)} - {
        "partitions",
        "operands",
        "stores",
        "loops",
        "rings",
        "launches",
    }
    assert plain <= words
    keys = {"argument", "loop", "ordinal", "line", "name", "schedule", "others", "depth"}
    for name, kind in (
        ("operands", OperandPlan),
        ("stores", StorePlan),
        ("loops", LoopPlan),
        ("partitions", PartitionPlan),
    ):
        assert {f"{name}.{it.name}" for it in fields(kind) if it.name not in keys} <= words
    assert {"rings.depth", "launches.choice"} <= words


def test_the_nearest_names_are_asked_for() -> None:
    assert nearest("kk", ["q", "k"]) == "cure: k (of q, k)" and nearest("zz", ["q", "k"]) == "cure: one of q, k"
    assert nearest("zz", ["q"]) == "cure: q" and nearest("q", []) == "cure: leave it out, it has none"
