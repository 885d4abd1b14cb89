"""The figures and the table of docs/evidence.md about kernels of other projects, from ``foreign.json``."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Row

TRITON = "python/"
"""How the files of Triton's repository begin."""
NAMES = {"one partition": "alone at its barrier"}


def verdicts(rows: Sequence[Row], what: str, triton: bool = True) -> str:
    """How many versions, or kernels, have a verdict, or passed: of Triton's repository, or of the other files."""
    found = [it.case for it in rows if it.candidate == "verdicts" and it.case["file"].startswith(TRITON) == triton]
    if what == "kernels":
        return str(len(found))
    names = ("proved", "checked") if what == "passed" else (what,)
    return str(sum(int(case.get(name, 0)) for case in found for name in names))


def faults(rows: Sequence[Row], what: str) -> str:
    """How many programs with a fault there are, or have a verdict."""
    return str(sum(int(it.case[what]) for it in rows if it.candidate == "all kernels"))


def table(rows: Sequence[Row]) -> list[str]:
    """One line for each of the ten faults."""
    lines = ["| fault | places | refuted | still right, and why |", "|---|---|---|---|"]
    for row in rows:
        if row.candidate != "all kernels":
            continue
        reasons = sorted(row.case["reasons"].items(), key=lambda it: (-it[1], it[0]))
        why = ", ".join(f"{count} {NAMES.get(name, name)}" for name, count in reasons) or "-"
        lines.append(f"| {row.case['fault']} | {row.case['places']} | {row.case['refuted']} | {why} |")
    return lines
