"""``tawa compile --emit plan`` and ``--plan``: a Plan that was printed, given back, makes the same kernel."""

from __future__ import annotations

import json

import pytest

from tawa.plan import Plan
from tests.cli.commands.test_explain_answer import MASKED
from tests.cli.conftest import FILL, GEMM

SHAPES = ["a=randn:128x64:f16:box=128x64", "b=randn:64x128:f16:box=64x128", "c=nan:128x128:f16:box=128x128", "K=64"]
VALUES = [word for it in SHAPES for word in ("--arg", it)]
SIMULATE = [GEMM[0], "--const", "BM=128,BN=128", "--grid", "1", "--order", "eager", *VALUES]


@pytest.mark.usefixtures("without_ptx")
def test_emit_prints_the_whole_plan(tawa):
    result = tawa("compile", *GEMM, "--emit", "plan")
    assert result.exit_code == 0 and "left to" not in result.stderr
    data = json.loads(result.stdout)
    assert (data["version"], data["form"], data["rings"][0]["name"]) == (7, "as_written", "ring0")
    assert set(data) >= {"groups", "partitions", "operands", "stores", "loops", "early_puts", "ping_pong", "launches"}


@pytest.mark.parametrize(
    "kernel", [GEMM, MASKED, [*MASKED, "--option", "pointer_loads=cp.async"]], ids=["gemm", "masked", "cp.async"]
)
def test_a_plan_given_back_makes_the_same_ptx(tawa, tmp_path, kernel):
    file = tmp_path / "plan.json"
    file.write_text(tawa("compile", *kernel, "--emit", "plan").stdout)
    options = [word for word in kernel if word not in ("--option", "pointer_loads=cp.async")]
    again = tawa("compile", *options, "--plan", str(file), "--emit", "ptx")
    assert (again.exit_code, again.stdout) == (0, tawa("compile", *kernel, "--emit", "ptx").stdout)
    assert tawa("compile", *options, "--plan", str(file), "--emit", "plan").stdout == file.read_text()


@pytest.mark.usefixtures("without_ptx")
def test_the_plan_of_a_launch_is_compiled_for_a_launch(tawa, tawa_json, tmp_path):
    found = tawa_json("explain", *MASKED)
    assert {it.get("path") for it in found["plan"]["operands"]} == {"promoted", None}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(found["plan"]))
    made = tawa_json("compile", *MASKED, "--plan", str(file))
    assert (made["plan"], made["mode"]) == (found["plan"], "pinned")
    assert tawa("verify", *MASKED, "--plan", str(file), "--accept", "checked").exit_code == 0


@pytest.mark.usefixtures("without_ptx")
def test_a_plan_that_only_a_launch_can_have_is_simulated(tawa):
    numbers = {"M": 128, "N": 256, "K": 64, "stride_am": 64, "stride_bk": 256, "stride_cm": 256}
    tensors = {"a_ptr": "randn:128x64:f16", "b_ptr": "randn:64x256:f16", "c_ptr": "zeros:128x256:f16"}
    values = [word for name, value in {**tensors, **numbers}.items() for word in ("--arg", f"{name}={value}")]
    plan = json.dumps({"operands": [{"argument": "a_ptr", "loop": 0, "path": "promoted"}]})
    result = tawa("simulate", *MASKED, *values, "--grid", "1", "--plan", plan)
    assert result.exit_code == 0, result.stderr
    assert "same bits: Tawa's kernel and the unspecialised program (1 program, eager, late, random; " in result.stdout


def test_a_kernel_left_to_stock_has_a_plan_that_says_only_that(tawa, tmp_path):
    result = tawa("compile", *FILL, "--emit", "plan")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"version": 7, "form": "stock"})
    assert "fill: left to stock Triton: no tl.dot" in result.stderr
    file = tmp_path / "plan.json"
    file.write_text(result.stdout)
    assert tawa("compile", *FILL, "--plan", str(file), "--emit", "ptx").stdout.count(".entry fill") == 1
    stock = tawa("compile", *GEMM, "--plan", str(file))
    assert "gemm: compiled by stock Triton: stock Triton was asked for: the Plan has form='stock'" in stock.stdout


def test_a_plan_comes_from_stdin_or_stands_in_the_command(tawa, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO('{"rings": [{"name": "ring0", "depth": 2}]}'))
    from tawa.cli.inputs.job import read_plan

    assert read_plan("-") == read_plan('{"rings": [{"name": "ring0", "depth": 2}]}')
    made = tawa("compile", *GEMM, "--plan", '{"rings": [{"name": "ring0", "depth": 2}]}', "--emit", "plan")
    assert Plan.from_json(made.stdout).rings[0].depth == 2


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--plan", "nowhere.json"], "no such file can be read"),
        (["--plan", '{"colour": 1}'], "no 'colour'"),
        (["--plan", '{"form": "stock"}', "--option", "enable_warp_specialization=true"], "cure: give one"),
        (["--plan", '{"ping_pong": true}', "--option", "ping_pong=false"], "cure: give one"),
        (["--plan", '{"rings": [{"name": "ring9", "depth": 2}]}'], "the Plan has rings"),
    ],
)
def test_a_plan_that_cannot_be_is_no_success(tawa, more, told):
    result = tawa("compile", *GEMM, *more)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert told in " ".join(result.stderr.split())


@pytest.mark.usefixtures("without_ptx")
def test_simulate_runs_what_the_plan_says(tawa):
    result = tawa("simulate", *SIMULATE, "--plan", '{"rings": [{"name": "ring0", "depth": 1}], "early_puts": 0}')
    assert result.exit_code == 0, result.stderr
    assert "wherever legal" not in result.stdout


def test_a_file_of_ir_has_no_plan(tawa, tmp_path):
    (tmp_path / "x.ttgir").write_text("")
    result = tawa("verify", str(tmp_path / "x.ttgir"), "--plan", "{}")
    assert result.exit_code == 3 and "--plan goes with FILE.py:KERNEL" in result.stderr
