"""Reproducer folders are written, read back and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_ttir
from tawa.bridge.report import reproducer
from tawa.bridge.triton.signature import Signature
from tawa.errors import InternalError
from tests.bridge import fakes
from tests.bridge.driver.test_compilation import assert_same_code, compile_gemm


def test_a_reproducer_replays_the_fault(gemm_signature: Signature, pipeline_is: Any, tmp_path: Path) -> None:
    pipeline_is(fakes.broken)
    with pytest.raises(InternalError) as caught:
        compile_gemm(gemm_signature, tmp_path, enable_warp_specialization=True, aref_depth=2)
    assert caught.value.reproducer is not None
    again = reproducer.read(caught.value.reproducer)
    assert again.request.options.aref_depth == 2
    with pytest.raises(InternalError, match="slot 3 of 2"):
        compile_ttir(again.ttir, again.request, num_warps=again.num_warps, num_stages=again.num_stages)


def test_a_reproducer_that_cannot_be_written_is_no_second_failure(
    gemm_signature: Signature, pipeline_is: Any, stock: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    pipeline_is(fakes.broken)
    compiled = compile_gemm(gemm_signature, tmp_path / "file")
    assert_same_code(compiled, stock)
    assert compiled.metadata.tawa["reproducer"] == ""
