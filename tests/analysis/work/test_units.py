"""The unit that computes a dot, from its types, precision and shape."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.work.units import best_unit
from tests.analysis.test_before_layouts import IEEE, kernel, only_dot


@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({}, "wgmma"), ({"element": "f8E5M2"}, "wgmma"), ({"element": "f32"}, "wgmma"),
        ({"element": "f32", "precision": IEEE}, "cuda cores"), ({"element": "f64"}, "mma"),
        ({"shape": (16, 64, 64)}, "mma"), ({"shape": (64, 64, 8)}, "mma"), ({"shape": (64, 64, 16)}, "wgmma"),
        ({"element": "f8E5M2", "shape": (64, 64, 16)}, "mma"), ({"element": "f32", "shape": (64, 64, 8)}, "wgmma"),
    ],
    ids=str,
)  # fmt: skip
def test_a_dot_is_a_wgmma_if_type_precision_and_shape_allow_it(changes: dict[str, Any], unit: str) -> None:
    assert best_unit(only_dot(kernel(**changes))) == unit
