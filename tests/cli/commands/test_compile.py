from __future__ import annotations

import pytest

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
