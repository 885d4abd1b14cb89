"""Regret of a choice: ``python -m bench.regret measure | report``; and its bits: ``python -m bench.regret bits``.

``measure`` needs a Hopper GPU: each kernel with stock Triton, automatic mode, the eight Plans that the model ranks
first, four random ones, the forms that a user would try, what a first launch measures, and what launches have learned,
all checked and timed round-robin (``bench/results/regret.json``). With ``--packages FOLDER``, the corpus
(`bench.corpus`) too: each kernel with a dot of each entry, in the configurations that stock Triton's autotuners choose.
What has rows in the file is not measured again, so that a bench that was cut short is taken up by the same command;
``--again`` measures it anew. Names in the corpus are ``package: operation M=64``, so ``--only ': '`` measures it alone.
``report`` reads that file and ``bench/results/model.json`` and prints regret, how often a choice is slower than stock
Triton, the rank correlation of the predictions for kernels that the fit did not see, and the worst misses;
``--picture`` draws predicted over measured gains.
``bits`` needs a Hopper GPU, too: every case of the tests under the Plans that keep the order of sums, and with
``--packages`` the corpus. Rows are Plans with other bits than stock Triton's kernel, with the decisions in which they
differ from the most similar Plan that has them (``bench/results/bits.json``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.harness import RESULTS, ROOT, Report, Row, environment
from bench.regret.report import Group, first_by_model, geometric, groups_of_model, groups_of_rows

PICTURE = ROOT / "docs" / "images" / "predictions.png"
WORST = 8
CHOICES = ("automatic", "measured", "learned")
SLOWER = 0.98
"""A choice below this share of stock Triton's speed counts as slower."""


