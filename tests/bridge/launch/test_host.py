"""A process that offers nothing has no memory to give, times nothing, and captures nothing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tawa.bridge.launch.host import NO_HOST, Host


def test_a_process_without_services_never_captures_and_times_nothing() -> None:
    assert Host() == NO_HOST
    assert NO_HOST.allocate is None and NO_HOST.choices is None
    assert not NO_HOST.capturing()


def test_what_a_kernel_was_compiled_with_cannot_be_changed_behind_it() -> None:
    with pytest.raises(FrozenInstanceError):
        NO_HOST.capturing = lambda: True  # type: ignore[misc]
    assert Host(capturing=lambda: True) != NO_HOST
