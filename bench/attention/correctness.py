"""Runs every attention case on a GPU and compares it with float64: ``python -m bench.attention.correctness``.

For each case of `tests.cases.attention.cases`, inputs are random and outputs are full of NaN. The kernel is specialised
wherever that is legal: as planned, with ping-pong (``ping_pong=True``), with sums and rows in another order
(``precision="relaxed"``), made persistent on two SMs, with a converter where one can transpose an operand, and with two
or three programs in one CTA; persistent kernels also run on other numbers of programs. Each is run four times, each
time in other memory. A problem passes if the bits are the same every time, every element of the output and no other is
written, and the error is at most twice that of PyTorch in the same precision (`tests.cases.check`).

Cases run in several processes under a watchdog (`bench.workers`). Results:
``bench/results/attention_correctness.json``; the ``error`` of a row is the error divided by the allowed error (at most
1 passes), or a text. ``--only NAME`` takes some cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from bench.case_jobs import CaseBench, on_processors
from tests.cases.attention.cases import CASES
from tests.cases.case import Specimen

RUNS = 4
PROGRAMS = (2, 12)
WAYS: dict[str, dict[str, Any]] = {
    "planned": {},
    "ping-pong": {"ping_pong": True},
    "relaxed": {"precision": "relaxed"},
    "persistent": {"persistent": True},
    "converter": {"plan": {"operands": [{"transposed": "converter"}]}},
    "pairs": {"plan": {"groups": 2, "split": "programs"}},
    "threes": {"plan": {"groups": 3, "split": "programs"}},
}
PROCESSORS = 2  # few, so that a kernel made persistent needs several rounds for each of these problems


def problems(case: Specimen) -> Iterator[tuple[str, Specimen]]:
    """The case's own problem; of a persistent kernel also on few and on many programs."""
    yield "own", case
    if "persistent" in case.tags:
        yield from ((f"{count} programs", case.with_sizes(PROGRAMS=count)) for count in PROGRAMS)


def check(case: Specimen, options: dict[str, Any]) -> dict[str, Any]:
    """Runs one problem and judges it."""
    import torch

    import tawa
    from tawa.errors import PlanError, ResourceError, UnsupportedKernel
    from tests.cases import launch
    from tests.cases.check import judge_all

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
        except (ResourceError, UnsupportedKernel) as error:
            if "plan" not in options:
                raise
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


BENCH = CaseBench("bench.attention.correctness", "attention_correctness", __doc__ or "", CASES, WAYS, problems, check)

if __name__ == "__main__":
    raise SystemExit(BENCH.main())
