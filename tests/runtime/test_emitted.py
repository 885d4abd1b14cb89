from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("triton.experimental.gluon")

from typer.testing import CliRunner

import tawa
from tawa.cli.main import app
from tawa.errors import EmitError
from tests.cases.pointers.gemm import gemm_tutorial
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

SIGNATURE = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16, "
    "stride_am=i32:16, stride_ak=1, stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
)
CONSTANTS = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 4, "ACT": ""}


def test_a_kernel_with_a_signature_is_compiled_as_for_a_launch() -> None:
    text = tawa.emit_gluon(gemm_tutorial, SIGNATURE, CONSTANTS, only_if_faster=False)
    assert "a_desc = TensorDescriptor(a_ptr, [M, K], [stride_am, 1]" in text


def test_a_kernel_that_is_left_to_stock_triton_is_refused() -> None:
    with pytest.raises(EmitError, match="is not specialised"):
        tawa.emit_gluon(gemm_tutorial, SIGNATURE, CONSTANTS, enable_warp_specialization=False)


def test_a_kernel_that_was_not_launched_is_refused() -> None:
    with pytest.raises(ValueError, match="has not been compiled yet"):
        tawa.emit_gluon(tawa.jit(gemm_tutorial))


def test_tiles_and_coordinates_have_the_names_of_pointers() -> None:
    text = tawa.emit_gluon(gemm_tutorial, SIGNATURE, CONSTANTS, only_if_faster=False)
    assert "a_tile, b_tile = a_b_ring.get(slot, parity)" in text
    assert "tawa_" not in text


def test_no_line_of_a_kernel_with_many_parameters_is_too_long() -> None:
    text = tawa.emit_gluon(gemm_tutorial, SIGNATURE, CONSTANTS, only_if_faster=False)
    assert max(map(len, text.splitlines())) <= 120


def test_the_head_has_the_command_that_verifies_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tawa.emit_gluon(gemm_tutorial, SIGNATURE, CONSTANTS, only_if_faster=False)
    command = re.search(r"    tawa (verify [^']*'[^']*')", text)
    assert command is not None
    (tmp_path / "emitted.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command[1].replace("THIS_FILE", "emitted"))
    ran = CliRunner().invoke(app, [*words, "--accept", "checked"])
    assert ran.exit_code == 0 and passes(ran.stdout), ran.output
