"""Verdicts on what stock Triton makes of right kernels: ``python -m bench.stock_verdicts``, no GPU.

Each kernel is compiled for Hopper by Triton alone, and two modules are checked: TTGIR as it is before Triton inserts
fences between the two proxies (the pass `triton-nvidia-gpu-fence-insertion`; what is written by hand is compiled
without it), and final TTGIR. Stock Triton's programs are right, so a refuted one is a false alarm, and the fence is
missing only where that pass inserts it.

The kernels are the cases of the tests (GEMM, attention, pointers, other operations), the configurations of stock Triton
in `bench.gemm`, `bench.attention` and `bench.pointers`, and, with ``--packages FOLDER``, the entries of `bench.corpus`,
which need PyTorch (its build without CUDA is enough). Nothing is compiled further than to TTGIR. ``--only TEXT`` takes
the jobs whose name contains it, as ``gemm: tile`` or ``liger-kernel``.

Results: ``bench/results/stock_verdicts.json``. Rows, by candidate: the verdicts at one level in one source ("before
fences", "final"), with the time of the check; a kernel that is refuted ("false alarm") or whose check fails
("failed"), and at which levels, with the reason as its error; how often an unknown verdict has a reason ("unknown"); a
job that could not be done ("job"). The same module counts once in a source.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.harness import Report, Row, Timing, describe
from bench.workers import Answer, Job, run_jobs, say_alive, serve_jobs

BEFORE, FINAL = "before fences", "final"
LEVELS = (BEFORE, FINAL)
VERDICTS = ("proved", "checked", "refuted", "unknown", "failed")
ROOMS = ("gemm", "attention", "pointers", "operations")
CORPUS = "corpus"
LIMIT_S = 300.0
_PLACE = re.compile(r" loc\(.*?\)$|^#loc.*$", re.MULTILINE)
_NUMBER = re.compile(r"\d+")
_SLOT = re.compile(r"[\w.]+\[\d+\]")


# --- the worker's side ------------------------------------------------------------------------------------------------


class _Reached(Exception):
    """Stops Triton's passes before the one that inserts fences."""


@dataclass
class Collector:
    """A hook of Triton's stages: collects the modules of each kernel, and leaves the rest of a compile out."""

    found: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def __call__(self, backend: Any, stages: dict[str, Any], options: Any, language: Any, capability: int) -> None:
        """Called by Triton before each compile."""
        lay_out = stages["ttgir"]

        def both(module: Any, metadata: dict[str, Any]) -> Any:
            from tawa.bridge.triton.generic_print import print_generic

            name = (re.findall(r"tt\.func public @([\w$.-]+)", str(module)) or ["?"])[0]
            if "ttir" in stages:  # Gluon has no passes that insert fences
                self.found.append((name, BEFORE, before_fences(lay_out, str(module))))
            made = lay_out(module, metadata)
            self.found.append((name, FINAL, print_generic(made)))
            say_alive()
            return made

        stages["ttgir"] = both
        stages["llir"] = _without_code
        stages["ptx"] = lambda text, metadata: text
        stages["cubin"] = lambda text, metadata: b""


def _without_code(module: Any, metadata: dict[str, Any]) -> str:
    """Takes the place of Triton's code generation: a kernel that needs nothing."""
    metadata |= {"name": "kernel", "shared": 0, "tmem_size": 0, "global_scratch_size": 0, "global_scratch_align": 1,
                 "profile_scratch_size": 0, "profile_scratch_align": 1}  # fmt: skip
    return ""


def before_fences(lay_out: Callable[[Any, dict[str, Any]], Any], ttir: str) -> str:
    """The module that reaches the pass that inserts fences, in the generic form."""
    from triton._C.libtriton import nvidia

    from tawa.bridge.triton.generic_print import parse_module, print_generic
    from tawa.bridge.triton.structured import new_context

    module: Any = parse_module(ttir, new_context())
    room: Any = nvidia.passes.ttnvgpuir
    insert = room.add_fence_insertion

    def stop(passes: Any, *_: Any) -> None:
        passes.run(module, "before_fences")
        raise _Reached

    room.add_fence_insertion = stop
    try:
        lay_out(module, {})
    except _Reached:
        return print_generic(module)
    finally:
        room.add_fence_insertion = insert
    raise AssertionError("Triton inserts no fences")


