"""The threads that wait for worker processes: in order, in spite of errors, at the end of a process, after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.launch.first import background

ROOT = Path(__file__).resolve().parents[4]


def test_work_is_done_in_order_and_an_error_harms_no_other() -> None:
    pool, found = background.Pool(1), list[int]()
    works: list[Callable[[], Any]] = [lambda: found.append(1), lambda: 1 / 0, lambda: found.append(3)]
    tasks = [pool.submit(work) for work in works]
    assert pool.wait(10) and found == [1, 3] and all(task.done for task in tasks)
    assert pool.submit(lambda: 7).ended.wait(10) and pool.wait(10)


def test_waiting_ends_with_its_time() -> None:
    pool, gate = background.Pool(1), threading.Event()
    pool.submit(gate.wait)
    pool.submit(gate.wait)
    assert not pool.wait(0.05)
    gate.set()
    assert pool.wait(10)


def ended(program: str, status: int = 0) -> str:
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
    )  # fmt: skip
    assert found.returncode == status, found.stderr
    return found.stdout


def test_several_threads_work_at_a_time_and_end_when_they_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_IDLE_S", 0.05)
    pool, meeting = background.Pool(3), threading.Barrier(3)
    tasks = [pool.submit(lambda: meeting.wait(10)) for _ in range(3)]
    assert pool.wait(10) and {task.result for task in tasks} == {0, 1, 2}
    until = time.monotonic() + 10
    while pool.threads and time.monotonic() < until:
        time.sleep(0.01)
    assert not pool.threads and pool.submit(lambda: 4).ended.wait(10)


def test_waiting_includes_what_work_submits() -> None:
    pool, found = background.Pool(1), list[int]()
    pool.submit(lambda: pool.submit(lambda: (time.sleep(0.05), found.append(1))))
    assert pool.wait(10) and found == [1]


def test_a_process_that_ends_waits_for_no_work() -> None:
    began = time.monotonic()
    text = ended(
        """
        import time
        from tawa.bridge.launch.first.background import submit
        for number in range(50):
            submit(lambda number=number: (time.sleep(30), print(number)))
        time.sleep(0.1)
        """
    )
    assert not text and time.monotonic() - began < 25


def test_short_work_is_done_before_a_process_ends() -> None:
    text = ended(
        """
        import time
        from tawa.bridge.launch.first.background import submit
        for _ in range(5):
            submit(lambda: time.sleep(30))
        submit(lambda: print("stored"), kept=True)
        """
    )
    assert text.split() == ["stored"]


def test_worker_processes_end_with_the_process() -> None:
    text = ended(
        """
        import time
        from tawa.bridge.launch.first import background
        background.submit(lambda: background.worker().start())
        background.wait()
        print(background._POOL[0].workers[0].process.pid)
        """
    )
    assert _ends(int(text))


def test_worker_processes_end_with_a_process_that_is_killed() -> None:
    text = ended(
        """
        import os, signal, sys
        from tawa.bridge.launch.first import background
        background.submit(lambda: background.worker().start())
        background.wait()
        print(background._POOL[0].workers[0].process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        status=-9,
    )
    assert _ends(int(text))


def _ends(process: int) -> bool:
    """Whether a process ends within 20 s."""
    until = time.monotonic() + 20
    while _lives(process) and time.monotonic() < until:
        time.sleep(0.1)
    return not _lives(process)


def _lives(process: int) -> bool:
    """Whether a process runs; one that has ended, and that nobody waits for, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_an_exception_ends_a_process_as_ever() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        ended(
            """
            import time
            from tawa.bridge.launch.first.background import submit
            submit(lambda: time.sleep(0.2))
            1 / 0
            """
        )


def test_a_child_starts_the_work_again_that_its_parent_had_not_ended() -> None:
    text = ended(
        """
        import os, threading
        from tawa.bridge.launch.first.background import submit, wait
        gate = threading.Event()
        task, done = submit(gate.wait), submit
        child = os.fork()
        if child == 0:
            again = submit(lambda: 5)
            print(task.lost, wait(10), again.result, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.set()
        print(wait(10), task.lost)
        """
    )
    assert text.splitlines() == ["True True 5", "True False"]


def test_where_no_thread_can_be_started_the_task_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    pool, told = background.Pool(2), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        task = pool.submit(lambda: 7, lambda: told.append(1))
        assert task.done and task.result is None and told == [1] and pool.wait(1)
    assert pool.submit(lambda: 7).ended.wait(10)


def test_a_worker_that_cannot_be_made_costs_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = background.Pool(1)
    with monkeypatch.context() as patch:
        patch.setattr(background, "inherited", lambda: 1 / 0)
        task = pool.submit(lambda: background.worker())
        assert task.ended.wait(10) and task.result is None
    assert pool.submit(lambda: 7).ended.wait(10) and pool.wait(10)


def test_a_worker_finds_the_packages_of_the_program_and_nothing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base64.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*(it for it in sys.path if it), tmp_path / "else"])
    pool = background.Pool(1)
    task = pool.submit(lambda: background.worker().ask({"rank": "nonsense"}, 60.0, lambda line: "made" in line))
    assert task.ended.wait(90) and "failed" in task.result
    pool.stop()
