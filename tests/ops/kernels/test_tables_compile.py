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
from tawa.ops.attention_ops.tiles import HOPPER, Tile, with_outer_loop, with_steps
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.builders import backward_case, forward_case, two_part_case
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
    for table, steps in ((HOPPER.gradients, False), (HOPPER.in_steps, True)):
        for mask, boxes in table.items():
            for dim, choice in boxes.items():
                for tile in (it for it in choice if "plan" in dict(it.options)):
                    for heads in ((2, 2), (4, 2)):
                        case = backward_case("tile", "owned" if tile.owned else "added", dim=dim, dtype="bf16",
                                             causal=mask == "causal", steps=steps, H=heads[0], HK=heads[1],
                                             tile=(tile.BM, tile.BN, tile.num_warps))  # fmt: skip
                        found = with_steps(tile, 2 if mask == "causal" else 1) if steps else tile
                        found = with_outer_loop(found) if heads[0] > heads[1] else found
                        name = f"gradients{'-same_bits' * steps}-{mask}-{dim}-{tile.least}-{heads[0]}"
                        yield name, case, found


@pytest.mark.parametrize(("case", "tile"), [pytest.param(*it, id=name) for name, *it in sample(problems(), 12)])
def test_the_plan_of_a_tile_is_carried_out_and_proved(case: Specimen, tile: Tile) -> None:
    options = dict(tile.options)
    asked = PlanOptions(ping_pong=options.get("ping_pong"), precision=options.get("precision", "relaxed"))
    request = Request(asked, Plan.of(json.loads(options["plan"])))
    launched = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    with launched_by_us():
        record = compile_kernel(case.kernel, signature(case), request, **launched).metadata.tawa
    assert record["applied"] and passes(record["verdict"])