_collector = Collector()
_ready: set[bool] = set()


def handle(job: Job) -> Answer:
    """Compiles one case or entry, and checks its modules."""
    _prepare(job["source"] == CORPUS)
    _collector.found.clear()
    message = ""
    try:
        (_run_entry if job["source"] == CORPUS else _run_case)(job)
    except Exception as failure:
        message = describe(failure)
    kernels = {(_identity(text), level): (name, text) for name, level, text in _collector.found}
    judged = [{"kernel": name, "level": level, "same": same, **judge(text, job["effort"])}
              for (same, level), (name, text) in kernels.items()]  # fmt: skip
    return {"status": "done" if not message or judged else "failed", "message": message, "judged": judged}


def judge(text: str, effort: Any) -> dict[str, Any]:
    """The verdict on a module, its reason and the milliseconds of the check."""
    from tawa.ir import parse_module
    from tawa.verify.check import check_levels
    from tawa.verify.verdict import Refuted, Unknown

    start = time.process_time()
    try:
        verdict = check_levels(None, parse_module(text), effort=effort)
        name, why = type(verdict).__name__.lower(), ""
        if isinstance(verdict, Refuted):
            why = f"{verdict.witness.kind}: {verdict.witness.message}"
        elif isinstance(verdict, Unknown):
            why = verdict.reason
    except Exception as failure:
        name, why = "failed", describe(failure)
    say_alive()
    return {"verdict": name, "why": why, "ms": round((time.process_time() - start) * 1000, 2)}


def _identity(text: str) -> str:
    """The same for modules that differ in locations only."""
    return hashlib.sha256(_PLACE.sub("", text).encode()).hexdigest()[:16]


def listen(collector: Collector) -> None:
    """Lets all further compiles of this process go through a collector."""
    from triton import knobs

    knobs.compilation.always_compile = True
    runtime: Any = knobs.runtime
    runtime.add_stages_inspection_hook = collector


def _prepare(corpus: bool) -> None:
    if corpus not in _ready:
        _ready.add(corpus)
        if corpus:
            from bench.corpus.modes import keep_tunings_apart
            from bench.corpus.without_gpu import pretend

            pretend()
            keep_tunings_apart(bench=False)
    listen(_collector)


def _run_case(job: Job) -> None:
    compile_case(cases(job["source"])[job["name"]]())


def compile_case(case: Any) -> None:
    """Compiles a case by Triton alone. A cubin without code would be taken for a damaged one elsewhere."""
    import triton
    from triton.compiler import ASTSource

    from bench.compile_time import signature
    from tawa.bridge.driver.compile import jit_function
    from tawa.bridge.triton.device import gpu_target
    from tawa.machine.machines import SM_90

    made = signature(case)
    source = ASTSource(jit_function(case.kernel), made.types, made.constants, made.attributes)
    options = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    triton.compile(source, target=gpu_target(SM_90), options=options)


def _run_entry(job: Job) -> None:
    from bench.corpus.modes import Tuning, begin_tuning
    from bench.corpus.packages import find_entry
    from bench.corpus.running import evaluate, forget_compiled, make_inputs

    package, _, key = job["name"].partition(": ")
    found, entry = find_entry(package, key)
    found.load()
    begin_tuning(Tuning(job["configs"]))
    forget_compiled()
    evaluate(entry, make_inputs(entry, "cpu", 0), entry.run)


# --- the kernels ------------------------------------------------------------------------------------------------------


def cases(source: str) -> Mapping[str, Callable[[], Any]]:
    """The cases of a source by name; a case is made when it is called."""
    return _SOURCES[source]() if source in _SOURCES else _room(source)


