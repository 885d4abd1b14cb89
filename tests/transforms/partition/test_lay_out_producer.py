"""`lay_out_producer`: a producer of four warps computes addresses in layouts of four warps."""

from __future__ import annotations

import pytest

from tawa.ir import Module, parse_module
from tawa.transforms.partition.lay_out_producer import LayOutProducer
from tests.cases.programs.ttgir import op

SLICE = "#ttg.slice<{dim = 1, parent = #wide}>"
ROWS = f"tensor<64xi32, {SLICE}>"
TILE = "tensor<64x64xi32, #wide>"


def module(role: str = "producer", num_warps: int = 4, warps: str = "[8, 1]") -> Module:
    """A partition that computes rows of a tile, laid out for eight warps."""
    range = op("tt.make_range", "", "", "%rows", ROWS, properties="end = 64 : i32, start = 0 : i32")
    column = op("tt.expand_dims", "%rows", ROWS, "%column", TILE.replace("64x64", "64x1"), properties="axis = 1 : i32")
    spread = op("tt.broadcast", "%column", TILE.replace("64x64", "64x1"), "%tile", TILE)
    group = f'partition = "{role}", role = "{role}", num_warps = {num_warps} : i32'
    return parse_module(
        f"#wide = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = {warps}, "
        f'order = [1, 0]}}>\n"builtin.module"() ({{\n'
        '"tt.func"() <{function_type = () -> (), sym_name = "kernel"}> ({\n'
        f'"warp.group"() <{{{group}}}> ({{\n{range}\n{column}\n{spread}\n"warp.end"() : () -> ()\n}}) : () -> ()\n'
        '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )


def types(made: Module) -> list[str]:
    return [result.type for op in made.walk() for result in op.results]


def test_tiles_and_slices_of_a_producer_get_four_warps() -> None:
    made = module()
    assert LayOutProducer().run(made).changed
    assert "warpsPerCTA = [4, 1]" in made.aliases["#producer0"]
    assert types(made) == [type.replace("#wide", "#producer0") for type in types(module())]


@pytest.mark.parametrize(
    "made",
    [module(role="consumer"), module(num_warps=1), module(warps="[4, 1]")],
    ids=["a consumer", "a producer of one warp", "laid out so already"],
)
def test_any_other_program_stays_as_it_is(made: Module) -> None:
    before = types(made)
    assert not LayOutProducer().run(made).changed
    assert types(made) == before and set(made.aliases) == {"#wide"}
