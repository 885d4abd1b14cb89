"""Loops of a producer that load one sequence of tiles, and loops that only look like it."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.dependents import dependent_values
from tawa.analysis.rings.streams import NoStreamError, StreamInfo, find_streams
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.tt import FuncOp
from tawa.dialects.warp import find_groups
from tawa.transforms.partition.partition import Partition
from tests.cases.programs.streams import in_a_row, partitioned, streams


def found(text: str) -> list[StreamInfo]:
    module = partitioned(text, Partition).module
    producer = next(group for group in find_groups(module) if group.role == "producer")
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    dependent = dependent_values(producer.body, lambda op: GroupIndexOp.of(op) is not None)
    return find_streams(producer, function, dependent)


@pytest.mark.parametrize("tiles", [False, True])
def test_two_loops_in_a_row_are_one_stream(tiles: bool) -> None:
    [stream] = found(streams(tiles=tiles))
    assert len(stream.loops) == 2 and stream.step == 1 and stream.carried == ((0,),)
    assert [ring.hint for ring in stream.rings] == ["ring0"]


def test_loops_that_do_not_depend_on_the_group_are_no_stream() -> None:
    assert found(streams(in_a_row().replace("%full", "%n").replace("%end", "%m"))) == []


NOT_ONE = {
    "does not start where the one before it ends": in_a_row(between="near"),
    "the start of a loop of the producer depends": in_a_row(first="full"),
    "may be inside of an iteration": in_a_row().replace("%full", "%near"),
    "their bodies differ": in_a_row(at="%zero, %k"),
}


@pytest.mark.parametrize("reason", NOT_ONE)
def test_other_loops_whose_length_depends_on_the_group_are_refused(reason: str) -> None:
    with pytest.raises(NoStreamError, match=reason):
        found(streams(NOT_ONE[reason]))
