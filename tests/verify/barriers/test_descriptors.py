"""Bounds that come from the shape of a host's descriptor: named, and open to assumptions."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from tawa.errors import AssumptionError
from tawa.ir import Module
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Checked, Refuted
from tests.matrix.gluon import gluon_module

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def loaded_early(a, o, num_warps: gl.constexpr):
    """Loads a tile ahead, and waits for it in the trip that uses it: in none, if the tensor has no columns."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, a.block_type.nbytes)
    tma_load(a, [0, 0], full, tile)
    for k in range(0, a.shape[1], 64):
        mbarrier.wait(full, k // 64 & 1)
        gl.store(o, gl.sum(gl.sum(tile.load(layout).to(gl.float32), 0), 0))
        fence_async_shared()
        if k + 64 < a.shape[1]:
            mbarrier.expect(full, a.block_type.nbytes)
            tma_load(a, [0, k + 64], full, tile)


def program() -> Module:
    return gluon_module(loaded_early, {"a": [64, 64]}, {"num_warps": 4}, {"a": "fp16"}, {"o": "*fp32"})


def test_the_run_that_goes_wrong_names_the_part_of_the_shape() -> None:
    verdict = check_barriers(program())
    assert isinstance(verdict, Refuted), verdict
    assert dict(verdict.witness.inputs) == {"a.shape[1]": 0}
    assert verdict.witness.steps[-1].action == "still writes"


def test_an_assumption_about_a_part_of_the_shape_is_used() -> None:
    verdict = check_barriers(program(), assume=["a.shape[1] >= 1"])
    assert isinstance(verdict, Checked), verdict
    assert verdict.assumptions == ("a.shape[1] >= 1",)


def test_an_unknown_part_is_an_error_that_names_the_parts() -> None:
    with pytest.raises(AssumptionError, match=r"a\.shape\[0\], a\.shape\[1\], a\.strides\[0\]"):
        check_barriers(program(), assume=["a >= 1"])
