"""The work of other people's kernels, kept as numbers: what is predicted of it stays the same."""

from __future__ import annotations

import json

import pytest

from bench.model.foreign import foreign_items, kept, restored
from tawa.analysis.work.workload import Workload
from tawa.plan.cost.launches import launch_of
from tawa.plan.cost.programs import Program, stock_program
from tawa.plan.cost.time_model import predict
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, workload
from tests.support.timed import changed, timed

OWN = timed(num_warps=8, in_flight=1)


@pytest.mark.parametrize("of", [workload(it) for it in (by_descriptors(), by_pointers(stride=2), chained())])
@pytest.mark.parametrize("way", [OWN, changed(OWN, persistent=True, by_pointers=1.0), changed(OWN, spilled=96.0)])
def test_a_workload_that_was_kept_has_the_same_predictions(of: Workload, way: Program) -> None:
    launch = launch_of(of, [4096] * len(of.function.body.args), (32, 64))
    again, launched = restored(json.loads(json.dumps(kept(of, launch))))
    assert predict(again, launched, way) == pytest.approx(predict(of, launch, way))
    stock, same = stock_program(of, 8, 3), stock_program(again, 8, 3)
    assert stock == same and predict(again, launched, same) == pytest.approx(predict(of, launch, stock))


def test_committed_kernels_have_stock_and_plans_beside_each_other() -> None:
    items = foreign_items()
    groups = {item.point.group for item in items}
    assert len({item.point.kernel for item in items}) > 40
    with_stock = {item.point.group for item in items if item.stock}
    assert len(with_stock) > 0.9 * len(groups) and len(items) > 8 * len(groups)
    assert all(item.predicted_us() > 0 for item in items)
