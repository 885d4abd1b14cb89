"""Runs every attention case on a GPU and compares it with float64: ``python bench/attention_correctness.py``.

For each case of `tawa.kernels.attention.cases`: fresh random inputs, outputs full of NaN, the kernel specialised
wherever that is legal, as planned, with the groups taking turns (``ping_pong=True``), and made persistent on two SMs;
persistent kernels also on other numbers of programs. Each is run four times, each time in other memory: the same bits
every time, every element that must be written and no other, and an error of at most twice that of PyTorch in the same
precision (`tawa.kernels.check`).

Cases run in several processes under a watchdog (`workers.py`). Results: ``bench/results/attention_correctness.json``;
``error`` of a row is its error divided by what is allowed (at most 1 passes), or a text. ``--only NAME`` takes some.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from case_jobs import CaseBench, on_processors

from tawa.kernels.attention.cases import CASES
from tawa.kernels.case import Case

RUNS = 4
PROGRAMS = (2, 12)
WAYS: dict[str, dict[str, Any]] = {
    "planned": {},
    "turns": {"ping_pong": True},
    "persistent": {"persistent": True},
}
PROCESSORS = 2  # of a kernel that Tawa makes persistent, so that each of these problems takes it several rounds


def problems(case: Case) -> Iterator[tuple[str, Case]]:
    """The case's own problem; of a persistent kernel also on few and on many programs."""
    yield "own", case
    if "persistent" in case.tags:
        yield from ((f"{count} programs", case.with_sizes(PROGRAMS=count)) for count in PROGRAMS)


def check(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """Runs one problem and judges it."""
    import torch

    import tawa
    from tawa.errors import PlanError
    from tawa.kernels import launch
    from tawa.kernels.check import judge_all

    kernel = tawa.jit(case.kernel)
    placed: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    compiled: Any = None
    for _ in range(RUNS):
        placed.append(tensors := launch.make_tensors(case, seed=zlib.crc32(case.name.encode())))
        try:
            with on_processors(PROCESSORS if "persistent" in options else None):
                compiled = launch.launch(case, kernel, tensors, only_if_faster=False, **options)
        except PlanError as error:
            return {"status": "ok", "declined": str(error)}
        torch.cuda.synchronize()
        outputs.append({name: tensors[name].clone() for name in launch.outputs(case)})
    verdict = judge_all(case, placed[-1], outputs)
    record = compiled.metadata.tawa
    answer: dict[str, Any] = {
        "status": "failed" if verdict.faults else "ok",
        "ratio": min(verdict.ratio, 1e9),
        "specialised": record["applied"],
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
    }
    if record["applied"]:
        parts = record["plan"]["partitions"]
        answer["groups"] = sum(part["role"] == "consumer" for part in parts)
        answer["D"] = [ring["depth"] for ring in record["plan"]["rings"]]
    else:
        answer["declined"] = record["reason"]
    return {**answer, "message": "; ".join(verdict.faults)} if verdict.faults else answer


BENCH = CaseBench(Path(__file__).resolve(), __doc__ or "", CASES, WAYS, problems, check)

if __name__ == "__main__":
    raise SystemExit(BENCH.main())
