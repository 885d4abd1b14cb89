"""What users gain: the tables of ``docs/what-you-gain.md``, from result files alone.

A ratio is stock's time over Tawa's. *First choice*: what the model of time chooses for a first launch that waits
(``start="ready"``, `tawa.jit`); *learned*: what launches under ``tawa.install()`` get once they have learned, in the
first process, or in a later one, whose tuners know Tawa's kernels.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.corpus.packages import PACKAGES
from bench.corpus.report.page import NO_DOT, NOTHING, reason_of, table
from bench.corpus.report.result_file import read as read_corpus
from bench.corpus.report.results import Result, geomean, title
from bench.harness import RESULTS, Row, read
from tawa.declines import STOCK_FIRST

SLOWER = 0.98
"""A ratio below is a miss."""
LONG_US = 20.0
UNUSUAL = 5.0  # gains that say more about stock Triton's kernel
"""Shorter operations are not counted, shorter kernels not listed."""
NO_FORM = "stock Triton's, no form won"
LARGE = 1.25
"""The gain of a kernel that is worth a line."""
FIRST, LEARNED, LATER = "first choice", "learned", "learned, later process"
CHOICE = "choice"
"""What a kernel lacks that has a faster form, but did not get it."""
_HEAD = ("timed", "number", "mean", "worst", "misses", "the worst, and what it lacks", "measured")


@dataclass(frozen=True, slots=True)
class Gain:
    """One ratio. lacks: why it is not larger, in the words of `bench.corpus.report.missing`; empty if not known."""

    what: str
    ratio: float
    lacks: str = ""


def packages() -> list[str]:
    """By package: whole operations, and single kernels in the configurations that stock Triton's autotuners chose."""
    found: dict[str, dict[tuple[str, str], list[Gain]]] = defaultdict(lambda: defaultdict(list))
    lacks = {(row.case["case"], row.case["kernel"]): row.case["missing"] or CHOICE for row in _rows("missing")}
    ways = ((LEARNED, "learned", "learned"), (LATER, "learned", "later"), (FIRST, "corpus", "tawa"))
    for way, name, mode in ways:
        about, results = _corpus(name)
        for it in results:
            if ratio := it.speedup(mode):
                where = _measured(about, it.date)
                found[it.package][f"operations, {way}", where].append(Gain(title(it), ratio, _of(lacks, title(it))))
    about, rows = read(RESULTS / "regret.json")
    by_kernel: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row.case.get("source") == "corpus" and row.median_ms:
            by_kernel[row.case["case"], row.case["kernel"]][row.candidate] = row
    for (case, kernel), them in by_kernel.items():
        for way, name in ((LEARNED, "learned"), (FIRST, "automatic")):
            if "stock" in them and name in them:
                ratio = (them["stock"].median_ms or 0.0) / (them[name].median_ms or 1.0)
                gain = Gain(f"`{kernel}` of {case}", ratio, lacks.get((case, kernel), ""))
                found[case.partition(":")[0]][f"kernels, {way}", _measured(about)].append(gain)
    lines = [
        (package.name, package.version, *_line(what, gains, date, package.name))
        for package in PACKAGES
        for (what, date), gains in sorted(found[package.name].items(), key=lambda it: it[0][0], reverse=True)
    ]
    return table(("package", "version", *_HEAD), lines).splitlines()


def learned() -> list[str]:
    """Each operation whose launches have learned, the largest gain first, and what its kernels get; the means."""
    timed = [it for it in _corpus("learned")[1] if it.speedup("learned")]
    if not timed:
        return [NOTHING]
    lines: list[tuple[str, ...]] = []
    for it in sorted(timed, key=lambda it: -(it.speedup("learned") or 0.0)):
        gains = (f"{ratio:.2f}" if (ratio := it.speedup(mode)) else "–" for mode in ("learned", "later"))
        lines.append((title(it), f"{it.times['stock'][0] * 1e3:.1f}", *gains, _got(it)))
    long = [it for it in timed if it.times["stock"][0] * 1e3 >= LONG_US]
    usual = [it for it in long if (it.speedup("learned") or 0.0) < UNUSUAL]
    for of, which in ((long, ""), (usual, f", those from {UNUSUAL:.0f} × on left out")):
        ratios = ([ratio for it in of if (ratio := it.speedup(mode))] for mode in ("learned", "later"))
        means = (f"**{mean:.2f}**" if (mean := geomean(them)) else "–" for them in ratios)
        lines.append((f"**mean of {len(of)} of at least {LONG_US:.0f} µs{which}**", "", *means, ""))
    head = ("operation", "µs, stock", "×, first process", "×, later ones", "what its kernels with a dot get")
    return table(head, lines).splitlines()


