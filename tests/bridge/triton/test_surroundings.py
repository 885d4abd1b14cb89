"""Folders that cannot be used: the error names the folder and the variable that names another one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton import surroundings
from tawa.bridge.triton.signature import Signature
from tawa.errors import InternalError, SurroundingsError, TawaError
from tawa.plan import PlanOptions
from tests.bridge import fakes, kernels

pytestmark = [pytest.mark.usefixtures("all_pay"), pytest.mark.contract]

PINNED = PlanOptions(enable_warp_specialization=True)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``full(condition)``: a file opened for writing under a path that the condition holds for has no room."""
    own_open = open

    def set_up(condition: Any) -> None:
        class Full:
            def __init__(self, file: Any) -> None:
                self.file = file

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: Any) -> None:
                self.file.close()

            def write(self, _: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as Python: without a file name

        def open_(file: Any, mode: str = "r", *rest: Any, **kwargs: Any) -> Any:
            opened = own_open(file, mode, *rest, **kwargs)
            return Full(opened) if "w" in mode and condition(str(file)) else opened

        monkeypatch.setattr("builtins.open", open_)

    return set_up


@pytest.mark.parametrize("options", [None, PlanOptions(), PINNED])
def test_a_cache_that_cannot_be_made_is_named_with_its_variable(
    options: PlanOptions | None, gemm_signature: Signature, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(SurroundingsError) as caught:
        compile_kernel(kernels.gemm_descriptors, gemm_signature, None if options is None else Request(options))
    assert str(caught.value) == (
        f"Triton's cache {tmp_path / 'file' / 'cache'} cannot be used: Not a directory\n"
        "  cure: TRITON_CACHE_DIR=/another/folder that can be written"
    )
    assert caught.value.errno == errno.ENOTDIR
    assert isinstance(caught.value, OSError) and isinstance(caught.value, TawaError)


def test_a_full_cache_is_named_although_the_error_names_no_file(
    gemm_signature: Signature, own_cache: Path, full: Any
) -> None:
    full(lambda path: path.startswith(str(own_cache)))
    with pytest.raises(SurroundingsError, match=rf"Triton's cache {own_cache} cannot be used: No space left on device"):
        compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())


def test_a_read_only_cache_still_serves_what_is_in_it(gemm_signature: Signature, own_cache: Path, full: Any) -> None:
    first = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    full(lambda path: path.startswith(str(own_cache)))
    assert compile_kernel(kernels.gemm_descriptors, gemm_signature, Request()).hash == first.hash


@pytest.mark.parametrize("options", [PlanOptions(), PINNED])
def test_a_full_temporary_folder_is_no_internal_error_and_leaves_nothing_in_the_cache(
    options: PlanOptions, gemm_signature: Signature, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(surroundings.os, "fdopen", no_room)
        with pytest.raises(SurroundingsError) as caught:
            compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(options, None, tmp_path / "faults"))
    assert f"the temporary folder {tempfile.gettempdir()} cannot be used: No space left on device" in str(caught.value)
    assert "cure: TMPDIR=" in str(caught.value)
    assert not (tmp_path / "faults").exists()
    again = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request())
    assert "internal" not in again.metadata.tawa["reason"]


def test_no_temporary_folder_at_all_is_told_as_one(gemm_signature: Signature, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/no/such/folder"])
    with pytest.raises(SurroundingsError, match="the temporary folder /no/such/folder cannot be used"):
        compile_kernel(kernels.gemm_descriptors, gemm_signature, None)


def test_a_temporary_file_that_ptxas_finds_no_room_for_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.errors import PTXASError

    monkeypatch.setattr(surroundings, "_is_full", lambda _: True)
    found = surroundings.folder_failure(PTXASError("fatal: Could not open output file"))
    assert found is not None and "TMPDIR" in str(found)
    monkeypatch.setattr(surroundings, "_is_full", lambda _: False)
    assert surroundings.folder_failure(PTXASError("fatal: Could not open output file")) is None


def test_an_error_about_some_other_file_stays_what_it_is() -> None:
    with pytest.raises(FileNotFoundError) as caught, surroundings.surroundings_named(kernels.gemm_descriptors):
        Path("/no/such/file").read_text()
    assert type(caught.value) is FileNotFoundError


@pytest.mark.parametrize("fails", ["mkdir", "write"])
def test_an_internal_error_says_when_no_reproducer_was_written(
    fails: str, gemm_signature: Signature, pipeline_is: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "file"
    if fails == "mkdir":
        folder.write_text("in the way")
    else:
        own = Path.write_text

        def no_room(self: Path, text: str, *rest: Any, **kwargs: Any) -> int:
            if self.is_relative_to(folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return own(self, text, *rest, **kwargs)

        monkeypatch.setattr(Path, "write_text", no_room)
    pipeline_is(fakes.broken)
    with pytest.raises(InternalError) as caught:
        compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(PINNED, None, folder))
    text = str(caught.value)
    assert caught.value.reproducer is None
    assert f"no reproducer: nothing was written to {folder}" in text
    assert "TAWA_REPRODUCER_DIR" in text and "tawa replay" not in text
    assert not folder.is_dir() or list(folder.iterdir()) == []
    compiled = compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(PlanOptions(), None, folder))
    assert compiled.metadata.tawa["reproducer"] == ""
    assert f"nothing was written to {folder}" in compiled.metadata.tawa["cure"]


def test_a_launch_under_tawa_jit_names_the_cache_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: None
) -> None:
    import tawa

    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    kernel = tawa.jit(kernels.gemm_pointers)
    with pytest.raises(tawa.SurroundingsError, match="cure: TRITON_CACHE_DIR="):
        kernel.warmup(*[kernels.half_tensor() for _ in range(3)], 64, BM=64, BN=64, BK=64, grid=(1,))
