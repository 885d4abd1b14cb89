"""`share_streams`: the producer loads a sequence once, and each group gets all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.dialects.scf import ForOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.flow import Flow
from tawa.ir import parse_module
from tawa.transforms.partition.partition import Partition
from tawa.transforms.partition.share_streams import ShareStreams
from tests.cases.programs.ping_pong import inside
from tests.cases.programs.streams import at_arefs, in_a_row, partitioned, streams
from tests.support.passes import checked
from tests.support.protocol import run


def shared(text: str) -> Flow:
    flow = partitioned(text, Partition)
    result = ShareStreams(flow.plan).run(flow.module)
    assert result.changed and result.remarks == ()
    checked(flow.module)
    return flow


def loops(group: GroupOp) -> list[ForOp]:
    return [view for op in group.op.walk() if (view := ForOp.of(op)) and not inside(op, "scf.for")[1:]]


@pytest.mark.parametrize("tiles", [False, True])
def test_the_producer_has_one_loop_and_each_consumer_a_last_one_without_dots(tiles: bool) -> None:
    groups = find_groups(shared(streams(tiles=tiles)).module)
    for group in groups:
        found = loops(group)
        if group.role == "producer":
            assert len(found) == 1 and len(inside(found[0].op, "aref.put")) == 1
            continue
        counted = [
            tuple(len(inside(it.op, name)) for name in ("aref.get", "aref.consumed", "ttng.warp_group_dot"))
            for it in found
        ]
        assert counted == [(1, 1, 1), (1, 1, 1), (1, 1, 0)]


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 3), (2, 0), (3, 1), (5, 4)])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_group_gets_as_many_tiles_as_the_longest_one_needs(depth: int, n: int, m: int) -> None:
    trace = run(parse_module(at_arefs(depth)), {"n": n, "m": m})
    assert trace.wrong == []
    tiles = list(range(n + m))  # of the second group; the first needs m of them
    for reader in ("ring0@consumer0", "ring0@consumer1"):
        assert trace.places("put", reader) == trace.places("get", reader) == trace.places("consumed", reader) == tiles


def test_a_group_stores_what_its_own_iterations_computed() -> None:
    """The dots of each group are those of its own loops: m for the first, n + m for the second."""
    trace = run(parse_module(at_arefs(2)), {"n": 3, "m": 2})
    assert trace.stores == 2


def test_loops_that_are_no_stream_decline_the_kernel() -> None:
    flow = partitioned(streams(in_a_row(at="%zero, %k")), Partition)
    result = ShareStreams(flow.plan).run(flow.module)
    assert not result.changed and result.remarks[0].kind == "declined" and "bodies differ" in result.remarks[0].reason


def test_groups_of_different_lengths_do_not_alternate() -> None:
    flow = partitioned(streams(), Partition)
    result = ShareStreams(replace(flow.plan, ping_pong=True)).run(flow.module)
    assert not result.changed and "cannot alternate" in result.remarks[0].reason
