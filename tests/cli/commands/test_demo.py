from __future__ import annotations

import json
from pathlib import Path

import pytest

from tawa.demo.exhibits import EXHIBITS
from tests.support.verdicts import credits_proved


def demo(*options: str) -> str:
    from typer.testing import CliRunner

    from tawa.cli.main import app

    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["demo", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def exhibits():
    return json.loads(demo("--json"))


@pytest.fixture(scope="module")
def printed():
    return demo()


def test_the_demo_shows_every_exhibit_and_exactly_one_is_declined(exhibits):
    assert list(exhibits) == [exhibit.title for exhibit in EXHIBITS]
    assert [title for title, found in exhibits.items() if not found["applied"]] == ["tiles from a counter"]


def test_no_exhibit_that_is_specialised_spills(exhibits):
    assert [found["spill_bytes"] for found in exhibits.values() if found["applied"]] == [0] * (len(EXHIBITS) - 1)


def test_attention_gets_two_consumer_groups_and_stages(exhibits):
    found = exhibits["attention, fp16, causal"]
    assert [part["warps"] for part in found["partitions"]] == [1, 4, 4]
    assert found["schedules"] and all(schedule["stages"] == 2 for schedule in found["schedules"])
    assert credits_proved(found["verdict"])


def test_the_report_explains_rings_waits_and_the_declined_kernel(printed):
    assert "other bits" not in printed
    for text in (
        "producer  1 warp",
        "consumer  8 warps",
        "consumer1 4 warps",
        "stages    2 in 2 loops of each consumer; no spills",
        "128 x 640 x 128 same bits: eager, late, random",
        "D = 3 of (128x64xf16 + 256x64xf16)",
        "left to stock Triton, byte for byte",
        "tl.atomic_add may wait for what others write",
        f"gemm.py:{_line_of_the_atomic()}",
        "aref.put %ring0[%count]",
        "warp_group_dot_wait pendings = 1",
        "one tile of queries (attention, fp16, causal)",
        "the same four tiles (fp16, persistent)",
        "tensor cores busy",
    ):
        assert text in printed
    assert any(f"protocol  {word}: " in printed for word in ("proved", "checked"))


def test_without_a_gpu_the_demo_says_that_nothing_was_run(printed):
    from tests.conftest import hopper_present

    assert ("Nothing was run" in printed) is not hopper_present()


def _line_of_the_atomic() -> int:
    from tawa.demo.kernels import gemm

    lines = Path(gemm.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if "tl.atomic_add(" in line)
