"""`bench/attention/decode.py` without a GPU: its problems, its command line, its lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.attention import decode
from bench.harness import Row

ROOT = Path(__file__).resolve().parents[2]


def test_names_of_problems_differ_and_bytes_are_those_of_the_cache() -> None:
    assert len({str(it) for it in decode.PROBLEMS}) == len(decode.PROBLEMS)
    assert decode.PROBLEMS[0].bytes == 2 * 65536 * 8 * 128 * 2


def test_pages_are_where_the_table_says() -> None:
    torch = pytest.importorskip("torch")
    cache = torch.randn(2, 3, 64, 8)
    pages, table = decode.in_pages(cache, 16)
    assert pages.shape == (8, 3, 16, 8) and sorted(table.flatten().tolist()) == list(range(8))
    for b in range(2):
        for n in range(64):
            assert torch.equal(pages[table[b, n // 16], :, n % 16], cache[b, :, n])


def test_a_line_has_the_rates_and_the_reasons() -> None:
    rows = {"Tawa": Row({}, "Tawa", tflops=4.1), "cuDNN": Row({}, "cuDNN", error="RuntimeError: no")}
    line = decode.line_of(decode.PROBLEMS[0], rows)
    assert line.split() == [*str(decode.PROBLEMS[0]).split(), "Tawa", "4100", "cuDNN", "RuntimeError:", "no"]


def test_help_needs_no_gpu() -> None:
    done = subprocess.run([sys.executable, "-m", "bench.attention.decode", "--help"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0 and b"--only" in done.stdout
