"""A session that was killed goes on where it was, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.runtime.tuning.jobs import Job, Storage, TensorArgument, TupleArgument, ValueArgument, load_jobs
from tawa.runtime.tuning.session import Session, SessionBusy, session_name
from tawa.runtime.tuning.store import user_store
from tests.runtime.tuning.entries import entry

TENSOR = TensorArgument(0, "float16", (4, 8), (16, 1), 8)


def job(name: str) -> Job:
    return Job(
        "gemm", "k" * 32, name, {"a": "*fp16", "pair": ("i32", "constexpr")}, {"num_warps": 4, "cluster": (1, 1)}, {},
        None, ("K",), (2, 1, 1), (TENSOR, TupleArgument((ValueArgument(3), ValueArgument(None)))),
        (Storage(256, "float16"),), "module {}",
    )  # fmt: skip


@pytest.fixture
def session() -> Session:
    made = Session("test")
    for name in ("one", "two", "three"):
        job(name).save(made.jobs_folder)
    return made


def test_a_job_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = job("one").save(tmp_path)
    assert Job.load(path) == job("one")
    assert job("one").save(tmp_path) == path and load_jobs(tmp_path) == [(path, job("one"))]


def test_integers_come_with_their_contents(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    from dataclasses import replace

    kept = replace(job("one"), storages=(Storage(8, "int32", True),), contents={0: np.arange(8, dtype=np.uint8)})
    assert Job.load(kept.save(tmp_path)).contents[0].tolist() == list(range(8))


def test_what_is_done_is_not_done_again_after_a_kill(session: Session) -> None:
    done, lost, failed = (it.job for it in session.tasks(1.0, False))
    session.keep({"job": done, "trying": "stock Triton"})
    session.keep({"job": done, "entry": entry(shape_class="one").to_dict()})
    session.keep({"job": lost, "lost": "persistent", "id": "p", "why": "silent"})
    session.keep({"job": failed, "failed": "out of memory"})
    with session.journal.open("a") as file:
        file.write('{"job": "cut off by a ki')
    later = Session("test")
    assert [(it.job, it.skip) for it in later.tasks(1.0, False)] == [(lost, ("p",)), (failed, ())]
    assert later.entries() == [entry(shape_class="one")] and user_store().all() == (entry(shape_class="one"),)
    assert later.unfinished


def test_a_line_after_one_that_was_cut_off_is_read(session: Session) -> None:
    (first, *_) = session.tasks(1.0, False)
    with session.journal.open("a") as file:
        file.write('{"job": "cut off by a ki')
    session.keep({"job": first.job, "failed": "out of memory"})
    assert session.done()[first.job]["failed"] == "out of memory"


def test_a_fresh_start_forgets_jobs_but_no_entries(session: Session) -> None:
    session.keep({"job": session.tasks(1.0, False)[0].job, "entry": entry().to_dict()})
    session.forget()
    assert not session.jobs() and not session.done() and user_store().all() == (entry(),)


def test_two_processes_do_not_work_on_one_session(session: Session) -> None:
    busy = pytest.raises(SessionBusy, match="another process runs this tuning; cure")
    with session.locked(), busy, Session("test").locked():
        pass


def test_a_session_is_named_by_command_and_contents(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("1")
    names = {session_name(["train.py", "--steps", "2"], [script]), session_name(["train.py"], [script])}
    script.write_text("2")
    names.add(session_name(["train.py"], [script]))
    assert len(names) == 3 and all(name.startswith("train-") for name in names)
