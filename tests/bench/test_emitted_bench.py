"""The bench of emitted modules: it finds the kernel that a launch got."""

from __future__ import annotations

from itertools import count

import pytest

pytest.importorskip("triton.experimental.gluon")

import tawa
from bench.emitted import Fallback, launched_kernel
from tests.bridge.gluon.test_launch import arguments_of
from tests.bridge.launching import launching
from tests.cases.pointers.cases import find


@pytest.mark.parametrize(("columns", "specialised"), [(256, True), (264, False)])
def test_a_launch_got_the_kernel_or_the_stock_one(columns: int, specialised: bool) -> None:
    """The kernel needs whole blocks of columns."""
    case = find("experts").with_sizes(N=columns)
    functions = count(1)
    with pytest.MonkeyPatch.context() as patch, launching(patch) as driver:
        driver.utils.load_binary = lambda *args: ("module", next(functions), 32, 0, 1024)
        given, options = arguments_of(case), case.options()
        compiled = tawa.jit(case.kernel)[case.launch_grid()](**given, **options, only_if_faster=False)
        assert launched_kernel(compiled) is (compiled if specialised else None)


def test_a_fallback_counts_its_launches() -> None:
    fallback = Fallback({(2,): lambda *args: args})
    assert fallback[(2,)](1) == (1,) and fallback.launches == 1
