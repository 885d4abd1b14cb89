"""A tuning session: the jobs of one command, and a journal of what became of them, so that it can be taken up again.

    $XDG_CACHE_HOME/tawa/tuning/<name>/jobs/…          one folder for each launch to tune (`tawa.runtime.tuning.jobs`)
    $XDG_CACHE_HOME/tawa/tuning/<name>/journal.jsonl   one line for each job that ended, and each Plan that was lost

A finished job is in the journal, and its entry in the user's tables, before the next line is written: what is killed
loses the jobs that were running, and nothing else. Their compiled kernels are in Triton's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tawa.errors import PlanError, TableError, TawaError
from tawa.outside import Unfit, json_of, names_and_values, read
from tawa.runtime.tuning.jobs import Job, load_jobs
from tawa.runtime.tuning.store import Store, cache_folder, user_store
from tawa.runtime.tuning.table import Entry, versions_here
from tawa.runtime.tuning.worker import Task
from tawa.runtime.tuning.workers import Event, ends

_COLLECTED = "collected"


class SessionBusy(TawaError):
    """Another process works on the same session."""


def session_name(command: Sequence[str], files: Sequence[Path] = (), about: str = "") -> str:
    """The name of the session of a command: the same for the same words, contents of these files, and versions."""
    digest = hashlib.sha256(json.dumps([list(command), about, versions_here()]).encode())
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return f"{Path(command[0]).stem[:40]}-{digest.hexdigest()[:12]}"


class Session:
    """One session. store: where entries go."""

    def __init__(self, name: str, store: Store | None = None, root: Path | None = None) -> None:
        self.folder = (root or cache_folder() / "tuning") / name
        self.jobs_folder = self.folder / "jobs"
        self.journal = self.folder / "journal.jsonl"
        self.store = store or user_store()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The session is ours within the block; raises SessionBusy if it is another process's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise SessionBusy(
                    f"{self.folder}: another process runs this tuning; cure: wait until it ends, or stop it"
                ) from error
            yield

    def forget(self) -> None:
        """Starts over: drops the jobs and the journal. Entries stay in the tables."""
        self.forget_jobs()
        self.journal.unlink(missing_ok=True)

    def forget_jobs(self) -> None:
        """Drops the jobs, which are noted anew; what became of them stays in the journal."""
        shutil.rmtree(self.jobs_folder, ignore_errors=True)
        (self.folder / _COLLECTED).unlink(missing_ok=True)

    @property
    def unfinished(self) -> bool:
        """Whether a job has not ended yet."""
        return any(str(path) not in self.done() for path, _ in self.jobs())

    @property
    def collected(self) -> bool:
        """Whether the program ran to its end, so that its launches need not be noted again."""
        return (self.folder / _COLLECTED).exists()

    def mark_collected(self) -> None:
        """Notes that the program ran to its end."""
        (self.folder / _COLLECTED).touch()

    def jobs(self) -> list[tuple[Path, Job]]:
        """All jobs; raises TableError if one is damaged."""
        try:
            return load_jobs(self.jobs_folder)
        except (OSError, ValueError) as error:
            raise self._damaged(error) from error

    def done(self) -> dict[str, Event]:
        """The last event of each of the jobs that ended, by its folder."""
        ended = {it["job"]: it for it in self._lines() if ends(it)}
        return {str(path): ended[str(path)] for path, _ in self.jobs() if str(path) in ended}

    def tasks(self, budget_s: float, simulated: bool) -> list[Task]:
        """What is left to do. Jobs that failed are tried again; Plans that were lost are not."""
        ended = {job for job, event in self.done().items() if "failed" not in event}
        lost: dict[str, list[str]] = {}
        for event in self._lines():
            if "lost" in event:
                lost.setdefault(event["job"], []).append(event["id"])
        left = [str(path) for path, _ in self.jobs() if str(path) not in ended]
        return [Task(job, budget_s, tuple(lost.get(job, ())), simulated) for job in left]

    def keep(self, event: Event) -> None:
        """Puts an entry into the tables, and a line into the journal."""
        if "entry" in event:
            self.store.put([self._entry(event)])
        if "trying" in event:
            return
        with self.journal.open("ab+") as file:
            if file.seek(0, os.SEEK_END) > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a kill has cut off the line before
                    file.write(b"\n")
            file.write(json.dumps(dict(event)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[Entry]:
        """The entries of the jobs that are done."""
        return [self._entry(it) for it in self.done().values() if "entry" in it]

    def _entry(self, event: Event) -> Entry:
        """The entry of an event; raises TableError."""
        try:
            return read(Entry, event["entry"], "entry")
        except (PlanError, Unfit) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> TableError:
        return TableError(f"{self.folder} is damaged ({error}); cure: the same command with --fresh")

    def _lines(self) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        found: list[dict[str, Any]] = []
        for line in self.journal.read_bytes().splitlines():
            with suppress(ValueError):  # the last line of a session that was killed
                event = names_and_values(json_of(line.decode()))
                read(str, event.get("job"), "job")
                found.append(event)
        return found


class Run(Protocol):
    """Runs tasks and tells what happens: `run_tasks` with workers, or a pool on a cluster."""

    def __call__(self, tasks: Sequence[Task], *, on_event: Callable[[Event], None]) -> None:
        """Returns when all of them have ended."""
        ...
