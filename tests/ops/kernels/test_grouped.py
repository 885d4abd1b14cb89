"""The kernels of grouped products: each tile of the tables is specialised and proved, and right in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ops.grouped import tiles as tables
from tawa.ops.products.tile_choice import Tile
from tawa.runtime.simulation import make_arrays
from tests.cases.case import Specimen
from tests.ops.kernels.grouped_cases import grouped_case, listed, outer_case
from tests.ops.kernels.quantised_cases import compiled_for, floats, run_simulated

TABLES = {"grouped": tables.GROUPED, "gated": tables.GATED, "padded": tables.PADDED, "outer": tables.OUTER}
HIGH = next(it for it in tables.GATED if it.BM == tables.PADDED[0].BM)
SIZES = (70, 0, 133)
"""Of groups, of 300 rows."""


def near(found: Any, exact: Any) -> None:
    assert np.abs(found - exact).max() <= 5e-3 * np.abs(exact).max()


@pytest.mark.parametrize("tma", [True, False], ids=["tma", "pointers"])
@pytest.mark.parametrize(
    ("family", "number"), [(name, at) for name, table in TABLES.items() for at in range(len(table))]
)
def test_a_tile_of_the_tables_is_specialised_and_proved(family: str, number: int, tma: bool) -> None:
    tile = TABLES[family][number]
    dtype = "fp16" if tma else "bf16"
    if family == "outer":
        case = outer_case(tile, dtype=dtype, tma=tma)
    else:
        padded = family == "padded" or (family == "gated" and tile.BM == tables.PADDED[0].BM)
        case = grouped_case(tile, dtype=dtype, b_rows=tma, gated=family == "gated", padded=padded, tma=tma)
    record = compiled_for(case, tile).metadata.tawa
    assert record["applied"], record["reason"]
    assert record["verdict"]["verdict"] == "proved"


def test_both_products_of_a_mixture_have_tiles_of_one_height() -> None:
    """One list of tiles serves both."""
    for rows in (8, 100, 1000, 10000, 100000):
        pair = tables.pair(tables.GATED, tables.GROUPED, rows, 64, 1536, 2048, 132)
        assert pair.first.BM == pair.second.BM and pair.padded == (pair.second in tables.PADDED)
    assert {it.BM for it in tables.GATED} <= {it.BM for it in (*tables.PADDED, *tables.GROUPED)}


def test_padded_tiles_keep_four_slots() -> None:
    """Without stores through pointers no shared memory is set aside for them."""
    for tile, gated in ((tables.PADDED[0], False), (HIGH, True)):
        plan = compiled_for(grouped_case(tile, gated=gated, padded=True), tile).metadata.tawa["plan"]
        assert {it["depth"] for it in plan["rings"]} == {4}


@pytest.mark.parametrize("gated", [False, True])
def test_padded_groups_are_right(gated: bool) -> None:
    tile = HIGH if gated else tables.PADDED[0]
    T, N, K, sizes = 300, 136, 144, (128, 0, 128)
    case = grouped_case(tile, sizes=(T, N, K), gated=gated, padded=True)
    check_rows(case, tile, sizes, (T, N), gated, False)


@pytest.mark.parametrize("b_rows", [False, True])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("tile", [*tables.GROUPED], ids=str)
def test_rows_in_groups_are_right(tile: Tile, gated: bool, b_rows: bool) -> None:
    T, N, K = 300, 136, 144
    case = grouped_case(tile, sizes=(T, N, K), b_rows=b_rows, gated=gated)
    check_rows(case, tile, SIZES, (T, N), gated, b_rows)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("K", [144, 141])
@pytest.mark.parametrize("tile", [*tables.GATED], ids=str)
def test_rows_by_an_order_are_right(tile: Tile, K: int, padded: bool) -> None:
    """The last rows of a padded group have no number: what stands there is not read."""
    T, N, choices, sizes = 300, 136, 2, (tile.BM, 0, tile.BM - 50) if padded else SIZES
    case = grouped_case(tile, sizes=(T, N, K), gated=True, padded=padded, choices=choices)
    arrays = make_arrays(case)
    order = np.random.default_rng(0).permutation(2 * T)[:T].astype(np.int32)
    arrays["order"][:] = order
    if padded:
        arrays["order"][sum(sizes) :] = 2**30
    check_rows(case, tile, sizes, (T, N), True, False, arrays, order // choices, padded)


def test_rows_by_an_order_are_copied_sixteen_bytes_at_a_time() -> None:
    for tile in tables.GATED:
        record = compiled_for(grouped_case(tile, gated=True, choices=8), tile).metadata.tawa
        assert record["applied"] and record["verdict"]["verdict"] == "proved"
        assert "by cp.async" in record["reason"], record["reason"]


def check_rows(
    case: Specimen, tile: Tile, sizes: tuple[int, ...], shape: tuple[int, int], gated: bool, b_rows: bool,
    arrays: dict[str, Any] | None = None, rows: Any = None, unfilled: bool = False,
) -> None:  # fmt: skip
    """rows: of A, for each row of C. unfilled: the last group has fewer rows than its tile."""
    (T, N), arrays = shape, arrays or make_arrays(case)
    arrays["tiles"][:] = 0
    made = listed(sizes, T, tile.BM)
    if unfilled:
        made = listed((*sizes[:-1], tile.BM), T, tile.BM)
        made[np.flatnonzero(made[4::4] == len(sizes) - 1) * 4 + 7] = sum(sizes)
    arrays["tiles"][: len(made)] = made
    run_simulated(case, arrays)
    a, b = floats(arrays["a"], "bf16"), floats(arrays["b"], "bf16")
    a = a if rows is None else a[rows]
    b = b if b_rows else b.swapaxes(1, 2)
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
