"""Reproducer folders are written, read back and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tawa.bridge.driver.compile import compile_ttir
from tawa.bridge.report import reproducer
from tawa.bridge.triton.signature import Signature
from tawa.errors import InternalError, PlanError
from tawa.outside import Unfit
from tawa.plan import PlanOptions
from tests.bridge import fakes
from tests.bridge.driver.test_compilation import assert_same_code, compile_gemm
from tests.support.damage import damaged_data, damaged_text, seeds
from tests.support.sample import examples


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


REQUEST: dict[str, Any] = {
    "kernel": "gemm", "options": {"aref_depth": 2}, "plan": {"form": "persistent"}, "pinned": True,
    "verification": "fast", "num_warps": 4, "num_stages": 3, "versions": {"triton": "3.6.0"},
}  # fmt: skip


@settings(max_examples=examples(200))
@given(seeds)
def test_a_damaged_folder_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "ttir.mlir").write_bytes(damaged_text("module {\n}\n", seed))
    text = json.dumps(REQUEST, indent=1)
    damaged = damaged_text(text, seed) if seed % 2 else json.dumps(damaged_data(REQUEST, seed)).encode()
    (folder / "request.json").write_bytes(damaged)
    try:
        found = reproducer.read(folder)
    except (Unfit, PlanError):
        return
    assert found.num_warps in (1, 2, 4, 8, 16, 32) and isinstance(found.request.options, PlanOptions)


def test_a_plan_in_a_folder_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "ttir.mlir").write_text("")
    (tmp_path / "request.json").write_text(json.dumps({**REQUEST, "plan": str(tmp_path / "plan.json")}))
    with pytest.raises(PlanError, match="not names and values"):
        reproducer.read(tmp_path)
