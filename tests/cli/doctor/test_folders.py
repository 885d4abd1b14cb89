"""The lines on folders. Tests may run as root, who can write everywhere: a file in its place breaks a folder."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tawa.cli.doctor import folders as part
from tawa.cli.doctor.folders import folders
from tests.cli.doctor.conftest import by_name


def test_the_size_of_a_cache_and_how_to_clear_it(own_folders: Path) -> None:
    entry = own_folders / "triton" / "entry"
    entry.mkdir(parents=True)
    (entry / "kernel.cubin").write_bytes(bytes(3 << 20))
    found = by_name(folders())["Triton's cache"]
    assert found.state == "green" and found.data["bytes"] == 3 << 20 and "3.0 MiB" in found.found
    assert found.hint == f"to clear it: rm -r {own_folders / 'triton'}"
    assert os.listdir(own_folders / "triton") == ["entry"]


def test_a_cache_that_is_not_there_yet_is_fine(own_folders: Path) -> None:
    found = by_name(folders())["Triton's cache"]
    assert found.state == "green" and not (own_folders / "triton").exists()


def test_a_cache_whose_folder_is_a_file_is_red(own_folders: Path) -> None:
    (own_folders / "triton").write_text("")
    found = by_name(folders())["Triton's cache"]
    assert found.state == "red" and "cannot be written" in found.found and "TRITON_CACHE_DIR" in found.cure


def test_a_cache_on_a_disk_that_is_read_only_is_red(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folders / "triton").mkdir()
    real = tempfile.TemporaryFile

    def refusing(*args: Any, **options: Any) -> Any:
        if options.get("dir") == own_folders / "triton":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(*args, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", refusing)
    found = by_name(folders())
    assert found["Triton's cache"].state == "red" and "Read-only file system" in found["Triton's cache"].found
    assert found["temporary files"].state == "green"


def test_a_full_disk_and_a_large_cache_are_yellow(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folders / "triton").mkdir()
    (own_folders / "triton" / "kernel").write_text("12345")
    monkeypatch.setattr(part, "_LARGE_BYTES", 4)
    found = by_name(folders())["Triton's cache"]
    assert (found.state, found.cure) == ("yellow", f"rm -r {own_folders / 'triton'}")
    monkeypatch.setattr(part, "_LEAST_FREE_BYTES", 1 << 62)
    found = by_name(folders())["Triton's cache"]
    assert found.state == "yellow" and "free space" in found.cure


def test_without_a_folder_for_temporary_files_their_line_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    found = by_name(folders())["temporary files"]
    assert found.state == "red" and "No usable" in found.found and "TMPDIR" in found.cure


def test_a_damaged_table_is_red_with_the_cure_of_its_error(own_folders: Path) -> None:
    tables = own_folders / "cache" / "tawa" / "tuned"
    tables.mkdir(parents=True)
    (tables / "ab.json").write_text("{")
    found = by_name(folders())["tuned tables"]
    assert found.state == "red" and "ab.json" in found.found and found.cure


def test_internal_errors_that_were_recorded_are_to_be_reported(own_folders: Path) -> None:
    case = own_folders / "cache" / "tawa" / "reproducers" / "gemm-0123"
    case.mkdir(parents=True)
    (case / "request.json").write_text("{}")
    found = by_name(folders())["reproducers"]
    assert found.state == "yellow" and found.cure.startswith(f"tawa replay {case}") and "report" in found.cure