def main() -> int:
    """Measures, or reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "report", "bits"))
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT",
        help="kernels, and entries of the corpus, whose name contains one of these; the corpus in their order",
    )  # fmt: skip
    parser.add_argument("--packages", metavar="FOLDER", help="the corpus too, from here or as installed ('')")
    parser.add_argument("--again", action="store_true", help="also what has rows already")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin nothing after this")
    parser.add_argument("--processes", type=int, default=15, help="how many compile side by side")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs whose bits are compared")
    parser.add_argument("--picture", action="store_true", help=f"draw {PICTURE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    if arguments.what != "report":
        if environment()["device"] == "none":
            print(f"there is no GPU here: python -m bench.regret {arguments.what} needs one", file=sys.stderr)
            return 2
        return (_measure if arguments.what == "measure" else _compare_bits)(arguments)
    groups = [group for group in read_groups() if any(text in group.kernel for text in arguments.only)]
    print_report(groups)
    if arguments.picture:
        draw(groups, PICTURE)
    return 0


def _measure(arguments: argparse.Namespace) -> int:
    from bench.corpus.__main__ import chosen
    from bench.regret.corpus import case_name, entries_left, measure_corpus
    from bench.regret.measure import measure

    end = time.monotonic() + arguments.minutes * 60
    report = begun_report(arguments.only if arguments.again else (), arguments.packages is not None)
    measure(report, arguments.only, end, arguments.processes)
    if arguments.packages is not None:
        pairs = {case_name(pair): pair for text in arguments.only for pair in chosen([text])}
        left = entries_left(list(pairs.values()), {row.case["case"] for row in report.rows})
        measure_corpus(report, left, arguments.packages, end, arguments.processes)
    report.note_clocks()
    wrong = [row for row in report.rows if isinstance(row.error, str) and "differs" in row.error]
    for row in wrong:
        print(f"WRONG {row.case['case']} {row.case['kernel']} {row.candidate}: {row.error}")
    print(f"{len(report.rows)} candidates, {len(wrong)} wrong; {report.save()}")
    return 1 if wrong else 0


def _compare_bits(arguments: argparse.Namespace) -> int:
    from bench.corpus.__main__ import chosen
    from bench.fingerprints import case_names
    from bench.regret import bits
    from bench.regret.corpus import case_name, entries_left, measure_corpus

    end = time.monotonic() + arguments.minutes * 60
    report = begun_report(arguments.only if arguments.again else (), arguments.packages is not None, "bits")
    names = [name.replace("/", ": ") for name in case_names()]
    names = [name for name in names if any(text in name for text in arguments.only)]
    bits.measure(report, names, end, arguments.processes, arguments.seed)
    if arguments.packages is not None:
        pairs = {case_name(pair): pair for text in arguments.only for pair in chosen([text])}
        left = entries_left(list(pairs.values()), {row.case.get("entry", "") for row in report.rows})
        measure_corpus(report, left, arguments.packages, end, arguments.processes, rows=bits.rows_of_entry)
    print(bits.summary_of(report.rows), report.save(), sep="\n")
    return 1 if any(row.candidate != "all" for row in report.rows) else 0


def begun_report(again: Sequence[str], corpus: bool, name: str = "regret") -> Report:
    """The report with the rows that the file has already, and of which runs those are.

    again: rows of cases whose name contains one of these are left out. corpus: of the corpus too.
    """
    report = Report(name)

    def is_kept(row: Row) -> bool:
        return not any(text in row.case["case"] for text in again) or ("source" in row.case and not corpus)

    report.rows = [row for row in report.earlier_rows() if is_kept(row)]
    return report


def read_groups() -> list[Group]:
    """All measured groups."""
    found: list[Group] = []
    if (path := RESULTS / "regret.json").exists():
        found += groups_of_rows("regret, then", json.loads(path.read_text())["rows"])
    if (path := RESULTS / "model.json").exists():
        found += groups_of_model(json.loads(path.read_text())["rows"])
    return found


def print_report(groups: Sequence[Group]) -> None:
    """Regret by source, rank correlation, and the worst misses."""
    by_source: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_source[group.source].append(group)
    heads = (
        "groups",
        "candidates",
        "model first",
        "worst",
        *(it for name in CHOICES for it in (name, "worst")),
        "ranks",
    )
    widths = (6, 10, 11, 6, *(9, 6) * len(CHOICES), 6)
    print(f"{'source':18} " + " ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    for source, them in by_source.items():
        print(_line(source, them))
    print(_line("all", groups))
    for choice in CHOICES:
        speeds = [speed for it in groups if (speed := it.over_stock(choice)) is not None]
        slower = sum(speed < SLOWER for speed in speeds)
        if speeds:
            print(f"{choice}: {slower} of {len(speeds)} below {SLOWER} of stock Triton, the worst at {min(speeds):.3f}")
    groups = [it for it in groups if first_by_model(it)]
    missed = sorted(groups, key=lambda it: -(it.regret(first_by_model(it)) or 1.0))
    print("\nWorst choices of the model:")
    for group in missed[:WORST]:
        first = first_by_model(group)
        best = min(group.measured, key=lambda it: it.time_us)
        print(f"  {group.regret(first):.3f}  {group.kernel}, {group.problem}: {first} instead of {best.candidate}")


def _line(name: str, groups: Sequence[Group]) -> str:
    model = [regret for it in groups if (regret := it.regret(first_by_model(it))) is not None]
    chosen = [[regret for it in groups if (regret := it.regret(choice)) is not None] for choice in CHOICES]
    ranks = [rank for it in groups if (rank := it.rank_correlation()) is not None]
    size = sum(len(it.measured) for it in groups) / max(1, len(groups))
    told = " ".join(f"{geometric(of):9.3f} {max(of):6.3f}" if of else f"{'-':>9} {'-':>6}" for of in chosen)
    mean = f"{sum(ranks) / len(ranks):6.2f}" if ranks else f"{'-':>6}"
    first = f"{geometric(model):11.3f} {max(model, default=1.0):6.3f}"
    return f"{name:18} {len(groups):6} {size:10.1f} {first} {told} {mean}"


def draw(groups: Sequence[Group], path: Path) -> None:
    """Predicted over measured gains: a point for each candidate that is not stock Triton's kernel."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    points: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for group in groups:
        stock = next((it for it in group.measured if it.stock and it.predicted_us), None)
        for it in group.measured if stock is not None else ():
            if not it.stock and it.predicted_us and stock.predicted_us:
                points[group.source][0].append(stock.time_us / it.time_us)
                points[group.source][1].append(stock.predicted_us / it.predicted_us)
    figure = Figure(figsize=(5.2, 4.6), dpi=160)
    axes = figure.subplots()
    for source, (measured, predicted) in points.items():
        axes.scatter(measured, predicted, s=7, alpha=0.6, label=source, linewidths=0)
    axes.plot([0.5, 2.2], [0.5, 2.2], color="#555555", linewidth=0.8)
    axes.axhline(1.0, color="#BBBBBB", linewidth=0.6)
    axes.axvline(1.0, color="#BBBBBB", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlim=(0.6, 2.1), ylim=(0.6, 2.1), xlabel="measured gain over stock Triton",
             ylabel="predicted gain")  # fmt: skip
    ticks = [0.6, 0.8, 1.0, 1.25, 1.5, 2.0]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [str(tick) for tick in ticks])
        axis.set_minor_locator(NullLocator())
    axes.legend(frameon=False, fontsize=8, markerscale=2)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    print(path.relative_to(ROOT))
