"""What the most expensive kernels of the corpus lack: their times, what bounds them, and what becomes of them.

    python -m bench.corpus compile --packages FOLDER --json verdicts.jsonl
    python -m bench.corpus missing --compiled verdicts.jsonl

Times are those of ``bench/results/regret.json``: stock Triton's kernel and every form that was measured beside it. What
bounds a kernel is the model's estimate from its work (``foreign_work.json``). Verdicts are of this compiler, without a
GPU; those of kernels that the file of verdicts does not have stay as they are in ``bench/results/missing.json``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.corpus.report.kernels import UNUSUAL
from bench.corpus.report.page import table
from bench.corpus.report.results import geomean
from bench.harness import RESULTS, Report, Row, read
from bench.model.foreign import restored
from tawa.declines import of_reason
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program, ProgramFacts, stock_program
from tawa.plan.cost.time_model import busy_us
from tawa.plan.plan import Plan

NAME = "missing"
GAIN = 1.05
"""The least gain of a form that is worth a trial."""
SHOWN = 24
_AUTOMATIC, _LEGAL = "tawa", "legal"
_CHOOSING = ("stock", "automatic", "learned")
"""Candidates whose launches may get stock Triton's kernel."""
Key = tuple[str, str]
"""Entry, as ``package: operation``, and kernel."""
Verdicts = dict[str, dict[Key, list[str]]]
"""By mode: "specialised", or the id of the reason, of each configuration that was compiled."""


def write(compiled: Path | None) -> str:
    """Writes the file of results; returns a line for people. compiled: the verdicts; None: those of before."""
    found = verdicts(compiled) if compiled is not None else {}
    before = {_key(row): row for row in read(RESULTS / f"{NAME}.json")[1]} if _written().exists() else {}
    rows = [_row(key, candidates, told, found, before.get(key)) for key, candidates, told in _measured()]
    rows.sort(key=lambda row: -row.case["stock_us"])
    report = Report(NAME)
    report.add(*rows)
    return f"{len(rows)} kernels; {report.path}"


def _written() -> Path:
    return RESULTS / f"{NAME}.json"


def _key(row: Row) -> Key:
    return row.case["case"], row.case["kernel"]


def verdicts(compiled: Path) -> Verdicts:
    """What became of each kernel in each mode. compiled: the lines that ``compile --json`` wrote."""
    found: Verdicts = defaultdict(lambda: defaultdict(list))
    for line in compiled.read_text().splitlines():
        row = json.loads(line)
        about, entry = row["case"], row["case"]["entry"]
        shape = " ".join(f"{name}={value}" for name, value in about["shape"].items())
        for it in about.get("kernels", ()):
            decline = of_reason(it["reason"])
            what = "specialised" if it["applied"] else decline.id if decline is not None else it["reason"]
            kept = found[row["candidate"]][f"{about['package']}: {entry} {shape}", it["kernel"]]
            kept += [what] * (what not in kept)
    return found


def _measured() -> list[tuple[Key, dict[str, Row], Mapping[str, Any]]]:
    """Each kernel of which the times and the work are known: its candidates, and its work."""
    work = {_key(row): row.case for row in read(RESULTS / "foreign_work.json")[1]}
    found: dict[Key, dict[str, Row]] = defaultdict(dict)
    for row in read(RESULTS / "regret.json")[1]:
        if row.case.get("source") == "corpus" and row.median_ms and _key(row) in work:
            found[_key(row)][row.candidate] = row
    return [(key, candidates, work[key]) for key, candidates in found.items() if "stock" in candidates]


