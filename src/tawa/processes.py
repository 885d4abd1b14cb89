"""Worker processes: a process of our own that answers questions, a line of JSON each, until its parent is gone.

    parent    WorkerProcess(command, environment, log).ask(question, …)
    worker    for question, say in answers(): … say(answer)

Answers begin with a mark: other output, of libraries and kernels, may stand between them. The parent kills a worker
that stays silent, so work that hangs costs one process. No worker outlives its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

MARK = "@tawa "
STARTING_S = 60.0
"""Added to the limit while a worker starts, for imports."""

Answer = Mapping[str, Any]
Say = Callable[[Answer], None]


def inherited(without: Sequence[str] = ()) -> dict[str, str]:
    """The variables of this process for a worker, which finds the same packages. without: names to leave out."""
    found = {name: value for name, value in dict(os.environ).items() if name not in without}
    return {**found, "PYTHONPATH": os.pathsep.join(os.fspath(it) or os.getcwd() for it in sys.path)}


def _ignore(_: Answer) -> None:
    return None


@dataclass(slots=True)
class WorkerProcess:
    """One process at a time that answers questions; it is started with the first one.

    command: what runs in it; it answers by `answers`. environment: its variables. log: of its other output; None: none.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    _pending: bytes = field(default=b"")

    def ask(
        self,
        question: Answer,
        limit_s: float,
        ends: Callable[[Answer], bool],
        on_line: Callable[[Answer], None] = _ignore,
    ) -> Answer:
        """Asks; returns the answer.

        limit_s: seconds that the process may be silent. ends: whether a line is the answer; on_line: is told of others.
        Raises EOFError if the process ends or its GPU's context is lost, TimeoutError if it is silent for too long.
        """
        if self.process is not None and self.process.poll() is not None:
            self.stop()  # it has ended since the last question
        limit = limit_s if self.process is not None else limit_s + STARTING_S
        process = self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            self._write(process.stdin, json.dumps(question).encode() + b"\n", limit)
            while True:
                line = self._read_line(process.stdout, limit)
                if ends(line):
                    break
                on_line(line)
                limit = limit_s
        except (BrokenPipeError, EOFError):
            code = process.wait()
            self.stop()
            raise EOFError(f"the worker ended with status {code}; {self._last_words()}") from None
        except BaseException:  # what it still answers belongs to no later question
            self.stop()
            raise
        if line.get("fatal"):
            self.stop()
            raise EOFError(str(line["failed"]))
        return line

    def kill(self) -> None:
        """Ends the process and those that it started, also while another thread waits for its answer."""
        process = self.process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Ends the process and forgets it; the next question starts another."""
        self.kill()
        if self.process is not None:
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        self.process, self._pending = None, b""

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the process unless it runs."""
        if self.process is None:
            with (self.log or Path(os.devnull)).open("ab") as log:
                self.process = subprocess.Popen(
                    self.command, env=dict(self.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
        return self.process

    @staticmethod
    def _write(stream: IO[bytes], data: bytes, limit_s: float) -> None:
        """Writes all of it; a process that does not read its input must not hold this one."""
        until, left = time.monotonic() + limit_s, memoryview(data)
        os.set_blocking(stream.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_WRITE)
            while left:
                rest = until - time.monotonic()
                if rest <= 0 or not selector.select(rest):
                    raise TimeoutError(f"silent for {limit_s:.0f} s")
                left = left[os.write(stream.fileno(), left) :]

    def _read_line(self, stream: IO[bytes], limit_s: float) -> Answer:
        """The next marked line."""
        until = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                while b"\n" in self._pending:
                    line, self._pending = self._pending.split(b"\n", 1)
                    text = line.decode(errors="replace")
                    if text.startswith(MARK):
                        return json.loads(text.removeprefix(MARK))
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError(f"silent for {limit_s:.0f} s")
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError
                self._pending += chunk

    def _last_words(self) -> str:
        if self.log is None or not self.log.exists():
            return "it kept no log"
        lines = self.log.read_bytes().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-400:]


def answers() -> Iterator[tuple[dict[str, Any], Say]]:
    """In the worker: each question, and what answers it, until standard input closes."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print goes to the log

    def say(line: Answer) -> None:
        out.write(f"{MARK}{json.dumps(line)}\n")
        out.flush()

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        yield json.loads(line), say


def _end_with(parent: int) -> None:
    """Ends this process once the parent is gone; work that hangs would otherwise keep it alive."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def append_line(path: Path, line: str) -> None:
    """Adds a line to a file, in one write: lines of several processes do not mix. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
