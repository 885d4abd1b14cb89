"""Tables, wanted ratios and pictures of `bench.attention.timing`, made from result rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.attention.candidates import V_AS_ROWS, WITH_CONVERTER, Configuration
from bench.harness import ROOT, Row
from bench.report import COLOURS

IMAGES = ROOT / "docs" / "images"
NAMES: dict[str, Callable[[Configuration], bool]] = {
    "stock Triton": lambda c: c.kind == "stock",
    "Tawa": lambda c: c.kind == "operator",
    "Tawa, best configuration": lambda c: c.kind == "tawa" and not c.v_has_rows,
    WITH_CONVERTER: lambda c: c.v_has_rows,
    "Gluon by hand": lambda c: c.kind == "gluon",
}
"""The candidates that have configurations, each with a test for its own."""
ORDER = (*NAMES, V_AS_ROWS, "cuDNN", "FlashAttention-2", "FlashAttention-3")
OURS = {
    **COLOURS,
    "Tawa, best configuration": "#8fb8de",
    "cuDNN": "#7a7a7a",
    "FlashAttention-2": "#b0524f",
    "FlashAttention-3": "#d98880",
    V_AS_ROWS: "#5d6d7e",
}
Panel = tuple[str, int, bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A ratio of rates that should be reached: `ours` over `peer`, for S in [least, most]; None: any mask, any type."""

    d: int
    peer: str
    ratio: float
    causal: bool | None = None
    dtype: str | None = "bf16"
    least: int = 0
    most: int = 1 << 30
    ours: str = "Tawa"

    def covers(self, case: Mapping[str, Any]) -> bool:
        """Whether it applies to this case."""
        return (
            case.get("d") == self.d
            and self.causal in (None, case.get("causal"))
            and self.dtype in (None, case.get("dtype"))
            and self.least <= case.get("S", -1) <= self.most
        )


WANTED = (
    Wanted(128, "FlashAttention-3", 1.00, causal=False),
    Wanted(128, "FlashAttention-3", 1.00, causal=True, least=2048),
    Wanted(128, "FlashAttention-3", 0.97, causal=True, most=2047),
    Wanted(128, "cuDNN", 0.97, causal=True, most=512),
    *(Wanted(d, "FlashAttention-3", 0.97, least=4096) for d in (64, 96, 256)),
    *(Wanted(d, "cuDNN", 1.00) for d in (64, 96, 256)),
    *(Wanted(d, "FlashAttention-3", 0.92, dtype="fp8", least=1024, ours=V_AS_ROWS) for d in (64, 128, 256)),
)


def rates(rows: Sequence[Row]) -> dict[Panel, dict[int, dict[str, Row]]]:
    """Timed rows by element type, head dimension and mask; then by S; then by candidate."""
    found: dict[Panel, dict[int, dict[str, Row]]] = {}
    for row in rows:
        if row.tflops:
            case = row.case
            panel = (str(case["dtype"]), int(case["d"]), bool(case["causal"]))
            found.setdefault(panel, {}).setdefault(int(case["S"]), {})[row.candidate] = row
    return dict(sorted(found.items()))


def title(panel: Panel) -> str:
    """The title of a table or a panel."""
    dtype, d, causal = panel
    return f"{dtype}, d = {d}, {'causal' if causal else 'full'}"


def print_tables(rows: Sequence[Row]) -> None:
    """Prints rates in TFLOP/s, each followed by Tawa's ratio to it."""
    console = Console(width=150)
    for panel, lines in rates(rows).items():
        table = Table(title=title(panel), title_justify="left", box=None)
        names = [name for name in ORDER if any(name in line for line in lines.values())]
        for heading in ("S", *names, "Tawa's configuration"):
            table.add_column(heading, justify="right" if heading in ("S", *names) else "left")
        for S, line in sorted(lines.items()):
            cells = [_cell(line, name) for name in names]
            used = str(line["Tawa"].case.get("configuration", "")).removeprefix("tawa ") if "Tawa" in line else ""
            table.add_row(str(S), *cells, used)
        console.print(table)
    for row in rows:
        if isinstance(row.error, str):
            case = " ".join(f"{key}={value}" for key, value in row.case.items() if key != "run")
            console.print(f"  [red]{row.candidate}[/red] {case}: {row.error}"[:300], highlight=False)


