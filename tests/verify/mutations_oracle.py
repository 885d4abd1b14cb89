"""The simulator as the oracle for mutants: does the program trap, hang, or compute other bits than the original?

A subject is a program with small problems: trip counts 0, 1, D − 1, D, D + 1, 2·D and 2·D + 1 for rings of depth D,
and two or three tiles per program if it is persistent. Each problem runs with asynchronous work that completes at once,
as late as possible, and at random times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.read_module import read_levels
from tawa.ir import Module, parse_module, print_module
from tawa.machine.machines import SM_100
from tawa.plan import OperandPlan, Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import Descriptor, SimulationError, simulate
from tawa.sim.machine.cta import Order
from tests.cases.attention.builders import forward_case, resized
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.cases.gemm.transposed import SMALL
from tests.matrix.compiling import signature
from tests.sim.problems import level_text, make_arrays, run, ttgir_of
from tests.support.pipeline import specialise

Level = Literal["aref", "barrier"]
DEPTH = 2
PINNED = PlanOptions(enable_warp_specialization=True, aref_depth=DEPTH, mma_depth=1)
BY_CONVERTER = Plan(operands=(OperandPlan(transposed="converter"),))
DATA = Path(__file__).parent / "data"
GLUON = tuple(path.stem for path in sorted(DATA.glob("gluon_*.mlir")))
Runs = tuple[tuple[Order, int], ...]
ONE: Runs = (("eager", 0),)
FEW: Runs = (("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("random", 3))
MANY: Runs = (*FEW, *(("random", seed) for seed in range(10, 30)))

Problem = Callable[[Module, Order, int], Any]
"""Runs a module on one problem and returns the bits of its output."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A correct program of one level, and its problems by name. `aref`: its aref level; empty if it has none."""

    name: str
    level: Level
    text: str
    problems: Mapping[str, Problem]
    aref: str = ""


def kernel(name: str, level: Level, depth: int = DEPTH, mma_depth: int = 1) -> Subject:
    """A kernel that is specialised with D = `depth` and P = `mma_depth`."""
    case = find(name)
    found = {_title(sizes): _case_problem(case.with_sizes(**sizes)) for sizes in sizes_around(case, depth)}
    text, aref = (level_text(name, it, depth, mma_depth) for it in (level, "aref"))
    return Subject(name, level, text, found, aref)


CONVERTER = "converter"


def converter(level: Level) -> Subject:
    """A GEMM with an operand that a converter transposes between two rings, with D = 2 and P = 1."""
    made = specialise(ttgir_of(SMALL), PINNED, Target(SMALL.num_warps, SMALL.num_stages), BY_CONVERTER)
    assert made.applied, made.remarks
    found = {_title(sizes): _case_problem(SMALL.with_sizes(**sizes)) for sizes in sizes_around(SMALL, DEPTH)}
    return Subject(CONVERTER, level, made.aref if level == "aref" else made.barrier, found, made.aref)


CORRECTION = "correction"


def correction(level: Level) -> Subject:
    """Attention with 128 rows for Blackwell, whose accumulator a partition of its own rewrites, with D = 2."""
    case = forward_case(CORRECTION, "one_loop", causal=False, tile=(128, 64, 4), SQ=128, SK=64, B=1, H=1, HK=1)
    made = compile_kernel(
        case.kernel, signature(case), Request(PlanOptions(only_if_faster=False, aref_depth=DEPTH)),
        num_warps=case.num_warps, num_stages=case.num_stages, target=SM_100,
    )  # fmt: skip
    found = {f"S={64 * count}": _case_problem(resized(case, 128, 64 * count)) for count in trips(DEPTH)}
    aref, barrier = (print_module(it) for it in read_levels(made) if it is not None)
    return Subject(CORRECTION, level, aref if level == "aref" else barrier, found, aref)


def hand_written(name: str) -> Subject:
    """A Gluon program."""
    problems = _gemms() if "gemm" in name else _attentions()
    return Subject(name, "barrier", (DATA / f"{name}.mlir").read_text(), problems)


def trips(depth: int) -> list[int]:
    """The trip counts around multiples of D, where behaviour may change."""
    return sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1})


