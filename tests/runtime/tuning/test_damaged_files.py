"""Tables, jobs and journals that are damaged, or come from a stranger: refused, and no path is taken from them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tawa.errors import TableError, TawaError
from tawa.runtime.tuning.jobs import Job, Storage, TensorArgument, TupleArgument, ValueArgument, load_jobs
from tawa.runtime.tuning.session import Session
from tawa.runtime.tuning.store import Store, known_entries, user_store
from tawa.runtime.tuning.table import read_table, table_text
from tests.runtime.tuning.entries import entry
from tests.support.damage import damaged_data, damaged_text, seeds
from tests.support.sample import examples

TABLE = json.loads(table_text([entry(), entry(shape_class="K <= 64, 1 program")]))
JOB = Job(
    "gemm", "k" * 32, "K <= 64", {"a": "*fp16", "K": "i32"}, {"num_warps": 4}, {"mode": "measure"}, {"form": "stock"},
    ("K",), (2, 1, 1), (TensorArgument(0, "float16", (4, 4), (4, 1)), TupleArgument((ValueArgument(1.5),))),
    (Storage(32, "float16"), Storage(4, "int32", contents=True)), "module {}", {1: np.zeros(4, np.uint8)},
)  # fmt: skip


def outside(folder: Path) -> list[Path]:
    """Everything in the folder around a store."""
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("key", ["../../../outside", "/tmp/outside", "", "k" * 31 + "/", "K" * 32, "k" * 31 + "\n"])
def test_a_key_of_a_table_chooses_no_path(tmp_path: Path, key: str) -> None:
    data = json.loads(json.dumps(TABLE))
    data["entries"][0]["key"] = key
    (tmp_path / "theirs.json").write_text(json.dumps(data))
    store, before = Store(tmp_path / "a" / "b" / "tuned"), outside(tmp_path)
    with pytest.raises(TableError, match=r"theirs\.json is damaged \(key is .*, not 32 small .*; cure"):
        store.put(read_table(tmp_path / "theirs.json"))
    with pytest.raises(TableError, match="not 32 small letters and digits"):
        store.entries(key)
    assert outside(tmp_path) == before


def test_a_key_in_a_damaged_record_of_a_kernel_is_logged(own_tables: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert known_entries("../../outside", "a card") == {} and "not 32 small letters" in caplog.text


def test_a_plan_in_a_table_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"form": "persistent"}')
    data = json.loads(json.dumps(TABLE))
    data["entries"][0]["plan"] = str(tmp_path / "plan.json")
    (tmp_path / "theirs.json").write_text(json.dumps(data))
    with pytest.raises(TableError, match=r"is damaged .*not names and values"):
        read_table(tmp_path / "theirs.json")


@pytest.mark.parametrize("name", ["kernel", "gpu", "shape_class", "words", "date"])
def test_a_name_in_a_table_cannot_write_to_the_terminal(tmp_path: Path, name: str) -> None:
    data = json.loads(json.dumps(TABLE))
    data["entries"][0][name] = "\x1b[2J"
    (tmp_path / "theirs.json").write_text(json.dumps(data))
    with pytest.raises(TableError, match=f"{name} is .* not text without control characters"):
        read_table(tmp_path / "theirs.json")


@settings(max_examples=examples(200))
@given(seeds)
def test_a_damaged_table_is_read_or_refused_by_name(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    file = tmp_path_factory.getbasetemp() / "theirs.json"
    text = json.dumps(TABLE, indent=1)
    file.write_bytes(damaged_text(text, seed) if seed % 2 else json.dumps(damaged_data(TABLE, seed)).encode("utf-8"))
    try:
        entries = read_table(file)
        user_store().put(entries)
        assert {it.key for it in entries} <= {it.key for it in user_store().all()}
        for it in entries:
            assert it.gain is None or isinstance(it.gain, float)
    except TawaError as error:
        assert "cure: " in str(error)
    finally:
        shutil.rmtree(user_store().folder, ignore_errors=True)


@settings(max_examples=examples(100))
@given(seeds)
def test_a_damaged_session_is_taken_up_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root = tmp_path_factory.getbasetemp() / "sessions"
    shutil.rmtree(root, ignore_errors=True)
    session = Session("one", Store(root / "tuned"), root)
    folder = JOB.save(session.jobs_folder)
    session.keep({"job": str(folder), "entry": entry().to_dict()})
    files: list[Path] = [folder / "job.json", folder / "contents.npz", folder / "source.mlir", session.journal]
    file = files[seed % 4]
    if file.suffix == ".npz":
        file.write_bytes(file.read_bytes()[: seed % 200])
    else:
        file.write_bytes(damaged_text(file.read_text(), seed))
    try:
        assert len(session.jobs()) == 1
        session.tasks(1.0, True)
        session.entries()
    except TableError as error:
        assert "is damaged" in str(error) and "cure: the same command with --fresh" in str(error)


def test_a_job_comes_back(tmp_path: Path) -> None:
    JOB.save(tmp_path)
    ((_, found),) = load_jobs(tmp_path)
    assert {**vars_of(found), "contents": None} == {**vars_of(JOB), "contents": None}
    assert found.contents[1].tolist() == [0] * 4


def vars_of(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Job.__dataclass_fields__}


def test_a_name_of_a_kernel_names_no_other_folder(tmp_path: Path) -> None:
    assert replace(JOB, name="../../x").save(tmp_path / "jobs").parent == tmp_path / "jobs"
