"""Verdicts in a compile: on record, in the cache key, and in the way of a kernel that is refuted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import Signature
from tawa.errors import InternalError
from tawa.ir import Module
from tawa.plan import PlanOptions
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.result import PassResult
from tawa.verify.effort import Verification
from tests.bridge import kernels
from tests.support.verdicts import credits_proved


def compile_gemm(
    signature: Signature, verification: Verification = "fast", folder: Path | None = None, **options: Any
) -> Any:
    request = Request(PlanOptions(only_if_faster=False, **options), None, folder, verification)
    return compile_kernel(kernels.gemm_descriptors, signature, request)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that forgets to release slots."""
    honest = LowerArefs.run

    def forgets(self: LowerArefs, module: Module) -> PassResult:
        result = honest(self, module)
        for op in [op for op in module.walk() if op.name == "ttng.arrive_barrier"]:
            op.erase()
        return result

    monkeypatch.setattr(LowerArefs, "run", forgets)


@pytest.mark.parametrize("verification", ["fast", "full"])
def test_the_verdict_is_on_record(verification: Verification, gemm_signature: Signature) -> None:
    record = json.loads(json.dumps(compile_gemm(gemm_signature, verification).metadata.tawa))
    assert record["verification"] == verification
    assert credits_proved(record["verdict"])
    assert "specialise.check credits" in record["stage_ms"] and "specialise.check barriers" in record["stage_ms"]


def test_a_kernel_that_was_not_checked_never_stands_for_one_that_is(gemm_signature: Signature) -> None:
    assert compile_gemm(gemm_signature, "off").metadata.tawa["verdict"] is None
    assert compile_gemm(gemm_signature, "fast").metadata.tawa["verdict"] is not None
    assert compile_gemm(gemm_signature, "off").metadata.tawa["verdict"] is None


def test_a_refuted_kernel_is_stock_in_automatic_mode_with_the_run_that_goes_wrong(
    forgetful: None, gemm_signature: Signature, tmp_path: Path
) -> None:
    stock = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    compiled = compile_gemm(gemm_signature, folder=tmp_path)
    assert compiled.asm["cubin"] == stock.asm["cubin"]
    record = compiled.metadata.tawa
    assert "ProtocolError" in record["reason"] and "deadlock" in record["reason"]
    names = {path.name for path in Path(record["reproducer"]).iterdir()}
    assert {"ttir.mlir", "ttgir.mlir", "barrier.mlir", "witness.json", "request.json", "traceback.txt"} <= names


def test_a_refuted_kernel_raises_where_it_was_demanded(
    forgetful: None, gemm_signature: Signature, tmp_path: Path
) -> None:
    with pytest.raises(InternalError, match="refuted") as caught:
        compile_gemm(gemm_signature, folder=tmp_path, enable_warp_specialization=True)
    assert caught.value.reproducer is not None and (caught.value.reproducer / "witness.json").is_file()
