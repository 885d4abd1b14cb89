"""Renders the tables of the page on other people's kernels from ``bench/results/corpus.json``; the site calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import harness
from bench.corpus.report.kernels import UNUSUAL, Comparison, KernelSummary, applied, declined
from bench.corpus.report.result_file import read
from bench.corpus.report.results import Result, Verdict, title
from bench.corpus.report.summary import Summary, summarise

RESULTS = harness.RESULTS / "corpus.json"
NOTHING = "There are no measurements yet."
NO_DOT = "no tl.dot in the kernel"  # Tawa's reason for such a kernel


def render_file(results: Path = RESULTS) -> str:
    """What the page shows of the results."""
    if not results.exists():
        return NOTHING
    return render(*read(results))


def render(about: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The whole block: machines and versions, the summary, the entries, the reasons for declining."""
    parts = [_where(about, results), summary_table(summarise(results))]
    folded: list[str] = []
    here, tuned, elsewhere = applied(results), applied(results, own_choice=True), declined(results)
    if here:
        folded.append("### Kernels that Tawa specialises, in stock's configurations\n\n" + kernels_table(here))
    if tuned:
        folded.append("### The same, each tuned by itself\n\n" + kernels_table(tuned))
    if elsewhere:
        folded.append("### Kernels that automatic mode leaves to stock Triton\n\n" + declined_table(elsewhere))
    for package in dict.fromkeys(it.package for it in results):
        folded.append(f"### {package}\n\n" + entries_table([it for it in results if it.package == package]))
    folded.append("### Why kernels were declined\n\n" + reasons_table(results))
    opened = '<details markdown="1">\n<summary>Every kernel and every entry</summary>'
    return "\n\n".join([*parts, opened, *folded, "</details>"])


def _where(about: Mapping[str, Any], results: Sequence[Result]) -> str:
    """A line for each run that has results: device, versions, date."""
    counts = {it["date"]: sum(found.date == it["date"] for found in results) for it in about.get("earlier", [])}
    runs = [(about, len(results) - sum(counts.values()))]
    runs += [(it, counts[it["date"]]) for it in reversed(about.get("earlier", []))]
    return "\n".join(_about(run, count if len(runs) > 1 else None) for run, count in runs)


def _about(run: Mapping[str, Any], count: int | None) -> str:
    versions = run["versions"]
    return (
        ("" if count is None else f"- {count} entries: ")
        + f"{run['device']}, driver {run['driver']}, PyTorch {versions['torch']}, Triton {versions['triton']}, "
        + f"Tawa {versions['tawa']}, {run['date'][:10]}; configurations tuned over: {run['configs']}."
    )


def summary_table(found: Summary) -> str:
    """The main numbers, each with its target."""
    untimed = f"; {found.untimed} not timed" if found.untimed else ""
    rows = [
        ("entries; right, skipped", f"{found.entries}; {found.ok}, {found.skipped}", ""),
        ("wrong results", str(found.wrong), "0"),
        ("crashes", str(found.crashed), "0"),
        ("hangs", str(found.hung), "0"),
        ("configurations compared one by one with stock's kernel", str(found.compared), ""),
        ("entries specialised in automatic mode; wherever legal", f"{found.applied}; {found.legal}", ""),
        *_kernel_rows("in the configurations that stock chose", found.kernels, untimed),
        *_kernel_rows("each mode tuned by itself", found.tuned, ""),
        ("whole entries: geometric mean of the speed-up where specialised", _times(found.geomean), ""),
        ("whole entries timed: slowest", f"{_times(found.worst)} ({found.worst_entry})" if found.worst else "–", ""),
    ]
    return table(("", "found", "wanted"), rows)


def _kernel_rows(how: str, kernels: KernelSummary, untimed: str) -> list[tuple[str, str, str]]:
    slowest = f"{kernels.worst.ratio:.2f} {_spread(kernels.worst)} ({kernels.worst.name})" if kernels.worst else "–"
    whole = f", {kernels.whole} of them whole entries" if kernels.whole else ""
    return [
        (f"kernels specialised in automatic mode and timed, {how}", f"{kernels.count}{whole}{untimed}", ""),
        ("– geometric mean of their speed-ups", _times(kernels.geomean), "≥ 1.15"),
        (f"– geometric mean of those under {UNUSUAL:.0f} times", _times(kernels.usual), ""),
        ("– slowest of them", slowest, "≥ 0.98"),
        ("– under 0.98; of these beyond the spread", f"{kernels.slower}; {kernels.surely_slower}", "0"),
    ]


def _times(speed: float | None) -> str:
    return "–" if speed is None else f"{speed:.2f}"


def _spread(it: Comparison) -> str:
    return f"[{it.spread[0]:.2f}, {it.spread[1]:.2f}]"


