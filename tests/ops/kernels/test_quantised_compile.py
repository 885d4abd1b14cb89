"""The kernels of scaled, batched and weight-only products: what Tawa makes of each tile of the tables.

Every one is specialised and proved, and widened weights become operands of a dot in the threads that read them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tawa.ops.products import tile_choice
from tawa.ops.products.tile_choice import Tile
from tests.cases.case import Specimen
from tests.ops.kernels.quantised_cases import batched_case, compiled_for, foreign_case, scaled_case, weights_case
from tests.support.sample import sample
from tests.support.verdicts import passes

TABLES = {
    "scaled": (tile_choice.SCALED_BLOCKS, tile_choice.SCALED_COLUMNS),
    "batched": (tile_choice.BATCHED, tile_choice.BATCHED_TF32),
}
KINDS = {"int4": 0, "int8": 1, "fp8_e4m3": 2, "fp8_e5m2": 3}


def problems() -> Iterator[tuple[str, Specimen, Tile]]:
    """Each tile of the tables for Hopper, with alternating variants."""
    for family, tables in TABLES.items():
        for number, tile in enumerate(it for table in tables for it in table):
            for tma in (True, False):
                for out in ("bf16", "fp32") if family == "scaled" else ("fp32",) if tile.BK == 32 else ("fp16",):
                    if family == "scaled":
                        case = scaled_case(tile, (1, 1), out=out, tma=tma)
                    else:
                        case = batched_case(tile, out, (True, tile.BK != 32), tma=tma)
                    yield f"{family}-{number}-{out}-{'tma' if tma else 'pointers'}", case, tile
    kinds = itertools.cycle([(2, 3), (2, 2), (1, 1), (0, 0), (3, 3)])
    for number, tile in enumerate(tile_choice.SCALED_BLOCKS):
        yield f"scaled-{number}", scaled_case(tile, (2, 3)), tile
        yield f"scaled-{number}-rows-inside", scaled_case(tile, (2, 3), unit=True), tile
        yield f"scaled-{number}-variant", scaled_case(tile, next(kinds), bias=True, out="fp32", tma=number != 1), tile
    rows = itertools.cycle(itertools.product((True, False), repeat=2))
    for number, tile in enumerate(tile_choice.BATCHED):
        for dtype in ("fp16", "bf16"):
            yield f"batched-{dtype}-{number}", batched_case(tile, dtype, next(rows), one=number % 2 == 1), tile
    for number, tile in enumerate(tile_choice.BATCHED_TF32):
        yield f"batched-tf32-{number}", batched_case(tile, "fp32", (True, False)), tile
    splits = itertools.cycle([1, 4])
    for number, tile in enumerate(tile_choice.WEIGHTS):
        for format, kind in KINDS.items():
            dtype, split = ("fp16", "bf16")[(number + kind) % 2], 1 if tile.options else next(splits)
            case = weights_case(tile, kind, dtype, zeros=kind < 2, splits=split)
            yield f"{format}-{dtype}-{number}-split{split}", case, tile
        yield f"int4-groups-of-32-{number}", weights_case(tile, 0, span=32), tile
        plain = replace(tile, options=())
        yield f"gptq-{number}", foreign_case(plain, False), plain
        yield f"awq-{number}", foreign_case(plain, True, "bf16"), plain


PROBLEMS = list(problems())


@pytest.mark.parametrize(("case", "tile"), [pytest.param(*it, id=name) for name, *it in sample(PROBLEMS, 18)])
def test_a_tile_of_the_tables_is_specialised_and_proved(case: Specimen, tile: Tile) -> None:
    record = compiled_for(case, tile).metadata.tawa
    assert record["applied"], record["reason"]
    assert passes(record["verdict"])


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", sample(["bf16", "fp16"], 3))
def test_widened_weights_stay_in_the_threads_that_read_them(kind: int, dtype: str) -> None:
    compiled = compiled_for(weights_case(tile_choice.WEIGHTS[0], kind, dtype, zeros=kind < 2), tile_choice.WEIGHTS[0])
    assert "warp_group_dot" in compiled.asm["ttgir"]
    assert "convert_layout" not in compiled.asm["ttgir"]


@pytest.mark.parametrize("tile", [tile_choice.WEIGHTS[0], tile_choice.WEIGHTS[3]], ids=["16 tokens", "128 tokens"])
def test_four_bits_are_widened_without_converting_numbers(tile: Tile) -> None:
    ptx = compiled_for(weights_case(tile, 0, "fp16"), tile).asm["ptx"]
    assert "cvt.rn.f16.s" not in ptx and "cvt.rn.f16.u" not in ptx and "cvt.rn.f32.s" not in ptx


@pytest.mark.usefixtures("without_ptx")
def test_scales_of_blocks_are_loaded_an_iteration_ahead() -> None:
    tile = tile_choice.SCALED_BLOCKS[0]
    plan = compiled_for(scaled_case(tile), tile).metadata.tawa["plan"]
    scales = [it for it in plan["operands"] if str(it.get("argument")).startswith("scale")]
    assert len(scales) == 2 and all(it["path"] == "consumer" and it.get("prefetched", True) for it in scales)


@pytest.mark.usefixtures("without_ptx")
def test_scales_of_neighbouring_rows_arrive_with_their_tile() -> None:
    tile = tile_choice.SCALED_BLOCKS[0]
    plan = compiled_for(scaled_case(tile, unit=True), tile).metadata.tawa["plan"]
    paths = {it.get("argument"): (it["path"], it.get("ring")) for it in plan["operands"] if it.get("argument")}
    assert paths["scale_a"] == ("promoted", paths["a"][1])


@pytest.mark.usefixtures("without_ptx")
def test_split_tiles_have_one_group_of_consumers() -> None:
    """The groups would each count themselves in the semaphore."""
    assert all("num_consumer_groups" not in dict(tile.options) for tile in tile_choice.WEIGHTS
               if tile_choice.splits_for(tile, tile.BM, 128, 64, 132) > 1)  # fmt: skip
    tile = replace(tile_choice.WEIGHTS[3], options=(("num_consumer_groups", 2),))
    record = compiled_for(weights_case(tile, splits=4), tile).metadata.tawa
    assert not record["applied"] and "rows are not split" in record["reason"]
