"""The Plans in the tables of the attention operators can be carried out, and are proved, whatever the options are."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.ops.attention_ops.tiles import HOPPER, Tile
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.builders import forward_case, two_part_case
from tests.cases.case import Specimen
from tests.matrix.compiling import signature
from tests.support.sample import EVERY_CASE, sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {}, "alibi": {"alibi": True}, "softcap": {"softcap": True}, "shared heads": {"H": 4, "HK": 2},
    "uneven": {"SQ": 200, "SK": 333},
}  # fmt: skip


def problems() -> Iterator[tuple[str, Specimen, Tile]]:
    """Each tile that asks for a Plan with each variant; for the sample, with one of them each."""
    names = itertools.cycle(VARIANTS)
    for dtype, table in (("bf16", HOPPER.forward), ("fp8e4nv", HOPPER.fp8)):
        for mask, boxes in table.items():
            for dim, tile in (
                (dim, tile) for dim, choice in boxes.items() for tile in choice if "plan" in dict(tile.options)
            ):
                for name in VARIANTS if EVERY_CASE else (next(names),):
                    options = {"alibi": False, **VARIANTS[name]}
                    v = {"rows": True} if tile.transposes_v else {"reordered": True} if dtype == "fp8e4nv" else {}
                    form = "persistent" if tile.persistent else "two_loops"
                    masked: dict[str, Any] = {"causal": mask != "full", "window": 100 * (mask == "window")}
                    case = forward_case("tile", form, dtype=dtype, dim=dim, together=2 * tile.ordered, **masked,
                                        tile=(tile.BM, tile.BN, tile.num_warps), **v, **options)  # fmt: skip
                    yield f"{dtype}-{mask}-{dim}-{tile.least}{'-rows' * tile.transposes_v}-{name}", case, tile
    for mask, wide in HOPPER.two_parts.items():
        for (first, values), choice in wide.items():
            for tile in choice:
                if "plan" in dict(tile.options):
                    case = two_part_case("tile", dim=first * 3 // 2, values=min(values, first * 3 // 2),
                                         causal=mask == "causal", tile=(tile.BM, tile.BN, tile.num_warps))  # fmt: skip
                    yield f"two_parts-{mask}-{first}", case, tile


@pytest.mark.parametrize(("case", "tile"), [pytest.param(*it, id=name) for name, *it in sample(problems(), 9)])
def test_the_plan_of_a_tile_is_carried_out_and_proved(case: Specimen, tile: Tile) -> None:
    options = dict(tile.options)
    asked = PlanOptions(ping_pong=options.get("ping_pong"), precision=options.get("precision", "relaxed"))
    request = Request(asked, Plan.of(json.loads(options["plan"])))
    launched = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    with launched_by_us():
        record = compile_kernel(case.kernel, signature(case), request, **launched).metadata.tawa
    assert record["applied"] and passes(record["verdict"])
