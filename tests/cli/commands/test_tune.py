"""``tawa tune``: what it is given, what it says, and tables that come and go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tawa.cli.commands import tune as command
from tawa.runtime.tuning.session import Session
from tawa.runtime.tuning.store import user_store
from tawa.runtime.tuning.table import table_text
from tawa.runtime.tuning.worker import Task
from tests.cli.conftest import KERNELS, Tawa
from tests.runtime.tuning.entries import entry

LAUNCH = (
    "--timer", "simulated", "--grid", "2,3", "--arg", "a=randn:256x64:f16:box=128x64", "--arg",
    "b=randn:64x384:f16:box=64x128", "--arg", "c=nan:256x384:f16:box=128x128", "--arg", "K=64",
    "--const", "BM=128,BN=128",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks that were run; each gives an entry at once."""
    tasks: list[Task] = []

    def here(*about: Any) -> Any:
        def run(given: list[Task], on_event: Callable[[Any], None]) -> None:
            for task in given:
                tasks.append(task)
                on_event({"job": task.job, "trying": "stock Triton"})
                on_event({"job": task.job, "entry": entry(shape_class=f"class {len(tasks)}").to_dict()})

        return run

    monkeypatch.setattr(command, "_here", here)
    return tasks


def test_one_launch_is_tuned_once_and_shown(tawa: Tawa, tuned: list[Task]) -> None:
    found = tawa("tune", f"{KERNELS}:gemm", *LAUNCH)
    assert found.exit_code == 0, found.stderr
    assert "simulated, no launch uses these" in found.stdout
    assert all(it in found.stdout for it in ("gemm", "class 1", "persistent", "2.00", "2 of 2"))
    again = tawa("tune", f"{KERNELS}:gemm", *LAUNCH, "--json")
    assert len(tuned) == 1 and tuned[0].simulated
    (shown,) = json.loads(again.stdout)["entries"]
    assert shown["gain"] == 2.0
    tawa("tune", "--fresh", f"{KERNELS}:gemm", *LAUNCH)
    assert len(tuned) == 2


def test_a_program_without_a_gpu_is_told_what_works(tawa: Tawa, tmp_path: Path) -> None:
    found = tawa("tune", "train.py")
    assert found.exit_code == 2 and "there is no GPU here" in found.stderr and "--timer simulated" in found.stderr


def test_a_program_that_launches_nothing_says_so(tawa: Tawa, tmp_path: Path) -> None:
    script = tmp_path / "empty.py"
    script.write_text("import sys; sys.exit(int(sys.argv[1]))")
    found = tawa("tune", "--timer", "simulated", str(script), "3", "--json")
    assert found.exit_code == 2
    assert "ended with status 3, and launched no kernel that could be tuned" in found.stderr


def test_a_run_that_was_interrupted_is_taken_up_without_the_program(
    tawa: Tawa, tuned: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.runtime.tuning.test_session import job

    runs: list[list[str]] = []

    def program(words: list[str], env: dict[str, str], check: bool) -> Any:
        runs.append(words)
        for name in ("one", "two"):
            job(name).save(Path(env["TAWA_COLLECT"]))
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(command.subprocess, "run", program)
    script = tmp_path / "train.py"
    script.write_text("")
    real = Session.tasks
    monkeypatch.setattr(Session, "tasks", lambda *about: real(*about)[:1])  # a kill after the first
    tawa("tune", "--timer", "simulated", str(script), "--lr", "3")
    assert len(tuned) == 1 and runs[0][-3:] == [str(script), "--lr", "3"]
    monkeypatch.setattr(Session, "tasks", real)
    found = tawa("tune", "--timer", "simulated", str(script), "--lr", "3")
    assert "1 of 2 launches are tuned" in found.stderr and len(runs) == 1
    assert len({it.job for it in tuned}) == len(tuned) == 2


def test_tables_are_exported_and_merged(tawa: Tawa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_store().put([entry()])
    assert "1 entries" in tawa("tune", "--export", str(tmp_path / "t.json")).stdout
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert "1 of them new" in tawa("tune", "--import", str(tmp_path / "t.json")).stdout
    assert "0 of them new" in tawa("tune", "--import", str(tmp_path / "t.json")).stdout
    assert user_store().all() == (entry(),)


OLD = {"tawa": "0.0.1", "triton": "3.6.0"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is damaged"), (table_text([entry(versions=OLD)]), "was tuned with Tawa 0.0.1")],
)
def test_a_damaged_or_foreign_table_is_refused_by_name_with_the_cure(
    tawa: Tawa, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "theirs.json").write_text(text)
    found = tawa("tune", "--import", str(tmp_path / "theirs.json"))
    assert found.exit_code != 0 and f"{tmp_path}/theirs.json {said}" in found.stderr and "cure: " in found.stderr
    assert not user_store().all()


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "Usage"), (("--export", "nowhere/t.json"), "there is no folder nowhere"),
     (("--export", "t.json"), "there is nothing to export"), (("--resume",), "nothing to tune"),
     ((f"{KERNELS}:gemm", "--timer", "simulated"), "a launch has a grid"),
     (("--timer", "simulated", "nosuch.py"), "no such file: nosuch.py")],
)  # fmt: skip
def test_wrong_usage_is_said(tawa: Tawa, words: tuple[str, ...], said: str) -> None:
    found = tawa("tune", *words)
    assert found.exit_code == 2 and said in found.stdout + found.stderr
