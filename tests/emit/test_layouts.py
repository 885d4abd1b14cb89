from __future__ import annotations

import pytest

from tawa.emit.values.layouts import layout_source
from tawa.errors import EmitError

MMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>"
SAID = {
    MMA: "gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16])",
    "#ttg.slice<{dim = 1, parent = #mma}>":
        "gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 16, rank = 3}>":
        "gl.NVMMASharedLayout(64, 16, rank=3, transposed=True)",
    "#ttg.swizzled_shared<{vec = 1, perPhase = 2, maxPhase = 4, order = [1, 0]}>":
        "gl.SwizzledSharedLayout(1, 2, 4, [1, 0])",
    "#ttg.linear<{register = [[0, 1]], lane = [[1, 0]], warp = [], block = []}>":
        "gl.DistributedLinearLayout([[0, 1]], [[1, 0]], [], [], [2, 2])",
    "#ttg.slice<{dim = 1, parent = #ttg.linear<{register = [[0, 4]], lane = [], warp = [[2, 0]], block = []}>}>":
        "gl.SliceLayout(1, gl.DistributedLinearLayout([[0, 4]], [], [[2, 0]], [], [4, 8]))",
    "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 2>":
        "TensorMemoryLayout([128, 64], col_stride=2)",
}  # fmt: skip


@pytest.mark.parametrize(("encoding", "source"), SAID.items())
def test_a_layout_is_its_constructor(encoding: str, source: str) -> None:
    assert layout_source({"#mma": MMA}, encoding) == source


def test_a_layout_that_gluon_does_not_have_is_refused() -> None:
    with pytest.raises(EmitError, match="amd_mfma"):
        layout_source({}, "#ttg.amd_mfma<{version = 3}>")


def test_a_field_that_gluon_does_not_have_is_refused() -> None:
    with pytest.raises(EmitError, match="CTAsPerCGA"):
        layout_source({}, MMA.replace("}>", ", CTAsPerCGA = [2, 1]}>"))
