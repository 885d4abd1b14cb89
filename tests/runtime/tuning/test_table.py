"""A table is read whole or refused, with its name and the cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tawa.errors import TableError
from tawa.runtime.tuning.table import read_table, refuse_foreign, table_text
from tests.runtime.tuning.entries import entry


def test_a_table_that_was_written_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(table_text([entry(), entry(shape_class="K <= 64, 1 program")]))
    found = read_table(tmp_path / "t.json")
    assert found == (entry(), entry(shape_class="K <= 64, 1 program"))
    assert found[0].gain == 2.0


def _with(**changes: object) -> str:
    data = json.loads(table_text([entry()]))
    data["entries"][0].update(changes)
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", table_text([entry()])[:-20], _with(plan={"form": "rumour"}), _with(sizes=[["K"]]),
     _with(times=[{"word": 1}]), _with(versions={}), _with(gpu=None), '{"tawa_table": 1}', '{"tawa_table": 99}'],
)  # fmt: skip
def test_a_damaged_table_is_refused_by_name_with_the_cure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(text)
    with pytest.raises(TableError, match=r"tuned\.json .*cure: "):
        read_table(path)


def test_a_missing_table_is_named() -> None:
    with pytest.raises(TableError, match=r"nowhere\.json cannot be read.*cure"):
        read_table(Path("nowhere.json"))


OLD = {"tawa": "0.0.1", "triton": "3.6.0"}


@pytest.mark.parametrize(
    ("changes", "gpu", "said"),
    [
        ({"gpu": "an A100"}, "an H200", "was tuned on an A100; this machine has an H200; cure: tune again"),
        ({"versions": OLD}, "a card", "was tuned with Tawa 0.0.1 and Triton 3.6.0; .*cure"),
    ],
)
def test_a_foreign_table_is_refused_by_name_with_the_cure(changes: dict[str, object], gpu: str, said: str) -> None:
    with pytest.raises(TableError, match=f"theirs.json {said}"):
        refuse_foreign(Path("theirs.json"), [entry(**changes)], gpu)


def test_a_machine_without_a_gpu_takes_tables_of_any() -> None:
    refuse_foreign(Path("theirs.json"), [entry(gpu="NVIDIA A100")], "")


def test_a_table_without_entries_is_refused() -> None:
    with pytest.raises(TableError, match="has no entries; cure"):
        refuse_foreign(Path("empty.json"), [], "")
