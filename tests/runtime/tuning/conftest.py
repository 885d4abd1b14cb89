"""The bridge's fixtures, and a folder of its own for every test's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridge.conftest import driver, nothing_left_behind, own_cache

__all__ = ["driver", "nothing_left_behind", "own_cache"]


@pytest.fixture(autouse=True)
def own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TAWA_COLLECT", raising=False)
    return tmp_path / "tawa" / "tuned"
