"""What Tawa adds to a compile, by stage and over stock: ``python -m bench.compile_time``, no GPU.

``python -m bench.compile_time``; no GPU is needed. Each kernel is compiled ahead of time `--repeat` times without any
cache. A row's candidate is a stage, or "total" (all of Tawa's own work but its proofs, which `bench.verify` times),
"stock compile" (Triton alone), or "import tawa" (the import in a fresh interpreter). Times are in milliseconds.

Rows with the candidate "compile" are whole compiles in three modes (`bench.compile_ratio`), of our cases and, with
`--packages FOLDER`, of the corpus; those with "compile over stock" sum their ratios up, kernels that were declined
apart. `--ratios` measures only these, `--only TEXT` some of them.

Results: ``bench/results/compile_time.json``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import tawa
from bench import compile_ratio
from bench.harness import RESULTS, Report, Row, Timing, describe, read
from bench.workers import Answer, Job
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import Signature
from tawa.plan import PlanOptions
from tests.cases.case import Specimen
from tests.cases.gemm.cases import SPECIALISED, find

KERNELS = (
    "tile_fp16_nn", "tile_8warps_nt", "device_desc_nn", "persistent_8warps", "persistent_flat_fp8e4nv", "triangular",
    "batched_desc_nt", "gate_up_8warps", "two_loops", "epilogue_all", "split_epilogue", "invariant",
)  # fmt: skip
WANTED_MS, WANTED_IMPORT_S = 15.0, 0.1


def signature(case: Specimen) -> Signature:
    """The case's arguments as the bridge takes them."""
    names = case.kernel.arg_names
    constants = {(names.index(name),): value for name, value in case.constants().items()}
    return Signature(case.signature(), constants, case.attributes())


def time_compile(case: Specimen, repeat: int) -> dict[str, list[float]]:
    """Milliseconds by stage, one sample per compile; the first compile of each kind is a warm-up and not counted."""
    samples: dict[str, list[float]] = defaultdict(list)
    for number in range(repeat + 1):
        start = time.perf_counter()
        compile_kernel(case.kernel, signature(case), None, num_warps=case.num_warps, num_stages=case.num_stages)
        stock_ms = (time.perf_counter() - start) * 1000
        request = Request(PlanOptions(enable_warp_specialization=True), verification="off")
        compiled = compile_kernel(
            case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=case.num_stages
        )
        record = compiled.metadata.tawa
        if number:
            samples["stock compile"].append(stock_ms)
            samples["specialised compile"].append(record["compile_ms"])
            samples["total"].append(record["tawa_ms"])
            for stage, ms in record["stage_ms"].items():
                samples[f"stage {stage}"].append(ms)
    return samples


def time_import(repeat: int) -> list[float]:
    """Milliseconds of ``import tawa``, without the start of the interpreter."""
    source = Path(tawa.__file__).resolve().parent.parent

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)})
        return (time.perf_counter() - start) * 1000

    empty = statistics.median(run("pass") for _ in range(repeat + 2))
    return [max(0.0, run("import tawa") - empty) for _ in range(repeat + 2)]


def main() -> int:
    """Times all kernels and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="every case that specialises, not the twelve typical ones")
    parser.add_argument("--packages", default="", metavar="FOLDER", help="packages of the corpus, for the ratios")
    parser.add_argument("--configs", type=int, default=2, help="most of each autotuner's list, for the ratios")
    parser.add_argument("--seconds", type=float, help="begin no further job of the ratios after this time")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="some of the ratios; writes no file")
    parser.add_argument("--ratios", action="store_true", help="only the ratios; other rows of the file stay")
    arguments = parser.parse_args()
    report = Report("compile_time")
    if arguments.ratios or arguments.only:
        report.rows = [row for row in read(RESULTS / "compile_time.json")[1] if "of" not in row.case]
        return ratios(report, arguments)
    good = stages(report, arguments)
    return 0 if ratios(report, arguments) == 0 and good else 1


def ratios(report: Report, arguments: argparse.Namespace) -> int:
    """Compile time over stock, kernel by kernel; returns the exit status."""
    rows: list[Row] = []

    def take(job: Job, answer: Answer) -> None:
        found = compile_ratio.rows_of(job, answer)
        rows.extend(found)
        for row in found:
            if row.error or "ratio" in row.case:
                case = row.case
                told = row.error or f"{case['ratio']:5.2f} ({case['cpu_ratio']:.2f}) x stock, {case['runs']} runs"
                print(f"{job['of']}: {case.get('kernel', '')} {case.get('mode', '')}: {told}", flush=True)

    todo = list(compile_ratio.jobs(arguments.packages, arguments.only, min(arguments.repeat, 3), arguments.configs))
    compile_ratio.run(todo, arguments.packages, take, arguments.seconds)
    found = compile_ratio.summarise(rows)
    print("\ncompile time over stock")
    for summary in found:
        print(f"  {summary}")
    if not arguments.only:
        report.add(*rows, *(summary.row() for summary in found))
        print(report.save())
    good = bool(found) and all(summary.good for summary in found)
    print(f"wanted: {compile_ratio.WANTED}: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


def stages(report: Report, arguments: argparse.Namespace) -> bool:
    """Times by stage, and the import; returns whether they are as wanted."""
    from triton import knobs

    knobs.compilation.always_compile = True
    cases = (
        [case for case in SPECIALISED if case.expect.verdict == "specialised"]
        if arguments.all
        else [find(name) for name in KERNELS]
    )
    totals: list[float] = []
    by_stage: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        try:
            samples = time_compile(case, arguments.repeat)
        except Exception as error:
            report.add(Row({"kernel": case.name}, "total", error=describe(error)))
            print(f"{case.name:28} {describe(error)}")
            continue
        report.add(*(Row.timed({"kernel": case.name}, name, Timing.of(values), 0) for name, values in samples.items()))
        totals.append(statistics.median(samples["total"]))
        for name, values in samples.items():
            by_stage[name].extend(values)
        stock_ms = statistics.median(samples["stock compile"])
        print(f"{case.name:28} tawa {totals[-1]:6.1f} ms   stock compile {stock_ms:6.0f} ms", flush=True)
    imports = time_import(arguments.repeat)
    report.add(Row.timed({"kernel": "-"}, "import tawa", Timing.of(imports), 0))
    print("\nmedians over all kernels")
    for name, values in by_stage.items():
        report.add(Row.timed({"kernel": "all"}, name, Timing.of(values), 0))
        print(f"  {name:32} {statistics.median(values):8.2f} ms")
    import_ms = statistics.median(imports)
    print(f"  {'import tawa':32} {import_ms:8.2f} ms")
    print(report.save())
    good = bool(totals) and statistics.median(totals) <= WANTED_MS and import_ms <= WANTED_IMPORT_S * 1000
    print(
        f"wanted: total <= {WANTED_MS:.0f} ms, import <= {WANTED_IMPORT_S * 1000:.0f} ms: {'pass' if good else 'FAIL'}"
    )
    return good


if __name__ == "__main__":
    raise SystemExit(main())
