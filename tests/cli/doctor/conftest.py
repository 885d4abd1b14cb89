"""A machine to examine: folders of its own, and programs and packages as a test wants them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.cli.doctor import machine as machine_part
from tawa.cli.doctor.finding import Finding, Findings


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    return tmp_path


def by_name(findings: Findings) -> dict[str, Finding]:
    return {it.name: it for it in findings}


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs packages in the eyes of the doctor: a version, or None for one that is not there."""
    real, required = importlib.metadata.version, importlib.metadata.requires

    def install(*, torch_requires: str = "", **versions: str | None) -> None:
        def version(name: str) -> str:
            found = versions.get(name, "") if name in versions else real(name)
            if found is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return found

        monkeypatch.setattr(importlib.metadata, "version", version)
        monkeypatch.setattr(
            importlib.metadata, "requires", lambda name: [torch_requires] if name == "torch" else required(name)
        )
        from tawa.bridge.triton.versions import triton_version

        triton_version.cache_clear()

    yield install
    monkeypatch.undo()
    from tawa.bridge.triton.versions import triton_version

    triton_version.cache_clear()


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts GPUs into the machine: what nvidia-smi lists, and the CUDA of the driver."""

    def install(*rows: str, cuda: tuple[int, int] | None = (13, 0)) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(machine_part, "driver_cuda", lambda: cuda)

    return install