class Oracle:
    """The oracle for mutants of one subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.right: dict[str, Any] = {}

    def wrong(self, module: Module, runs: Runs = FEW) -> str:
        """The first faulty run; empty if all are correct.

        An operation that the simulator does not know raises UnsupportedOp: there is no judgement then.
        """
        for name, problem in self.subject.problems.items():
            if name not in self.right:
                self.right[name] = problem(parse_module(self.subject.text), "eager", 0)
            for order, seed in runs:
                run = f"{name}, {order} {seed}"
                try:
                    if not np.array_equal(problem(module, order, seed), self.right[name]):
                        return f"{run}: other bits"
                except SimulationError as error:
                    return f"{run}: {type(error).__name__}: {error.reason.splitlines()[0]}"
        return ""

    def traps(self, module: Module, runs: Runs = MANY) -> bool:
        """Whether any run ends in a trap or a deadlock."""
        for problem in self.subject.problems.values():
            for order, seed in runs:
                try:
                    problem(module, order, seed)
                except SimulationError:
                    return True
        return False


# -- kernels of the list -----------------------------------------------------------------------------------------------


def _title(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _case_problem(case: Specimen) -> Problem:
    def problem(module: Module, order: Order, seed: int) -> Any:
        arrays = make_arrays(case)
        run(case, module, arrays, order, seed)
        return np.concatenate([it.reshape(-1).view(np.uint8) for it in arrays.values()])

    return problem


def sizes_around(case: Specimen, depth: int) -> Iterator[dict[str, int]]:
    """Sizes for each trip count; a persistent kernel gets one program, and more tiles for fewer trips."""
    block_m, block_n, block_k = (case.size(f"B{name}") for name in "MNK")
    for count in trips(depth):
        tiles = 1 if "PROGRAMS" not in case.sizes else 3 if count <= depth else 2
        sizes = {"M": tiles * block_m, "N": block_n, "K": count * block_k * case.constexprs.get("SPLIT", 1)}
        if case.reference == "lower_only":
            sizes["N"] = 2 * block_n  # one tile with work and one without
        if case.reference == "triangular":
            sizes["K"] = max(count, 1) * block_m  # its trip count grows with the row of the tile
        more = {"PROGRAMS": 1, "Z": case.constexprs.get("SPLIT", 1)}
        sizes |= {name: size for name, size in more.items() if name in case.sizes}
        if "K2" in case.sizes:
            for second in (0, 1, 2 * depth + 1):
                yield {**sizes, "K2": second * block_k}
        else:
            yield sizes


# -- Gluon programs ----------------------------------------------------------------------------------------------------


def _random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def _gemms() -> dict[str, Problem]:
    """One program with two tiles, K = 0 … 5 blocks of 64."""

    def make(count: int) -> Problem:
        a, b, out = _random(256, count * 64), _random(256, count * 64), np.zeros((256, 256), np.float16)
        launch = _launch({"a": a, "b": b}, {"c": out}, {"M": 256, "N": 256, "K": count * 64}, (1,))

        def problem(module: Module, order: Order, seed: int) -> Any:
            function = next(op for op in module.walk() if op.name == "tt.func")
            for arg, name in zip(function.regions[0].block.args, (*"aaaaabbbbbccccc", *"MNK"), strict=True):
                arg.hint = name  # the IR has no names of arguments
            return launch(module, order, seed)

        return problem

    return {f"K={64 * count}": make(count) for count in (0, 1, 2, 3, 4, 5)}


def _attentions() -> dict[str, Problem]:
    """One program of 128 rows; L = 1 … 5 blocks of 128."""

    def make(count: int) -> Problem:
        length = 128 * count
        q, k, v = (_random(length, 128) for _ in range(3))
        out = {"o_desc": np.zeros((length, 128), np.float16), "M": np.zeros(length, np.float32)}
        return _launch({"q_desc": q, "k_desc": k, "v_desc": v}, out, {"L": length, "sm_scale": 0.09}, (count, 1, 1))

    return {f"L={128 * count}": make(count) for count in (1, 2, 3, 5)}


def _launch(inputs: Mapping[str, Any], outputs: Mapping[str, Any], numbers: Mapping[str, Any], grid: Any) -> Problem:
    def problem(module: Module, order: Order, seed: int) -> Any:
        fresh = {name: array.copy() for name, array in outputs.items()}
        arrays = {**inputs, **fresh}
        given = {name: Descriptor(it) if it.ndim == 2 else it for name, it in arrays.items()}
        simulate(module, {**given, **numbers}, grid, order, seed)
        return np.concatenate([array.reshape(-1).view(np.uint16) for array in fresh.values()])

    return problem
