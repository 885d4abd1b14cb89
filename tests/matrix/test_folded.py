"""Kernels with branches that are always taken: no form has them, and the bits stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.ir import Module
from tawa.plan import PlanOptions
from tests.cases.small.flow_kernels import always
from tests.matrix.promoting import Launch, lay_out
from tests.matrix.test_parked import output
from tests.matrix.test_unpartitioned import final, made
from tests.support.fronts import front

_B = 64


def launch(trips: int) -> Launch:
    lot = np.random.default_rng(trips)
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((trips + 1) * _B * _B).astype(np.float16),
        "b_ptr": lot.standard_normal((trips + 1) * _B * _B).astype(np.float16),
        "out_ptr": np.full(_B * _B, np.nan, np.float32),
        "T": trips,
    }
    return Launch(always, arguments, {"B": _B}, (1,), told=False)


def names(module: Module) -> set[str]:
    return {op.name for op in module.walk()}


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_the_bits_stay_without_partitions(trips: int) -> None:
    given = launch(trips)
    before, after = made(given, 4)
    stock = lay_out(before, before.ttir)
    assert "scf.if" in names(stock) and "ttg.async_copy_global_to_local" not in names(stock)
    assert "scf.if" not in names(final(after)) and "ttg.async_copy_global_to_local" in names(final(after))
    assert output(given, stock) == output(given, final(after))


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_the_bits_stay_with_partitions(trips: int) -> None:
    given = launch(trips)
    before = front(given.kernel, given.signature(), num_warps=4)
    options = PlanOptions(only_if_faster=False, pointer_loads="cp.async")
    after = specialise(before.job("kernel"), Request(options=options))
    assert isinstance(after, Specialised), after.remarks
    assert after.outcome.module is not None
    assert output(given, lay_out(before, before.ttir)) == output(given, after.outcome.module, "random")
