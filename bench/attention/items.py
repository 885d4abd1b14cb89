"""What each feature brings to attention, alone and with the others: ``python -m bench.attention --items [--report]``.

For some problems, one configuration is the base: two loops, one tile per program, sums in order. Each feature is added
to the base alone; the last configurations have several. All run round-robin, beside cuDNN, and FlashAttention-3 if it
is installed. Writes ``bench/results/attention_items.json`` and ``docs/images/attention_items.png``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.attention.ablation import STALL_S, time_steps
from bench.attention.candidates import Configuration, Shape
from bench.attention.report import IMAGES, OURS, saved, title
from bench.harness import RESULTS, Report, Row, read, watchdog

NAME = "attention_items"
BASE = "base"
PEERS = ("FlashAttention-3", "cuDNN")
PROBLEMS = (
    ("bf16", 64, False, 16384), ("bf16", 64, True, 4096), ("bf16", 128, False, 16384), ("bf16", 128, True, 16384),
    ("bf16", 128, True, 1024), ("bf16", 256, True, 1024), ("fp8", 128, False, 16384), ("fp8", 128, True, 4096),
)  # fmt: skip
"""Element type, head dimension, whether there is a causal mask, S."""
_TOGETHER = {64: "3 programs, counter", 128: "joined, counter, longest first", 256: "slices, counter, longest first"}
"""The way with the most features under a causal mask in 16 bits, by head dimension."""
_RELAXED = (("precision", "relaxed"),)
_PING_PONG = (*_RELAXED, ("ping_pong", True))


def items_of(dtype: str, d: int, causal: bool) -> dict[str, Configuration]:
    """The configurations of a problem by what they have beyond the base, which is the first."""
    base = Configuration("tawa", "two_loops", 128, 64 if d == 256 else 128, 8, options=(("precision", "exact"),))

    def way(name: str, options: tuple[tuple[str, Any], ...] = _RELAXED, **more: Any) -> Configuration:
        return replace(base, way=name, options=options, **more)

    found = {
        BASE: base,
        "sums after the loop": replace(base, options=_RELAXED),
        "persistent": way("persistent", base.options),
    }
    if dtype == "fp8":
        found |= {
            "ping-pong": replace(base, options=(*base.options, ("ping_pong", True))),
            "rows for the next dot": way("rows for the next dot"),
            "rows, ping-pong, persistent": way("rows for the next dot, persistent", _PING_PONG),
            "V as rows, converter": way("converter, 40 registers", _PING_PONG),
        }
    if d == 64:
        three = {"BM": 64, "num_warps": 4}
        found |= {
            "three programs": way("3 programs", base.options, **three),
            "three programs, sums": way("3 programs", **three),
            "three programs, sums, persistent": way("3 programs, persistent", **three),
        }
    if d == 256:
        found |= {"slices": way("slices", base.options), "slices, sums": way("slices")}
    if causal:
        found |= {
            "longest first": way("longest first", base.options),
            "counter": way("counter", base.options),
            "counter, longest first": way("counter, longest first", base.options),
        }
        if dtype != "fp8":
            found |= {name: way(name, base.options) for name in ("joined", "joined, persistent")}
        together = "rows for the next dot, counter, longest first" if dtype == "fp8" else _TOGETHER[d]
        tile = {"BM": 64, "num_warps": 4} if d == 64 else {}
        found["together"] = way(together, _PING_PONG if dtype == "fp8" else _RELAXED, **tile)
    return found


def run_items(processes: int, check_all: Callable[..., Any]) -> int:
    """Checks all configurations in other processes, then times them, problem by problem."""
    report = Report(NAME)
    shapes = [Shape(*problem) for problem in PROBLEMS]
    chosen = {shape: items_of(shape.dtype, shape.d, shape.causal) for shape in shapes}
    fit, unfit = check_all({shape: list(items.values()) for shape, items in chosen.items()}, processes)
    for shape, items in chosen.items():
        failed = unfit.get(shape, {})
        rows = [Row({**shape.about, "step": name}, name, error=failed[c]) for name, c in items.items() if c in failed]
        report.add(*rows)
        sound = {name: c for name, c in items.items() if c in fit.get(shape, {})}
        with watchdog(STALL_S, f"items {shape}"):
            report.add(*time_steps(shape, sound, PEERS))
        report.note_clocks()
    return report_items()


def report_items() -> int:
    """Prints and draws the result file."""
    about, rows = read(RESULTS / f"{NAME}.json")
    for problem, found in by_problem(rows).items():
        print(f"\n{problem}")
        base = found.get(BASE, 0.0)
        for name, rate in found.items():
            print(f"  {name:34} {rate:7.1f}" + (f"  x {rate / base:.3f}" if base else ""))
    for row in rows:
        if isinstance(row.error, str):
            print(f"  {row.candidate}: {row.error}"[:300])
    print(draw_items(about, rows))
    return 0


def by_problem(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Rates by configuration, by problem."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.tflops:
            case = row.case
            panel = f"{title((str(case['dtype']), int(case['d']), bool(case['causal'])))}, S = {case['S']}"
            found.setdefault(panel, {})[row.candidate] = row.tflops
    return found


def draw_items(about: Mapping[str, Any], rows: Sequence[Row], folder: Path = IMAGES) -> Path | None:
    """Draws bars, a panel for each problem. Returns None if nothing was timed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    problems = by_problem(rows)
    if not problems:
        return None
    height = -(-len(problems) // 2)
    figure, axes = pyplot.subplots(height, 2, figsize=(13.0, 2.9 * height), squeeze=False)
    for axis in axes.flat[len(problems) :]:
        axis.set_axis_off()
    for axis, (problem, found) in zip(axes.flat, problems.items(), strict=False):
        base = found.get(BASE, 0.0)
        colours = ["#b0b0b0" if name in (BASE, *PEERS) else OURS["Tawa"] for name in found]
        bars = axis.barh(list(found), list(found.values()), color=colours)
        labels = [f" {rate:.0f} ({rate / base:.2f})" if base else f" {rate:.0f}" for rate in found.values()]
        axis.bar_label(bars, labels, fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("TFLOP/s")
        axis.set_xlim(0, 1.2 * max(found.values()))
        axis.set_title(problem, fontsize=9)
    figure.suptitle(f"Attention forward, {about['device']}: what each feature brings to the base", fontsize=10)
    return saved(figure, folder / f"{NAME}.png")
