"""Parsing of MLIR constants."""

from __future__ import annotations

import numpy as np

from tawa.sim.ops.constants import constant


def test_mlir_constants_are_parsed() -> None:
    assert constant("0xFF800000 : f32", "f32") == -np.inf
    assert constant("-7 : i32", "i32") == -7
    assert constant("true", "i1") == 1
    tile = constant("dense<0xFF800000> : tensor<2x4xf32, #mma>", "tensor<2x4xf32, #mma>")
    assert tile.shape == (2, 4) and (tile == -np.inf).all()
    assert constant("dense<[1, 2]> : tensor<2xi32>", "tensor<2xi32>").tolist() == [1, 2]
