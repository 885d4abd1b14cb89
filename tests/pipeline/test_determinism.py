"""Same input, same bytes out: within a process, and in another with another hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs import ttgir as programs
from tests.support.pipeline import specialise

PROGRAMS = [
    "tile_gemm",
    "persistent_gemm",
    "two_loops",
    "gate_up",
    "branching_gemm",
    "while_gemm",
    "nested_loops",
    "guarded_gemm",
    "while_sum",
]


def digest(program: str) -> str:
    """A hash over both levels, the plan and the remarks."""
    made = specialise(getattr(programs, program)(), PlanOptions(aref_depth=3, mma_depth=2), Target(4, 3))
    assert made.plan is not None
    text = "\n".join((made.aref, made.barrier, made.plan.to_json(), *map(str, made.remarks)))
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_run_gives_the_same_bytes(program: str) -> None:
    assert digest(program) == digest(program)


def test_a_fresh_process_with_another_hash_seed_gives_the_same_bytes() -> None:
    here = "\n".join(digest(program) for program in PROGRAMS)
    code = f"from {__name__} import PROGRAMS, digest\nprint('\\n'.join(map(digest, PROGRAMS)))"
    for seed in ("1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        assert done.stdout.strip() == here
