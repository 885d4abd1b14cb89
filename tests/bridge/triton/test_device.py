"""A launch without a GPU gets an error that says so."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tawa.bridge.triton.device import backend_option_names, missing_device


def test_only_tritons_error_for_a_missing_driver_is_translated() -> None:
    found = missing_device(RuntimeError("0 active drivers ([]). There should only be one."), "gemm")
    assert found is not None and str(found).startswith("gemm: launched where Triton finds no CUDA device")
    assert "tawa compile" in str(found)
    assert missing_device(RuntimeError("out of memory"), "gemm") is None
    assert missing_device(KeyError("0 active drivers"), "gemm") is None


def test_the_options_of_tritons_backend_are_known() -> None:
    assert {"num_warps", "num_stages", "maxnreg"} <= backend_option_names()