def _cell(line: Mapping[str, Row], name: str) -> str:
    rate = line[name].tflops if name in line else None
    ours = line["Tawa"].tflops if "Tawa" in line else None
    ratio = f"  [dim]{ours / rate:.3f}[/dim]" if rate and ours and name != "Tawa" else ""
    return f"{rate:.0f}{ratio}" if rate else "-"


def print_wanted(rows: Sequence[Row]) -> bool:
    """Prints the wanted ratios as a table; returns whether all that were measured are reached."""
    reached = True
    print(f"\n{'problem':24} {'S':>6}  {'ratio':24} {'is':>6} {'wanted':>7}")
    for wanted in WANTED:
        for panel, lines in rates(rows).items():
            for S, line in sorted(lines.items()):
                own = line.get(wanted.ours)
                if own is None or wanted.peer not in line or not wanted.covers(own.case):
                    continue
                ratio = (own.tflops or 0) / (line[wanted.peer].tflops or 1)
                reached &= ratio >= wanted.ratio
                verdict = "pass" if ratio >= wanted.ratio else "FAIL"
                text = f"{wanted.ours} / {wanted.peer}"
                print(f"{title(panel):24} {S:6}  {text:24} {ratio:6.3f} {wanted.ratio:7.2f}  {verdict}")
    ours = [row for row in rows if row.candidate == "Tawa" and row.tflops and row.case.get("spills")]
    for row in ours:
        print(f"spills: {row.case['configuration']} at S={row.case['S']}")
    return reached and not ours


# --- the tables of the docs ---

_SHORT_LENGTHS = (1024, 4096, 16384)


