"""Damaged entries of Triton's cache: compiled again, once, with a note."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.driver import _Driver
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.artifacts import cache_entries
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.bridge.triton.versions import triton_version
from tawa.errors import SurroundingsError
from tawa.plan import Plan, PlanOptions
from tests.bridge import fakes, kernels

NAME = "gemm_descriptors"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "json cut off": lambda entry: (entry / f"{NAME}.json").write_text('{"hash": "12'),
    "json empty": lambda entry: (entry / f"{NAME}.json").write_text("{}"),
    "json of another kind": lambda entry: (entry / f"{NAME}.json").write_text("[1]"),
    "group cut off": lambda entry: (entry / f"__grp__{NAME}.json").write_text('{"child'),
    "group of another kind": lambda entry: (entry / f"__grp__{NAME}.json").write_text("[]"),
    "no cubin": lambda entry: (entry / f"{NAME}.cubin").unlink(),
    "cubin cut off": lambda entry: _cut(entry / f"{NAME}.cubin"),
    "cubin empty": lambda entry: (entry / f"{NAME}.cubin").write_bytes(b""),
    "ptx that is no text": lambda entry: (entry / f"{NAME}.ptx").write_bytes(b"\xff\xfe"),
}
TRITONS_OWN = {"group cut off": (3, 7), "no cubin": (3, 8)}
"""What Triton compiles again by itself, and says nothing, and from which version on."""

OURS = {
    "ttir cut off": lambda entry: _cut(entry / f"{NAME}.ttir"),
    "ttgir changed": lambda entry: (entry / f"{NAME}.ttgir").write_text("garbage"),
    "aref empty": lambda entry: (entry / f"{NAME}.aref").write_text(""),
    "llir cut off": lambda entry: _cut(entry / f"{NAME}.llir"),
    "a byte of the cubin": lambda entry: _flip(entry / f"{NAME}.cubin"),
    "checksums null": lambda entry: _with_record(entry, checksums=None),
    "checksums of a wrong type": lambda entry: _with_record(entry, checksums={"ttgir": "1"}),
    "another reason": lambda entry: _with_record(entry, reason="none"),
    "a plan that is a list": lambda entry: _with_record(entry, plan=[1]),
    "a plan that is a path": lambda entry: _with_record(entry, plan="/tmp/plan.json"),
}


def _with_record(entry: Path, **changes: Any) -> None:
    """Changes the record of Tawa in the metadata of an entry."""
    file = entry / f"{NAME}.json"
    data = json.loads(file.read_text())
    data["tawa"].update(changes)
    file.write_text(json.dumps(data))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def check(
    damage: Callable[[Path], object],
    compile_it: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
    noted: bool = True,
) -> None:
    first = compile_it()
    entry = Path(first.metadata_group[f"{NAME}.cubin"]).parent
    damage(entry)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tawa"):
        again = compile_it()
        notes = [record.getMessage() for record in caplog.records]
        if noted:
            assert len(notes) == 1 and str(entry) in notes[0] and "compiled again" in notes[0]
        assert {name: again.asm[name] for name in ("ttgir", "ptx", "cubin")} == {
            name: first.asm[name] for name in ("ttgir", "ptx", "cubin")
        }
        compile_it()
        assert len(caplog.records) == len(notes), "the second time it was found whole"


@pytest.mark.contract
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "stock"])
def test_a_damaged_entry_is_compiled_again_once_with_a_note(
    damage: str, ours: bool, gemm_signature: Signature, pipeline_is: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline_is(fakes.untouched)
    request = Request() if ours else None
    noted = triton_version() < TRITONS_OWN.get(damage, (4,))
    check(DAMAGE[damage], lambda: compile_kernel(kernels.gemm_descriptors, gemm_signature, request), caplog, noted)


@pytest.mark.parametrize("damage", OURS)
@pytest.mark.parametrize("fake", [fakes.untouched, fakes.declines], ids=["specialised", "declined"])
def test_of_a_kernel_of_ours_any_level_that_was_changed_is_found(
    damage: str, fake: Any, gemm_signature: Signature, pipeline_is: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline_is(fake)
    check(OURS[damage], lambda: compile_kernel(kernels.gemm_descriptors, gemm_signature, Request()), caplog)


def test_a_launch_under_tawa_jit_repairs_its_entry_too(caplog: pytest.LogCaptureFixture, driver: None) -> None:
    import tawa

    def warmup() -> Any:
        kernel = tawa.jit(kernels.gemm_pointers)
        return kernel.warmup(*[kernels.half_tensor() for _ in range(3)], 64, BM=64, BN=64, BK=64, grid=(1,))

    entry = Path(warmup().metadata_group["gemm_pointers.cubin"]).parent
    (entry / "gemm_pointers.json").write_text("{")
    with caplog.at_level(logging.WARNING, "tawa"):
        assert warmup().asm["cubin"]
    assert [str(entry) in record.getMessage() for record in caplog.records] == [True]


def test_an_entry_that_cannot_be_removed_is_named(gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_kernel(kernels.gemm_descriptors, gemm_signature, None)
    entry = Path(first.metadata_group[f"{NAME}.cubin"]).parent
    (entry / f"{NAME}.json").write_text("{")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(SurroundingsError, match=rf"{entry} of Triton's cache is damaged(.|\n)*TRITON_CACHE_DIR"):
        compile_kernel(kernels.gemm_descriptors, gemm_signature, None)


def test_an_error_of_the_compile_itself_removes_nothing(own_cache: Path) -> None:
    def fails() -> None:
        raise KeyError("target")

    (own_cache / "entry").mkdir(parents=True)
    with pytest.raises(KeyError):
        cache_entries.repaired(fails)
    assert (own_cache / "entry").is_dir()


def test_a_kernel_for_which_stock_triton_was_run_to_compare_is_found_whole(
    gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compares(driver: _Driver) -> Any:
        driver.job.stock.spilled()
        return fakes.declines("", PlanOptions(), Plan())

    monkeypatch.setattr(_Driver, "run", compares)
    first = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    again = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert first.hash == again.hash and caplog.records == []


@triton.jit
def asks(p, n, BLOCK: tl.constexpr):
    for at in tl.range(0, n, BLOCK, warp_specialize=True):  # pyright: ignore[reportGeneralTypeIssues]
        tl.store(p + at + tl.arange(0, BLOCK), 1.0)


def test_a_kernel_with_an_annotation_that_is_taken_off_is_found_whole(caplog: pytest.LogCaptureFixture) -> None:
    """Its TTIR is stored as the user wrote it."""
    signature = parse_signature("p=*fp32, n=i32", {"BLOCK": 64}, asks.arg_names)
    first = compile_kernel(asks, signature, Request())
    again = compile_kernel(asks, signature, Request())
    assert "tt.warp_specialize" in again.asm["ttir"]
    assert first.hash == again.hash and caplog.records == []


def test_a_kernel_that_another_thread_still_compiles_is_not_waited_for() -> None:
    class Future:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"waited for {name}")

    future = Future()
    assert cache_entries.repaired(lambda: future) is future
