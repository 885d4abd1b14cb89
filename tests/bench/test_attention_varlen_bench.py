"""`bench/attention/varlen.py` without a GPU: its problems, its command line, its rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.attention import varlen
from bench.harness import Row

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mix", varlen.MIXES)
def test_lengths_add_up_and_are_the_same_each_time(mix: str) -> None:
    lengths = varlen.lengths_of(mix)
    assert sum(lengths) == varlen.TOKENS and min(lengths) > 0
    assert lengths == varlen.lengths_of(mix)


def test_an_unknown_mix_is_told() -> None:
    with pytest.raises(ValueError, match="no mix 'many'"):
        varlen.lengths_of("many")


def test_equal_lengths_count_the_work_of_the_batched_bench() -> None:
    from bench.attention.candidates import Shape

    for causal in (False, True):
        assert varlen.Problem("fp16", 128, causal, "equal").flop == Shape("fp16", 128, causal, 1024).flop


def test_the_command_line_picks_problems() -> None:
    assert len(varlen.wanted(varlen.parse([]))) == len(set(varlen.PROBLEMS)) == 32
    picked = varlen.wanted(varlen.parse(["--d", "128", "--mask", "causal", "--mix", "short"]))
    assert [(it.dtype, it.group) for it in picked] == [("bf16", 1), ("fp16", 4)]
    assert all(it.about["longest"] <= 256 and it.about["HK"] * it.group == it.about["H"] for it in picked)


def test_a_line_has_the_rates_and_the_reasons() -> None:
    problem = varlen.PROBLEMS[0]
    rows = {"Tawa": Row({}, "Tawa", tflops=600.0), "PyTorch": Row({}, "PyTorch", error="ValueError: no")}
    line = varlen.line_of(problem, rows)
    assert line.split() == ["bf16", "d=128", "full", "equal", "Tawa", "600.0", "PyTorch", "ValueError:", "no"]


def test_help_needs_no_gpu() -> None:
    done = subprocess.run([sys.executable, "-m", "bench.attention.varlen", "--help"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0 and b"--mix" in done.stdout
