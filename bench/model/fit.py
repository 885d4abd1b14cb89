"""Fits the model of time to measured kernels: ``python -m bench.model.fit [--write] [--work FOLDER]``.

The points are those of the benches that time several forms of a kernel side by side (`bench.model.earlier`), and those
of ``python -m bench.regret``. A fifth of the *kernels* is held out of each of five fits, so that every error that is
reported is that of a kernel the fit did not see. ``--write`` writes the coefficients of a fit to all kernels, with
these errors, to ``src/tawa/machine/coefficients.json``, and the points with their predictions to
``bench/results/model.json``.

What is compiled and each finished fit are kept in the work folder: a run that was cut short goes on where it stopped.
Needs scipy: ``pip install tawa[fit]``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import RESULTS, ROOT, Report, Row
from bench.model.choice import choices, summary
from bench.model.earlier import earlier_points
from bench.model.foreign import NAME as FOREIGN
from bench.model.foreign import foreign_items
from bench.model.items import Item, groups_of, items_of
from tawa.machine.coefficients import FILE, FORMAT, Coefficients, ErrorInfo
from tawa.plan.search.prediction import regime_of

FOLDS = 5
DEVICE = "NVIDIA H200"
"""The machine whose results are read."""
LARGE = 6
"""Candidates of a group from which on all of them together count no more than so many."""
ABSOLUTE = 0.35
"""The weight of the error of a time, where that of a ratio within a group is 1: decisions depend on ratios."""
TOWARDS_START = 0.05
"""The weight of the distance of each coefficient from its first value, in factors of e."""
UNKNOWN = 1.5
"""The deviation of a regime without measurements, over that of all regimes."""
SHRINK = 6
"""Points that a regime needs until its own errors count as much as those of all regimes."""

START: dict[str, tuple[float, float, float]] = {
    "copy": (4.0, 0.2, 100.0),
    "through": (8.0, 0.5, 300.0),
    "scalar": (500.0, 20.0, 2000.0),
    "arrival": (900.0, 100.0, 4000.0),
    "beside_stock": (300.0, 5.0, 2000.0),
    "beside_specialised": (100.0, 5.0, 2000.0),
    "start_stock": (1.0, 0.3, 6.0),
    "start_specialised": (1.2, 0.3, 8.0),
    "fill_stock": (1000, 200, 4000),
    "fill_specialised": (2400, 200, 5000),
    "drain_specialised": (150, 20, 1500),
    "drain_staged": (0.6, 0.01, 4.0),
    "block": (400, 20, 2000),
    "overlap": (2.2, 1.5, 6.0),
    "sharing": (2.8, 1.2, 12.0),
    "tail": (0.9, 0.05, 1.0),
    "tensor_8": (1.05, 0.8, 2.0),
    "tensor_16": (1.1, 1.0, 1.6),
    "tensor_32": (1.2, 1.0, 3.0),
    "tensor_mma": (1.8, 1.2, 3.0),
    "step_mma": (30.0, 5.0, 60.0),
    "outside": (600.0, 20.0, 4000.0),
    "lanes": (0.4, 0.25, 3.0),
    "special": (0.9, 0.5, 3.0),
    "narrow": (2.0, 0.5, 8.0),
    "carried": (5.0, 0.1, 40.0),
    "address": (4.0, 0.3, 30.0),
    "alone": (0.1, 0.01, 2.0),
    "shuffle": (50, 5, 120),
    "store": (4.0, 0.5, 20.0),
    "store_tma": (4.0, 0.5, 20.0),
    "transpose": (25.0, 1.0, 60.0),
    "bytes_per_cycle": (75, 20, 128),
    "row": (1.0, 0.05, 6.0),
    "latency": (450, 200, 1600),
    "latency_tma": (700, 300, 1600),
    "exposed": (1700, 300, 4000),
    "held": (0.5, 0.01, 0.9),
    "held_specialised": (0.5, 0.01, 1.0),
    "sync": (25, 1, 400),
    "wait_stock": (95, 20, 600),
    "wait_chained": (280, 20, 1000),
    "wait_specialised": (150, 20, 600),
    "wait_in_flight": (75, 5, 400),
    "wait_staged": (400, 20, 800),
    "wait_serialised": (80, 5, 300),
    "wait_mma": (150.0, 10.0, 1000.0),
    "spill": (0.3, 0.01, 5.0),
    "uneven": (1.2, 1.0, 2.0),
}
"""First value, least and most of each coefficient."""


def fit(items: Sequence[Item]) -> Coefficients:
    """The coefficients with the least error on some items."""
    from scipy.optimize import least_squares

    names = Coefficients.names()
    start, least, most = (np.log([START[name][at] for name in names]) for at in range(3))
    measured = np.log([item.point.median_us for item in items])
    groups = defaultdict(list)
    for number, item in enumerate(items):
        groups[item.point.group].append(number)
    together = [numbers for numbers in groups.values() if len(numbers) > 1]
    weights = np.ones(len(items))
    for numbers in groups.values():
        weights[numbers] = min(1.0, math.sqrt(LARGE / len(numbers)))

    def errors(logs: Any) -> Any:
        found = _coefficients(logs)
        off = np.log([item.predicted_us(found) for item in items]) - measured
        within = [weights[numbers] * (off[numbers] - off[numbers].mean()) for numbers in together]
        return np.concatenate([ABSOLUTE * weights * off, *within, TOWARDS_START * (logs - start)])

    begin = np.clip(start, least + 1e-3, most - 1e-3)
    found = least_squares(errors, begin, bounds=(least, most), loss="soft_l1", f_scale=0.1, max_nfev=60)
    return Coefficients(**{name: float(f"{value:.5g}") for name, value in asdict(_coefficients(found.x)).items()})


def _coefficients(logs: Any) -> Coefficients:
    return Coefficients(**{name: math.exp(log) for name, log in zip(Coefficients.names(), logs, strict=True)})


def fold_of(kernel: str) -> int:
    """The fold in which a kernel is held out."""
    return int(hashlib.sha256(kernel.encode()).hexdigest(), 16) % FOLDS


def fitted_folds(items: Sequence[Item], work: Path) -> list[Coefficients]:
    """A fit without each fifth of the kernels, and last one to all of them; finished ones are read from `work`."""
    told = json.dumps(
        [[item.point.group, item.point.candidate, item.point.median_us, repr(item.program)] for item in items]
    )
    key = hashlib.sha256((told + Path(__file__).read_text() + _model_text()).encode()).hexdigest()[:12]
    paths = [work / f"fit-{key}-{fold}.json" for fold in range(FOLDS + 1)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        left = [fold for fold, path in enumerate(paths) if not path.exists()]
        for fold in pool.map(lambda fold: _fit_in_a_process(items, fold, paths[fold]), left):
            print(f"  fit {fold + 1} of {FOLDS + 1}", flush=True)
    return [Coefficients(**json.loads(path.read_text())) for path in paths]


def _fit_in_a_process(items: Sequence[Item], fold: int, path: Path) -> int:
    """Fits one fold in a copy of this process and keeps the result; returns the fold."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            seen = [item for item in items if fold == FOLDS or fold_of(item.point.kernel) != fold]
            path.write_text(json.dumps(asdict(fit(seen))))
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if ended:
        raise RuntimeError(f"the fit of fold {fold + 1} failed")
    return fold


