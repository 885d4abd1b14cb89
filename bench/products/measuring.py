"""What the benches of scaled, batched and weight-only products share: problems one by one, candidates, a time limit.

Each candidate is checked on its first launch, on some rows against float64. Those that are right are timed round-robin.
A candidate that fails, or is not tried because the time is over, has a row that says so; the others go on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from bench.harness import Report, Row, describe, finite, time_round_robin, watchdog
from tawa.ops.products.tile_choice import Tile

STALL_S = 170.0
ROWS = 64
"""Rows of a result that are checked."""
STOCK = (("enable_warp_specialization", False),)
PINNED = (("only_if_faster", False),)
"""Specialised wherever that is legal: in automatic mode a candidate might be stock Triton's kernel."""
Calls = dict[str, Callable[[], Any]]


class Problem(Protocol):
    """One problem of a bench, a frozen dataclass with a short text."""

    @property
    def flop(self) -> float:
        """Operations of one run."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench.

    name: of the result file. calls: the candidates of a problem, all of them or the usual ones, and a function that
    gives the error of a result as a share of the allowed one. ours: the candidate that must be right.
    """

    name: str
    problems: Sequence[Any]
    calls: Callable[[Any, bool], tuple[Calls, Callable[[Any], float]]]
    ours: str = "Tawa"


def named(tile: Tile, way: str = "Tawa") -> str:
    """A tile as the name of a candidate."""
    options = " ".join(f"{name}={value}" for name, value in tile.options if (name, value) not in STOCK)
    block = f"{tile.BM}x{tile.BN}" + (f"x{tile.BK}" if tile.BK else "")
    return f"{way} {block}, {tile.num_warps} warps, {tile.num_stages} stages {options}".strip()


def pinned(*tiles: Tile) -> tuple[Tile, ...]:
    """The tiles; those without options of their own are specialised wherever that is legal."""
    return tuple(it if it.options else replace(it, options=PINNED) for it in tiles)


def in_stock(tile: Tile, warps: int | None = None, stages: int | None = None) -> Tile:
    """The same tile for stock Triton."""
    return replace(tile, options=STOCK, num_warps=warps or tile.num_warps, num_stages=stages or tile.num_stages)


def on_first_call(make: Callable[[], Callable[..., Any]], *arguments: Any) -> Callable[[], Any]:
    """A candidate that is made when it is first called: one that cannot be made fails there, and leaves the others."""
    made: list[Callable[..., Any]] = []

    def call() -> Any:
        if not made:
            made.append(make())
        return made[0](*arguments)

    return call


def share_of(found: Any, exact: Any, least: float) -> float:
    """The error of some rows, divided by twice that of rounding `exact`, or by `least` times the largest value."""
    if not bool(found.isfinite().all()):
        return float("inf")
    rounded = (exact.to(found.dtype).double() - exact).abs().max()
    allowed = max(2 * float(rounded), least * float(exact.abs().max()))
    return float((found.double() - exact).abs().max()) / allowed


def measure(bench: Bench, problem: Any, every: bool, until: float) -> list[Row]:
    """The rows of one problem. until: when no more candidates are tried, by the monotonic clock."""
    import torch

    about = asdict(problem)
    rows, fit, errors = list[Row](), Calls(), dict[str, float]()
    try:
        calls, share = bench.calls(problem, every)
    except Exception as error:
        return [Row(about, bench.ours, error=describe(error))]
    for name, call in calls.items():
        if time.monotonic() > until and name != bench.ours:
            rows.append(Row(about, name, error="skipped: out of time"))
            continue
        try:
            errors[name] = share(call())
            torch.cuda.synchronize()
        except Exception as error:  # a candidate that does not take the problem
            rows.append(Row(about, name, error=describe(error)))
            continue
        if errors[name] <= 1:
            fit[name] = call
        else:
            rows.append(Row(about, name, error=f"wrong result: {errors[name]:.3g} times the allowed error"))
    timings, failures = time_round_robin(fit, rounds=12)
    rows += [Row.timed(about, name, it, problem.flop, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in failures.items()]


def line_of(problem: Any, rows: Mapping[str, Row], ours: str) -> str:
    """A problem's times, the fastest first, and the ratios of Tawa to each."""
    timed = sorted((row for row in rows.values() if row.median_ms), key=lambda row: row.median_ms or 0.0)
    mine = rows[ours].median_ms if ours in rows else None
    lines = [f"{problem!s}"]
    for row in timed:
        ratio = f"{(row.median_ms or 0.0) / mine:6.3f}" if mine else ""
        lines.append(
            f"   {(row.median_ms or 0.0) * 1e3:9.2f} us {row.tflops or 0.0:8.1f} TFLOPS {ratio}  {row.candidate}"
        )
    lines += [f"   {row.candidate}: {row.error}" for row in rows.values() if not row.median_ms]
    return "\n".join(lines)


def main(bench: Bench, about: str | None) -> int:
    """Runs the problems asked for. Exit status 1: Tawa's result was wrong, or it failed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help=f"problems with this in their names: {bench.problems[0]}"
    )
    parser.add_argument("--candidates", action="store_true", help="also time tiles and Plans that are not chosen")
    parser.add_argument("--minutes", type=float, default=2.5, help="no candidate is tried after so long")
    arguments = parser.parse_args()
    name = f"{bench.name}_candidates" if arguments.candidates else bench.name
    report, sound = Report(name), True
    chosen = [it for it in bench.problems if arguments.only in str(it)]
    start, left = time.monotonic(), len(chosen)
    end = start + arguments.minutes * 60
    for problem in chosen:
        until = time.monotonic() + max(0.0, end - time.monotonic()) / left
        left -= 1
        with watchdog(STALL_S, str(problem)):
            rows = measure(bench, problem, arguments.candidates, until)
        report.add(*rows)
        known = {row.candidate: row for row in rows}
        sound = sound and bench.ours in known and known[bench.ours].median_ms is not None
        print(line_of(problem, known, bench.ours), flush=True)
    report.note_clocks()
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0 if sound else 1
