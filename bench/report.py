"""Prints any result file as a table of ratios and draws it: ``python -m bench.report gemm --draw docs/images``.

Cases that differ only in K share a table, with rates and ratios to the baseline. Rows that were checked but not timed
are counted, and failures are listed. Rows with times but no rates (compile times) are listed as times.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS, ROOT, Row, read

TAWA, BEST_STOCK = "Tawa", "best of stock Triton"
DETAILS = ("K", "configuration", "registers", "spills", "D", "P", "step", "applied", "reason")
COLOURS = {
    "Tawa": "#2b6cb0",
    "cuBLAS": "#7a7a7a",
    "stock Triton": "#d9a441",
    "Gluon by hand": "#4f9d69",
    "cuBLAS exact": "#c0c0c0",
    "Tawa, one tile a program": "#3a9aa8",
}
MORE_COLOURS = ("#b0524f", "#8a6fb0", "#3a9aa8", "#8f7a35")


def group_of(row: Row) -> str:
    """The title of a row's table: all of its case but K."""
    return ", ".join(f"{key}={value}" for key, value in row.case.items() if key not in DETAILS)


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Timed rows by table, in the order of the file."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.tflops is not None:
            found.setdefault(group_of(row), []).append(row)
    return found


def rates_by_k(rows: Sequence[Row]) -> dict[int, dict[str, Row]]:
    """The rows of one table by K and candidate."""
    found: dict[int, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(int(row.case.get("K", 0)), {})[row.candidate] = row
    return found


def candidates_of(rows: Sequence[Row]) -> list[str]:
    """Candidates in the order of the file."""
    return list(dict.fromkeys(row.candidate for row in rows))


def ratio_table(title: str, rows: Sequence[Row], baseline: str) -> Table:
    """Rates in TFLOP/s, each followed by the ratio to the baseline."""
    table = Table(title=title, title_justify="left")
    names = candidates_of(rows)
    table.add_column("K", justify="right")
    for name in names:
        table.add_column(name, justify="right")
    for k, line in sorted(rates_by_k(rows).items()):
        base = line[baseline].tflops if baseline in line else None
        cells = []
        for name in names:
            rate = line[name].tflops if name in line else None
            ratio = f"  [dim]{rate / base:.3f}[/dim]" if rate and base and name != baseline else ""
            cells.append(f"{rate:.0f}{ratio}" if rate else "-")
        table.add_row(str(k), *cells)
    return table


def long_table(title: str, rows: Sequence[Row]) -> Table:
    """One line per candidate, for tables with too many candidates for columns."""
    table = Table(title=title, title_justify="left")
    for column in ("K", "candidate", "TFLOP/s", "median ms", "p10", "p90"):
        table.add_column(column, justify="left" if column == "candidate" else "right")
    for row in rows:
        times = (f"{value:.4f}" if value is not None else "-" for value in (row.median_ms, row.p10_ms, row.p90_ms))
        table.add_row(str(row.case.get("K", "")), row.candidate, f"{row.tflops:.1f}" if row.tflops else "-", *times)
    return table


def time_table(rows: Sequence[Row]) -> Table:
    """Times without rates."""
    table = Table(title="times in milliseconds", title_justify="left")
    for column in ("case", "candidate", "median", "p10", "p90"):
        table.add_column(column, justify="left" if column in ("case", "candidate") else "right")
    for row in rows:
        case = ", ".join(str(value) for value in row.case.values())
        table.add_row(
            case,
            row.candidate,
            *(f"{value:.2f}" for value in (row.median_ms, row.p10_ms, row.p90_ms) if value is not None),
        )
    return table


def print_checks(console: Console, rows: Sequence[Row]) -> None:
    """Counts the rows that were checked but not timed, and lists those that failed."""
    counts = Counter(str(row.case.get("status", "failed" if isinstance(row.error, str) else "ok")) for row in rows)
    console.print("checked: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    ratios = [row.error for row in rows if isinstance(row.error, float | int)]
    if ratios:
        console.print(f"largest error: {max(ratios):.3f} of what is allowed")
    for row in rows:
        if isinstance(row.error, str):
            case = " ".join(f"{key}={value}" for key, value in row.case.items() if key != "status")
            console.print(f"  [red]{row.candidate}[/red] {case}: {row.error}", highlight=False)


def draw(name: str, about: dict[str, Any], rows: Sequence[Row], folder: Path) -> Path | None:
    """Draws a panel per table, two in a line: rates over K, p10 to p90 as a band. Returns None if nothing was timed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tables = [(title, part) for title, part in groups(rows).items() if len(rates_by_k(part)) > 1]
    if not tables:
        return None
    lines = -(-len(tables) // 2)
    figure, axes = pyplot.subplots(lines, min(len(tables), 2), figsize=(10.4, 3.9 * lines), squeeze=False)
    for axis in axes.flat[len(tables) :]:
        axis.remove()
    for axis, (title, part) in zip(axes.flat, tables, strict=False):
        for number, candidate in enumerate(candidates_of(part)):
            line = sorted((row for row in part if row.candidate == candidate), key=lambda row: row.case["K"])
            ks = [row.case["K"] for row in line]
            colour = COLOURS.get(candidate, MORE_COLOURS[number % len(MORE_COLOURS)])
            axis.plot(ks, [row.tflops for row in line], marker="o", label=candidate, color=colour)
            axis.fill_between(ks, *zip(*(_band(row) for row in line), strict=True), alpha=0.15, color=colour)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("K")
        axis.set_ylabel("TFLOP/s")
        axis.set_title(title.replace("family=", "").replace("=", " "), fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.suptitle(f"{name}: {about['device']}, {about['date'][:10]}", fontsize=10)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=130)
    return path


def by_case(rows: Sequence[Row]) -> list[dict[str, Row]]:
    """The timed rows of each case by candidate, in the order of the file; cases that Tawa has no time for are left out.

    Of stock Triton's configurations the fastest counts, as `BEST_STOCK`.
    """
    cases: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.median_ms is None:
            continue
        found = cases.setdefault(str(sorted(row.case.items(), key=str)), {})
        name = BEST_STOCK if row.candidate.startswith("stock") else row.candidate
        if name not in found or row.median_ms < (found[name].median_ms or 0.0):
            found[name] = row
    return [found for found in cases.values() if TAWA in found]


def published(name: str) -> list[Row]:
    """What others published for the cases of a result file, on a GPU of their own (`bench.peers`)."""
    known = json.loads((ROOT / "bench" / "peers" / "published.json").read_text()).get(name)
    if known is None:
        return []
    title = f"{known['candidate']} ({known['device']})"
    return [Row(row["case"], title, tflops=row["tflops"]) for row in known["rows"]]


def relative(rows: Sequence[Row], more: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Rates by case and candidate, as shares of Tawa's.

    more: published rates; their cases name some of the sizes only.
    """
    found: dict[str, dict[str, float]] = {}
    cases = by_case(rows)
    common = shared([case[TAWA].case for case in cases])
    for case in cases:
        mine = case[TAWA]
        shares = {TAWA: 1.0}
        for name, row in case.items():
            if not name.startswith(TAWA):
                shares[name] = (mine.median_ms or 0.0) / (row.median_ms or 1.0)
        for row in more:
            if all(mine.case.get(key) == value for key, value in row.case.items()) and mine.tflops and row.tflops:
                shares[row.candidate] = row.tflops / mine.tflops
        found[case_title({key: value for key, value in mine.case.items() if key not in common})] = shares
    return found


def case_title(case: Mapping[str, Any]) -> str:
    """The label of a case: numbers with their names, texts as they are, ``paper 1, C 3, H 227, fp16``."""
    shown = [(key, value) for key, value in case.items() if key not in DETAILS[1:] and value is not False]
    return ", ".join(key if value is True else value if isinstance(value, str) else f"{key} {value}"
                     for key, value in shown)  # fmt: skip


def shared(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all cases have in common."""
    first = cases[0] if len(cases) > 1 else {}
    return {key: value for key, value in first.items() if all(key in it and it[key] == value for it in cases)}


def draw_ratios(name: str, about: dict[str, Any], rows: Sequence[Row], folder: Path) -> Path | None:
    """Draws a line per case: the rates of all candidates, as shares of Tawa's. Published rates are hollow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    known = relative(rows, published(name))
    if not known:
        return None
    names = list(dict.fromkeys(candidate for shares in known.values() for candidate in shares))
    figure, axis = pyplot.subplots(figsize=(8.5, 1.6 + 0.27 * len(known)))
    for number, candidate in enumerate(names):
        points = [(shares[candidate], line) for line, shares in enumerate(known.values()) if candidate in shares]
        first = candidate.split(",")[0]
        colour = COLOURS.get(
            "stock Triton" if "stock" in candidate else first, MORE_COLOURS[number % len(MORE_COLOURS)]
        )
        axis.scatter(
            *zip(*points, strict=True), label=candidate, edgecolors=colour, zorder=3,
            facecolors="none" if "published" in candidate else colour,
        )  # fmt: skip
    axis.axvline(1.0, color=COLOURS[TAWA], linewidth=0.8)
    axis.set_yticks(range(len(known)), list(known), fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("rate as a share of Tawa's; left of the line, Tawa is faster")
    axis.grid(axis="x", alpha=0.3)
    common = case_title(shared([case[TAWA].case for case in by_case(rows)]))
    figure.suptitle(f"{', '.join(filter(None, (name, common)))}: {about['device']}, {about['date'][:10]}", fontsize=10)
    figure.legend(fontsize=8, ncols=2, loc="outside lower center")
    figure.set_layout_engine("constrained")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=130)
    return path


def _band(row: Row) -> tuple[float, float]:
    assert row.tflops and row.median_ms
    work = row.tflops * row.median_ms
    return work / (row.p90_ms or row.median_ms), work / (row.p10_ms or row.median_ms)


def main() -> int:
    """Prints one file, and draws it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a result file, or its name under bench/results")
    parser.add_argument("--baseline", default="cuBLAS")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="also draw a PNG there: rates over K")
    parser.add_argument("--ratios", action="store_true", help="draw rates as shares of Tawa's, a line for each case")
    parser.add_argument("--candidates", nargs="+", metavar="NAME", help="only these are printed and drawn")
    arguments = parser.parse_args()
    path = Path(arguments.file)
    path = path if path.exists() else RESULTS / f"{path.stem}.json"
    about, rows = read(path)
    if arguments.candidates:
        rows = [row for row in rows if row.candidate in arguments.candidates]
    console = Console()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    console.print(f"[bold]{path.name}[/bold]  {about['device']}, driver {about['driver']}, {versions}")
    console.print(f"{about['date']}  {about['command']}")
    for title, part in groups(rows).items():
        small = len(candidates_of(part)) <= 6
        console.print(ratio_table(title, part, arguments.baseline) if small else long_table(title, part))
    times = [row for row in rows if row.tflops is None and row.median_ms is not None]
    if times:
        console.print(time_table(times))
    checks = [row for row in rows if row.median_ms is None]
    if checks:
        print_checks(console, checks)
    if arguments.draw:
        drawn = (draw_ratios if arguments.ratios else draw)(path.stem, about, rows, arguments.draw)
        console.print(f"drawn: {drawn}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