def _row(key: Key, candidates: Mapping[str, Row], told: Mapping[str, Any], found: Verdicts, before: Row | None) -> Row:
    stock_ms = candidates["stock"].median_ms or 0.0
    times = {name: row.median_ms or 0.0 for name, row in candidates.items() if name not in _CHOOSING}
    times = {name: ms for name, ms in times.items() if candidates[name].case.get("plan")}
    best = min(times, key=lambda name: times[name], default="")
    workload, launch = restored(told["work"])
    facts = ProgramFacts(**told["facts"]) if told["facts"] else None
    stock = stock_program(workload, told["num_warps"], told["num_stages"], facts)
    form = Program(Plan.from_json(json.dumps(candidates[best].case["plan"]))) if best else stock
    busy = busy_us(workload, launch, stock)
    kept = before.case["verdicts"] if before is not None else {}
    now = {mode: of[key] for mode, of in found.items() if key in of} or kept
    case: dict[str, Any] = {
        "case": key[0], "kernel": key[1], "num_warps": told["num_warps"], "stock_us": round(stock_ms * 1e3, 2),
        "best": best, "gain": round(stock_ms / times[best], 3) if best else None,
        "warps_of_an_sm": [_warps(launch, stock), _warps(launch, form)],
        "spilled": told["spilled"].get(best, 0), "busy_us": {unit: round(us, 2) for unit, us in busy.items()},
        "verdicts": now,
    }  # fmt: skip
    case["missing"] = missing(case)
    return Row(case, best or "stock", times.get(best), None, None)


def _warps(launch: Launch, program: Program) -> int:
    """Warps on the busiest SM that compute at the same time."""
    ctas = 1 if program.persistent else min(program.ctas, launch.on_one)
    return ctas * program.num_warps


def missing(case: Mapping[str, Any]) -> str:
    """What a kernel lacks, from its times and verdicts.

    The legality of any form, the choice of one that gains, registers, warps that compute while others wait, or a form.
    """
    legal, automatic = (case["verdicts"].get(mode, []) for mode in (_LEGAL, _AUTOMATIC))
    if legal and "specialised" not in legal:
        return f"legality: {', '.join(legal)}"
    if case["gain"] is not None and case["gain"] >= GAIN:
        return "choice" if automatic and "specialised" not in automatic else ""
    if case["spilled"]:
        return "registers"
    if case["warps_of_an_sm"][1] < case["warps_of_an_sm"][0]:
        return "warps"
    return "a faster form" if case["gain"] is not None else "a form"


def figures(rows: Sequence[Row]) -> dict[str, str]:
    """The numbers of the page: kernels that were timed, those bound by latency, and mean gains by computing warps."""
    timed = [row.case for row in rows if row.case["gain"] is not None]
    usual = [it for it in timed if not it["spilled"] and it["gain"] < UNUSUAL]
    fewer = [it for it in usual if it["warps_of_an_sm"][1] < it["warps_of_an_sm"][0]]
    as_many = [it for it in usual if it not in fewer]
    return {
        "timed": str(len(timed)),
        "latency": str(sum(_bound(it) == "latency" for it in timed)),
        "as_many": f"{geomean(it['gain'] for it in as_many):.2f}",
        "fewer": f"{geomean(it['gain'] for it in fewer):.2f}",
    }


def _bound(case: Mapping[str, Any]) -> str:
    busy: Mapping[str, float] = case["busy_us"]
    return max(busy, key=lambda unit: busy[unit])


def render(rows: Sequence[Row]) -> str:
    """A row for each of the most expensive kernels that lack something."""
    head = (
        "kernel",
        "operation",
        "warps",
        "µs, stock",
        "best form",
        "computing warps of an SM",
        "spills, bytes",
        "bound by",
        "automatic",
        "lacks",
    )
    found = [row.case for row in rows if row.case["missing"]][:SHOWN]
    return table(head, [_shown(it) for it in found])


def _shown(case: Mapping[str, Any]) -> tuple[str, ...]:
    gain = f"{case['gain']:.2f}" if case["gain"] is not None else "–"
    automatic = ", ".join(case["verdicts"].get(_AUTOMATIC, [])) or "–"
    return (f"`{case['kernel']}`", case["case"], str(case["num_warps"]), f"{case['stock_us']:.1f}", gain,
            " → ".join(map(str, case["warps_of_an_sm"])), str(case["spilled"] or ""), _bound(case), automatic,
            case["missing"])  # fmt: skip


__all__ = ["GAIN", "figures", "missing", "render", "verdicts", "write"]