def _model_text() -> str:
    folder = ROOT / "src" / "tawa"
    files = (
        "plan/cost/time_model.py", "plan/cost/programs.py", "analysis/work/workload.py", "analysis/work/visits.py",
        "machine/work.py",
    )  # fmt: skip
    paths = [*(folder / name for name in files), RESULTS / f"{FOREIGN}.json"]
    return "".join(path.read_text() for path in paths if path.exists())


def held_out_times(items: Sequence[Item], folds: Sequence[Coefficients]) -> dict[int, float]:
    """The prediction for each item by the fit that did not see its kernel, by `id` of the item."""
    return {id(item): item.predicted_us(folds[fold_of(item.point.kernel)]) for item in items}


def gain_errors(items: Sequence[Item], predicted: dict[int, float]) -> dict[str, list[float]]:
    """Predicted less measured gain over stock, as logarithms, by regime."""
    found: dict[str, list[float]] = defaultdict(list)
    for group in groups_of(items):
        stock = next((item for item in group if item.stock), None)
        for item in group if stock is not None else ():
            if item.stock:
                continue
            measured = math.log(stock.point.median_us / item.point.median_us)
            told = math.log(predicted[id(stock)] / predicted[id(item)])
            found[regime_of(item.workload, item.launch, item.program, stock.program)].append(told - measured)
    return found


