"""The headline of `tawa explain` is what a launch gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import tawa as package
from tawa.bridge.launch.first.compiles import launched_by_us
from tests.cases.pointers import gemm
from tests.cli.conftest import GEMM

pytestmark = pytest.mark.usefixtures("without_ptx")

POINTERS = str(Path(gemm.__file__)) + ":gemm_masked"
TYPES = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16, stride_am=i32:16, stride_ak=1, "
    "stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
)
BLOCKS = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8}
CONST = ",".join(f"{name}={value}" for name, value in BLOCKS.items())
MASKED = [POINTERS, "--sig", TYPES, "--const", CONST, "--num-warps", "8"]
POSITIVE = "M, N, K, stride_am, stride_bk > 0"


def test_what_a_compile_declines_may_gain_at_a_launch_and_is_specialised_where_legal(tawa, tawa_json):
    types = GEMM[2].replace("[128,64]", "[128,32]").replace("[64,128]", "[32,128]")
    deep = [GEMM[0], "--sig", types, "--const", "BM=128,BN=128,BK=32"]
    assert tawa("explain", *deep).stdout.startswith("gemm: depends on the launch: specialised where the model of time")
    plain, legal = tawa_json("explain", *deep), tawa_json("explain", *deep, "--legal")
    assert (plain["decision"], plain["applied"]) == ("depends", False)
    assert "not expected to pay" in plain["reason"]
    assert (legal["decision"], legal["headline"]) == ("specialised", "specialised (wherever legal)")


def test_python_gives_the_answer_of_the_command_line(tawa_json):
    told = tawa_json("explain", *MASKED)
    seen = package.explain(gemm.gemm_masked, TYPES, BLOCKS, num_warps=8)
    assert (seen.headline, seen.decision, seen.condition) == (told["headline"], told["decision"], told["condition"])
    assert str(seen).startswith("gemm_masked: depends on the launch: specialised where")
    none = package.explain(gemm.gemm_masked, TYPES, BLOCKS, num_warps=8, arguments={"K": 0}, grid=(8,))
    assert (none.decision, none.applied, none.plan) == ("declined", False, None)


def test_python_gives_the_answer_of_a_launch():
    """Both compile as a launch does: in automatic mode, with descriptors from the launcher."""
    from tawa.runtime.explain.explaining import compile_with_options, explain_compiled

    with launched_by_us(function=gemm.gemm_masked):
        compiled = compile_with_options(gemm.gemm_masked, TYPES, BLOCKS, num_warps=8)
    assert explain_compiled(compiled) == package.explain(gemm.gemm_masked, TYPES, BLOCKS, num_warps=8)


def test_what_a_launch_depends_on_is_one_condition(tawa_json):
    found = tawa_json("explain", *MASKED)
    assert (found["decision"], found["resolved"]) == ("depends", None)
    assert found["condition"] == f"{POSITIVE} and the model of time predicts it to be the fastest"
    assert found["headline"] == (
        f"depends on the launch: specialised where {found['condition']}; stock Triton's kernel otherwise"
    )
    assert not any("largest" in remark for remark in found["remarks"])


def test_a_grid_leaves_a_condition_on_the_arguments(tawa_json):
    found = tawa_json("explain", *MASKED, "--grid", "8,8")
    assert (found["decision"], found["resolved"]["known"]) == ("depends", {"programs": 64})
    assert found["condition"].startswith(POSITIVE)


SIZES = {"M": 8192, "N": 8192, "K": 4096, "stride_am": 4096, "stride_bk": 8192, "stride_cm": 8192}


def test_arguments_and_grid_decide_and_both_times_are_shown(tawa, tawa_json):
    launch = [word for name, value in SIZES.items() for word in ("--arg", f"{name}={value}")]
    found = tawa_json("explain", *MASKED, *launch, "--grid", "2048")
    assert (found["decision"], found["applied"]) == ("specialised", True)
    told = found["resolved"]["found"]
    assert told.startswith(("as written, ", "persistent, ")) and "stock " in told and "times as fast" in told
    table = tawa("explain", *MASKED, *launch, "--grid", "2048").stdout
    assert "gemm_masked: specialised for M = 8192, N = 8192, K = 4096" in table and "predicted" in table


def test_a_launch_that_is_not_predicted_to_gain_is_declined_with_both_times_and_what_settles_it(tawa_json, monkeypatch):
    monkeypatch.setattr("tawa.plan.search.prediction.DOUBT", 1000.0)  # so that the model is never sure
    launch = [word for name, value in SIZES.items() for word in ("--arg", f"{name}={value}")]
    asked = ["--option", "num_consumer_groups=1", "--option", "only_if_faster=true"]
    found = tawa_json("explain", *MASKED, *asked, *launch, "--grid", "2048")
    assert (found["decision"], found["applied"]) == ("declined", False)
    assert " us for stock Triton's" in found["reason"] and "too close to tell" in found["reason"]
    assert "tawa tune" in (found["cure"] or "") + found["reason"]


def test_tensors_and_numbers_give_the_types_that_are_left_out(tawa_json):
    numbers = {"M": 512, "N": 512, "K": 4096, "stride_am": 4096, "stride_ak": 1, "stride_bk": 512, "stride_bn": 1,
               "stride_cm": 512, "stride_cn": 1}  # fmt: skip
    tensors = {"a_ptr": "randn:512x4096:f16", "b_ptr": "randn:4096x512:f16", "c_ptr": "zeros:512x512:f16"}
    launch = [word for name, value in {**tensors, **numbers}.items() for word in ("--arg", f"{name}={value}")]
    found = tawa_json("explain", POINTERS, "--const", CONST, "--num-warps", "8", *launch, "--grid", "8")
    assert found["decision"] == "specialised" and found["resolved"]["known"]["K"] == 4096


def test_a_declined_launch_is_explained_by_the_stock_kernel(tawa_json):
    found = tawa_json("explain", *MASKED, "--arg", "K=0", "--grid", "8")
    assert (found["applied"], found["rings"], found["partitions"], found["mma_depth"]) == (False, [], [], None)
    assert len(found["remarks"]) == 1 and "left to stock Triton's kernel" in found["reason"]
    assert found["verdict"] is None and found["resolved"]["found"] == "K = 0"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--arg", "K=60"], "K=60 is no i32:16"),
        (["--arg", "Q=60"], "no parameter 'Q'"),
        (["--grid", "0"], "--grid 0"),
        (["--legal", "--option", "only_if_faster=true"], "say opposite things"),
        (["--legal", "--option", "enable_warp_specialization=false"], "say opposite things"),
        (["--legal", "--option", "mode=measure"], "say opposite things"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(tawa, more, told):
    result = tawa("explain", *MASKED, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_legal_goes_with_a_pinned_kernel(tawa_json):
    found = tawa_json("explain", *GEMM, "--legal", "--option", "enable_warp_specialization=true")
    assert (found["mode"], found["headline"]) == ("pinned", "specialised (pinned)")


def test_simulate_says_that_it_goes_by_what_is_legal(tawa):
    shapes = ["a=randn:128x64:f16:box=128x64", "b=randn:64x128:f16:box=64x128", "c=nan:128x128:f16:box=128x128", "K=64"]
    values = [word for it in shapes for word in ("--arg", it)]
    run = [GEMM[0], "--const", "BM=128,BN=128", "--grid", "1", "--order", "eager", *values]
    assert "; specialised wherever legal)" in tawa("simulate", *run).stdout
    assert "wherever" not in tawa("simulate", *run, "--level", "stock").stdout


def test_compile_and_verify_say_that_they_go_by_what_is_legal(tawa):
    said = "specialised wherever legal"
    assert "gemm: specialised (wherever legal): " in tawa("compile", *GEMM).stdout
    assert "wherever" not in tawa("compile", *GEMM, "--emit", "aref").stdout
    assert said in tawa("verify", *GEMM).stdout
    assert "specialised" not in tawa("verify", *GEMM, "--json").stdout.replace('"specialised": true', "")
    for command in ("compile", "verify", "simulate"):
        assert said in " ".join(tawa(command, "--help").stdout.replace("│", " ").split())
