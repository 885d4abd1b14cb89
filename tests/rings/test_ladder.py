"""The steps of a GEMM in the examples: proved, right, and each faster than the one before in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton.experimental.gluon")

from typer.testing import CliRunner

from tawa.cli.main import app
from tawa.sim import summary
from tawa.verify.barriers import check_barriers
from tests.rings.ladder import BK, BM, BN, FOLDER, STEPS, module_of, run
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")


def test_there_are_six_steps() -> None:
    assert [step[5] for step in STEPS] == list("123456")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_proved(step: str) -> None:
    assert passes(check_barriers(module_of(step), assume=["K >= 0"]))  # one that loads ahead is wrong for K < 0


@pytest.mark.parametrize("order", ["eager", "late", "random"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_right(step: str, order: Any) -> None:
    run(step, (256, 384, 320), order)


def test_each_step_keeps_the_tensor_cores_busier_than_the_one_before() -> None:
    runs = [run(step, (256, 512, 1024), "eager", D=5, timing=True) for step in STEPS]
    busy = [summary(it.timeline()).tensor_core_busy for it in runs]
    assert busy == sorted(busy), dict(zip(STEPS, busy, strict=True))


SIZES = ["--const", f"BM={BM},BN={BN},BK={BK},D=3", "--num-warps", "8"]
TYPES = f"a=tensordesc<fp16[{BM},{BK}]>,b=tensordesc<fp16[{BK},{BN}]>,c=tensordesc<fp16[{BM},{BN}]>,M=i32,N=i32,K=i32"


def test_the_command_line_verifies_a_gluon_kernel() -> None:
    given = ("--sig", TYPES, "--accept", "checked")
    found = CliRunner().invoke(app, ["verify", f"{FOLDER}/gemm_4_producer.py:gemm", *SIZES, *given])
    assert found.exit_code == 0, found.output
    assert passes(found.output)


def test_the_command_line_shows_where_a_gluon_kernel_breaks_the_protocol(tmp_path: Path) -> None:
    text = (FOLDER / "gemm_4_producer.py").read_text()
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace("ring.consumed(1, pred=k > 0)", "ring.consumed()"))
    found = CliRunner().invoke(app, ["verify", f"{broken}:gemm", *SIZES, "--sig", TYPES])
    assert found.exit_code == 1, found.output
    line = 1 + text[: text.index("ring = ring.put")].count("\n")
    assert f"--> {broken}:{line}" in found.output.replace("\n", "")


def test_the_command_line_simulates_a_gluon_kernel() -> None:
    arguments = ["a=randn:128x128:f16:box=128x64", "b=randn:128x128:f16:box=64x128", "c=nan:128x128:f16:box=128x128"]
    given = [word for it in (*arguments, "M=128", "N=128", "K=128") for word in ("--arg", it)]
    target = f"{FOLDER}/gemm_4_producer.py:gemm"
    found = CliRunner().invoke(app, ["simulate", target, *SIZES, "--grid", "1", *given])
    assert found.exit_code == 0, found.output
    assert "no NaN" in found.output and "the Gluon kernel" in found.output


def test_a_gluon_kernel_takes_no_options_that_specialise() -> None:
    target = f"{FOLDER}/gemm_4_producer.py:gemm"
    found = CliRunner().invoke(app, ["verify", target, *SIZES, "--sig", TYPES, "--option", "aref_depth=3"])
    assert found.exit_code == 3 and "leave --option out" in found.output