def kernels() -> list[str]:
    """The kernels of packages that gain most by what launches have learned, each once, and the operation."""
    best: dict[str, tuple[float, tuple[str, ...]]] = {}
    for it in _corpus("learned")[1]:
        stock, ours = ({v.kernel: v for v in it.kernels.get(mode, ()) if v.us} for mode in ("stock", "learned"))
        for name in stock.keys() & ours.keys():
            before, after = stock[name].us, ours[name].us
            if before and after and before.median >= LONG_US and (gain := before.median / after.median) >= LARGE:
                line = (f"`{name}`", title(it), f"{before.median:.0f} → {after.median:.0f} ({gain:.2f})")
                best[name] = max(best.get(name, (0.0, ())), (gain, line))
    lines = [line for _, line in sorted(best.values(), reverse=True)]
    return table(("kernel", "operation", "µs, stock → Tawa"), lines).splitlines() if lines else [NOTHING]


def _got(result: Result) -> str:
    """What launches of each kernel get: a form, or stock Triton's kernel and why."""
    found: dict[str, None] = {}
    for it in result.kernels["learned"]:
        if not it.reason.startswith(NO_DOT):
            is_stock = STOCK_FIRST.says(it.reason) or it.reason.endswith("stock Triton")
            words = "specialised" if it.applied else NO_FORM if is_stock else reason_of(it.reason)
            found[f"`{it.kernel}`: {words}"] = None
    return "; ".join(found)


def _corpus(name: str) -> tuple[Mapping[str, Any], Sequence[Result]]:
    """The head and the results of a file of the corpus; nothing if there is none."""
    path = RESULTS / f"{name}.json"
    return read_corpus(path) if path.exists() else ({}, [])


def _of(lacks: Mapping[tuple[str, str], str], case: str) -> str:
    """What the most expensive kernel of an operation lacks, of those that lack something."""
    return next(
        (f"{text}, in `{kernel}`" for (name, kernel), text in lacks.items() if name == case and text != CHOICE), ""
    )


@dataclass(frozen=True, slots=True)
class Peer:
    """Something of this project beside something else. keys: of a case, whose values tell cases apart."""

    what: str
    file: str
    beside: str
    keys: Sequence[str]
    ours: str = "Tawa"
    wanted: Callable[[Mapping[str, Any]], bool] = lambda case: True


_ATTENTION = ("dtype", "d", "causal", "S", "B", "H", "HK")
_SCALED, _PLAIN = ("kind", "fast", "M", "N", "K"), ("dtype", "transposed", "batches", "M", "N", "K")
PEERS = (
    Peer("`attention`, forward", "attention", "stock Triton", _ATTENTION),
    Peer("", "attention", "cuDNN", _ATTENTION),
    Peer("", "attention", "FlashAttention-3", _ATTENTION),
    Peer("the same, by mask", "attention_masks", "FlashAttention-3", (*_ATTENTION, "window")),
    Peer("", "attention_masks", "CuTe", (*_ATTENTION, "window")),
    Peer("`attention`, backward", "attention_backward", "cuDNN", ("dtype", "d", "causal", "S")),
    Peer("", "attention_backward", "CuTe", ("dtype", "d", "causal", "S")),
    Peer("`attention_varlen`", "attention_varlen", "FlashAttention-3", ("d", "causal", "mix", "H", "HK")),
    Peer("`attention_decode`", "attention_decode", "cuDNN", ("batches", "keys", "queries", "heads", "page")),
    Peer("FlexAttention, `install()`", "flex", "stock", ("variant", "D", "S", "kernel_options")),
    Peer("`linear`", "linear", "cuBLAS", ("model", "layer", "tokens")),
    Peer("`scaled_mm`, blocks", "scaled", "PyTorch", _SCALED, wanted=lambda case: case["kind"] == "blocks"),
    Peer("`scaled_mm`, rows", "scaled", "PyTorch", _SCALED, wanted=lambda case: case["kind"] == "rows"),
    Peer("`batched_mm`", "batched", "cuBLAS", _PLAIN),
    Peer("`grouped_mm`", "grouped", "PyTorch", ("kind", "skew", "T", "N", "K")),
    Peer("`moe`", "moe", "stock", ("layer", "tokens")),
    Peer("`conv2d`", "convolution", "cuDNN, NHWC", ("name", "dtype")),
)
"""Of stock Triton's configurations of a kernel, whose names begin so, the fastest counts."""


