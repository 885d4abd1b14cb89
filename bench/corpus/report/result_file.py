"""``bench/results/corpus.json``: a row for each entry and mode, in the schema of every bench.

Runs with ``--learned`` have a file of their own, ``learned.json``. The case of a row has package, operation and shape,
the status of the entry, the verdict on each of its kernels, and the time of each kernel in this mode (`us`, of all its
launches in one run of the operation). The error is relative to the tolerance, or a text if there is none. A file may
hold rows of several runs: the case has the date of its run; the head of the file describes the last run, and
``earlier`` the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bench.corpus.report.results import Microseconds, Result, Verdict
from bench.harness import Report, Row, environment

NAME, LEARNED = "corpus", "learned"
INFINITE = "infinite"


def about_run(configs: int | None) -> dict[str, Any]:
    """The description of the run that begins now. configs: at most so many per autotuner; None: as entries say."""
    text = "as many of each autotuner as its entry says" if configs is None else f"at most {configs} of each autotuner"
    return {**environment(), "configs": "all" if configs == 0 else text}


def write(
    results: Sequence[Result],
    run: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    clocks: bool = False,
    name: str = NAME,
) -> Path:
    """Writes the file; returns its path.

    run: describes the last run. before: the head of the file so far. clocks: whether to query the clocks after work;
    that would disturb an entry that is being timed. name: of the file.
    """
    known = [*before.get("earlier", []), {**before, "earlier": []}] if before else []
    dates = {it.date for it in results} - {run["date"]}
    earlier = [{key: value for key, value in it.items() if key != "earlier"} for it in known if it["date"] in dates]
    report = Report(name, about={**run, "earlier": earlier})
    report.rows = [row for it in results for row in rows_of(it)]
    if clocks:
        report.note_clocks()
    return report.save()


def read(path: Path) -> tuple[dict[str, Any], list[Result]]:
    """The head of a file (machine and runs), and its results."""
    about = json.loads(path.read_text())
    return about, from_rows([Row(**row) for row in about.pop("rows")])


def rows_of(result: Result) -> list[Row]:
    """A row for each mode that ran or compiled; if none did, a single row for Tawa."""
    case = {
        "package": result.package,
        "entry": result.name,
        "shape": dict(result.shape),
        "backward": result.backward,
        "status": result.status,
        "message": result.message,
        "compared": result.compared,
        **({"date": result.date} if result.date else {}),
    }
    if not result.kernels:
        return [Row(case, "tawa", error=result.status)]
    rows: list[Row] = []
    for mode, kernels in result.kernels.items():
        about = {**case, "equal_bits": result.equal_bits.get(mode), "kernels": [asdict(it) for it in kernels]}
        median, p10, p90 = result.times.get(mode, (None, None, None))
        error = result.errors.get(mode, None)
        text = INFINITE if mode in result.errors and error is None else error
        rows.append(Row(about, mode, median, p10, p90, None, text))
    return rows


def from_rows(rows: Iterable[Row]) -> list[Result]:
    """The inverse of `rows_of`, of many results."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row.case[name] for name in ("package", "entry", "shape")]), []).append(row)
    return [_result(found) for found in groups.values()]


def _result(rows: Sequence[Row]) -> Result:
    case = rows[0].case
    ran = [row for row in rows if "kernels" in row.case]
    return Result(
        case["package"],
        case["entry"],
        case["shape"],
        case["backward"],
        case["status"],
        case["message"],
        errors={row.candidate: _error(row) for row in ran if row.error is not None},
        equal_bits={row.candidate: row.case["equal_bits"] for row in ran if row.case["equal_bits"] is not None},
        kernels={row.candidate: tuple(_verdict(it) for it in row.case["kernels"]) for row in ran},
        times={row.candidate: _times(row) for row in ran if row.median_ms is not None},
        date=case.get("date", ""),
        compared=case.get("compared", 0),
    )


def _error(row: Row) -> float | None:
    return row.error if isinstance(row.error, float | int) else None


def _times(row: Row) -> tuple[float, float, float]:
    return (row.median_ms or 0.0, row.p10_ms or 0.0, row.p90_ms or 0.0)


def _verdict(data: Mapping[str, Any]) -> Verdict:
    us = data.get("us")
    known = {it.name: data[it.name] for it in fields(Verdict) if it.name != "us"}
    return Verdict(**known, us=Microseconds(**us) if us else None)
