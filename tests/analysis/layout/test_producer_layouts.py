"""Layouts of eight warps become layouts of four, and wide enough for cp.async."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.layouts import BlockedLayout, blocked_layout, per_thread
from tawa.analysis.layout.producer_layouts import rename, with_warps
from tawa.ir import parse_module
from tests.cases.programs import ttgir as programs
from tests.cases.small.pointer_kernels import made


def layout(warps: tuple[int, ...], order: tuple[int, ...] = (1, 0)) -> BlockedLayout:
    return BlockedLayout((1, 8), (4, 8), warps, order)


@pytest.mark.parametrize(
    ("warps", "order", "wanted"),
    [
        ((8, 1), (1, 0), (4, 1)),
        ((4, 2), (1, 0), (2, 2)),
        ((1, 8), (1, 0), (1, 4)),
        ((2, 4), (0, 1), (2, 2)),
        ((4, 1), (1, 0), (4, 1)),
        ((2, 1), (1, 0), (4, 1)),
    ],
)
def test_warps_go_from_the_slowest_dimension(
    warps: tuple[int, ...], order: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    assert with_warps(layout(warps, order), 4).warps == wanted


def test_only_whole_names_are_renamed() -> None:
    text = "tensor<8xi32, #ttg.slice<{dim = 0, parent = #blocked1}>>, #blocked"
    assert rename(text, {"#blocked": "#p"}) == text[: -len("#blocked")] + "#p"


def test_every_tile_of_a_producer_is_laid_out_for_its_warps() -> None:
    outcome = made("wrapped_8_warps")
    module = parse_module(outcome.aref)
    groups = programs.ops_named(module, "warp.group")
    producer = next(group for group in groups if "producer" in group.properties["role"])
    types = [
        value.type for op in producer.walk() for value in op.results if "#" in value.type and "tensor<" in value.type
    ]
    used = {name for name in module.aliases if any(name in text for text in types)}
    assert types and used
    for name in sorted(used):
        found = blocked_layout(module, name)
        assert found is None or found.num_warps == 4


def test_a_thread_that_holds_two_bytes_of_a_tile_gets_four() -> None:
    """A row of 64 numbers of 16 bits for 128 threads: each would copy two bytes, which cp.async cannot."""
    outcome = made("weight_only")
    module = parse_module(outcome.aref)
    assert outcome.plan is not None and [ring.fill for ring in outcome.plan.rings] == ["cp.async", "cp.async"]
    loads = [op for op in module.walk() if op.name == "tt.load" and "tensor<64xf16" in op.result.type]
    encoding = loads[0].result.type.partition(", ")[2][:-1]
    assert per_thread(module, encoding, 0) >= 2