def _room(room: str) -> dict[str, Callable[[], Any]]:
    found = importlib.import_module(f"tests.cases.{room}.cases").CASES
    return {case.name: lambda case=case: case for case in found}


def _pointers() -> dict[str, Callable[[], Any]]:
    from bench.pointers.families import families

    return {
        f"{name} {it.label}": lambda family=family, it=it: family.build(it, family.checked)
        for name, family in families().items()
        for it in family.configurations
        if it.kind == "stock"
    }


def _attention() -> dict[str, Callable[[], Any]]:
    from bench.attention.candidates import DTYPES, Shape, configurations, make_case

    shapes = [Shape(dtype, d, causal, 1024) for dtype in DTYPES for d in (64, 128, 256) for causal in (False, True)]
    return {
        f"{shape.dtype} d={shape.d} causal={shape.causal} {it.label}": lambda shape=shape, it=it: make_case(shape, it)
        for shape in shapes
        for it in configurations(shape.dtype, shape.d, shape.causal)
        if it.kind == "stock"
    }


def _gemm() -> dict[str, Callable[[], Any]]:
    from bench.gemm.candidates import families

    return {
        f"{family.name} {it.label}": lambda family=family, it=it: _gemm_case(family, it)
        for family in families().values()
        for it in family.configurations
        if it.kind == "stock"
    }


def _gemm_case(family: Any, it: Any) -> Any:
    from bench.gemm.candidates import GROUP_M
    from tawa.demo.kernels import gemm as shown
    from tests.cases.gemm import cases, epilogues

    split = it.kernel == "split"
    kernel: Any = {"tile": shown.gemm_tile, "persistent": shown.gemm_persistent, "split": epilogues.gemm_split_epilogue}
    more = {"tile": {"A_T": False}, "persistent": {"A_T": False, "FLATTEN": it.flatten}}
    constexprs = cases.block(
        it.BM, it.BN, it.BK, GROUP_M=GROUP_M, B_T=family.b_t, **more.get(it.kernel, {"FLATTEN": it.flatten})
    )
    return cases.case(
        it.label, kernel[it.kernel], cases.operands("fp16" if family.dtype == "fp16" else "fp8e4nv", "fp16",
                                                    b_t=family.b_t),
        {**cases.descriptors(b_t=family.b_t, c_block="BN/2" if split else "BN"), **cases.SIZES}, constexprs,
        {"M": 2048, "N": 2048, "K": 2048, "PROGRAMS": 132}, "tiles" if it.kernel == "tile" else "programs", "gemm",
        num_warps=it.num_warps, num_stages=it.num_stages,
    )  # fmt: skip


_SOURCES: dict[str, Callable[[], Mapping[str, Callable[[], Any]]]] = {
    "bench.gemm": _gemm,
    "bench.attention": _attention,
    "bench.pointers": _pointers,
}


def jobs(only: str, packages: str, configs: int, effort: str) -> Iterator[Job]:
    """A job for each case, and for each entry of the corpus if there is a folder of packages."""
    named = [(source, name) for source in (*ROOMS, *_SOURCES) for name in cases(source)]
    if packages:
        from bench.corpus.__main__ import chosen

        named += [(CORPUS, f"{package.name}: {entry.key}") for package, entry in chosen([])]
    for source, name in named:
        if only in f"{source}: {name}":
            yield {"source": source, "name": name, "configs": configs, "effort": effort}


# --- the parent's side ------------------------------------------------------------------------------------------------


