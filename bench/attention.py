"""Times attention: ``python bench/attention.py [--dtype fp16] [--d 128] [--mask causal] [--quick] [--minutes 9]``.

B * S = 16k tokens, 2048 hidden, S from 512 to 16384. Candidates: stock Triton, best of its configurations; the same
unmodified kernels through Tawa, best of the same tiles with its own D and turns, and in automatic mode; cuDNN and
FlashAttention-2 through PyTorch; the hand-written Gluon kernel. TFLOP/s count 4 * B * H * S * S * d operations, half of
them under a causal mask.

1. Every configuration is compiled, run and checked on a small problem in its own process under a watchdog; what fails
   or hangs is out, with the reason on record. This fills Triton's cache on disk, too.
2. For each S each candidate's configurations are timed quickly; the best stands for it.
3. The winners are checked once more, on outputs full of NaN, and run round-robin. Only that is reported.

Results: ``bench/results/attention.json``. A problem that is there already is left out (``--again`` times it anew), so a
run that was cut short goes on where it was; for the same reason each row names its own run. ``--ablation`` writes
``attention_ablation.json``; ``--report`` prints and draws what there is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from attention_candidates import (
    DTYPES,
    Configuration,
    Judge,
    Shape,
    configurations,
    make_call,
    make_tensors,
    torch_calls,
)
from attention_report import NAMES, draw_ablation, draw_all, print_ablation, print_tables, print_wanted
from harness import RESULTS, Report, Row, describe, finite, read, time_round_robin, watchdog
from workers import Answer, Job, run_jobs, serve_jobs

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
DIMS = (64, 128, 256)
MASKS = {"full": False, "causal": True}
CHECKED_S, CHECKED_TOKENS = 1024, 4096
STALL_S = 150.0
ABLATION_TILE = (128, 128, 8)


# --- checking configurations in other processes ---


def handle(job: Job) -> Answer:
    """Compiles, runs and checks one configuration on a small problem."""
    import torch

    configuration, shape = Configuration.from_json(job["configuration"]), Shape(**job["shape"])
    tensors = make_tensors(shape)
    compiled = make_call(shape, configuration, tensors)()
    torch.cuda.synchronize()
    judge = Judge(shape, tensors)
    error = judge.error(tensors["o"])
    if error > judge.allowed:
        return {"status": "failed", "message": f"wrong result: relative error {error:.2e}, allowed {judge.allowed:.2e}"}
    record = getattr(getattr(compiled, "metadata", None), "tawa", None) or {}
    if configuration.kind == "tawa" and not configuration.automatic and not record.get("applied"):
        return {"status": "failed", "message": f"not specialised: {record.get('reason')}"}
    usage = {name: getattr(compiled, name, None) for name in ("n_regs", "n_spills")}
    return {"status": "ok", "applied": bool(record.get("applied")), **usage}


def check_all(
    shape: Shape, wanted: Sequence[Configuration], processes: int
) -> tuple[dict[Configuration, Answer], dict[Configuration, str]]:
    """What is fit to be timed on problems like `shape`, and what is not, with the reason."""
    small = {"dtype": shape.dtype, "d": shape.d, "causal": shape.causal, "S": CHECKED_S, "tokens": CHECKED_TOKENS}
    jobs = [{"configuration": c.to_json(), "shape": small} for c in wanted]
    fit: dict[Configuration, Answer] = {}
    unfit: dict[Configuration, str] = {}

    def take(job: Job, answer: Answer) -> None:
        configuration = Configuration.from_json(job["configuration"])
        if answer["status"] == "ok":
            fit[configuration] = answer
        else:
            unfit[configuration] = f"{answer['status']}: {answer.get('message', '')}"
            print(f"  out: {configuration.label}: {unfit[configuration]}"[:300], flush=True)

    run_jobs(Path(__file__).resolve(), jobs, take, processes, limit_s=120)
    return {c: fit[c] for c in wanted if c in fit}, unfit


# --- timing ---


def flop(shape: Shape) -> float:
    """Floating-point operations of one launch: two dots over the pairs that the mask lets by."""
    about = shape.about
    return 4.0 * about["B"] * about["H"] * shape.S * shape.S * shape.d * (0.5 if shape.causal else 1.0)


def best_of(calls: Mapping[Configuration, Any], about: str) -> dict[str, Configuration]:
    """The fastest configuration of each candidate."""
    labels = {c.label: call for c, call in calls.items()}
    quick, errors = time_round_robin(labels, rounds=4, burst_ms=2.0, rest_s=0.004)
    for label, text in errors.items():
        print(f"  {about}: {label}: {text}", flush=True)
    winners: dict[str, Configuration] = {}
    for name, takes in NAMES.items():
        timed = [c for c in calls if c.label in quick and takes(c)]
        if timed:
            winners[name] = min(timed, key=lambda c: quick[c.label].median_ms)
    return winners


def bench_problem(shape: Shape, fit: Mapping[Configuration, Answer]) -> list[Row]:
    """Rows of one problem: each candidate with its best configuration."""
    tensors = make_tensors(shape)
    calls = {c: make_call(shape, c, tensors) for c in fit}
    winners = best_of(calls, f"S={shape.S}")
    finals = {**{name: calls[c] for name, c in winners.items()}, **torch_calls(shape, tensors)}
    errors = check_finals(shape, tensors, finals)
    rows = [Row(shape.about, name, error=text) for name, text in errors.items() if isinstance(text, str)]
    finals = {name: call for name, call in finals.items() if not isinstance(errors[name], str)}
    timings, failures = time_round_robin(finals)
    for name, timing in timings.items():
        case = dict(shape.about)
        if name in winners:
            usage = fit[winners[name]]
            case |= {"configuration": winners[name].label, "registers": usage["n_regs"], "spills": usage["n_spills"]}
            case |= {"specialised": usage["applied"]}
        rows.append(Row.timed(case, name, timing, flop(shape), finite(float(errors[name]))))
    rows.extend(Row(shape.about, name, error=text) for name, text in failures.items())
    print(f"  S={shape.S:6}: " + "  ".join(f"{row.candidate} {row.tflops}" for row in rows if row.tflops), flush=True)
    return rows


def check_finals(shape: Shape, tensors: Mapping[str, Any], finals: Mapping[str, Any]) -> dict[str, float | str]:
    """The error of each candidate on poisoned outputs; a text where it fails, or Triton's is more than allowed."""
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
            continue
        wrong = error > judge.allowed and name in NAMES
        found[name] = f"wrong result: {error:.2e}, allowed {judge.allowed:.2e}" if wrong else error
        if isinstance(found[name], str):
            print(f"  S={shape.S}: {name}: {found[name]}", flush=True)
    return found


