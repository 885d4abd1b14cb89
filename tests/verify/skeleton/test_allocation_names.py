"""Names of allocations: the variable's, or the role of a barrier, or a number; no two are the same."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.verify.skeleton.allocation_names import allocation_names
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.compiler import compile_barriers
from tests.matrix.gluon import gluon_module
from tests.rings import crossed
from tests.verify.barriers.test_foreign import ALLOC, COPY_IN, EXPECT, INIT, LOAD, MAKE, WAIT, kernel


def names(*lines: str) -> list[str]:
    memories = compile_barriers(kernel(*lines)).memories
    assert memories is not None
    return memories.names


def on(line: str, barrier: str) -> str:
    """The operation, on another barrier."""
    return line.replace("%bar", barrier)


FILL = (on(WAIT, "%made_0"), on(EXPECT, "%made"), on(COPY_IN, "%made"), on(WAIT, "%made"), LOAD)
MADE = (ALLOC, *(on(line, barrier) for barrier in ("%made", "%made_0") for line in (MAKE, INIT)))


def test_an_allocation_has_the_name_of_its_variable() -> None:
    assert names(ALLOC, MAKE, INIT, EXPECT, COPY_IN, WAIT, LOAD) == ["tile", "bar"]


def test_barriers_of_one_name_are_named_by_their_role() -> None:
    assert names(*MADE, *FILL) == ["tile", "full", "empty"]


def test_a_variable_of_the_user_keeps_its_name() -> None:
    assert names(on(MAKE, "%full"), *MADE, *FILL) == ["full", "tile", "full.0", "empty"]


def test_allocations_of_one_name_without_a_role_are_numbered() -> None:
    assert names(*MADE, ALLOC.replace("%tile", "%tile_1")) == ["tile.0", "made.0", "made.1", "tile.1"]


def test_barriers_of_a_ring_without_a_known_tile_have_the_role_alone() -> None:
    more = (line.replace("%made_0", "%made_2").replace("%made ", "%made_1 ") for line in MADE[1:])
    second = [line.replace("%made_0", "%made_2").replace("(%made)", "(%made_1)") for line in FILL[:2]]
    second = [line.replace("(%made,", "(%made_1,") for line in second]
    renamed = [line.replace("(%made)", "(%made_1)") for line in more]
    assert names(*MADE, *renamed, *FILL, *second) == ["tile", "tile.full", "tile.empty", "full", "empty"]


def test_barriers_of_several_rings_have_the_names_of_their_tiles() -> None:
    more = [ALLOC.replace("%tile", "%k"), *(on(line, "%made_1") for line in (MAKE, INIT))]
    second = [on(EXPECT, "%made_1"), on(COPY_IN, "%made_1").replace("%tile", "%k"), on(WAIT, "%made_1")]
    assert names(*MADE, *more, *FILL, *second) == ["tile", "tile.full", "empty", "k", "k.full"]


def test_the_roles_of_barriers_are_those_that_explain_says() -> None:
    accesses = Accesses(gluon_module(crossed.crossed, {}, {"D": 2, "num_warps": 4}, {}, {"o": "*fp32"}).op)
    rings = ["tiles_a.full", "tiles_b.full", "tiles_b.empty", "tiles_a.empty"]
    assert allocation_names(accesses) == ["tiles_a", "tiles_b", *rings]


def test_barriers_of_several_rings_of_one_tile_have_numbers() -> None:
    more = [on(line, "%made_1") for line in (MAKE, INIT)]
    second = [on(line, "%made_1") for line in (EXPECT, COPY_IN, WAIT)]
    assert names(*MADE, *more, *FILL, *second) == ["tile", "tile.full.0", "empty", "tile.full.1"]
