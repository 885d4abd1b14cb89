"""The marker of tests that compile many kernels down to the cubin."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: compiles kernels down to the cubin, several times each")
