"""Kernels whose tiles wait in shared memory while a loop runs: the bits stay, in every order of the copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.errors import PlanError
from tawa.ir import Module
from tawa.plan.search.space import NOT_AHEAD
from tawa.sim import simulate
from tests.cases.small.parked_kernels import gated, nested, rewritten
from tests.matrix.promoting import Launch, lay_out
from tests.matrix.test_unpartitioned import final, made
from tests.matrix.test_unpartitioned import tried as forms_of
from tests.support.sample import sample

_B, _N = 64, 64


def launch(kernel: Any, trips: int = 2, rows: int = _B) -> Launch:
    lot = np.random.default_rng(trips + rows)
    tiles = 2 * _B * _N
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((trips + 2) * _B * _B).astype(np.float16),
        "b_ptr": lot.standard_normal((trips + 2) * _B * _N).astype(np.float16),
        "g_ptr": lot.standard_normal(tiles).astype(np.float32),
        "k_ptr": lot.standard_normal(tiles).astype(np.float16),
        "out_ptr": np.full(tiles, np.nan, np.float32),
        "T": trips,
        "R": rows,
    }
    return Launch(kernel, arguments, {"B": _B, "N": _N}, (1,), told=False)


def output(given: Launch, module: Module, order: Any = "eager") -> bytes:
    """The result. Triton's pipeliner relies on it that wgmma sees what cp.async wrote."""
    arguments = {name: it.copy() if isinstance(it, np.ndarray) else it for name, it in given.arguments.items()}
    simulate(module, arguments, given.grid, order=order, seed=1, copies_visible=True)
    return arguments["out_ptr"].tobytes()


def loads(module: Module) -> list[str]:
    """The loads that fill registers."""
    return [op.result.hint for op in module.walk() if op.name == "tt.load"]


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 4))
@pytest.mark.parametrize("kernel", [gated, nested])
@pytest.mark.parametrize(("trips", "rows", "num_warps"), [(0, 64, 4), (1, 61, 4), (2, 64, 8), (3, 17, 2)])
def test_the_bits_stay(kernel: Any, trips: int, rows: int, num_warps: int, order: str) -> None:
    given = launch(kernel, trips, rows)
    before, after = made(given, num_warps)
    assert {"g", "k"}.isdisjoint(loads(final(after)))
    assert output(given, lay_out(before, before.ttir)) == output(given, final(after), order)


def test_what_is_computed_from_them_alone_is_not_converted() -> None:
    before, after = made(launch(gated), 4)

    def converted(module: Module) -> list[str]:
        tiles = [op for op in module.walk() if op.name == "ttg.convert_layout"]
        return [it.operands[0].type for it in tiles if it.operands[0].type.startswith(f"tensor<{_B}x{_N}x")]

    assert len(converted(lay_out(before, before.ttir))) > len(converted(final(after)))


@pytest.mark.parametrize(("kernel", "tried"), [(gated, True), (nested, True), (rewritten, False)])
def test_launches_that_learn_try_it_beside_the_specialised_forms(kernel: Any, tried: bool) -> None:
    assert (NOT_AHEAD in forms_of(launch(kernel), 4)) == tried


def test_memory_that_the_kernel_writes_is_read_where_it_was() -> None:
    with pytest.raises(PlanError, match="changes nothing"):
        made(launch(rewritten), 4)


def test_it_is_said_which_tiles_wait() -> None:
    _, after = made(launch(gated), 4)
    said = [it.reason for it in after.outcome.remarks if it.kind == "done"]
    assert said == ["g, k: in shared memory while the loop runs"]
