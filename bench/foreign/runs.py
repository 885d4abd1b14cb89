"""Runs a program with a fault in the simulator, as it was launched: does any order of events change its results?

Tensors are random, and the results of the unbroken program are the right ones. It is the judgement of
``tests/verify/mutations_oracle.py`` on programs for which only their launch is known.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from bench.foreign.programs import Program
from tawa.ir import Module
from tawa.sim import Descriptor, simulate
from tawa.sim.machine.cta import Order
from tests.verify.mutations_oracle import Oracle, Subject

TYPES = {"float16": np.float16, "float32": np.float32, "int32": np.int32, "int64": np.int64}
MOST_PROGRAMS, MOST_ROWS = 16, 512
"""Of a larger grid, one program is run; a persistent one then computes all tiles. If a kernel reads and writes through
descriptors alone, which bound its accesses, its matrices have no more rows and columns than these."""


def oracle_of(program: Program) -> Oracle | None:
    """The judge of a program; None if its arguments are unknown or of a type that is not simulated here."""
    given = program.arguments
    if not given or any(it is None or (isinstance(it, dict) and it["type"] not in TYPES) for it in given.values()):
        return None
    grid = (*program.grid, 1, 1)[:3]
    whole = grid if prod(grid) <= MOST_PROGRAMS else (1, 1, 1)

    bounded = all(it["descriptor"] for it in given.values() if isinstance(it, dict))

    def problem(module: Module, order: Order, seed: int) -> Any:
        arrays = {name: _array(it, bounded) for name, it in given.items() if isinstance(it, dict)}
        numbers = {name: it for name, it in given.items() if not isinstance(it, dict)}
        tensors = {name: Descriptor(it) if given[name]["descriptor"] else it for name, it in arrays.items()}
        simulate(module, {**tensors, **numbers}, whole, order, seed)
        return np.concatenate([it.reshape(-1).view(np.uint16) for it in arrays.values()])

    return Oracle(Subject(program.kernel, "barrier", program.text, {"as launched": problem}))


def _array(about: dict[str, Any], bounded: bool) -> Any:
    kind = TYPES[about["type"]]
    shape = [min(size, MOST_ROWS) for size in about["shape"]] if bounded else about["shape"]
    if kind in (np.int32, np.int64):
        return np.zeros(shape, kind)
    return np.random.default_rng(0).standard_normal(shape).astype(kind)
