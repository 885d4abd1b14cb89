from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import FILL, GEMM, KERNELS, Tawa
from tests.support.verdicts import passes

GLUON = Path(__file__).parents[2] / "rings" / "kernels.py"
SQUARES = [f"{GLUON}:squares", "--sig", "x=*fp32, o=*fp32, count=i32", "--const", "D=2,FAULT='none'"]

FIELDS = (
    "applied", "reason", "partitions", "rings", "mma_depth", "shared_bytes", "registers", "spill_bytes", "wgmma_waits",
    "compile_ms", "tawa_ms",
)  # fmt: skip


def line_of(text: str) -> int:
    lines = KERNELS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize("arguments", [GEMM, FILL], ids=["applied", "declined"])
def test_json_has_every_promised_field(tawa_json, arguments):
    assert set(FIELDS) <= tawa_json("explain", *arguments).keys()


def test_json_of_a_specialised_kernel_tells_the_plan(tawa_json):
    found = tawa_json("explain", *GEMM, "--option", "aref_depth=3,mma_depth=1")
    assert found["applied"] is True
    assert [(part["role"], part["warps"]) for part in found["partitions"]] == [("producer", 1), ("consumer", 4)]
    assert [(ring["depth"], ring["bytes"]) for ring in found["rings"]] == [(3, 3 * 2 * 128 * 64 * 2)]
    assert found["mma_depth"] == 1
    assert sorted(found["wgmma_waits"]) == [0, 1]
    assert found["spill_bytes"] == 0


def test_a_declined_kernel_is_a_success_with_reason_and_place(tawa):
    result = tawa("explain", *FILL)
    assert result.exit_code == 0
    assert "fill: declined" in result.stdout
    assert "no tl.dot" in result.stdout
    assert f"kernels.py:{line_of('def fill')}" in result.stdout
    assert "def fill(x, n" in result.stdout  # the user's own line


def test_a_pinned_kernel_that_cannot_be_specialised_is_status_1_with_reason_place_and_source(tawa):
    result = tawa("explain", *FILL, "--option", "enable_warp_specialization=true")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "error: fill: cannot be warp-specialised: no tl.dot" in result.stderr
    assert f"kernels.py:{line_of('def fill')}" in result.stderr
    assert "| def fill(x, n" in result.stderr


def test_the_table_names_partitions_and_rings(tawa):
    result = tawa("explain", *GEMM, "--legal")
    assert result.exit_code == 0
    for word in (
        "gemm: specialised (wherever legal)",
        "partitions.producer",
        "partitions.consumer",
        "rings.ring0",
        "planner",
        "0 bytes spilled",
        "wgmma waits",
    ):
        assert word in result.stdout


def test_the_plan_of_the_json_is_one_to_pin(tawa, tawa_json, tmp_path):
    found = tawa_json("explain", *GEMM, "--legal")
    (tmp_path / "plan.json").write_text(json.dumps(found["plan"]))
    again = tawa_json("explain", *GEMM, "--plan", str(tmp_path / "plan.json"))
    assert (again["plan"], again["mode"]) == (found["plan"], "pinned")
    assert {it["by"] for it in again["decisions"] if it["field"] != "launches"} == {"user"}
    part = tawa_json("explain", *GEMM, "--plan", '{"loops": [{"loop": 0, "mma_depth": 0}]}')
    assert [it["field"] for it in part["decisions"] if it["by"] == "user"] == ["loops.0"]
    assert part["mma_depth"] == 0 != found["mma_depth"]


def test_the_decorators_own_options_hold(tawa_json):
    found = tawa_json("explain", *GEMM, "--option", "enable_warp_specialization=false")
    assert found["applied"] is False


def test_a_depth_that_does_not_fit_names_the_largest_that_does(tawa):
    result = tawa("explain", *GEMM, "--option", "aref_depth=9")
    assert result.exit_code == 1
    assert "232448" in result.stderr
    assert "cure: aref_depth=" in result.stderr


def test_a_gluon_kernel_is_explained_as_it_is(tawa: Tawa) -> None:
    result = tawa("explain", *SQUARES)
    assert result.exit_code == 0, result.stderr
    assert passes(result.stdout.partition("its protocol is ")[2]) and "write_squares" in result.stdout


@pytest.mark.parametrize("options", [["--legal"], ["--option", "aref_depth=3"], ["--plan", "{}"], ["--grid", "8"]])
def test_a_gluon_kernel_takes_no_options(tawa: Tawa, options: list[str]) -> None:
    result = tawa("explain", *SQUARES, *options)
    assert result.exit_code == 2 and f"{options[0]}: squares is a Gluon kernel" in result.stderr


def test_a_page_is_saved_with_a_line_that_says_where_it_is_and_how_large(tawa, tmp_path):
    path = tmp_path / "page.html"
    result = tawa("explain", *GEMM, "--html", str(path), "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["kernel"] == "gemm"
    assert f"saved {path} ({path.stat().st_size / 1e3:.1f} kB): what launches of gemm get" in result.stderr


def test_a_declined_kernel_names_the_section_on_its_reason(tawa):
    result = tawa("explain", f"{KERNELS}:fill", "--sig", "x=*fp16:16, n=i32", "--const", "BM=64,EVEN=false")
    assert "docs/declines.md#no-dot" in result.stdout
    pinned = tawa("explain", f"{KERNELS}:fill", "--sig", "x=*fp16:16, n=i32", "--const", "BM=64,EVEN=false",
                  "--option", "enable_warp_specialization=True")  # fmt: skip
    assert pinned.exit_code == 1 and "more: docs/declines.md#no-dot" in pinned.stderr
