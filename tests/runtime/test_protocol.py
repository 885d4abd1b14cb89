"""The protocol of a kernel, asserted in a test suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.verify.verdict import Proved, Refuted, Unknown

FOLDER = Path(__file__).parents[2] / "examples" / "rings"
CONSTANTS = {"BM": 128, "BN": 128, "BK": 64, "D": 3}
TYPES = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, M=i32, N=i32, K=i32"
GEMM = Path(__file__).parents[1] / "cli" / "kernels.py"
OF_GEMM = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, K=i32:16"


def broken(tmp_path: Path) -> Any:
    text = (FOLDER / "gemm_4_producer.py").read_text()
    (tmp_path / "broken.py").write_text(text.replace("ring.consumed(1, pred=k > 0)", "ring.consumed()"))
    return load_kernel(f"{tmp_path / 'broken.py'}:gemm")


def test_the_plugin_proves_a_triton_kernel(assert_protocol: Callable[..., Any]) -> None:
    assert isinstance(assert_protocol(load_kernel(f"{GEMM}:gemm"), OF_GEMM, {"BM": 128, "BN": 128}), Proved)


def test_the_plugin_proves_a_gluon_kernel(assert_protocol: Callable[..., Any]) -> None:
    kernel = load_kernel(f"{FOLDER / 'gemm_4_producer.py'}:gemm")
    assert isinstance(assert_protocol(kernel, TYPES, CONSTANTS, num_warps=8), Proved)


def test_a_wrong_protocol_fails_with_the_run_that_goes_wrong(tmp_path: Path) -> None:
    kernel = broken(tmp_path)
    assert isinstance(tawa.check_protocol(kernel, TYPES, CONSTANTS, num_warps=8), Refuted)
    with pytest.raises(AssertionError, match=r"(?s)the protocol of gemm is wrong: write before release.*copy in tiles"):
        tawa.assert_protocol(kernel, TYPES, CONSTANTS, num_warps=8)


def test_what_is_not_understood_fails_with_the_reason(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "rings" / "kernels.py").read_text()
    plain = "    tile = gl.to_tensor(-1)\n    while tile < count:\n        tile, tiles = tiles.get()"
    assert plain in text
    other = "    tile, tiles = tiles.get()\n    while tile < count:\n        tile, tiles = tiles.get()"
    (tmp_path / "other.py").write_text(text.replace(plain, other))
    kernel = load_kernel(f"{tmp_path / 'other.py'}:marked")
    given = "counter=*i32, o=*i32, count=i32", {"D": 2}
    assert isinstance(tawa.check_protocol(kernel, *given), Unknown)
    with pytest.raises(AssertionError, match="the protocol of marked is not proved: barriers: the run depends on"):
        tawa.assert_protocol(kernel, *given)


def test_assumptions_and_options_are_taken() -> None:
    kernel = load_kernel(f"{GEMM}:gemm")
    found = tawa.check_protocol(
        kernel, OF_GEMM, {"BM": 128, "BN": 128}, assume=["K >= 128"], aref_depth=2, enable_warp_specialization=True
    )
    assert isinstance(found, Proved) and found.assumptions == ("K >= 128",)
