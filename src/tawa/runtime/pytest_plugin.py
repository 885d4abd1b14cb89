"""The pytest plugin: a fixture that asserts the protocol of a kernel. It is there wherever Tawa is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session", name="assert_protocol")
def _assert_protocol() -> Callable[..., Any]:
    """`tawa.assert_protocol`: no run of a kernel deadlocks or races; needs no GPU."""
    import tawa

    return tawa.assert_protocol
