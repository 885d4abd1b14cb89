"""Random tiles of numbers, element by element: what is said of rows side by side and of lanes alike is so."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tawa.analysis.layout.axis_info import AxisInfo, ModuleAxisInfo
from tawa.ir import Value
from tests.analysis.tile_programs import GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, TileProgram

SHAPE = ROWS, COLUMNS = 8, 32
COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "addi": np.add, "muli": np.multiply, "minsi": np.minimum, "maxsi": np.maximum,
    "remsi": np.fmod, "divsi": np.floor_divide,
}  # fmt: skip
COMPARE = {LESS: np.less, LESS_EQUAL: np.less_equal, GREATER: np.greater, GREATER_EQUAL: np.greater_equal}


def holds(info: AxisInfo, tile: Any) -> bool:
    """Whether what is said of a tile is so; a tile of flags is only alike."""
    for dim, size in enumerate(tile.shape):
        rows = np.moveaxis(tile, dim, -1).astype(int)
        alike = rows.reshape(-1, size // info.constancy[dim], info.constancy[dim])
        if np.diff(alike).any():
            return False
        if tile.dtype == bool:
            continue
        beside = rows.reshape(-1, size // info.contiguity[dim], info.contiguity[dim])
        if (np.diff(beside) != 1).any() or (beside[..., 0] % info.divisibility[dim]).any():
            return False
    return True


def program(seed: int) -> tuple[ModuleAxisInfo, list[tuple[Value, Any]]]:
    """Two vectors of numbers, none under zero, what is computed of them, and of both as one tile."""
    lot = random.Random(seed)
    p = TileProgram(("m", "s"), **dict.fromkeys("mnsk", "i32"))
    sizes = {
        "m": lot.choice([16, 32, 48]),
        "n": lot.randrange(1, 40),
        "s": 16 * lot.randrange(5),
        "k": lot.randrange(9),
    }
    numbers = [(p.args[name], size) for name, size in sizes.items() if size]
    numbers += [(p.number(number), number) for number in (1, 2, 4, 8, 24)]
    kinds: list[list[tuple[Value, Any]]] = []
    for axis, size in enumerate(SHAPE):
        start = lot.choice([0, 0, 8, 3])
        known = [(p.range(size, start), np.arange(start, start + size))]
        known += [(p.splat(value, size), np.full(size, number)) for value, number in numbers]
        grow(p, known, lot)
        kinds.append(known)
        kinds.append([(p.spread(value, 1 - axis, *SHAPE), wide(tile, 1 - axis)) for value, tile in known])
    both = kinds[1] + kinds[3]
    grow(p, both, lot)
    return ModuleAxisInfo(p.finish()), [*kinds[0], *kinds[2], *both]


def wide(tile: Any, axis: int) -> Any:
    return np.broadcast_to(np.expand_dims(tile, axis), SHAPE)


def grow(p: TileProgram, known: list[tuple[Value, Any]], lot: random.Random) -> None:
    """Adds a few results of operations on what is known."""
    for _ in range(8):
        (left, x), (right, y) = (lot.choice([it for it in known if it[1].dtype != bool]) for _ in range(2))
        flags = [it for it in known if it[1].dtype == bool]
        if lot.random() < 0.2:
            predicate = lot.choice(list(COMPARE))
            known.append((p.compare(left, right, predicate), COMPARE[predicate](x, y)))
        elif flags and lot.random() < 0.3:
            flag, z = lot.choice(flags)
            known.append((p.op("arith.select", [flag, left, right], left.type), np.where(z, x, y)))
        else:
            name = lot.choice(list(COMPUTE))
            if name in ("remsi", "divsi") and not y.all():
                continue
            known.append((p.binary(name, left, right), COMPUTE[name](x, y)))


@pytest.mark.parametrize("lot", range(4))
def test_what_is_said_of_a_tile_is_so(lot: int) -> None:
    for seed in range(25):
        found, values = program(100 * lot + seed)
        for value, tile in values:
            assert holds(found.of(value), tile), (seed, value.defining_op, found.of(value), tile)
