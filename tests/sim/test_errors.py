"""Errors state values, location and cure."""

from __future__ import annotations

import pytest

from tawa.errors import TawaError
from tawa.sim import UnsupportedOp
from tests.cases.programs.ttgir import op
from tests.sim.small import kernel, run


def test_an_unknown_operation_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedOp) as caught:
        run(kernel(op("tt.mystery", "%n", "i32", "%y", "i32", line=7)))
    assert "tt.mystery" in str(caught.value) and "kernel.py:7" in str(caught.value) and "cure" in str(caught.value)
    assert isinstance(caught.value, TawaError)
