from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.pointers import gemm
from tests.cli.conftest import FILL, GEMM

MARKS = {
    "ttir": "tt.descriptor_load",
    "ttgir": "ttg.warp_specialize",
    "aref": '"aref.put"',
    "barrier": '"ttng.wait_barrier"',
    "llir": "define ",
    "ptx": "wgmma.wait_group.sync.aligned",
    "sass": "HGMMA",
    "gluon": "gl.warp_specialize(",
}


@pytest.mark.parametrize(("level", "mark"), MARKS.items())
def test_emit_prints_each_level_and_nothing_else(tawa, level, mark):
    result = tawa("compile", *GEMM, "--emit", level)
    assert result.exit_code == 0, result.stderr
    assert mark in result.stdout
    assert "imported" not in result.stdout


def test_gluon_is_the_form_that_a_launch_gets(tawa):
    """Its `launch` makes the descriptors of what the pointers point to."""
    sizes = "M=i32:16, N=i32:16, K=i32:16, stride_am=i32:16, stride_ak=1, stride_bk=i32:16, stride_bn=1"
    signature = f"a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, {sizes}, stride_cm=i32:16, stride_cn=1"
    target = f"{Path(gemm.__file__)}:gemm_tutorial"
    constants = "BM=128,BN=128,BK=64,GROUP_M=4,ACT=''"
    result = tawa("compile", target, "--sig", signature, "--const", constants, "--emit", "gluon")
    assert result.exit_code == 0, result.stderr
    assert "a_desc = TensorDescriptor(a_ptr, [M, K], [stride_am, 1], [128, 64], TILES.value)" in result.stdout


@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_a_level_that_a_declined_kernel_does_not_have_says_why(tawa, level):
    result = tawa("compile", *FILL, "--emit", level)
    assert result.exit_code == 0
    assert result.stdout.startswith("// not specialised: no tl.dot")


def test_json_carries_the_emitted_level(tawa_json):
    found = tawa_json("compile", *GEMM, "--emit", "ptx")
    assert found["applied"] is True
    assert ".entry gemm" in found["emit"]["ptx"]


def test_without_emit_the_outcome_is_one_line(tawa):
    result = tawa("compile", *GEMM, "--num-warps", "4")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1
    assert "gemm: specialised (wherever legal): producer (1 warp) + consumer (4 warps)" in result.stdout


def test_without_emit_a_declined_kernel_is_told_with_its_place(tawa):
    result = tawa("compile", *FILL)
    assert result.exit_code == 0
    assert "fill: compiled by stock Triton: no tl.dot" in result.stdout
    assert "kernels.py:" in result.stdout


def test_what_triton_refuses_is_status_1_with_tritons_own_words(tawa):
    result = tawa("compile", FILL[0].replace(":fill", ":broken"), "--sig", "x=*fp16:16", "--const", "BM=64")
    assert result.exit_code == 1
    assert "error: Triton cannot compile the kernel" in result.stderr
    assert "no_such_name is not defined" in result.stderr
