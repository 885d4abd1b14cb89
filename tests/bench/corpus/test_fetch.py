"""Of wheels and archives, only Python files are unpacked, and only where they belong."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from bench.corpus.entry import Archive
from bench.corpus.fetch import unpack_archive, unpack_wheel
from bench.corpus.partial_package import PartialPackage


def _files(folder: Path) -> list[str]:
    return sorted(str(it.relative_to(folder)) for it in folder.rglob("*") if it.is_file())


def test_only_the_python_files_of_a_wheel_are_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for name in ("pack/ops/gemm.py", "pack/_C.so", "../outside.py"):
            made.writestr(name, "")
    unpack_wheel(wheel, tmp_path / "packages")
    assert _files(tmp_path / "packages") == ["pack/ops/gemm.py"]


def test_only_the_wanted_folders_of_an_archive_are_unpacked(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        for name in ("lib/pack/gemm.py", "lib/pack/gemm.cu", "lib/other/gemm.py", "setup.py"):
            made.addfile(tarfile.TarInfo(f"repo-1/{name}"))
    unpack_archive(stream.getvalue(), Archive("https://example.org", ("pack",), under="lib"), tmp_path)
    assert _files(tmp_path) == ["pack/gemm.py"]


def test_of_a_package_in_parts_only_what_is_executed_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for name in ("pack/ops/__init__.py", "pack/ops/gemm.py", "pack/models.py", "studio/main.py"):
            made.writestr(name, "")
    unpack_wheel(wheel, tmp_path / "packages", PartialPackage("pack", ("pack.ops", "pack.ops.*")))
    assert _files(tmp_path / "packages") == ["pack/ops/__init__.py", "pack/ops/gemm.py"]
