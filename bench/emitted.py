"""Compares emitted Gluon modules with the kernels they came from: ``python -m bench.emitted [FILTER …]``.

Each case of the GEMM, attention and pointer matrices is launched by `tawa.jit`. The kernel that the launch got is
written as a Gluon module (`tawa.bridge.gluon.emit`), which is launched with the same arguments on poisoned outputs;
the bits are compared. Where Tawa's launcher takes the stock kernel, `launch` of the module has to take the fallback.
The cases of the attention bench and large GEMMs are also timed round-robin. Results: ``bench/results/emitted.json``;
rows have the lines of the module, in `launch` whether it was the module or the fallback, and in `error` why a case was
refused or differs.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from bench.harness import Report, Row, Timing, describe, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

OURS, EMITTED = "Tawa", "emitted"
LIMIT_S = 90.0


def large_cases() -> Iterator[tuple[str, Any]]:
    """Cases whose rate is measured."""
    from tests.cases.attention.cases import bench_case
    from tests.cases.gemm.cases import CASES

    for dtype, d, causal in (("fp16", 128, False), ("fp16", 128, True), ("bf16", 64, False), ("fp8e4nv", 128, False)):
        case = bench_case("two_loops", dtype, d, causal, 8192)
        yield f"attention {dtype} d={d} {'causal' if causal else 'full'}", case
    for name in ("tile_8warps_nn", "tile_8warps_nt", "persistent_8warps", "tile_fp8e4nv_nt"):
        case = next(it for it in CASES if it.name == name)
        yield f"gemm {name}", case.with_sizes(M=8192, N=8192, K=8192)


def cases() -> dict[str, Any]:
    """All cases by the name of their matrix and their own."""
    from tests.cases.attention.cases import CASES as ATTENTION
    from tests.cases.gemm.cases import CASES as GEMM
    from tests.cases.pointers.cases import CASES as POINTERS

    matrices = {"gemm": GEMM, "attention": ATTENTION, "pointers": POINTERS}
    return {f"{matrix} {case.name}": case for matrix, some in matrices.items() for case in some}


def handle(job: Job) -> Answer:
    """One case: refused with a reason, or the same bits or not; and the times of both."""
    if job["until"] is not None and time.time() > job["until"]:
        return {"status": "left out", "message": "no time"}
    import torch

    import tawa
    from tawa.bridge.gluon.emit import emit_gluon, load_emitted
    from tawa.errors import CompileError, EmitError
    from tests.cases import launch

    launch.allow_device_descriptors()
    case = (dict(large_cases()) if job["timed"] else cases())[job["name"]]
    tensors = launch.make_tensors(case, seed=1)
    arguments, grid, options = launch.bind(case, tensors), case.launch_grid(), case.options()
    ours = tawa.jit(case.kernel)
    compiled = ours[grid](**arguments, **options, only_if_faster=False)
    got = launched_kernel(compiled)
    try:
        emitted = emit_gluon(compiled if got is None else got)
    except (EmitError, CompileError) as error:
        return {"status": "ok", "refused": describe(error)}
    module, fallback = load_emitted(emitted), Fallback(case.kernel)
    ways = {
        OURS: lambda: ours[grid](**arguments, **options, only_if_faster=False),
        EMITTED: lambda: module["launch"](grid, **arguments, **options, fallback=fallback),
    }
    results: list[dict[str, Any]] = []
    for way in ways.values():
        launch.poison(case, tensors)
        way()
        torch.cuda.synchronize()
        results.append({name: tensors[name].clone().cpu() for name in launch.outputs(case)})
    differing = [name for name, it in results[0].items() if not torch.equal(_bits(it), _bits(results[1][name]))]
    if fallback.launches != (got is None):
        differing.append("the module takes the fallback" if fallback.launches else "Tawa launches the stock kernel")
    answer = {"status": "ok", "lines": len(emitted.text.splitlines()), "differing": differing}
    answer["launch"] = "fallback" if fallback.launches else "module"
    if job["timed"] and not differing:
        timings, failed = time_round_robin(ways)
        answer["ms"] = {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()}
        answer["differing"] = [f"{way}: {text}" for way, text in failed.items()]
    return answer


def launched_kernel(compiled: Any) -> Any:
    """The kernel that the only launch of `compiled` ran: itself or another form of it; None for the stock kernel."""
    from tawa.bridge.launch.launcher import Launcher

    launcher = compiled.run
    if not isinstance(launcher, Launcher):
        return compiled
    *_, made = launcher.known.values()
    forms = [compiled, *launcher.by_plan.values()]
    return next((it for it in forms if getattr(it, "function", None) == made.kernel[0]), None)


class Fallback:
    """The original kernel, which counts its launches."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.launches = kernel, 0

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        self.launches += 1
        return self.kernel[grid]


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().view(torch.uint8)


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one case."""
    about = {"case": job["name"], "timed": job["timed"], "lines": answer.get("lines"), "launch": answer.get("launch")}
    if answer["status"] != "ok":
        return [Row(about, EMITTED, error=f"{answer['status']}: {answer.get('message', '')}"[:300])]
    if "refused" in answer:
        return [Row(about, EMITTED, error=answer["refused"][:300])]
    if answer["differing"]:
        return [Row(about, EMITTED, error=f"differs: {', '.join(answer['differing'])}"[:300])]
    if "ms" not in answer:
        return [Row({**about, "bits": "same"}, EMITTED)]
    return [Row.timed({**about, "bits": "same"}, way, Timing(*ms), 0.0) for way, ms in answer["ms"].items()]


def main() -> None:
    """Compares all cases in parallel, then times the large ones alone. With --seconds, a fifth of it is for timing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="*", help="only cases whose name has one of these words")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, help="begin no case after this time; rows name those left out")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return serve_jobs(handle)
    names = [(False, name) for name in cases()] + [(True, name) for name in dict(large_cases())]
    chosen = [it for it in names if not arguments.filter or any(word in it[1] for word in arguments.filter)]
    chosen.sort(key=lambda it: zlib.crc32(it[1].encode()))  # a run that ends early has seen cases of all kinds
    start, seconds = time.time(), arguments.seconds
    wanted = [
        {"name": name, "timed": timed, "until": seconds and start + seconds * (1 if timed else 0.8)}
        for timed, name in chosen
    ]
    report = Report("emitted")

    def done(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        report.add(*rows)
        ms = answer.get("ms", {})
        ratio = f"{ms[OURS][0] / ms[EMITTED][0]:.3f}" if ms else ""
        print(f"{job['name']:<50} {rows[0].error or 'same bits'} {ratio}"[:150], flush=True)

    for timed, processes in ((False, arguments.workers), (True, 1)):
        run_jobs("bench.emitted", [it for it in wanted if it["timed"] is timed], done, processes, LIMIT_S)
    report.note_clocks()
    print(report.save())


if __name__ == "__main__":
    main()