# --- running ---


def resumed(name: str) -> Report:
    """The report with what is in its file already."""
    report = Report(name)
    path = RESULTS / f"{name}.json"
    if path.exists():
        about, rows = read(path)
        report.rows = rows
        same = {key: about[key] == report.about[key] for key in ("device", "versions")}
        if not all(same.values()):
            print(f"warning: {path.name} is of {about['device']}, {about['versions']}: only rows of a run compare")
    return report


def key_of(case: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which problem a row is of."""
    return tuple(case.get(name) for name in ("dtype", "d", "causal", "S"))


def run_part(shapes: Sequence[Shape], report: Report, processes: int, deadline: float) -> None:
    """Checks and times problems that differ in S only."""
    first = shapes[0]
    print(f"{first.dtype}, d = {first.d}, {'causal' if first.causal else 'full'}", flush=True)
    fit, unfit = check_all(first, configurations(first.dtype, first.d), processes)
    part = {key: value for key, value in first.about.items() if key in ("dtype", "d", "causal")}
    timed_elsewhere = [row for row in report.rows if row.tflops or any(row.case.get(k) != v for k, v in part.items())]
    report.rows = timed_elsewhere  # without the failures of an earlier run of this part
    report.add(*(Row({**part, "configuration": c.label}, c.kind, error=text) for c, text in unfit.items()))
    for shape in shapes:
        if time.monotonic() > deadline:
            print(f"  S={shape.S}: out of time; run again to go on", flush=True)
            return
        try:
            with watchdog(STALL_S, f"{shape}"):
                rows = bench_problem(shape, fit)
            report.rows = [row for row in report.rows if key_of(row.case) != key_of(shape.about)]
            report.add(*(Row(**{**_fields(row), "case": {**row.case, "run": report.about["date"]}}) for row in rows))
            report.note_clocks()
        except Exception as error:
            report.add(Row(shape.about, "Tawa", error=describe(error)))
            print(f"  S={shape.S}: {describe(error)}", flush=True)


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}


# --- what each step brings ---


def steps() -> dict[str, Configuration]:
    """The steps of the ablation, each on top of the one before."""

    def step(**options: Any) -> Configuration:
        pinned = (("enable_warp_specialization", True), *options.items())
        return Configuration("tawa", "two_loops", *ABLATION_TILE, 2, pinned)

    return {
        "no specialisation, no pipeline": Configuration("stock", "two_loops", *ABLATION_TILE, 1),
        "no specialisation": Configuration("stock", "two_loops", *ABLATION_TILE, 2),
        "cooperative": step(num_consumer_groups=1, aref_depth=1, coarse_pipeline=False),
        "+ coarse pipeline": step(num_consumer_groups=1, aref_depth=1),
        "+ split rows": step(num_consumer_groups=2, aref_depth=1),
        "+ ping-pong": step(num_consumer_groups=2, aref_depth=1, ping_pong=True),
        "+ D = 2": step(num_consumer_groups=2, aref_depth=2, ping_pong=True),
    }


def run_ablation(lengths: Sequence[int], processes: int, deadline: float) -> None:
    """Times the steps round-robin, fp16, d = 128."""
    report = Report("attention_ablation")
    for causal in MASKS.values():
        chosen = steps()
        fit, unfit = check_all(Shape("fp16", 128, causal, CHECKED_S), list(chosen.values()), processes)
        names = {configuration: name for name, configuration in chosen.items()}
        report.add(*(Row({"causal": causal, "step": names[c]}, names[c], error=text) for c, text in unfit.items()))
        for S in lengths:
            if time.monotonic() > deadline:
                print("out of time")
                break
            shape = Shape("fp16", 128, causal, S)
            with watchdog(2 * STALL_S, f"ablation {shape}"):
                report.add(*time_steps(shape, {name: c for name, c in chosen.items() if c in fit}))
            report.note_clocks()
    print_ablation(report.rows)
    print(draw_ablation(report.about, report.rows))


def time_steps(shape: Shape, chosen: Mapping[str, Configuration]) -> list[Row]:
    """Rows of the steps of one problem."""
    tensors = make_tensors(shape)
    calls = {name: make_call(shape, c, tensors) for name, c in chosen.items()}
    judge = Judge(shape, tensors)
    timings, failures = time_round_robin(calls)
    rows = [Row({**shape.about, "step": name}, name, error=text) for name, text in failures.items()]
    for name, timing in timings.items():
        tensors["o"].fill_(float("nan"))
        calls[name]()
        error = judge.error(tensors["o"])
        case = {**shape.about, "step": name, "configuration": chosen[name].label}
        if error > judge.allowed:
            rows.append(Row(case, name, error=f"wrong result: relative error {error:.2e}"))
        else:
            rows.append(Row.timed(case, name, timing, flop(shape), finite(error)))
    return rows


# --- the command ---


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=sorted(DTYPES), action="append", help="only this one (may be repeated)")
    parser.add_argument("--d", type=int, choices=DIMS, action="append", help="only this head dimension")
    parser.add_argument("--mask", choices=sorted(MASKS), action="append", help="only this mask")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="S, comma-separated")
    parser.add_argument("--quick", action="store_true", help="S = 16384 only")
    parser.add_argument("--again", action="store_true", help="time anew what is in the result file")
    parser.add_argument("--ablation", action="store_true", help="what each step brings")
    parser.add_argument("--report", action="store_true", help="print and draw the result file, time nothing")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no problem after this")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Runs the parts asked for."""
    arguments = parse()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    deadline = time.monotonic() + arguments.minutes * 60
    lengths = [16384] if arguments.quick else [int(S) for S in arguments.lengths.split(",")]
    if arguments.ablation:
        run_ablation(lengths, arguments.processes, deadline)
        return 0
    report = resumed("attention")
    if not arguments.report:
        done = set() if arguments.again else {key_of(row.case) for row in report.rows if row.tflops}
        for dtype in arguments.dtype or list(DTYPES):
            for d in arguments.d or DIMS:
                for mask in arguments.mask or list(MASKS):
                    shapes = [Shape(dtype, d, MASKS[mask], S) for S in lengths]
                    left = [shape for shape in shapes if key_of(shape.about) not in done]
                    if left and time.monotonic() < deadline:
                        run_part(left, report, arguments.processes, deadline)
    print_tables(report.rows)
    for path in draw_all(report.about, report.rows):
        print(path)
    return 0 if print_wanted(report.rows) else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # no time is spent on taking the CUDA context down
