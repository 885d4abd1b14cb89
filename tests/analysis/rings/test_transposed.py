"""Which tiles are transposed on the way to their dots, and in which order of the sum nothing is exchanged."""

from __future__ import annotations

import itertools

import pytest

from tawa.analysis.rings.loads import DotLoadInfo, find_dot_loads
from tawa.analysis.rings.transposed import TransposedInfo, find_transposed, free_order, order_of, runs_of
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module
from tawa.machine.distribution import distribution
from tests.cases.programs import transposed
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import kernel, op, parse, the

MMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 32]}>"
OPERAND = "#ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = {}}}>"


def of(text: str, load: int = 1) -> tuple[Module, DotLoadInfo, TransposedInfo | str]:
    module = parse(text)
    info = find_dot_loads(module)[load]
    return module, info, find_transposed(module, info.load, info.payload)


@pytest.mark.parametrize("moves", [False, True])
def test_a_tile_whose_columns_become_contiguous_is_transposed(moves: bool) -> None:
    _, info, found = of(transposed.gemm(moves=moves))
    assert isinstance(found, TransposedInfo)
    assert [it.name for it in found.moves] == ["tt.trans"] * moves
    assert found.payload.shape == info.payload.shape and not found.reordered
    assert len(found.allocations) == 1


def test_a_tile_that_is_read_as_it_is_stored_is_not_transposed() -> None:
    assert of(transposed.gemm(), load=0)[2] == "its dots read it as it is stored"


def test_only_matrices_of_8_bits_are_transposed() -> None:
    assert of(programs.tile_gemm())[2] == "only matrices of 8-bit elements are transposed"


def test_a_tile_that_is_computed_with_before_its_dot_is_not_transposed() -> None:
    text = transposed.gemm()
    tile = "tensor<64x64xf8E4M3FN, #blocked>"
    twice = op("arith.addf", "%b, %b", f"{tile}, {tile}", "%c", tile)
    alloc = next(line for line in text.splitlines() if "%y = " in line)
    assert of(text.replace(alloc, f"{twice}\n{alloc.replace('(%b)', '(%c)')}"))[2] == (
        "it reaches its dots through more than a transposition"
    )


# -- the order of the summed dimension ---------------------------------------------------------------------------------


def test_the_order_is_free_where_the_other_operand_comes_from_a_dot() -> None:
    found = of(transposed.gemm(chained=True))[2]
    assert isinstance(found, TransposedInfo) and free_order(found) == (0, 3, 1, 2, 4, 5)
    plain = of(transposed.gemm())[2]
    assert isinstance(plain, TransposedInfo) and free_order(plain) is None


@pytest.mark.parametrize(("width", "order"), [(4, (0, 3, 1, 2, 4, 5)), (2, (0, 1, 2, 3, 4, 5))])
def test_the_order_follows_from_the_layouts(width: int, order: tuple[int, ...]) -> None:
    source, target = "tensor<64x64xi8, #mma>", f"tensor<64x64xi8, {OPERAND.format(width)}>"
    module = parse(kernel(op("ttg.convert_layout", "%made", source, "%x", target), arguments={"made": source}))
    convert = the(module, ConvertLayoutOp.NAME)
    assert order_of(convert) == order


def test_in_that_order_each_thread_has_what_it_needs() -> None:
    source = distribution({"#mma": MMA}, (64, 64), "#mma")
    target = distribution({"#mma": MMA}, (64, 64), OPERAND.format(4))
    assert source is not None and target is not None and not source.holds(target)
    extents, places = runs_of((0, 3, 1, 2, 4, 5))
    parts, axes = (64, *extents), (0, *(1 + place for place in places))
    moved = source.reshaped((64, 64), parts).transposed(axes)
    assert moved.reshaped(tuple(parts[axis] for axis in axes), (64, 64)).holds(target)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_an_order_of_bits_is_a_reshape_and_a_permutation(order: tuple[int, ...]) -> None:
    extents, places = runs_of(order)
    numbers = [[0] * len(extents)]
    for axis, extent in enumerate(extents):
        numbers = [[*it[:axis], at, *it[axis + 1 :]] for it in numbers for at in range(extent)]
    strides = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * extents[axis + 1]
    placed = itertools.product(*(range(extents[place]) for place in places))
    for number, at in enumerate(placed):
        element = sum(index * strides[place] for index, place in zip(at, places, strict=True))
        assert element == sum((number >> bit & 1) << source for bit, source in enumerate(order))
