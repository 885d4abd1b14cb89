"""The bridge's fixtures serve here too."""

from __future__ import annotations

from tests.bridge.conftest import all_pay, driver, gemm_signature, nothing_left_behind, own_cache, pipeline_is

__all__ = ["all_pay", "driver", "gemm_signature", "nothing_left_behind", "own_cache", "pipeline_is"]