def errors_of(found: dict[str, list[float]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The deviation by regime, and that of a regime without measurements; few points count less."""
    spread = spread_of(found)
    regimes = {name: asdict(error_of(errors, spread)) for name, errors in sorted(found.items())}
    unknown = {"deviation": round(UNKNOWN * spread, 4), "points": 0}
    return regimes, unknown


def spread_of(found: dict[str, list[float]]) -> float:
    """The standard deviation over all regimes."""
    return statistics.pstdev(error for errors in found.values() for error in errors)


def error_of(errors: Sequence[float], spread: float) -> ErrorInfo:
    """The deviation of one regime; with few points it is near that of all."""
    if not errors:
        return ErrorInfo(UNKNOWN * spread, 0)
    count = len(errors)
    squares = sum(error**2 for error in errors) + SHRINK * spread**2
    return ErrorInfo(round(math.sqrt(squares / (count + SHRINK)), 4), count)


def main() -> int:
    """Fits, prints the errors, and writes the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the coefficients and the predictions")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / ".work", help="keeps what is done")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    items, left = items_of(list(earlier_points()), arguments.work / "compiled")
    items += foreign_items()
    kernels = {item.point.kernel for item in items}
    print(f"{len(items)} points of {len(kernels)} kernels; left out: {dict(left)}")
    folds = fitted_folds(items, arguments.work)
    predicted = held_out_times(items, folds)
    found = gain_errors(items, predicted)
    regimes, unknown = errors_of(found)
    off = [math.log(predicted[id(item)] / item.point.median_us) for item in items]
    told = {
        "points": len(items),
        "kernels": len(kernels),
        "folds": FOLDS,
        "time_error": round(statistics.pstdev(off), 4),
        "gain_error": round(spread_of(found), 4),
        "choice": summary(choices(items, predicted, partial(error_of, spread=spread_of(found)), "regret")),
        "corpus": summary(choices(items, predicted, partial(error_of, spread=spread_of(found)), "corpus")),
    }
    print(json.dumps(told, indent=1))
    for name, error in regimes.items():
        print(f"  {name}: {error}")
    if arguments.write:
        report = Report("model")
        report.add(*(
            Row({"source": item.point.source, "kernel": item.point.kernel, "shape": item.point.shape,
                 "fold": fold_of(item.point.kernel), "stock": item.stock,
                 "predicted_us": round(predicted[id(item)], 3), "way": _program_text(item)},
                item.point.candidate, item.point.median_us / 1e3)
            for item in items
        ))  # fmt: skip
        source = {**told, "device": DEVICE, "results": sorted({item.point.source for item in items})}
        data = {
            "format": FORMAT,
            "source": source,
            "coefficients": asdict(folds[-1]),
            "errors": regimes,
            "unknown": unknown,
        }
        FILE.write_text(json.dumps(data, indent=1) + "\n")
        print(f"{FILE.relative_to(ROOT)}, {report.save()}")
    return 0


def _program_text(item: Item) -> str:
    program = item.program
    if item.stock:
        return f"stock, {program.slots} stages, {program.ctas} CTAs an SM"
    form = "persistent" if program.persistent else "as written"
    pipeline = f"D = {program.slots}, P = {program.in_flight}" + ", stages" * program.staged
    return f"{form}, {program.groups} groups, {pipeline}, {program.ctas} CTAs an SM"


if __name__ == "__main__":
    raise SystemExit(main())
