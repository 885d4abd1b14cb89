"""Outcomes that depend on constants beyond the tried trip counts are tried as well, or the verdict is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.ir import Builder, Module, Value, parse_module
from tawa.pipeline import Target, specialise
from tawa.plan import PlanOptions
from tawa.verify.barriers import check_barriers
from tawa.verify.effort import Effort
from tawa.verify.verdict import Checked, Refuted, Unknown
from tests.cases.programs.ttgir import ACC, binary, column, compare, for_loop, gemm_loop, iteration, kernel, op, store
from tests.support.verdicts import passes
from tests.verify.barriers.test_check import ops

TILE = Path("tests/data/tile_64x64.triton3_6.mlir")
EQ, NE, SLT, SLE = range(4)


class Make:
    """Builds a condition before an operation; `k`: the induction variable of the enclosing loop."""

    def __init__(self, builder: Builder, k: Value) -> None:
        self.builder = builder
        self.k = k

    def op(self, name: str, left: Value, right: int | Value) -> Value:
        right = self.number(right, left.type)
        return self.builder.create(f"arith.{name}", (left, right), (left.type,)).result

    def number(self, number: int | Value, type: str = "i32") -> Value:
        if isinstance(number, Value):
            return number
        text = str(bool(number)).lower() if type == "i1" else f"{number} : {type}"
        return self.builder.create("arith.constant", (), (type,), properties={"value": text}).result

    def compare(self, predicate: int, left: Value, right: int | Value) -> Value:
        properties = {"predicate": f"{predicate} : i64"}
        operands = (left, self.number(right, left.type))
        return self.builder.create("arith.cmpi", operands, ("i1",), properties=properties).result

    def pid(self) -> Value:
        return self.builder.create("tt.get_program_id", (), ("i32",), properties={"axis": "0 : i32"}).result

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.builder.create("arith.select", (condition, yes, no), (yes.type,)).result


Condition = Callable[[Make], Value]
WRONG: dict[str, Condition] = {
    "k != 1280": lambda m: m.compare(NE, m.k, 1280),
    "k < 1280": lambda m: m.compare(SLT, m.k, 1280),
    "k <= 1279": lambda m: m.compare(SLE, m.k, 1279),
    "k · 64 + 3 != 81923": lambda m: m.compare(NE, m.op("addi", m.op("muli", m.k, 64), 3), 81923),
    "k / 64 != 20": lambda m: m.compare(NE, m.op("divsi", m.k, 64), 20),
    "k >> 6 != 21": lambda m: m.compare(NE, m.op("shrsi", m.k, 6), 21),
    "(k · 7) % 1001 != 952": lambda m: m.compare(NE, m.op("remsi", m.op("muli", m.k, 7), 1001), 952),
    "min(k, 1280) != 1280": lambda m: m.compare(NE, m.op("minsi", m.k, 1280), 1280),
    "max(k, 1000) == 1000": lambda m: m.compare(EQ, m.op("maxsi", m.k, 1000), 1000),
    "pid != 5": lambda m: m.compare(NE, m.pid(), 5),
    "pid < 100": lambda m: m.compare(SLT, m.pid(), 100),
    "pid % 8 != 5": lambda m: m.compare(NE, m.op("remsi", m.pid(), 8), 5),
    "pid / 4 != 2": lambda m: m.compare(NE, m.op("divsi", m.pid(), 4), 2),
    "pid ^ 77 != 0": lambda m: m.compare(NE, m.op("xori", m.pid(), 77), 0),
    "false if pid == 5": lambda m: m.select(m.compare(EQ, m.pid(), 5), m.number(0, "i1"), m.number(1, "i1")),
    "1 if pid == 9 else 0, of which 0": lambda m: m.compare(
        EQ, m.select(m.compare(EQ, m.pid(), 9), m.number(1), m.number(0)), 0
    ),
    "not (pid == 5 and k == 1280)": lambda m: m.op(
        "xori", m.op("andi", m.compare(EQ, m.pid(), 5), m.compare(EQ, m.k, 1280)), 1
    ),
}
UNCLEAR: dict[str, Condition] = {
    "k · k != 1638400": lambda m: m.compare(NE, m.op("muli", m.k, m.k), 1638400),
    "pid · pid != 49": lambda m: m.compare(NE, *(lambda pid: (m.op("muli", pid, pid), 49))(m.pid())),
    "k != 1048576": lambda m: m.compare(NE, m.k, 1 << 20),
}
RIGHT: dict[str, Condition] = {
    "k >= 0": lambda m: m.compare(SLE, m.number(0), m.k),
    "k != 5, which no trip has": lambda m: m.compare(NE, m.k, 5),
    "k != 1281, which no trip has": lambda m: m.compare(NE, m.k, 1281),
    "true, below 1280 and past it": lambda m: m.select(m.compare(SLT, m.k, 1280), m.number(1, "i1"), m.number(1, "i1")),
}


SUMS: dict[str, Condition] = {
    "pid + k != 1280": lambda m: m.compare(NE, m.op("addi", m.pid(), m.k), 1280),
    "pid + k != 1285": lambda m: m.compare(NE, m.op("addi", m.pid(), m.k), 1285),
    "pid + k < 1285": lambda m: m.compare(SLT, m.op("addi", m.pid(), m.k), 1285),
    "k - pid != 1279": lambda m: m.compare(NE, m.op("subi", m.k, m.pid()), 1279),
    "pid · 3 + k != 1285": lambda m: m.compare(NE, m.op("addi", m.op("muli", m.pid(), 3), m.k), 1285),
    "pid + k + pid != 1286": lambda m: m.compare(
        NE, *(lambda pid: (m.op("addi", m.op("addi", pid, m.k), pid), 1286))(m.pid())
    ),
}
"""The program id and the induction variable in one number."""


def specialised(text: str) -> Module:
    outcome = specialise(text, PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    assert outcome.applied, outcome.remarks
    return parse_module(outcome.barrier)


def released_if(condition: Condition, text: str | None = None) -> Module:
    """A GEMM whose consumer releases its slots only if the condition holds."""
    module = specialised(text or TILE.read_text())
    release = next(
        op for op in ops(module, "ttng.arrive_barrier") if any(outer.name == "scf.for" for outer in op.ancestors())
    )
    loop = next(outer for outer in release.ancestors() if outer.name == "scf.for")
    make = Make(Builder.before(release), loop.regions[0].block.args[0])
    holds = condition(make)
    if len(release.operands) > 1:
        holds = make.op("andi", release.operands[1], holds)
    make.builder.create("ttng.arrive_barrier", (release.operands[0], holds), (), properties=dict(release.properties))
    release.erase()
    return module


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("name", WRONG)
def test_a_release_that_fails_for_one_number_is_refuted(name: str, effort: Effort) -> None:
    verdict = check_barriers(released_if(WRONG[name]), effort=effort)
    assert isinstance(verdict, Refuted), verdict


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("name", UNCLEAR)
def test_an_outcome_without_inputs_or_a_feasible_run_is_unknown(name: str, effort: Effort) -> None:
    verdict = check_barriers(released_if(UNCLEAR[name]), effort=effort)
    assert isinstance(verdict, Unknown), verdict


@pytest.mark.parametrize("name", RIGHT)
def test_a_condition_that_always_holds_is_proved(name: str) -> None:
    verdict = check_barriers(released_if(RIGHT[name]))
    assert passes(verdict), verdict


def test_the_bound_states_the_numbers_beyond_the_trips() -> None:
    verdict = check_barriers(released_if(RIGHT["true, below 1280 and past it"]))
    assert isinstance(verdict, Checked), verdict
    assert max(int(number) for number in re.findall(r"\d+", verdict.bound)) > 1280


def test_numbers_that_an_assumption_excludes_are_not_tried() -> None:
    module = released_if(WRONG["k != 1280"])
    assert passes(check_barriers(module, assume=("K <= 1280",)))
    assert passes(check_barriers(released_if(WRONG["k != 1280"]), arguments={"K": 640}))


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("persistent", [False, True], ids=["one tile", "persistent"])
@pytest.mark.parametrize("name", SUMS)
def test_a_release_that_fails_for_a_sum_of_inputs_is_not_proved(name: str, persistent: bool, effort: Effort) -> None:
    verdict = check_barriers(released_if(SUMS[name], persistent_text() if persistent else None), effort=effort)
    assert isinstance(verdict, Refuted | Unknown), verdict


def persistent_text() -> str:
    """A loop over tiles that starts at the program id, with a GEMM of %n steps in each."""
    asked = "axis = 0 : i32"
    numbers = (
        op("tt.get_program_id", "", "", "%pid", "i32", properties=asked),
        op("tt.get_num_programs", "", "", "%programs", "i32", properties=asked),
    )
    tiles = "\n".join((column("tile"), gemm_loop(at="%k, %column"), store(at="%tile, %zero")))
    return kernel("\n".join((*numbers, for_loop(tiles, induction="tile", lower="pid", upper="m", step="programs"))))


def loops_from(low: int, made: str, around: str = "", text: str = "") -> str:
    """A kernel with a loop from a constant to %upper with two consecutive dots; `made` defines %upper."""
    constants = "\n".join(
        op("arith.constant", "", "", f"%{name}", "i32", properties=f"value = {number} : i32")
        for name, number in (("low", low), ("many", 64))
    )
    dots = "\n".join((iteration(result="mid"), iteration("mid", "next", "_2")))
    carried = {"sum": ("zeros", "next", ACC)}
    loop = for_loop(dots, lower="low", upper="upper", carried=carried, results="%acc")
    body = "\n".join((loop, store()))
    if around:
        body = for_loop(body, induction="outer", lower=around, upper="upper")
    return kernel("\n".join((constants, text, made, body)))


EMPTY: dict[str, str] = {
    "-3 … n": loops_from(-3, binary("upper", "addi", "n", "zero")),
    "-3 … min(n, m)": loops_from(-3, binary("upper", "minsi", "n", "m")),
    "-3 … max(n, m)": loops_from(-3, binary("upper", "maxsi", "n", "m")),
    "-3 … n + m": loops_from(-3, binary("upper", "addi", "n", "m")),
    "-3 … n - m": loops_from(-3, binary("upper", "subi", "n", "m")),
    "-3 … n · 2": loops_from(-3, binary("upper", "muli", "n", "two")),
    "-3 … n / 64": loops_from(-3, binary("upper", "divsi", "n", "many")),
    "-3 … n if n < m else m": loops_from(
        -3,
        "\n".join((compare("less", "n", "m", 2), op("arith.select", "%less, %n, %m", "i1, i32, i32", "%upper", "i32"))),
    ),
    "inside of a loop with the same bounds": loops_from(-3, binary("upper", "addi", "n", "zero"), around="low"),
    "inside of a loop from 5 on": loops_from(5, binary("upper", "minsi", "n", "m"), around="low"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_loop_from_a_constant_is_proved_though_only_negative_bounds_make_it_empty(name: str) -> None:
    for effort in ("fast", "full"):
        verdict = check_barriers(specialised(EMPTY[name]), effort=effort)
        assert passes(verdict), (effort, verdict)
