"""Phases made by hand and early exits: no false alarm, and each fault that is put in is refuted."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module, parse_module, print_module
from tawa.sim import Descriptor, simulate
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import FaultKind, Proved, Refuted
from tawa.verify.witness import describe
from tests.matrix.gluon import gluon_module
from tests.verify import mutations_barrier as mutate
from tests.verify import mutations_edits as edits
from tests.verify.barriers import by_hand

PHASES = ("count", "toggle", "select", "xor")
EXITS = ("none", "program", "partition", "memory")


@cache
def summed(phases: str, exit: str = "none", D: int = 3) -> Module:
    constants = {"D": D, "PHASES": phases, "EXIT": exit, "num_warps": 4}
    return gluon_module(by_hand.summed, {"x": [64, 64]}, constants, {"x": "fp16"}, {"counts": "*i32", "o": "*fp32"})


@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("phases", PHASES)
def test_phases_made_by_hand_are_proved(phases: str, D: int) -> None:
    verdict = check_barriers(summed(phases, D=D))
    assert isinstance(verdict, Proved), describe(verdict)


@pytest.mark.parametrize("exit", EXITS)
@pytest.mark.parametrize("phases", ["count", "select"])
def test_early_exits_and_counts_from_memory_are_proved(phases: str, exit: str) -> None:
    verdict = check_barriers(summed(phases, exit))
    assert isinstance(verdict, Proved), describe(verdict)


def test_a_partition_that_leaves_alone_is_refuted() -> None:
    verdict = check_barriers(summed("count", "consumer"))
    assert isinstance(verdict, Refuted), describe(verdict)
    assert verdict.witness.kind == "deadlock" and verdict.witness.inputs["n"] == 5, describe(verdict)


@pytest.mark.parametrize("exit", EXITS)
@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_the_simulator_runs_early_exits(exit: str, order: Any) -> None:
    random = np.random.default_rng(0)
    x, o = random.standard_normal((128, 7 * 64)).astype(np.float16), np.zeros((128, 64), np.float32)
    for n in (0, 2, 7):
        counts = np.full(2, n, np.int32)
        simulate(summed("select", exit), {"x": Descriptor(x), "counts": counts, "o": o, "n": n, "last": 1}, (2,), order)
        wanted = x.astype(np.float32).reshape(128, 7, 64)[:, :n].sum(axis=1)
        rows = 64 if exit == "program" else 128
        if n or exit != "partition":
            np.testing.assert_allclose(o[:rows], wanted[:rows], atol=1e-4)


FAULTS: dict[str, tuple[FaultKind, edits.Change, str, int]] = {
    "the producer does not wait": ("arrive count", edits.drop, mutate.WAIT, 1),
    "the consumer does not wait": ("read before write", edits.drop, mutate.WAIT, 0),
    "the other parity": ("deadlock", mutate.flip_parity, mutate.WAIT, 1),
    "the same parity every time": ("phase overrun", mutate.constant_parity(0), mutate.WAIT, 0),
    "no release": ("deadlock", edits.drop, mutate.ARRIVE, 0),
    "a release twice": ("phase overrun", edits.double, mutate.ARRIVE, 0),
    "a release before the read": ("missing fence", edits.earlier, mutate.ARRIVE, 0),
    "two arrivals expected": ("arrive count", edits.add("count", 1), mutate.INIT, 1),
    "more bytes than are copied": ("transaction bytes", mutate.one_tile_more, mutate.EXPECT, 0),
    "no bytes expected": ("transaction bytes", edits.drop, mutate.EXPECT, 0),
    "no fence": ("missing fence", edits.drop, mutate.FENCE, 0),
    "the next slot": ("read before write", mutate.copy_target, mutate.COPY, 0),
    "the next barrier": ("transaction bytes", mutate.copy_barrier, mutate.COPY, 0),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phases", PHASES)
def test_a_fault_is_refuted(phases: str, fault: str) -> None:
    _, change, name, place = FAULTS[fault]
    module = parse_module(print_module(summed(phases)))
    assert change([op for op in module.walk() if op.name == name][place]) is not None
    verdict = check_barriers(module)
    assert isinstance(verdict, Refuted), describe(verdict)
    kind = FAULTS[fault][0]
    assert verdict.witness.kind == kind, describe(verdict)
