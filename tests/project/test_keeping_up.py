"""`make next` and `make release`: what they find out, without the package index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tawa.supported import TRITON, TRITON_OF_PYTORCH
from tests.project import next as newest
from tests.project import release
from tests.project.next import Newest, changes, raised
from tests.project.triton_facts import SLOTS, facts

ROOT = Path(__file__).resolve().parents[2]
PAST = f"3.{(TRITON.last or TRITON.first)[1] + 1}.0"


def test_a_copy_supports_the_newer_triton_and_the_checkout_does_not() -> None:
    table, project = ((ROOT / name).read_text() for name in ("src/tawa/supported.py", "pyproject.toml"))
    minor = int(PAST.split(".")[1])
    assert f"last=(3, {minor})" in raised(table, PAST) and f"last=(3, {minor})" not in table
    assert f'"triton>=3.6,<3.{minor + 1}"' in raised(project, PAST)
    known = TRITON.runs[-1][0]
    assert raised(table, known) == table and raised(project, known) == project


def test_news_are_versions_that_the_table_does_not_have() -> None:
    assert "outside the supported range" in Newest(PAST).news[0]
    assert not Newest(TRITON.runs[-1][0]).news
    pytorch, triton = next(iter(TRITON_OF_PYTORCH.items()))
    assert not Newest(f"{triton}.0", f"{pytorch}.0").news
    assert "the table of pairs" in Newest(f"{triton}.0", "2.99.0").news[0]


def test_what_changed_is_below_its_subject_and_nothing_else_is_shown() -> None:
    before = {"passes": ["add_a()", "add_b()"], "ptxas": ["90: 12.8"]}
    after = {"passes": ["add_a()", "add_c()"], "ptxas": ["90: 12.8"]}
    assert changes(before, after) == ["changed: passes", "  -add_b()", "  +add_c()"]
    assert changes(before, before) == []


def test_all_that_tawa_uses_of_the_installed_triton_is_there() -> None:
    found = facts()
    assert all(lines and not any("Error:" in line for line in lines) for lines in found.values())
    assert not [line for line in found["functions that Tawa wraps or calls"] if "is not there" in line]
    assert len(found["functions that Tawa wraps or calls"]) == len(SLOTS)
    assert any("add_pipeline" in line for line in found["passes of make_ttgir"])
    assert "runtime.add_stages_inspection_hook" in found["hooks and settings"]


def test_failed_tests_are_named_and_are_the_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(newest, "ROOT", tmp_path)
    monkeypatch.setattr(newest, "WORKERS", "0")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "test_it.py").write_text("def test_good(): ...\ndef test_bad(): assert 1 == 2\n")
    assert not newest.run_tests(Path(sys.executable), tmp_path, ["test_it.py"])
    said = capsys.readouterr().out
    assert "FAILED test_it.py::test_bad" in said and "1 failed, 1 passed" in said
    assert newest.run_tests(Path(sys.executable), tmp_path, ["test_it.py::test_good"])


def test_a_release_with_entries_under_unreleased_is_not_ready() -> None:
    ready = "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2026-01-01\n\n- New.\n"
    assert list(release.unready(ready, "1.2.0")) == []
    assert "no section 1.3.0" in next(iter(release.unready(ready, "1.3.0")))
    assert "under Unreleased" in next(iter(release.unready(ready.replace("## 1.2", "- New.\n\n## 1.2"), "1.2.0")))


def test_the_interpreter_of_a_release_has_the_version_that_is_asked_for() -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    found = release.find_python(here)
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    assert said.startswith(f"Python {here}")
    with pytest.raises(release.Failed, match=r"no Python 3\.99.*cure"):
        release.find_python("3.99")
