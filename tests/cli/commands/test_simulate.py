"""``tawa simulate``: the same bits, other bits, a trap, or no answer, as whoever types it sees it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from tawa.bridge.triton import read_module
from tawa.cli.inputs.job import Job
from tawa.errors import CompileError
from tawa.ir import parse_module, print_module
from tests.cli.conftest import GEMM, KERNELS

pytestmark = pytest.mark.usefixtures("without_ptx")

DATA = Path(__file__).parents[2] / "verify" / "data"
SIZES = ["--arg", "a=randn:128x192:f16", "--arg", "b=randn:192x256:f16", "--arg", "c=nan:128x256:f16", "--arg", "K=192"]
BOXED = ["--arg", "a=randn:128x192:f16:box=128x64", "--arg", "b=randn:192x256:f16:box=64x128"]
BOXED += ["--arg", "c=nan:128x256:f16:box=128x128", "--arg", "K=192"]
CONST = ["--const", "BM=128,BN=128"]
RUN = [f"{KERNELS}:gemm", "--grid", "1,2", *BOXED, *CONST]
FILL = [f"{KERNELS}:fill", "--const", "BM=64,EVEN=false"]

Tawa = Callable[..., Result]


@pytest.fixture
def ttgir(tawa: Tawa, tmp_path: Path) -> Path:
    """The specialised program as a file that a user might have."""
    path = tmp_path / "gemm.ttgir"
    path.write_text(tawa("compile", *GEMM, "--emit", "ttgir").stdout)
    return path


def without(path: Path, part: str) -> str:
    """The file without its first line that has `part`, as another file."""
    lines = path.read_text().splitlines()
    del lines[next(number for number, line in enumerate(lines) if part in line)]
    broken = path.with_name("broken.ttgir")
    broken.write_text("\n".join(lines))
    return str(broken)


# --- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["ttgir", "aref", "barrier", "stock"])
def test_every_level_gives_the_bits_of_the_unspecialised_program_in_every_order(tawa: Tawa, level: str) -> None:
    result = tawa("simulate", *RUN, "--level", level)
    assert result.exit_code == 0, result.stderr
    tensor, verdict = result.stdout.splitlines()
    assert " ".join(tensor.split()) == "c 128x256 f16 eager equal late equal random equal no NaN"
    against = "its own eager run" if level == "ttgir" else "the unspecialised program"
    assert verdict.startswith("same bits: ")
    assert f" and {against} (2 programs, eager, late, random; " in verdict


def test_the_barrier_level_is_run_where_nothing_is_said(tawa: Tawa) -> None:
    assert "same bits: Tawa's kernel and" in tawa("simulate", *RUN, "--order", "eager").stdout


def test_elements_that_are_never_written_are_a_finding_although_the_bits_are_the_same(tawa: Tawa) -> None:
    half = [*RUN[:2], "1,1", *RUN[3:]]
    result = tawa("simulate", *half, "--order", "eager")
    assert result.exit_code == 0, result.stderr  # a kernel may leave elements out
    assert "finding: c: 16384 of 32768 elements (50%) still hold the NaN of before: not written" in result.stdout
    assert "the first at [0, 128]" in result.stdout and "a larger --grid" in result.stderr
    (output,) = json.loads(tawa("simulate", *half, "--order", "eager", "--json").stdout)["outputs"]
    assert output["unwritten"] == 16384
    assert "finding" not in tawa("simulate", *RUN, "--order", "eager").stdout


def test_a_nan_that_the_kernel_computes_is_written(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.full((128, 192), np.nan, np.float16))
    given = [f"a={path}:box=128x64" if it.startswith("a=") else it for it in RUN]
    result = tawa("simulate", *given, "--order", "eager")
    assert "32768 NaN" in result.stdout and "finding" not in result.stdout


def test_a_signature_may_be_given_and_only_its_gaps_follow_from_the_arguments(tawa: Tawa) -> None:
    result = tawa("simulate", f"{KERNELS}:gemm", *GEMM[1:3], "--grid", "1,2", *SIZES, *CONST, "--order", "late")
    assert result.exit_code == 0, result.stderr
    assert "late equal" in result.stdout and "eager" not in result.stdout.splitlines()[0]


def test_the_result_is_the_product_and_is_saved(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    assert tawa("simulate", *RUN, "--order", "eager", "--save", str(path)).exit_code == 0
    found = np.load(path)
    exact = found["before.a"].astype(float) @ found["before.b"].astype(float)
    assert np.abs(found["after.c"] - exact).max() < 0.04
    assert (found["after.c"] == found["wanted.c"]).all() and np.isnan(found["before.c"]).all()


def test_the_seed_decides_the_inputs(tawa: Tawa, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.npz" for number in range(3)]
    for path, seed in zip(paths, ("7", "7", "8"), strict=True):
        assert tawa("simulate", *RUN, "--order", "random", "--seed", seed, "--save", str(path)).exit_code == 0
    first, again, other = (np.load(path)["before.a"] for path in paths)
    assert (first == again).all() and (first != other).any()


def test_a_file_is_compared_with_its_own_eager_run(tawa: Tawa, ttgir: Path) -> None:
    result = tawa("simulate", str(ttgir), "--grid", "1,2", *SIZES)
    assert result.exit_code == 0, result.stderr
    assert "same bits: gemm.ttgir and its own eager run" in result.stdout


def test_of_a_declined_kernel_stock_tritons_program_is_run_and_that_is_said(tawa: Tawa) -> None:
    result = tawa("simulate", *FILL, "--grid", "4", "--arg", "x=nan:250:f16", "--arg", "n=250")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("note: not specialised: no tl.dot")


def test_json_tells_the_same(tawa: Tawa) -> None:
    found = json.loads(tawa("simulate", *RUN, "--json").stdout)
    assert (found["verdict"], found["programs"], found["orders"]) == ("equal", 2, ["eager", "late", "random"])
    (output,) = found["outputs"]
    assert output["equal"] == {"eager": True, "late": True, "random": True}
    assert (output["name"], output["shape"], output["dtype"], output["nans"]) == ("c", [128, 256], "f16", 0)


# --- other bits, traps, no answer -------------------------------------------------------------------------------------


def test_other_bits_are_status_1_with_the_largest_difference_and_its_place(
    tawa: Tawa, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_unspecialised = read_module.read_unspecialised

    def starting_at_one(*args, **kwargs):
        text = print_module(read_unspecialised(*args, **kwargs))
        assert "dense<0.000000e+00>" in text
        return parse_module(text.replace("dense<0.000000e+00>", "dense<1.000000e+00>"))

    monkeypatch.setattr(read_module, "read_unspecialised", starting_at_one)
    result = tawa("simulate", *RUN)
    assert result.exit_code == 1
    tensor, verdict = result.stdout.splitlines()
    assert "eager differs  late differs  random differs  max |difference| 1" in tensor and "at [" in tensor
    assert verdict.startswith("other bits: Tawa's kernel against the unspecialised program")


def test_a_deadlock_is_status_1_and_says_who_waits_for_what_and_where(tawa: Tawa, ttgir: Path) -> None:
    sizes = [it.replace("192", "384") for it in SIZES]
    result = tawa("simulate", without(ttgir, "ttng.arrive_barrier"), "--grid", "1,2", *sizes)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "broken.ttgir, order eager: deadlock of program (0, 0, 0)" in result.stderr
    assert "default waits for" in result.stderr and "partition0 waits for" in result.stderr
    assert "kernels.py:" in result.stderr and "cure:" in result.stderr


def test_a_trap_names_cause_order_partition_and_line(tawa: Tawa, ttgir: Path) -> None:
    path = without(ttgir, "ttng.wait_barrier")
    result = tawa("simulate", path, "--grid", "1,2", *SIZES)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "broken.ttgir, order " in result.stderr and "in partition " in result.stderr
    assert "--> " in result.stderr and "kernels.py:" in result.stderr
    found = json.loads(tawa("simulate", path, "--grid", "1,2", *SIZES, "--json").stdout)
    assert found["verdict"] == "trap" and found["location"] and found["partition"]


def test_an_operation_that_the_simulator_does_not_know_is_status_2_with_its_line(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "gemm.mlir"
    text = tawa("compile", *GEMM, "--emit", "barrier").stdout
    path.write_text(text.replace('"ttng.arrive_barrier"', '"ttng.mystery"'))
    result = tawa("simulate", str(path), "--grid", "1,2", *SIZES)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unsupported op: ttng.mystery" in result.stderr and "kernels.py:" in result.stderr


@pytest.mark.parametrize("dtype", ["f16", "bf16", "fp8e5"])
def test_where_nothing_is_written_nothing_is_known(tawa: Tawa, dtype: str) -> None:
    result = tawa("simulate", *FILL, "--grid", "4", "--arg", f"x=nan:250:{dtype}", "--arg", "n=0")
    assert result.exit_code == 2
    assert "unknown: no tensor was written" in result.stdout and "cure:" in result.stderr
    assert "250 NaN" in result.stdout


def test_a_kernel_that_triton_refuses_is_status_2_with_the_types_that_followed(tawa: Tawa) -> None:
    pointers = [it.replace(":box=128x128", "") for it in RUN]
    result = tawa("simulate", *pointers)
    assert result.exit_code == 2
    assert "c=*fp16:16, K=i32:16; a host descriptor needs :box=128x64" in result.stderr


def test_what_triton_refuses_is_shown_at_its_place_with_the_types(tawa: Tawa) -> None:
    result = tawa("simulate", f"{KERNELS}:broken", "--grid", "1", "--arg", "x=nan:64:f16", "--const", "BM=64")
    assert result.exit_code == 2 and "no_such_name" in result.stderr
    assert "kernels.py:" in result.stderr and "^\n" in result.stderr, "the caret of the column"
    assert "cure: change the kernel, or the types that it is compiled for: x=*fp16:16;" in result.stderr


# --- timelines --------------------------------------------------------------------------------------------------------


def test_the_timeline_shows_stock_triton_above_the_specialised_kernel(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    result = tawa("simulate", *RUN, "--order", "eager", "--timeline", str(path))
    assert result.exit_code == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()[-2:]]
    assert lines[0].startswith("stock Triton: ") and lines[1].startswith("Tawa's kernel: ")
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {0: "stock Triton", 1: "Tawa's kernel"}
    assert {event["pid"] for event in events if event["ph"] == "X"} == {0, 1}
    size = f"{path.stat().st_size / 1e3:.1f} kB"
    assert f"saved {path} ({size}): the timelines of stock Triton and Tawa's kernel, a trace for" in result.stderr


def test_a_kernel_that_stock_triton_refuses_has_a_timeline_without_it(
    tawa: Tawa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(job: Job) -> None:
        raise CompileError("out of resource: shared memory")

    monkeypatch.setattr(Job, "compile_stock", refused)
    path = tmp_path / "timeline.json"
    result = tawa("simulate", *RUN, "--order", "eager", "--timeline", str(path))
    assert result.exit_code == 0, result.stderr
    assert "the timeline lacks stock Triton, which does not compile the kernel: out of resource" in result.stdout
    events = json.loads(path.read_text())["traceEvents"]
    assert [it["args"]["name"] for it in events if it["name"] == "process_name"] == ["Tawa's kernel"]


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_the_timeline_is_drawn_where_its_suffix_says_so(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "timeline.svg"
    assert tawa("simulate", *RUN, "--order", "eager", "--timeline", str(path)).exit_code == 0
    assert "<svg" in path.read_text()


# --- wrong usage ------------------------------------------------------------------------------------------------------

GLUON = str(DATA / "gluon_gemm.triton3_6.mlir")
TARGET = f"{KERNELS}:gemm"
WRONG = {
    "no grid": ([TARGET, *BOXED, *CONST], "Missing option '--grid'", ""),
    "empty grid": ([TARGET, "--grid", "0,2", *BOXED, *CONST], "--grid 0,2: one to three sizes", "--grid 4,4"),
    "bad grid": ([TARGET, "--grid", "a,b", *BOXED, *CONST], "--grid a,b", "--grid 4,4"),
    "unknown kind": ([*RUN, "--arg", "x=rnadn:4:f16"], "'rnadn' is neither", "did you mean randn?"),
    "missing": ([TARGET, "--grid", "1", *BOXED[2:], *CONST], "no value for a; the launch needs a, b, c, K", "--arg a="),
    "missing of a file": ([GLUON, "--grid", "1"], "no value for arg0, arg5", "arg15=512"),
    "unknown parameter": ([*RUN, "--arg", "Z=1"], "gemm has no parameter 'Z'", "it has a, b, c, K"),
    "constant": ([*RUN, "--arg", "BK=64"], "BK is a constant of the compile", "--const BK=64"),
    "no constant": ([TARGET, "--grid", "1", *BOXED], "no value for tl.constexpr BM, BN", "--const BM=…,BN=…"),
    "wrong dtype": (
        [TARGET, *GEMM[1:3], "--grid", "1", *SIZES[2:], *CONST, "--arg", "a=randn:128x192:bf16"],
        "a (descriptor of f16, box 128x64) takes f16, not bf16",
        "a=randn:128x192:f16",
    ),
    "wrong rank": (
        [TARGET, *GEMM[1:3], "--grid", "1", *SIZES[2:], *CONST, "--arg", "a=randn:128:f16"],
        "a (descriptor of f16, box 128x64) has 2 dimensions, not 1",
        "",
    ),
    "a number for a tensor": (
        [TARGET, *GEMM[1:3], "--grid", "1", *SIZES[2:], *CONST, "--arg", "a=3"],
        "a (descriptor of f16, box 128x64) is a tensor",
        "a=randn:256x256:f16",
    ),
    "bad level": ([*RUN, "--level", "ptx"], "Invalid value for '--level'", ""),
    "level of a file": ([GLUON, "--grid", "1", "--level", "aref"], "--level goes with FILE.py:KERNEL", "leave --level"),
    "save as text": ([*RUN, "--save", "out.txt"], "--save out.txt", "--save out.npz"),
    "save nowhere": ([*RUN, "--save", "/no/such/out.npz"], "there is no folder /no/such", "a folder that exists"),
    "timeline as pdf": ([*RUN, "--timeline", "t.pdf"], "--timeline t.pdf: the suffix", ".json"),
    "no such file": (["gem.ttgir", "--grid", "1"], "no file 'gem.ttgir'", "give FILE.ttgir or FILE.py:KERNEL"),
}


@pytest.mark.parametrize(("arguments", "what", "cure"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_status_3_and_says_what_to_type(
    tawa: Tawa, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], what: str, cure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tawa("simulate", *arguments)
    assert result.exit_code == 3, result.stdout
    assert result.stdout == ""
    assert what in result.stderr and cure in result.stderr
