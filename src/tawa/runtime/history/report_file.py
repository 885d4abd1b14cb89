"""The history on disk: one line of JSON for each process, written when it ends, read by `tawa report`.

``TAWA_REPORT`` names a file, to which every process appends its line in one write, or a folder (it exists, or the
name ends with a slash), in which every process writes a file of its own.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
from pathlib import Path

from tawa.outside import Unfit, json_of, names_and_values, read, shown, text_of
from tawa.processes import append_line
from tawa.runtime.history.process_report import ProcessReport, merge_reports
from tawa.runtime.history.recording import report

_log = logging.getLogger("tawa")
_FORMAT = 1


class ExitReport:
    """Writes the report of this process when it ends."""

    def __init__(self) -> None:
        self._path = ""

    def write_to(self, path: str) -> None:
        """Sets the file or folder; the last call counts."""
        if not self._path:
            atexit.register(self._write)
        self._path = os.path.join(os.getcwd(), os.path.expanduser(path))  # absolute: a script may change the folder

    def _write(self) -> None:
        value = report()
        if not value.kernels and not value.reason:
            return
        try:
            write_report(value, self._path)
        except OSError as error:
            _log.warning("TAWA_REPORT: no report: %s", error)


def write_report(value: ProcessReport, path: str) -> None:
    """Appends one process's report to a file, or writes it into a folder. Raises OSError where that is impossible."""
    about = {"format": _FORMAT, "pid": os.getpid(), "command": sys.argv, "report": value.to_dict()}
    append_line(_target(path), json.dumps(about))


def read_reports(path: Path) -> ProcessReport:
    """Everything under `path`, a file or a folder of files, merged.

    Raises FileNotFoundError where there is nothing, Unfit (with file and line) on a line that is no report.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    parts: list[ProcessReport] = []
    for file in files:
        for number, line in enumerate(text_of(file).splitlines(), start=1):
            try:
                parts.append(_read_line(line))
            except Unfit as error:
                raise Unfit(f"{file}:{number} is not a line of a report: {error}") from None
    if not parts:
        raise FileNotFoundError(f"no report in {path}")
    return merge_reports(parts)


def _read_line(line: str) -> ProcessReport:
    data = names_and_values(json_of(line))
    if data.get("format") != _FORMAT:
        raise Unfit(f"it is of format {shown(data.get('format'))}; this Tawa reads {_FORMAT}")
    return read(ProcessReport, data.get("report"), "report")


def _target(path: str) -> Path:
    target = Path(path).expanduser()
    return target / f"{os.getpid()}.jsonl" if path.endswith("/") or target.is_dir() else target
