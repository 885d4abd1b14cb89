"""The planner's estimate of shared memory against Triton's allocation."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tawa.analysis.resources import shared_beside_rings
from tawa.analysis.rings.channels import find_channels
from tawa.analysis.rings.loads import find_dot_loads
from tawa.ir import parse_module
from tawa.machine.hopper import SLACK_BYTES
from tests.cases.gemm.cases import find
from tests.roundtrip.levels import DEPTH, compile_through

pytestmark = pytest.mark.slow


def estimate(ttgir: str) -> int:
    """Bytes of one CTA with rings of `DEPTH` slots."""
    module = parse_module(ttgir)
    channels = find_channels(find_dot_loads(module))
    rings = DEPTH * sum(channel.slot_bytes for channel in channels)
    return shared_beside_rings(module, channels).total(rings)


@pytest.mark.parametrize(
    "name",
    [
        "tile_64x64",
        "tile_8warps_nt",
        "persistent_flat",
        "gate_up",
        "device_desc_nn",
        "epilogue_all",
        "epilogue_fp32_store",
        "persistent_epilogue",
    ],
)
def test_the_estimate_is_never_too_small_and_not_far_too_large(name: str) -> None:
    """Too small an estimate accepts depths that do not fit; too large an estimate rejects depths that fit."""
    made = compile_through(find(name), "barrier")
    estimated = estimate(made.ttgir)
    assert estimated >= made.shared_bytes - SLACK_BYTES
    assert estimated <= made.shared_bytes + 2 * SLACK_BYTES + made.shared_bytes // 4