def kernels_table(found: Sequence[Comparison]) -> str:
    """A row for each kernel of each entry; ratios that are too low by more than the spread are bold."""
    head = ("package", "operation", "kernel", "µs, stock", "µs, Tawa", "speed-up", "p10 to p90")
    return table(head, [_kernel_row(it) for it in found])


def _kernel_row(it: Comparison) -> tuple[str, ...]:
    ratio = f"{it.ratio:.2f}"
    shown = f"**{ratio}**" if it.surely_slower else f"{ratio} (noise?)" if it.slower else ratio
    operation = title(it.result).removeprefix(f"{it.result.package}: ")
    times = (f"{it.stock.median:.1f}", f"{it.mode.median:.1f}")
    return (it.result.package, operation, it.kernel, *times, shown, _spread(it))


def declined_table(found: Sequence[Comparison]) -> str:
    """The gains of declined kernels if they were specialised, the largest first."""
    head = ("package", "operation", "kernel", "µs, stock", "µs, legal", "speed-up", "p10 to p90", "why it is declined")
    ordered = sorted(found, key=lambda it: -it.ratio)
    return table(head, [(*_kernel_row(it), reason_of(it.reason)) for it in ordered])


def entries_table(results: Iterable[Result]) -> str:
    """A row for each entry: verdicts on its kernels, errors relative to the tolerance, times."""
    head = (
        "operation",
        "shape",
        "kernels specialised",
        "why not the others",
        "error, stock / Tawa / legal",
        "bits",
        "ms, stock / Tawa",
        "speed-up",
        "",
    )
    return table(head, [_row(it) for it in results])


def _row(it: Result) -> tuple[str, ...]:
    shape = ", ".join(f"{name} {value}" for name, value in it.shape.items())
    verdicts = it.kernels.get("tawa", ())
    names = {verdict.kernel for verdict in verdicts}
    applied = {verdict.kernel for verdict in verdicts if verdict.applied}
    legal = {verdict.kernel for verdict in it.kernels.get("legal", ()) if verdict.applied}
    kernels = f"{len(applied)} of {len(names)}" + (f" ({len(legal)} legal)" if len(legal) > len(applied) else "")
    errors = " / ".join(_error(it, mode) for mode in ("stock", "tawa", "legal"))
    bits = {True: "equal", False: "other"}.get(it.equal_bits.get("tawa", None), "")  # type: ignore[arg-type]
    speed = it.speedup()
    time = " / ".join(f"{it.times[mode][0]:.3f}" for mode in ("stock", "tawa") if mode in it.times)
    name = it.name + (", with gradients" if it.backward else "")
    what = "" if it.status == "ok" and not it.message else f"{it.status}: {it.message}".rstrip(": ")
    return (name, shape, kernels if names else "", _why_not(verdicts), errors if it.errors else "", bits, time,
            f"{speed:.2f}" if speed else "", what)  # fmt: skip


def _why_not(verdicts: Sequence[Verdict]) -> str:
    """The reasons why kernels of an entry are declined; kernels without a dot are left out."""
    declined = [(it, it.kernel) for it in verdicts if not it.applied and not it.reason.startswith(NO_DOT)]
    return "; ".join(f"{', '.join(sorted(names))}: {reason}" for reason, names in _by_kind(declined))


def _error(it: Result, mode: str) -> str:
    if mode not in it.errors:
        return "–"
    error = it.errors[mode]
    return "∞" if error is None else f"{error:.2g}"


def reasons_table(results: Iterable[Result]) -> str:
    """Reasons of automatic mode, the most frequent first; those that differ in numbers only share a row."""
    declined = [
        (verdict, f"{result.package}: {verdict.kernel}")
        for result in results
        for verdict in result.kernels.get("tawa", ())
        if not verdict.applied
    ]
    ordered = sorted(_by_kind(declined), key=lambda item: (-len(item[1]), item[0]))
    return table(("kernels", "reason", "for instance"), [(str(len(names)), why, min(names)) for why, names in ordered])


def _by_kind(declined: Iterable[tuple[Verdict, str]]) -> list[tuple[str, set[str]]]:
    """Reasons with their kernels. Of reasons that differ in numbers only, the one of the first name is shown."""
    found: dict[str, list[tuple[str, str]]] = {}
    for verdict, name in declined:
        reason = reason_of(verdict.reason)
        kind = re.sub(r"\b\d+(?:\.\d+)?\b|(?<=CTA)s\b", "", reason)
        found.setdefault(kind, []).append((name, reason))
    return [(min(named)[1], {name for name, _ in named}) for named in found.values()]


def reason_of(text: str) -> str:
    """A reason without paths."""
    return re.sub(r"\S*/\S*\.py\S*", "…", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [_line(head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