def operators() -> list[str]:
    """This project's operators, and FlexAttention, beside what PyTorch and others have."""
    lines: list[tuple[str, ...]] = []
    for it in PEERS:
        about, rows = read(RESULTS / f"{it.file}.json")
        cases: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows:
            if row.median_ms and it.wanted(row.case):
                name = it.beside if row.candidate.startswith(it.beside) else row.candidate
                case = cases[
                    ", ".join(_told(key, row.case.get(key)) for key in it.keys if row.case.get(key) is not None)
                ]
                case[name] = min(case.get(name, row.median_ms), row.median_ms)
        gains = [
            Gain(case, of[it.beside] / of[it.ours]) for case, of in cases.items() if {it.beside, it.ours} <= set(of)
        ]
        beside = "stock Triton, best" if it.beside == "stock" and it.file != "flex" else it.beside
        lines.append((it.what, *_line(beside, gains, _measured(about))))
    return table(("operator", "beside", *_HEAD[1:5], "the worst", "measured"), lines).splitlines()


def models() -> list[str]:
    """Steps of whole models, from ``decoder.json``; a line of text if there is none."""
    path = RESULTS / "decoder.json"
    if not path.exists():
        return [NOTHING]
    about, rows = read(path)
    steps: dict[tuple[str, ...], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        size = f"{row.case['layers']} layers, {row.case['sequences']} × {row.case['tokens']} tokens"
        steps[row.case["model"], row.case["package"], f"{row.case['kind']}, {size}"][row.candidate] = row
    lines = [(*key, *_step(them["stock"], row)) for key, them in steps.items() for row in them.values()]
    head = ("model", "layers from", "step", "way", "ms [p10, p90]", "× stock", "difference of the result",
            "kernels specialised, of those that learned", "in kernels with a dot, ms", "first step, s")  # fmt: skip
    return [*table(head, lines).splitlines(), "", f"*{_measured(about)}.*"]


def _step(stock: Row, row: Row) -> tuple[str, ...]:
    if row.median_ms is None or stock.median_ms is None:
        return (row.candidate, "–", "–", str(row.error), "–", "–", "–")
    compared = (f"{stock.median_ms / row.median_ms:.3f}", f"{row.error:.0e}" if row.error else "none")
    words = [it for it in row.case.get("learned", "").split("; ") if ": " in it]
    forms = f"{sum(not it.endswith('stock Triton') for it in words)} of {len(words)}"
    dots, first = (row.case.get(name) for name in ("dots_ms", "first_s"))
    spread = f"{row.median_ms:.2f} [{row.p10_ms:.2f}, {row.p90_ms:.2f}]"
    return (row.candidate, spread, *(("", "") if row is stock else compared),
            forms if words else "–", f"{dots:.2f}" if dots else "–", f"{first:.1f}" if first else "–")  # fmt: skip


def _line(what: str, gains: Sequence[Gain], measured: str, package: str = "") -> tuple[str, ...]:
    worst = min(gains, key=lambda it: it.ratio)
    missed = sum(it.ratio < SLOWER for it in gains)
    told = worst.what.replace(f"{package}: ", "")
    if worst.ratio < SLOWER and worst.lacks:
        told += f": {worst.lacks}"
    mean = statistics.geometric_mean(it.ratio for it in gains)
    return (what, str(len(gains)), f"{mean:.2f}", f"{worst.ratio:.2f}", str(missed), told, measured)


def _told(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return key if value else f"not {key}"
    return str(value) if isinstance(value, str) else f"{key} {value}"


def _measured(about: Mapping[str, Any], date: str = "") -> str:
    """On which GPU, with which version and when: of the run of a date, or of all runs of a file."""
    runs = [run for run in (about, *about.get("earlier", ())) if date in ("", run["date"])]
    gpus = {str(run["device"]).removeprefix("NVIDIA ").split()[0] for run in runs}
    dates = sorted(run["date"][:10] for run in runs)
    versions = " and ".join(sorted({str(run["versions"]["tawa"]) for run in runs}))
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"{' and '.join(sorted(gpus))}, Tawa {versions}, {span}"


def _rows(name: str) -> Sequence[Row]:
    return read(RESULTS / f"{name}.json")[1]


__all__ = ["PEERS", "SLOWER", "kernels", "learned", "models", "operators", "packages"]
