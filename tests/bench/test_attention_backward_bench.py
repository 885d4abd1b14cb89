"""`bench/attention/backward.py` without a GPU: its problems, its command line, its lines, its Plans."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.attention import backward, backward_by_hand
from bench.attention.page_tables import mechanisms
from bench.harness import ROOT, Row
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.cases import find
from tests.matrix.compiling import attempted


def test_problems_have_one_number_of_tokens_and_names_of_their_own() -> None:
    assert len({str(it) for it in backward.PROBLEMS}) == len(backward.PROBLEMS)
    for it in backward.PROBLEMS:
        batches, heads, length, d = it.shape
        assert batches * length == backward.TOKENS and heads * d == backward.HIDDEN
    full, causal = backward.PROBLEMS[:2]
    assert full.flop == 2 * causal.flop == 10 * 4 * 16 * 4096**2 * 128


def test_a_line_has_rates_or_why_there_are_none() -> None:
    case = {"d": 128, "host_us": 300.4}
    rows = {"Tawa": Row(case, "Tawa", tflops=612.4), "cuDNN": Row(case, "cuDNN", error="RuntimeError: no")}
    line = backward.line_of(backward.PROBLEMS[0], rows)
    assert line.split() == ["d128", "S4096", "full", "Tawa", "612", "(300", "us)", "cuDNN", "RuntimeError:", "no"]
    assert backward.line_of(backward.PROBLEMS[0], {"A": Row({}, "A", tflops=597.6)}).endswith("A 598")


def test_a_plan_of_a_file_is_for_the_problems_of_its_head_dimension_and_mask() -> None:
    asked = {"one": {"d": 64, "mask": "full", "plan": {}}, "two": {"d": 64, "mask": "causal", "plan": {}}}
    found = {str(it): list(backward.of_problem(it, asked)) for it in backward.PROBLEMS}
    assert found["d64 S1024 full"] == ["one"] and found["d64 S16384 causal"] == ["two"]
    assert not any(names for problem, names in found.items() if not problem.startswith("d64"))
    alone = {"one": {**asked["one"], "S": 1024}}
    assert [str(it) for it in backward.PROBLEMS if backward.of_problem(it, alone)] == ["d64 S1024 full"]


@pytest.mark.parametrize(
    ("module", "option"),
    [("backward", b"--ablation"), ("backward", b"--plans"), ("backward_by_hand", b"--compile")],
)
def test_the_command_explains_itself(module: str, option: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", f"bench.attention.{module}", "--help"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0 and option in done.stdout


def test_programs_by_hand_begin_at_different_queries_only_where_all_queries_see_all_keys() -> None:
    full, causal = (backward_by_hand.NAMED[f"d256 S4096 {mask}"] for mask in ("full", "causal"))
    assert {"1 and 2 parts, turned"} == {*backward_by_hand.variants_for(full)} - {
        *backward_by_hand.variants_for(causal)
    }


@pytest.mark.parametrize("mechanism", backward.WITHOUT)
def test_every_mechanism_can_be_left_out_by_a_plan(mechanism: str) -> None:
    plan = Plan.of(backward.WITHOUT[mechanism])
    outcome, _ = attempted(find("added_bf16_d128_full"), PlanOptions(only_if_faster=False), plan)
    assert getattr(outcome, "outcome", outcome).applied


def test_the_table_of_mechanisms_has_rates_without_and_with_each() -> None:
    rates = {
        (64, "Tawa"): 600.0,
        (64, "without staged reductions"): 400.0,
        (64, "without a new one"): 500.0,
        (128, "Tawa"): 700.0,
        (128, "without staged reductions"): 350.0,
    }
    lines = mechanisms([Row({"d": d}, name, tflops=rate) for (d, name), rate in rates.items()])
    assert "| staged reductions | 400 → 600 (1.50) | 350 → 700 (2.00) |" in lines
    assert "| waits by dataflow | not timed alone | not timed alone |" in lines
    assert lines[-1] == "| a new one | 500 → 600 (1.20) | – |"
