"""The kernels of grouped products: each tile of the tables is specialised and proved, and right in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ops.grouped import tiles as tables
from tawa.ops.products.tile_choice import Tile
from tawa.plan.cost.tile_time import Device
from tests.cases.arrays import make_arrays
from tests.cases.case import Specimen
from tests.ops.kernels.grouped_cases import grouped_case, listed, outer_case
from tests.ops.kernels.quantised_cases import compiled_for, floats, run_simulated
from tests.support.sample import sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

TABLES = {"grouped": tables.GROUPED, "gated": tables.GATED, "outer": tables.OUTER}
SIZES = (70, 0, 133)
"""Of groups, of 300 rows."""


def near(found: Any, exact: Any) -> None:
    assert np.abs(found - exact).max() <= 5e-3 * np.abs(exact).max()


@pytest.mark.parametrize("tma", [True, False], ids=["tma", "pointers"])
@pytest.mark.parametrize(
    ("family", "number"), sample([(name, at) for name, table in TABLES.items() for at in range(len(table))], 4)
)
def test_a_tile_of_the_tables_is_specialised_and_proved(family: str, number: int, tma: bool) -> None:
    tile = TABLES[family][number]
    dtype = "fp16" if tma else "bf16"
    if family == "outer":
        case = outer_case(tile, dtype=dtype, tma=tma)
    else:
        case = grouped_case(tile, dtype=dtype, b_rows=tma, gated=family == "gated", tma=tma)
    record = compiled_for(case, tile).metadata.tawa
    assert record["applied"], record["reason"]
    assert passes(record["verdict"])


def test_both_products_of_a_mixture_have_tiles_of_one_height() -> None:
    """One list of tiles serves both."""
    for rows in (8, 100, 1000, 10000, 100000):
        pair = tables.pair(tables.GATED, tables.GROUPED, tables.Sizes(rows, 64, 1536, 2048), Device(132, 3.35e6))
        assert pair.first.BM == pair.second.BM
    assert {it.BM for it in tables.GATED} == {it.BM for it in tables.GROUPED}


def test_stores_of_tiles_that_are_not_full_take_no_slots() -> None:
    """They go by TMA, in slices, as those of the others."""
    for tile in (tables.GROUPED[1], tables.GATED[-1]):
        plan = compiled_for(grouped_case(tile, gated=tile in tables.GATED), tile).metadata.tawa["plan"]
        assert {it["depth"] for it in plan["rings"]} == {4}
        assert {it["path"] for it in plan["stores"]} == {"host_descriptor", "kernel_descriptor"}


@pytest.mark.parametrize("b_rows", [False, True])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("tile", sample(tables.GROUPED, 4), ids=str)
def test_rows_in_groups_are_right(tile: Tile, gated: bool, b_rows: bool) -> None:
    T, N, K = 300, 136, 144
    case = grouped_case(tile, sizes=(T, N, K), b_rows=b_rows, gated=gated)
    check_rows(case, tile, SIZES, (T, N), gated, b_rows)


@pytest.mark.parametrize("K", [144, 141])
@pytest.mark.parametrize("tile", [*tables.GATED], ids=str)
def test_rows_by_an_order_are_right(tile: Tile, K: int) -> None:
    T, N, choices = 300, 136, 2
    case = grouped_case(tile, sizes=(T, N, K), gated=True, choices=choices)
    arrays = make_arrays(case)
    order = np.random.default_rng(0).permutation(2 * T)[:T].astype(np.int32)
    arrays["order"][:] = order
    check_rows(case, tile, SIZES, (T, N), True, False, arrays, order // choices)


def test_rows_by_an_order_are_copied_sixteen_bytes_at_a_time() -> None:
    for tile in tables.GATED:
        record = compiled_for(grouped_case(tile, gated=True, choices=8), tile).metadata.tawa
        assert record["applied"] and passes(record["verdict"])
        assert "by cp.async" in record["reason"], record["reason"]


def check_rows(
    case: Specimen, tile: Tile, sizes: tuple[int, ...], shape: tuple[int, int], gated: bool, b_rows: bool,
    arrays: dict[str, Any] | None = None, rows: Any = None,
) -> None:  # fmt: skip
    """rows: of A, for each row of C."""
    (T, N), arrays = shape, arrays or make_arrays(case)
    arrays["tiles"][:] = 0
    made = listed(sizes, T, tile.BM)
    arrays["tiles"][: len(made)] = made
    run_simulated(case, arrays)
    a, b = floats(arrays["a"], "bf16"), floats(arrays["b"], "bf16")
    a = a if rows is None else a[rows]
    b = b if b_rows else b[..., : a.shape[1]].swapaxes(1, 2)
    exact, start = np.zeros((T, b.shape[2])), 0
    for size, matrix in zip(sizes, b, strict=True):
        exact[start : start + size] = a[start : start + size] @ matrix
        start += size
    if gated:
        gate, up = exact[:, :N], exact[:, N:]
        exact = gate / (1 + np.exp(-gate)) * up
    found = floats(arrays["c"], "bf16")
    assert np.isfinite(found).all()
    assert not found[start:].any()
    near(found, exact)


@pytest.mark.parametrize("tma", [True, False], ids=["tma", "pointers"])
@pytest.mark.parametrize("tile", [*tables.OUTER], ids=str)
def test_sums_over_groups_are_right_beside_rows_that_are_not_finite(tile: Tile, tma: bool) -> None:
    """A block of rows reaches into the next group, whose infinities must not be seen."""
    sizes = (70, 0, 64, 19)
    case = outer_case(tile, groups=4, sizes=(136, 72, 300), tma=tma)
    arrays = make_arrays(case)
    ends = np.cumsum(sizes).astype(np.int32)
    arrays["ends"][:] = ends
    a, b = floats(arrays["a"], "bf16"), floats(arrays["b"], "bf16")
    arrays["a"][ends[-1] :] = arrays["b"][ends[-1] :] = make_arrays(case)["c"].flat[0]  # NaN
    run_simulated(case, arrays)
    found = floats(arrays["c"], "bf16")
    assert np.isfinite(found).all()
    exact = [a[end - size : end].T @ b[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    near(found, np.stack(exact))
