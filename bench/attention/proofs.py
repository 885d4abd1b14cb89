"""Every attention case, proved and simulated: ``python -m bench.attention.proofs``, no GPU.

The tests take a sample of this list; the bench runs all of it. Each specialised case is compiled with its first (D, P),
checked at both levels with the effort of a compile (`fast`), and simulated on its own problem: the unspecialised
program once, the specialised one in three landing orders. All must give the same bits, and the result is compared with
float64.

A row's case has: bound (what the credit check proved), barriers (the same of the barrier check), registers and spill
bytes (ptxas), notes of ptxas about serialised wgmmas, the processor time of both checks in milliseconds, the largest
error, and its share of the allowed error. The row's error is null, or the text of what is wrong. ``median_ms`` is the
time of the case.

``--only TEXT`` takes some cases, ``--processes N`` runs N at a time, ``--resume`` keeps the results in the file: cases
that passed are not run again.

Results: ``bench/results/attention_proofs.json``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # there are as many processes as cores already

from bench.harness import RESULTS, Report, Row, describe, read  # noqa: E402
from tawa.bridge.report.report import report as report_of  # noqa: E402
from tawa.errors import UnsupportedKernel  # noqa: E402
from tawa.ir import parse_module  # noqa: E402
from tawa.verify.arefs import check_credits  # noqa: E402
from tawa.verify.barriers import check_barriers  # noqa: E402
from tawa.verify.verdict import Checked, Proved, Verdict  # noqa: E402
from tawa.verify.witness import describe as verdict_text  # noqa: E402
from tests.cases.attention.cases import CASES, find  # noqa: E402
from tests.cases.simulated import errors, orders_with_other_bits, simulated, unspecialised  # noqa: E402
from tests.matrix.compiling import compile_case, pinned  # noqa: E402

SERIALISED = ("C7510", "C7514", "C7515", "C7517")
MEDIAN_MS, WORST_MS = 10.0, 50.0
"""The most that the credit check may add to a compile."""


def timed(check: Callable[..., Verdict], text: str) -> tuple[Verdict, float]:
    """A verdict at effort `fast` and the best of three processor times in milliseconds."""
    best, verdict = float("inf"), None
    for _ in range(3):
        module = parse_module(text)
        start = time.process_time()
        verdict = check(module, effort="fast")
        best = min(best, (time.process_time() - start) * 1000)
    assert verdict is not None
    return verdict, round(best, 2)


def work(name: str) -> Row:
    """One case from source to simulated results."""
    case, start = find(name), time.perf_counter()
    about: dict[str, Any] = {"name": name, "B": case.sizes.get("B"), "plan": list(case.plans[0])}
    error = None
    try:
        error = prove(name, about)
    except UnsupportedKernel as reason:
        about["declined"] = str(reason.remark.reason)
        if case.expect.verdict == "specialised":
            error = f"declined: {reason.remark.reason}"[:300]
    except Exception as failure:
        error = describe(failure)
    return Row(about, "Tawa", median_ms=round((time.perf_counter() - start) * 1000, 1), error=error)


def prove(name: str, about: dict[str, Any]) -> str | None:
    """Fills in what is found of a case; returns what is wrong."""
    case = find(name)
    compiled = compile_case(case, pinned(*case.plans[0]))
    record = compiled.metadata.tawa
    if not record["applied"]:
        about["declined"] = record["reason"]
        return None if case.expect.verdict != "specialised" else f"not specialised: {record['reason']}"[:300]
    wrong: list[str] = []
    checks: dict[str, tuple[Callable[..., Verdict], str]] = {
        "credits": (check_credits, "aref"),
        "barriers": (check_barriers, "barrier"),
    }
    for key, (check, level) in checks.items():
        verdict, about[f"{key}_ms"] = timed(check, compiled.asm[level])
        about[key] = verdict_text(verdict).splitlines()[0]
        if not isinstance(verdict, Proved | Checked):
            wrong.append(f"{level}: {about[key]}")
    found = report_of(compiled).ptxas
    about |= {"registers": found.registers, "spill_bytes": found.spill_bytes}
    about["serialised"] = [note.code for note in found.notes if note.code in SERIALISED]
    arrays = simulated(case, unspecialised(case, compiled))
    others = orders_with_other_bits(case, compiled, arrays)
    about["same_bits"] = not others
    off = errors(case, arrays)
    about |= {"error": off.largest, "share": round(off.share, 3)}
    wrong += [f"other bits: {order}" for order in others]
    wrong += [f"ptxas serialises: {code}" for code in about["serialised"]]
    if off.share > 1:
        wrong.append(f"error {off.largest:.3g} is {off.share:.2f} of what is allowed")
    return "; ".join(wrong) or None


def summary(rows: list[Row]) -> bool:
    """Prints the results; returns whether all cases passed."""
    done = [row for row in rows if "credits" in row.case]
    declined = [row for row in rows if "declined" in row.case]
    print(f"\n{len(rows)} cases: {len(done)} specialised, {len(declined)} declined")
    if not done:
        return not any(row.error for row in rows)
    times = {key: [row.case[f"{key}_ms"] for row in done] for key in ("credits", "barriers")}
    for key in ("credits", "barriers"):
        print(f"  {key:10} median {statistics.median(times[key]):7.1f} ms   worst {max(times[key]):7.1f} ms")
    spills = {row.case["name"]: row.case["spill_bytes"] for row in done if row.case["spill_bytes"]}
    print(f"  spills     {spills or 'none'}")
    wanted = {
        "credits: proved": all(row.case["credits"].startswith("proved") for row in done),
        f"credits: median <= {MEDIAN_MS:.0f} ms": statistics.median(times["credits"]) <= MEDIAN_MS,
        f"credits: worst <= {WORST_MS:.0f} ms": max(times["credits"]) <= WORST_MS,
        "same bits in every order": all(row.case.get("same_bits") for row in done),
        "within the tolerance": all(row.case.get("share", 2.0) <= 1 for row in done),
        "no error": not any(row.error for row in rows),
    }
    for text, reached in wanted.items():
        print(f"wanted: {text}: {'pass' if reached else 'FAIL'}")
    return all(wanted.values())


def main() -> int:
    """Runs the cases asked for; returns 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    names = [case.name for case in CASES if arguments.only in case.name]
    report, rows = Report("attention_proofs"), dict[str, Row]()
    if arguments.resume:
        _, before = read(RESULTS / "attention_proofs.json")
        rows = {row.case["name"]: row for row in before if row.error is None}
    left = [name for name in names if name not in rows]
    with get_context("spawn").Pool(arguments.processes) as pool:
        for row in pool.imap_unordered(work, left):
            rows[row.case["name"]] = row
            seconds = (row.median_ms or 0.0) / 1000
            text = row.case.get("credits") or row.case.get("declined")
            print(f"{row.case['name']:36}{seconds:6.1f} s   {text}   {row.error or ''}", flush=True)
            report.rows = [rows[name] for name in names if name in rows]
            report.save()
    good = summary(report.rows)
    print(report.save())
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