def page_tables(about: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """The lines of both tables; `bench.figures` writes them into the page."""
    return [*_page_main(about, rows), "", *_page_rest(rows)]


def _page_main(about: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    shown = [line for panel, found in rates(rows).items() if panel[:2] == ("fp16", 128) for line in found.values()]
    peers = [name for name in ORDER if not name.startswith("Tawa") and any(name in line for line in shown)]
    versions = about["versions"]
    lines = [
        f"{about['device']}, Triton {versions['triton']}, PyTorch {versions['torch']}, fp16, d = 128, 16k tokens, 2048 "
        "hidden (`bench/results/attention.json`). Rates in TFLOP/s, behind them Tawa's ratio to each.",
        "",
        f"| mask | S | Tawa | {' | '.join(peers)} |",
        f"|---|---|---|{'---|' * len(peers)}",
    ]
    for (dtype, d, causal), found in rates(rows).items():
        for S, line in sorted(found.items()) if (dtype, d) == ("fp16", 128) else ():
            ours = f"{line['Tawa'].tflops:.0f}" if "Tawa" in line else "–"
            cells = " | ".join(_page_cell(line, name) for name in peers)
            lines.append(f"| {'causal' if causal else 'full'} | {S} | {ours} | {cells} |")
    return lines


def _page_cell(line: Mapping[str, Row], name: str) -> str:
    rate = line[name].tflops if name in line else None
    ours = line["Tawa"].tflops if "Tawa" in line else None
    return (f"{rate:.0f} ({ours / rate:.2f})" if ours else f"{rate:.0f}") if rate else "–"


def _page_rest(rows: Sequence[Row]) -> list[str]:
    """Tawa's rate at three lengths, with the ratio to stock Triton's best, for all other problems."""
    lines = [
        "The others, Tawa's rate and its ratio to stock Triton's best:",
        "",
        f"| problem | {' | '.join(f'S = {S}' for S in _SHORT_LENGTHS)} |",
        f"|---|{'---|' * len(_SHORT_LENGTHS)}",
    ]
    for panel, found in rates(rows).items():
        if panel[:2] != ("fp16", 128):
            cells: list[str] = []
            for S in _SHORT_LENGTHS:
                ours, stock = (found.get(S, {}).get(name) for name in ("Tawa", "stock Triton"))
                rate, base = (ours.tflops if ours else None), (stock.tflops if stock else None)
                cells.append((f"{rate:.0f} ({rate / base:.2f})" if base else f"{rate:.0f}") if rate else "–")
            lines.append(f"| {title(panel)} | {' | '.join(cells)} |")
    return lines


# --- pictures ---


def draw_all(about: Mapping[str, Any], rows: Sequence[Row], folder: Path = IMAGES) -> list[Path]:
    """Draws a picture for each element type: a panel for each head dimension and mask, rates over S."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    everything, paths = rates(rows), list[Path]()
    for dtype in dict.fromkeys(panel[0] for panel in everything):
        panels = [panel for panel in everything if panel[0] == dtype]
        dims = sorted({d for _, d, _ in panels})
        figure, axes = pyplot.subplots(2, len(dims), figsize=(4.6 * len(dims), 7.2), squeeze=False, sharex=True)
        for panel in panels:
            _draw_panel(axes[int(panel[2])][dims.index(panel[1])], panel, everything[panel])
        figure.suptitle(f"Attention forward, {dtype}, 16k tokens, 2048 hidden, {about['device']}", fontsize=10)
        paths.append(saved(figure, folder / f"attention_{dtype}.png"))
    return paths


def saved(figure: Any, path: Path) -> Path:
    """Saves a picture, closes it, and returns its path."""
    from matplotlib import pyplot

    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _draw_panel(axis: Any, panel: Panel, lines: Mapping[int, Mapping[str, Row]]) -> None:
    for name in ORDER:
        found = [(S, line[name]) for S, line in sorted(lines.items()) if name in line]
        if not found:
            continue
        lengths, rows = zip(*found, strict=True)
        middle = [row.tflops for row in rows]
        work = [row.tflops * row.median_ms for row in rows]
        axis.plot(lengths, middle, marker="o", label=name, color=OURS.get(name))
        low = [of / (row.p90_ms or row.median_ms) for of, row in zip(work, rows, strict=True)]
        high = [of / (row.p10_ms or row.median_ms) for of, row in zip(work, rows, strict=True)]
        axis.fill_between(lengths, low, high, alpha=0.15, color=OURS.get(name))
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(lines), list(map(str, lines)), fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel("S")
    axis.set_ylabel("TFLOP/s")
    axis.set_ylim(bottom=0)
    axis.set_title(title(panel), fontsize=9)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


# --- the ablation ---


def by_step(rows: Sequence[Row]) -> dict[tuple[bool, int], dict[str, float]]:
    """Rates of the steps, by mask and S."""
    found: dict[tuple[bool, int], dict[str, float]] = {}
    for row in rows:
        if row.tflops:
            found.setdefault((bool(row.case["causal"]), int(row.case["S"])), {})[row.candidate] = row.tflops
    return found


def print_ablation(rows: Sequence[Row]) -> None:
    """Prints a block for each mask and S: the steps, and the gain of each over the one before."""
    for (causal, S), line in by_step(rows).items():
        print(f"\n{'causal' if causal else 'full'}, S = {S}")
        before = 0.0
        for name, rate in line.items():
            print(f"  {name:34} {rate:7.1f}" + (f"  x {rate / before:.3f}" if before else ""))
            before = rate
    for row in rows:
        if isinstance(row.error, str):
            print(f"  {row.candidate}: {row.error}"[:300])


def draw_ablation(about: Mapping[str, Any], rows: Sequence[Row], folder: Path = IMAGES) -> Path | None:
    """Draws bars, a panel for each mask at the largest S. Returns None if nothing was timed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    largest = {causal: (S, line) for (causal, S), line in sorted(by_step(rows).items())}
    if not largest:
        return None
    figure, axes = pyplot.subplots(1, len(largest), figsize=(6.2 * len(largest), 3.4), squeeze=False)
    for axis, (causal, (S, line)) in zip(axes[0], largest.items(), strict=True):
        colours = ["#b0b0b0" if name.startswith("no spec") else OURS["Tawa"] for name in line]
        bars = axis.barh(list(line), list(line.values()), color=colours)
        axis.bar_label(bars, fmt=" %.0f", fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("TFLOP/s")
        axis.set_xlim(0, 1.15 * max(line.values()))
        axis.set_title(f"{'causal' if causal else 'full'}, S = {S}", fontsize=9)
    figure.suptitle(f"Attention forward, fp16, d = 128, {about['device']}: what each step brings", fontsize=10)
    return saved(figure, folder / "attention_ablation.png")
