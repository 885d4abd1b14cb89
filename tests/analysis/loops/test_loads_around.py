"""Loops that a kernel without partitions may gain from: dots before them. What moves is tested with `park_loads`."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.analysis.loops.loads_around import has_dots_before_loops
from tawa.bridge.triton.structured import read_kernel
from tawa.plan import PlanOptions
from tawa.plan.search.space import NOT_AHEAD, Space
from tests.cases.small.parked_kernels import dot_first, gated, rewritten
from tests.matrix.test_parked import launch
from tests.support.fronts import front


@pytest.mark.parametrize(("kernel", "found"), [(dot_first, True), (gated, False), (rewritten, False)])
def test_a_dot_before_a_loop_is_found(kernel: Any, found: bool) -> None:
    given = front(kernel, launch(kernel).signature())
    assert has_dots_before_loops(read_kernel(given.ttir, given.context)) is found


@pytest.mark.parametrize(("kernel", "tried"), [(dot_first, True), (rewritten, False)])
def test_launches_try_such_kernels_without_partitions(kernel: Any, tried: bool) -> None:
    given = front(kernel, launch(kernel).signature())
    space = Space.of(read_kernel(given.ttir, given.context), 0, (4, 3, None), PlanOptions(), True)
    assert space is not None and (NOT_AHEAD in space.forms) is tried
