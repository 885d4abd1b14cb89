"""The error for a kernel that does not fit is Tawa's and Triton's at once."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("triton")

from triton.runtime.errors import OutOfResources

from tawa.bridge.triton.artifacts.shared_memory_error import PlanTooLarge, SharedMemoryError
from tawa.errors import PlanError, ResourceError


def test_the_autotuner_skips_it_and_its_text_is_ours() -> None:
    error = SharedMemoryError(300000, 232448, "too large; cure: aref_depth=2")
    assert isinstance(error, OutOfResources) and isinstance(error, ResourceError)
    assert str(error) == "too large; cure: aref_depth=2"
    assert isinstance(PlanTooLarge(1, 0, "text"), PlanError)


def test_it_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(SharedMemoryError(300000, 232448, "too large")))
    assert (error.required, error.limit, str(error)) == (300000, 232448, "too large")
