"""Tables on disk: nothing is lost, damaged files are replaced, shipped tables come second."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tawa.errors import TableError
from tawa.plan import Plan
from tawa.runtime.tuning import store
from tawa.runtime.tuning.store import Store, known_entries, use_table, user_store
from tawa.runtime.tuning.table import table_text
from tests.runtime.tuning.entries import entry

OLD, NEW = "2030-01-01T00:00:00+00:00", "2031-01-01T00:00:00+00:00"


@pytest.fixture(autouse=True)
def _nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SHIPPED", store._Shipped())


def test_entries_of_one_question_are_merged_and_the_later_stays(tmp_path: Path) -> None:
    mine = Store(tmp_path)
    assert mine.put([entry(date=OLD), entry(date=OLD, shape_class="other")]) == 2
    assert mine.put([entry(date=NEW, words="better")]) == 1
    assert mine.put([entry(date=OLD)]) == 0
    assert [it.words for it in mine.all()] == ["better", "persistent"]


def test_what_was_measured_on_request_outranks_what_launches_learned(tmp_path: Path) -> None:
    mine = Store(tmp_path)
    assert mine.put([entry(date=NEW, words="learned", learned=True)]) == 1
    assert mine.put([entry(date=OLD, words="measured")]) == 1
    assert mine.put([entry(date="2032-01-01T00:00:00+00:00", words="later", learned=True)]) == 0
    assert [it.words for it in mine.all()] == ["measured"]


def test_a_shipped_measurement_outranks_what_launches_learned(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped.json"
    shipped.write_text(table_text([entry(words="shipped")]))
    use_table(shipped)
    user_store().put([entry(words="learned", learned=True)])
    assert [it.words for it in known_entries(entry().key, entry().gpu).values()] == ["shipped"]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        Store(tmp_path).put([entry(shape_class=f"class {number}")])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Store(tmp_path).all()) == 12
    assert not list(tmp_path.glob("*.tmp"))


def test_a_damaged_file_is_named_to_who_reads_it_and_replaced_by_who_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, path = Store(tmp_path), tmp_path / f"{entry().key}.json"
    path.write_text("{")
    with pytest.raises(TableError, match=str(path)):
        mine.all()
    with caplog.at_level(logging.WARNING, "tawa"):
        mine.put([entry()])
    assert str(path) in caplog.text and mine.all() == (entry(),)


def test_a_launch_sees_the_entries_of_its_gpu_and_versions_only() -> None:
    others = [entry(gpu="other"), entry(shape_class="x", versions={"tawa": "0", "triton": "0"})]
    user_store().put([entry(shape_class="mine"), *others])
    assert list(known_entries(entry().key, "a card")) == ["mine"]
    assert known_entries("unknown", "a card") == {}


def test_a_launch_goes_on_beside_a_damaged_table(own_tables: Path, caplog: pytest.LogCaptureFixture) -> None:
    own_tables.mkdir(parents=True)
    (own_tables / f"{entry().key}.json").write_text("{")
    with caplog.at_level(logging.WARNING, "tawa"):
        assert known_entries(entry().key, "a card") == {}
    assert "cure: delete it and tune again" in caplog.text


def test_a_shipped_table_serves_where_the_user_has_measured_nothing(tmp_path: Path) -> None:
    shipped = [entry(plan=Plan(form="stock")), entry(shape_class="other", plan=Plan(form="stock"))]
    (tmp_path / "shipped.json").write_text(table_text(shipped))
    assert use_table(tmp_path / "shipped.json") == 2
    user_store().put([entry()])
    found = known_entries(entry().key, "a card")
    assert [found[name].plan.form for name in (entry().shape_class, "other")] == ["persistent", "stock"]


def test_a_shipped_table_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(table_text([entry(versions={"tawa": "0.0.1", "triton": "3.6.0"})]))
    with pytest.raises(TableError, match=r"old\.json was tuned with Tawa 0\.0\.1"):
        use_table(tmp_path / "old.json")
