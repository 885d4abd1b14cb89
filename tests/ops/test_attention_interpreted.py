"""The attention operators' launches on the CPU, through Triton's interpreter: numbers without a GPU."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np

from tests.ops import interpreted, interpreted_decode, interpreted_varlen
from tests.ops.interpreted import TABLES

ROOT = Path(__file__).resolve().parents[2]
NEWEST_NUMPY = (2, 3)
"""Triton's interpreter makes numbers of arrays of one element, which NumPy refuses from 2.4 on."""

pytestmark = [
    pytest.mark.timeout(280),
    pytest.mark.skipif(
        tuple(int(part) for part in np.__version__.split(".")[:2]) > NEWEST_NUMPY,
        reason="Triton's interpreter needs NumPy 2.3 or older",
    ),
]


@functools.cache
def failures(module: str) -> dict[tuple[str, str], str]:
    """What went wrong with each case; empty where nothing did."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.ops.{module}"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return {(table, name): failure for table, name, failure in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", interpreted.CASES)
@pytest.mark.parametrize("table", TABLES)
def test_an_interpreted_launch_gives_the_right_numbers(table: str, name: str) -> None:
    assert failures("interpreted")[table, name] == ""


@pytest.mark.parametrize("name", interpreted.ADVERSARIAL)
def test_interpreted_sums_in_whole_numbers_bear_any_numbers(name: str) -> None:
    assert failures("interpreted")["adversarial", name] == ""


@pytest.mark.parametrize("name", interpreted.REORDERED)
def test_interpreted_keys_of_v_are_reordered_into_their_places(name: str) -> None:
    assert failures("interpreted")["reordered", name] == ""


@pytest.mark.parametrize("name", interpreted_varlen.CASES)
@pytest.mark.parametrize("table", TABLES)
def test_an_interpreted_launch_over_packed_sequences_gives_the_right_numbers(table: str, name: str) -> None:
    assert failures("interpreted_varlen")[table, name] == ""


@pytest.mark.parametrize("name", (*interpreted_decode.CASES, *interpreted_decode.WITHOUT_ROOM))
@pytest.mark.parametrize("table", TABLES)
def test_interpreted_decoding_gives_the_right_numbers(table: str, name: str) -> None:
    assert failures("interpreted_decode")[table, name] == ""
