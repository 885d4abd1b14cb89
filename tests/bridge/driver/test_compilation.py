"""What becomes of a kernel: applied, declined, or stock because Tawa itself failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from triton.runtime.errors import OutOfResources

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.errors import InternalError, PlanError, ResourceError, UnsupportedKernel
from tawa.plan import PlanOptions
from tests.bridge import fakes, kernels

pytestmark = pytest.mark.usefixtures("all_pay")


def compile_gemm(signature: Signature, folder: Path | None = None, **options: Any) -> Any:
    return compile_kernel(kernels.gemm_descriptors, signature, Request(PlanOptions(**options), None, folder))


def assert_same_code(compiled: Any, stock: Any) -> None:
    for level in ("ttir", "ttgir", "llir", "ptx", "cubin"):
        assert compiled.asm[level] == stock.asm[level], level
    own = {"hash", "tawa"}
    ours = {name: value for name, value in compiled.metadata._asdict().items() if name not in own}
    assert ours == {name: value for name, value in stock.metadata._asdict().items() if name not in own}


def test_an_applied_kernel_has_every_level_and_a_record(
    gemm_signature: Signature, pipeline_is: Any, stock: Any
) -> None:
    pipeline_is(fakes.untouched)
    compiled = compile_gemm(gemm_signature)
    assert list(compiled.asm) == ["source", "ttir", "aref", "barrier", "ttgir", "llir", "ptx", "cubin"]
    assert compiled.asm["aref"] == "// aref D=2\n"
    assert '"tt.func"' in compiled.asm["barrier"]
    assert compiled.asm["ptx"] != stock.asm["ptx"]
    record = json.loads(json.dumps(compiled.metadata.tawa))
    assert record["applied"] and record["reason"] == "specialised by a fake" and record["location"] == "kernel.py:7"
    assert record["plan"]["rings"][0]["name"] == "r0"
    assert {"copy", "print", "specialise", "specialise.partition", "parse", "llir", "ptx", "cubin"} <= set(
        record["stage_ms"]
    )
    assert 0 < record["tawa_ms"] < record["compile_ms"]


def test_a_declined_kernel_is_stock_byte_for_byte(gemm_signature: Signature, pipeline_is: Any, stock: Any) -> None:
    pipeline_is(fakes.declines)
    compiled = compile_gemm(gemm_signature)
    assert_same_code(compiled, stock)
    assert compiled.asm["aref"] == ("// not specialised: a store in the way\n//   at kernel.py:9\n//   cure: move it\n")
    assert compiled.metadata.tawa["cure"] == "move it"


def test_a_demanded_kernel_that_is_declined_raises_with_reason_place_and_cure(
    gemm_signature: Signature, pipeline_is: Any
) -> None:
    pipeline_is(fakes.declines)
    with pytest.raises(
        UnsupportedKernel, match=r"gemm_descriptors(.|\n)*a store in the way(.|\n)*kernel.py:9(.|\n)*move it"
    ):
        compile_gemm(gemm_signature, enable_warp_specialization=True)


FAULTS = {"broken": fakes.broken, "bad_text": fakes.bad_text, "bad_lowering": fakes.bad_lowering}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_ours_gives_the_stock_kernel_and_a_reproducer(
    fault: str, gemm_signature: Signature, pipeline_is: Any, stock: Any, tmp_path: Path
) -> None:
    pipeline_is(FAULTS[fault])
    compiled = compile_gemm(gemm_signature, tmp_path / "faults")
    assert_same_code(compiled, stock)
    record = compiled.metadata.tawa
    assert "internal error" in record["reason"]
    folder = Path(record["reproducer"])
    assert folder.parent == tmp_path / "faults"
    assert {"ttir.mlir", "ttgir.mlir", "request.json", "traceback.txt"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_ours_in_a_demanded_kernel_raises_with_the_reproducers_path(
    fault: str, gemm_signature: Signature, pipeline_is: Any, tmp_path: Path
) -> None:
    pipeline_is(FAULTS[fault])
    with pytest.raises(InternalError, match="tawa replay") as caught:
        compile_gemm(gemm_signature, tmp_path, enable_warp_specialization=True)
    assert caught.value.reproducer is not None and caught.value.reproducer.is_dir()


def test_a_kernel_without_a_dot_never_reaches_the_pipeline(pipeline_is: Any) -> None:
    pipeline_is(fakes.broken)
    text = "x_ptr=*fp32:16, y_ptr=*fp32:16, columns=i32"
    signature = parse_signature(text, {"BLOCK": 128}, kernels.softmax_rows.arg_names)
    compiled = compile_kernel(kernels.softmax_rows, signature, Request())
    assert "no tl.dot" in compiled.metadata.tawa["reason"]
    assert "kernels.py:" in compiled.metadata.tawa["location"]


# Shared memory


def test_an_automatic_kernel_that_is_too_large_gets_the_largest_depth_that_fits(
    gemm_signature: Signature, pipeline_is: Any
) -> None:
    pipeline_is(fakes.uses_shared(slot_bytes=65536, natural_depth=5))
    compiled = compile_gemm(gemm_signature)
    assert compiled.metadata.tawa["applied"]
    assert compiled.asm["aref"] == "// aref D=3\n"
    record = compiled.metadata.tawa
    assert [ring["depth"] for ring in record["plan"]["rings"]] == [3] and record["options"]["aref_depth"] is None
    assert 3 * 65536 <= compiled.metadata.shared <= 232448


def test_an_automatic_kernel_that_fits_at_no_depth_is_stock(
    gemm_signature: Signature, pipeline_is: Any, stock: Any
) -> None:
    pipeline_is(fakes.uses_shared(slot_bytes=262144, natural_depth=2))
    compiled = compile_gemm(gemm_signature)
    assert_same_code(compiled, stock)
    assert "no depth fits" in compiled.metadata.tawa["reason"]


def test_a_chosen_depth_that_does_not_fit_is_an_error_with_every_share(
    gemm_signature: Signature, pipeline_is: Any
) -> None:
    pipeline_is(fakes.uses_shared(slot_bytes=65536, natural_depth=2))
    with pytest.raises(ResourceError) as caught:
        compile_gemm(gemm_signature, aref_depth=4)
    text = str(caught.value)
    assert "ring r0 (64x64xf16): 4 x 65536 = 262144 bytes" in text
    assert "232448 (227 KiB)" in text
    assert "everything else:" in text
    assert "aref_depth=3 (the largest that fits)" in text
    assert isinstance(caught.value, OutOfResources), "the autotuner must be able to skip this configuration"


def test_a_lowered_depth_never_breaks_the_chosen_mma_depth(
    gemm_signature: Signature, pipeline_is: Any, stock: Any
) -> None:
    pipeline_is(fakes.uses_shared(slot_bytes=131072, natural_depth=2))
    compiled = compile_gemm(gemm_signature, mma_depth=1)  # needs D >= 2, and only D = 1 fits
    assert_same_code(compiled, stock)


def test_what_the_pipeline_says_of_a_users_plan_reaches_the_user(gemm_signature: Signature, pipeline_is: Any) -> None:
    def refuses(*_: Any) -> Any:
        raise PlanError("ring r0: depth 1, needs 2")

    pipeline_is(refuses)
    with pytest.raises(PlanError, match="needs 2"):
        compile_gemm(gemm_signature, aref_depth=1)


# What users may put in our place


@pytest.mark.parametrize("level", ["ttgir", "llir", "ptx"])
def test_a_users_file_for_a_level_wins_over_what_we_made(
    level: str, gemm_signature: Signature, pipeline_is: Any, stock: Any, tmp_path: Path
) -> None:
    pipeline_is(fakes.untouched)
    path = tmp_path / f"mine.{level}"
    path.write_text(stock.asm[level])
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(), ir_override=str(path))
    assert compiled.asm["ptx"] == stock.asm["ptx"]
    assert compiled.asm["cubin"] == stock.asm["cubin"]
    assert not compiled.metadata.tawa["applied"] and not compiled.metadata.tawa.get("launch")
    assert "a file of the user's" in compiled.metadata.tawa["reason"]


def test_files_for_all_kernels_win_too(gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    compiled = compile_gemm(gemm_signature)
    assert "a file of the user's" in compiled.metadata.tawa["reason"]


def test_locations_in_the_stored_ir_may_be_asked_for(
    gemm_signature: Signature, pipeline_is: Any, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("USE_IR_LOC", "ttgir")
    pipeline_is(fakes.untouched)
    compiled = compile_gemm(gemm_signature)
    assert compiled.metadata.tawa["applied"]
    assert "gemm_descriptors.ttgir" in compiled.asm["ptx"]
