"""Times attention: ``python -m bench.attention [--dtype fp16] [--d 128] [--mask causal] [--quick] [--minutes 9]``.

B * S = 16k tokens, 2048 hidden, S from 512 to 16384. Candidates: Tawa's operator, `tawa.ops.attention`; stock Triton,
best of its configurations; the same unmodified kernels through Tawa, best of its own choice and of some pinned ones;
cuDNN and FlashAttention-2 through PyTorch; FlashAttention-3 if it is installed (no fp16); the hand-written Gluon
kernel. TFLOP/s count 4 * B * H * S * S * d operations, half of them under a causal mask.

1. Every configuration is compiled, run and checked on a small problem, in a process under a watchdog. Those that fail,
   hang or are wrong are excluded, with the reason on record. This also fills Triton's cache on disk. It is done before
   any timing: nothing else may use the GPU while something is timed.
2. For each problem, the most important first, the configurations of each candidate are timed quickly; the best is kept.
3. The winners are checked once more, on outputs full of NaN, and run round-robin. Only these times are reported.

Results: ``bench/results/attention.json``, written after each problem. A problem that the file already has is skipped
(``--again`` times it anew), so an interrupted run can be continued. Each row names its run by date, and the head of the
file has device, versions and command of each run. A problem that ended a run is skipped as well. ``--ablation`` writes
``attention_ablation.json``, ``--items`` ``attention_items.json``; ``--quick`` times six problems only and writes
``attention_quick.json``; ``--report`` prints and draws the results in the file, and writes the figures of the pages
(`bench.figures`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from bench.attention.candidates import (
    DTYPES,
    V_AS_ROWS,
    Configuration,
    Judge,
    Shape,
    configurations,
    make_call,
    make_tensors,
    peer_calls,
)
from bench.attention.report import NAMES, draw_all, print_tables, print_wanted
from bench.figures import write_pages
from bench.harness import RESULTS, Report, Row, describe, finite, read, time_round_robin, watchdog
from bench.workers import Answer, Job, is_fatal, run_jobs, serve_jobs

LENGTHS = (16384, 8192, 4096, 2048, 1024, 512)
QUICK_LENGTHS = (16384, 2048, 512)
MASKS = {"full": False, "causal": True}
PARTS = (("fp16", 128), ("fp16", 64), ("fp16", 256), ("fp8", 128), ("bf16", 128), ("fp8", 64), ("bf16", 64),
         ("bf16", 256), ("bf16", 96), ("fp8", 256))  # fmt: skip
"""Element types and head dimensions, the most important first."""
CHECKED_S, CHECKED_TOKENS = 1024, 4096
STALL_S = 90.0
SWEEP_ROUNDS, FINAL_ROUNDS = 3, 10
CHECK_SHARE = 0.45
"""The share of the time for compiling and checking; the rest of that work is left for another run."""
WORKER_START_S, CHECK_S = 20.0, 4.0
"""Estimates: importing PyTorch in all processes at once; compiling and checking one configuration."""
ENDED, STOPPED = "ended the run", 3

Checked = dict[Configuration, Answer]


# --- checking configurations in other processes ---


def handle(job: Job) -> Answer:
    """Compiles, runs and checks one configuration on a small problem."""
    import torch

    configuration, shape = Configuration.from_json(job["configuration"]), Shape(**job["shape"])
    tensors = make_tensors(shape)
    call = make_call(shape, configuration, tensors)
    for kernel in operator_kernels():
        kernel.last_kernel = None
    compiled = call()
    judge = Judge(shape, tensors)
    for _ in range(2):  # twice: a race may show in only one of two runs
        tensors["o"].fill_(float("nan"))
        result = call()
        torch.cuda.synchronize()
        error = judge.error(result if isinstance(result, torch.Tensor) else tensors["o"])
        if error > judge.allowed:
            text = f"wrong result: relative error {error:.2e}, allowed {judge.allowed:.2e}"
            return {"status": "failed", "message": text}
    if configuration.kind == "operator":
        compiled = next(kernel.last_kernel for kernel in operator_kernels() if kernel.last_kernel is not None)
    record = getattr(getattr(compiled, "metadata", None), "tawa", None) or {}
    if configuration.kind == "tawa" and configuration.options and not record.get("applied"):
        return {"status": "failed", "message": f"not specialised: {record.get('reason')}"}
    usage = {name: getattr(compiled, name, None) for name in ("n_regs", "n_spills")}
    return {"status": "ok", "applied": bool(record.get("applied")), "reason": record.get("reason"), **usage}


def operator_kernels() -> tuple[Any, ...]:
    """The kernels among which the operator chooses."""
    from tawa.ops.attention_ops import launch as attention_launch

    return attention_launch.attention_two_loops, attention_launch.attention_persistent


def check_all(
    wanted: Mapping[Shape, Sequence[Configuration]], processes: int, deadline: float | None = None
) -> tuple[dict[Shape, Checked], dict[Shape, dict[Configuration, str]]]:
    """By shape (S apart), the configurations that passed, and those that did not with the reason.

    A shape is in neither if some of its configurations were not reached before the deadline.
    """
    small = {shape: asdict(replace(shape, S=CHECKED_S, tokens=CHECKED_TOKENS)) for shape in wanted}
    order = list(wanted)
    jobs = [
        {"part": number, "configuration": configuration.to_json(), "shape": small[shape]}
        for number, shape in enumerate(order)
        for configuration in wanted[shape]
    ]
    fit: dict[Shape, Checked] = {shape: {} for shape in order}
    unfit: dict[Shape, dict[Configuration, str]] = {shape: {} for shape in order}
    missed: dict[Shape, None] = {}

    def take(job: Job, answer: Answer) -> None:
        shape, configuration = order[job["part"]], Configuration.from_json(job["configuration"])
        if answer["status"] == "ok":
            fit[shape][configuration] = answer
        elif answer["status"] == "skipped":
            missed[shape] = None
        else:
            unfit[shape][configuration] = f"{answer['status']}: {answer.get('message', '')}"
            text = f"  out: {title(shape)}: {configuration.label}: {unfit[shape][configuration]}"
            print(text[:260], flush=True)

    run_jobs("bench.attention", jobs, take, processes, limit_s=90, deadline=deadline)
    for shape in missed:
        print(f"  {title(shape)}: not all checked in time; run again to go on", flush=True)
    done = [shape for shape in order if shape not in missed]
    return {shape: {c: fit[shape][c] for c in wanted[shape] if c in fit[shape]} for shape in done}, {
        shape: unfit[shape] for shape in done
    }


def title(shape: Shape) -> str:
    """A title for the problems that differ from this shape only in S."""
    return f"{shape.dtype}, d = {shape.d}, {'causal' if shape.causal else 'full'}"


# --- timing ---


def estimate_s(shape: Shape, count: int, finals: int = 6) -> float:
    """An estimate for one problem: inputs and the float64 reference, the sweep over `count`, the final."""
    once = shape.flop / 400e9 / (2 if shape.dtype == "fp8" else 1)  # ms at 400 TFLOP/s
    warm = 0.03 + 8 * once / 1e3  # loading, six launches, capture of a graph and its first replay
    sweep = count * (warm + SWEEP_ROUNDS * (max(2.0, once) / 1e3 + 0.005))
    return 0.6 + sweep + finals * (warm + FINAL_ROUNDS * (max(4.0, once) / 1e3 + 0.021))


def best_of(calls: Mapping[Configuration, Any], about: str) -> dict[str, Configuration]:
    """The fastest configuration of each candidate."""
    labels = {c.label: call for c, call in calls.items()}
    quick, errors = time_round_robin(labels, rounds=SWEEP_ROUNDS, burst_ms=2.0, rest_s=0.004)
    for label, text in errors.items():
        print(f"  {about}: {label}: {text}"[:260], flush=True)
        if is_fatal(text):
            raise RuntimeError(f"{label}: {text}")
    winners: dict[str, Configuration] = {}
    for name, takes in NAMES.items():
        timed = [c for c in calls if c.label in quick and takes(c)]
        if timed:
            winners[name] = min(timed, key=lambda c: quick[c.label].median_ms)
    return winners


def bench_problem(shape: Shape, fit: Checked) -> list[Row]:
    """Rows of one problem: each candidate with its best configuration."""
    tensors = make_tensors(shape)
    calls = {c: make_call(shape, c, tensors) for c in fit}
    winners = best_of(calls, f"S={shape.S}")
    finals = {**{name: calls[c] for name, c in winners.items()}, **peer_calls(shape, tensors)}
    errors = check_finals(shape, tensors, finals)
    rows = [
        Row({**shape.about, **({"configuration": winners[name].label} if name in winners else {})}, name, error=text)
        for name, text in errors.items()
        if isinstance(text, str)
    ]
    finals = {name: call for name, call in finals.items() if not isinstance(errors[name], str)}
    timings, failures = time_round_robin(finals, rounds=FINAL_ROUNDS)
    for name, timing in timings.items():
        case = dict(shape.about)
        if name in winners:
            usage = fit[winners[name]]
            case |= {"configuration": winners[name].label, "registers": usage["n_regs"], "spills": usage["n_spills"]}
            case |= {"specialised": usage["applied"]}
        rows.append(Row.timed(case, name, timing, shape.flop, finite(float(errors[name]))))
    rows.extend(Row(shape.about, name, error=text) for name, text in failures.items())
    print(f"  S={shape.S:6}: " + "  ".join(f"{row.candidate} {row.tflops}" for row in rows if row.tflops), flush=True)
    return rows


def check_finals(shape: Shape, tensors: Mapping[str, Any], finals: Mapping[str, Any]) -> dict[str, float | str]:
    """The error of each candidate on poisoned outputs; a text if it fails, or is a Triton kernel and too wrong."""
    import torch

    judge = Judge(shape, tensors)
    found: dict[str, float | str] = {}
    for name, call in finals.items():
        tensors["o"].fill_(float("nan"))
        try:
            result = call()
            torch.cuda.synchronize()
            error = judge.error(result if isinstance(result, torch.Tensor) else tensors["o"])
        except Exception as failure:
            found[name] = describe(failure)
            if is_fatal(str(found[name])):
                raise
            continue
        wrong = error > judge.allowed and (name in NAMES or name == V_AS_ROWS)
        found[name] = f"wrong result: {error:.2e}, allowed {judge.allowed:.2e}" if wrong else error
        if isinstance(found[name], str):
            print(f"  S={shape.S}: {name}: {found[name]}", flush=True)
    return found


# --- running ---


def resumed(name: str) -> Report:
    """The report with the results that its file already has. Its head has every run, by date."""
    report = Report(name)
    own = {key: value for key, value in report.about.items() if key != "date"}
    path = RESULTS / f"{name}.json"
    runs: dict[str, Any] = {}
    if path.exists():
        about, rows = read(path)
        report.rows, runs = rows, about.get("runs", {})
        used = {row.case.get("run") for row in rows}
        runs = {date: run for date, run in runs.items() if date in used}
        if any((run["device"], run["versions"]) != (own["device"], own["versions"]) for run in runs.values()):
            print(f"warning: {path.name} has runs of other machines or versions: only rows of one run compare")
    report.about["runs"] = {**runs, report.about["date"]: own}
    return report


def key_of(case: Mapping[str, Any]) -> tuple[Any, ...]:
    """The problem of a row."""
    return tuple(case.get(name) for name in ("dtype", "d", "causal", "S"))


def done_in(rows: Sequence[Row]) -> set[tuple[Any, ...]]:
    """The problems that are not run again: those that were timed, and those that ended a run."""

    def settled(row: Row) -> bool:
        return bool(row.tflops) or row.error == ENDED or is_fatal(str(row.error))

    return {key_of(row.case) for row in rows if "S" in row.case and settled(row)}


def about_timed(report: Report) -> Mapping[str, Any]:
    """The entry in the head of the last run with timings."""
    dates = [row.case["run"] for row in report.rows if row.tflops]
    return report.about["runs"][max(dates)] if dates else report.about


def put_rows(report: Report, shape: Shape, rows: Sequence[Row]) -> None:
    """Replaces the rows of a problem, notes their run, and saves."""
    report.rows = [row for row in report.rows if key_of(row.case) != key_of(shape.about)]
    report.add(*(replace(row, case={**row.case, "run": report.about["date"]}) for row in rows))


def run_problems(shapes: Sequence[Shape], report: Report, processes: int, deadline: float, brief: bool = False) -> bool:
    """Checks and times problems in order; returns False if a fault of the GPU ended the run."""
    start = time.monotonic()
    parts = {part: list(members) for part, members in groupby(shapes, key=lambda it: replace(it, S=CHECKED_S))}
    wanted = {part: configurations(part.dtype, part.d, part.causal, brief) for part in parts}
    total = sum(estimate_s(shape, len(wanted[part])) for part, members in parts.items() for shape in members)
    jobs = sum(map(len, wanted.values()))
    first = WORKER_START_S + CHECK_S * jobs / processes
    print(
        f"first {jobs} configurations, about {first:.0f} s; then {len(shapes)} problems, about {total:.0f} s",
        flush=True,
    )
    fit, unfit = check_all(wanted, processes, start + CHECK_SHARE * (deadline - start))
    print(f"checked after {time.monotonic() - start:.0f} s", flush=True)
    for part, reasons in unfit.items():
        about = {key: value for key, value in part.about.items() if key in ("dtype", "d", "causal")}
        report.rows = [row for row in report.rows if key_of(row.case) != key_of(about)]
        case = {**about, "run": report.about["date"]}
        report.add(*(Row({**case, "configuration": c.label}, c.kind, error=text) for c, text in reasons.items()))
    for part, members in parts.items():
        if part in fit:
            print(title(part), flush=True)
            if not _run_part(members, fit[part], report, deadline):
                return False
    print(f"done after {time.monotonic() - start:.0f} s", flush=True)
    return True


def _run_part(shapes: Sequence[Shape], fit: Checked, report: Report, deadline: float) -> bool:
    for shape in shapes:
        if time.monotonic() + estimate_s(shape, len(fit)) > deadline:
            print(f"  S={shape.S}: out of time; run again to go on", flush=True)
            continue
        put_rows(report, shape, [Row(shape.about, "Tawa", error=ENDED)])  # stays if the run ends in this problem
        try:
            with watchdog(STALL_S, f"{shape}"):
                rows = bench_problem(shape, fit)
            put_rows(report, shape, rows)
        except Exception as error:
            text = describe(error)
            put_rows(report, shape, [Row(shape.about, "Tawa", error=text)])
            print(f"  S={shape.S}: {text}", flush=True)
            if is_fatal(text):
                return False
    report.note_clocks()
    report.about["runs"][report.about["date"]]["clocks"] = report.about["clocks"]
    report.save()
    return True


# --- the command ---


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=sorted(DTYPES), action="append", help="only this one (may be repeated)")
    parser.add_argument("--d", type=int, choices=(64, 96, 128, 256), action="append", help="only this head dimension")
    parser.add_argument("--mask", choices=sorted(MASKS), action="append", help="only this mask")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="S, comma-separated")
    parser.add_argument("--quick", action="store_true", help="six problems of fp16, d = 128, in their own file")
    parser.add_argument("--again", action="store_true", help="time anew what is in the result file")
    parser.add_argument("--ablation", action="store_true", help="what each step brings")
    parser.add_argument("--items", action="store_true", help="what each feature brings, alone and with the others")
    parser.add_argument("--report", action="store_true", help="print and draw the result files, time nothing")
    parser.add_argument("--brief", action="store_true", help="the operator, stock Triton and the libraries only")
    parser.add_argument("--minutes", type=float, default=8.5, help="begin no problem that would end after this")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def wanted_shapes(arguments: argparse.Namespace, done: set[tuple[Any, ...]]) -> list[Shape]:
    """The problems to be timed, in their order."""
    lengths = QUICK_LENGTHS if arguments.quick else tuple(int(S) for S in arguments.lengths.split(","))
    parts = PARTS[:1] if arguments.quick else PARTS
    found = [
        Shape(dtype, d, MASKS[mask], S)
        for dtype, d in parts
        if dtype in (arguments.dtype or DTYPES) and d in (arguments.d or (64, 96, 128, 256))
        for mask in (arguments.mask or list(MASKS))
        for S in lengths
    ]
    return [shape for shape in found if key_of(shape.about) not in done]


def main() -> int:
    """Runs the parts asked for; returns 0 if every wanted ratio is reached, 3 if a fault of the GPU ended the run."""
    arguments = parse()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    deadline = time.monotonic() + arguments.minutes * 60
    if arguments.ablation:
        from bench.attention.ablation import report_ablation, run_ablation

        return report_ablation() if arguments.report else run_ablation(arguments.processes, check_all)
    if arguments.items:
        from bench.attention.items import report_items, run_items

        return report_items() if arguments.report else run_items(arguments.processes, check_all)
    report = resumed("attention_quick" if arguments.quick else "attention")
    sound = True
    if not arguments.report:
        again = arguments.again or arguments.quick
        done = set() if again else done_in(report.rows)
        shapes = wanted_shapes(arguments, done)
        sound = not shapes or run_problems(shapes, report, arguments.processes, deadline, arguments.brief)
    print_tables(report.rows)
    if not arguments.quick:
        about = about_timed(report)
        for path in draw_all(about, report.rows):
            print(path)
        write_pages()
    reached = print_wanted(report.rows)
    return STOPPED if not sound else 0 if reached else 1