@dataclass
class Findings:
    """The verdicts so far: of each module of each source once."""

    judged: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    undone: list[tuple[Job, str]] = field(default_factory=list[tuple[Job, str]])
    seen: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    answers: int = 0

    def take(self, job: Job, answer: Answer) -> None:
        """The answer to a job."""
        self.answers += 1
        if self.answers % 100 == 0:
            print(f"{self.answers} jobs, {len(self.judged)} modules", file=sys.stderr, flush=True)
        if answer.get("message"):
            self.undone.append((job, str(answer["message"])))
        for it in answer.get("judged", ()):
            key = job["source"], it["level"], it["same"]
            if key in self.seen:
                continue
            self.seen.add(key)
            self.judged.append({**it, "source": job["source"], "of": job["name"]})
            if it["verdict"] in ("refuted", "failed"):
                print(f"{job['source']}: {job['name']}: {it['kernel']}, {it['level']}: {it['why']}"[:400], flush=True)

    def rows(self) -> Iterator[Row]:
        """The rows of the result file."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for it in self.judged:
            groups[it["source"], it["level"]].append(it)
        for (source, level), group in groups.items():
            counts = Counter(it["verdict"] for it in group)
            case = {"source": source, "modules": len(group), **{name: counts[name] for name in VERDICTS}}
            yield Row.timed(case, level, Timing.of([it["ms"] for it in group]), 0)
        alarms: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for it in self.judged:
            if it["verdict"] in ("refuted", "failed"):
                alarms[it["verdict"], it["source"], it["of"], it["kernel"], it["why"]].append(it["level"])
        for (verdict, source, of, kernel, why), levels in alarms.items():
            case = {"source": source, "of": of, "kernel": kernel, "levels": levels}
            yield Row(case, "false alarm" if verdict == "refuted" else "failed", error=why[:400])
        reasons = Counter((it["level"], plain(it["why"])) for it in self.judged if it["verdict"] == "unknown")
        for (level, reason), count in sorted(reasons.items()):
            yield Row({"level": level, "reason": reason, "modules": count}, "unknown")
        for job, message in self.undone:
            yield Row({"source": job["source"], "of": job["name"]}, "job", error=message[:300])

    def print_table(self) -> None:
        """Verdicts by source and level, then how often there is a reason for a false alarm or an unknown verdict."""
        shown = [name for name in VERDICTS if any(it["verdict"] == name for it in self.judged)]
        print(f"\n{'source':18}{'level':16}{'modules':>9}" + "".join(f"{name:>9}" for name in shown))
        for row in self.rows():
            if row.candidate in LEVELS:
                counts = "".join(f"{row.case[name]:9}" for name in shown)
                print(f"{row.case['source']:18}{row.candidate:16}{row.case['modules']:9}{counts}")
        for verdict in ("refuted", "failed", "unknown"):
            reasons = Counter((it["level"], plain(it["why"])) for it in self.judged if it["verdict"] == verdict)
            for (level, reason), count in reasons.most_common():
                print(f"{count:5} {verdict} {level}: {reason[:200]}")
        if self.undone:
            print(f"{len(self.undone)} jobs could not be done")


def plain(reason: str) -> str:
    """A reason without its numbers, and without the names of slots."""
    return _NUMBER.sub("N", _SLOT.sub("a slot", reason))


def main(given: Sequence[str] | None = None) -> int:
    """Checks all kernels; fails if one is refuted, or a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", default="", metavar="FOLDER", help="with the packages of bench.corpus")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--configs", type=int, default=2, help="configurations of an autotuner that are compiled")
    parser.add_argument("--effort", choices=("fast", "full"), default="full")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no job after this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.worker:
        serve_jobs(handle)
        return 0
    report, findings, end = Report("stock_verdicts"), Findings(), time.monotonic() + arguments.minutes * 60
    report.about["effort"] = arguments.effort
    todo = list(jobs(arguments.only, arguments.packages, arguments.configs, arguments.effort))
    with tempfile.TemporaryDirectory(prefix="stock-verdicts-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder  # modules without code must not be found by anyone
        for corpus in (False, True):  # entries have a worker of their own, whose driver is a stand-in
            part = [job for job in todo if (job["source"] == CORPUS) is corpus]
            folders = [arguments.packages] if corpus else []
            if part:
                run_jobs("bench.stock_verdicts", part, findings.take, arguments.processes, LIMIT_S, end, folders)
    report.add(*findings.rows())
    findings.print_table()
    print(report.save())
    good = not any(it["verdict"] in ("refuted", "failed") for it in findings.judged)
    print(f"wanted: no false alarm: {'pass' if good else 'FAIL'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
