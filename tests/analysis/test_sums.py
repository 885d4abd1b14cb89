"""Which operations give other bits on another number of warps."""

from __future__ import annotations

import pytest

from tawa.analysis.sums import fits_wgmma, fp8_dot, ordered_sum, other_sum, thread_numbers
from tawa.ir import Module, parse_module
from tests.cases.programs.ttir import fold, kernel, on_registers

ADDED = '%p = "arith.addf"(%l, %r) : (f32, f32) -> f32'


def read(middle: str = "", rows: int = 128, **changed: str) -> Module:
    text = kernel(middle, rows=rows)
    for old, new in changed.items():
        text = text.replace(old, new)
    return parse_module(text)


@pytest.mark.parametrize(
    ("combine", "ordered"),
    [
        ('%p = "arith.addf"(%l, %r) : (f32, f32) -> f32', True),
        ('%p = "arith.mulf"(%l, %r) : (f32, f32) -> f32', True),
        ('%p = "arith.maxnumf"(%l, %r) : (f32, f32) -> f32', False),
        (
            '%c = "arith.cmpf"(%l, %r) <{predicate = 2 : i64}> : (f32, f32) -> i1\n'
            '%p = "arith.select"(%c, %l, %r) : (i1, f32, f32) -> f32',
            True,
        ),
    ],
)
@pytest.mark.parametrize("name", ["tt.reduce", "tt.scan"])
def test_a_fold_depends_on_the_order_if_it_rounds_or_chooses_by_a_comparison(
    name: str, combine: str, ordered: bool
) -> None:
    found = ordered_sum(read(fold(combine, name)))
    assert (found is not None and found.name == name) is ordered


def test_a_sum_of_integers_is_the_same_in_every_order() -> None:
    module = read(fold('%p = "arith.addi"(%l, %r) : (i32, i32) -> i32', element="i32"))
    assert ordered_sum(module) is None


def test_a_dot_alone_adds_in_an_order_of_its_own() -> None:
    assert ordered_sum(read()) is None


def test_a_dot_of_fp8_operands_is_found() -> None:
    assert fp8_dot(read()) is None
    found = fp8_dot(read(xf16="xf8E4M3FN"))
    assert found is not None and found.name == "tt.dot"


@pytest.mark.parametrize(("rows", "fits"), [(32, False), (64, True), (128, True)])
def test_a_wgmma_has_64_rows(rows: int, fits: bool) -> None:
    assert fits_wgmma(read(rows=rows)) is fits


@pytest.mark.parametrize("register", ["%tid.x", "%laneid", "%warpid", "%nwarpid", "%ntid.x", "%lanemask_lt"])
def test_assembly_that_reads_a_threads_number_is_found(register: str) -> None:
    assert thread_numbers(read(on_registers(f"mov.u32 $0, {register};"))) is not None


@pytest.mark.parametrize("text", ["popc.b32 $0, $1;", "mov.u32 $0, %smid;", "{ .reg .b32 tid; mov.b32 tid, $1; }"])
def test_other_assembly_is_not(text: str) -> None:
    assert thread_numbers(read(on_registers(text))) is None


def laid_out(
    size: int, threads: tuple[int, int], warps: tuple[int, int], name: str = "tt.reduce", line: int = 7,
    source: str = "", columns: int = 64,
) -> str:  # fmt: skip
    """A sum of the rows of a tile. size, threads, warps: of its layout. source: the operation that makes the tile."""
    layout = (
        f"#ttg.blocked<{{sizePerThread = [1, {size}], threadsPerWarp = {list(threads)}, "
        f"warpsPerCTA = {list(warps)}, order = [1, 0]}}>"
    )
    text = fold(ADDED, name, line=line)
    if source:
        tile = "tensor<128x64xf32>"
        made = f'%made = "{source}"(%folded, %folded) : ({tile}, {tile}) -> {tile}'
        text = text.replace('"tt.reduce"(%folded)', '"tt.reduce"(%made)').replace("%f =", f"{made}\n%f =")
    return text.replace("128x64xf32>", f"128x{columns}xf32, {layout}>")


ONE_WARP = laid_out(4, (4, 8), (1, 1))
ROWS = laid_out(4, (4, 8), (2, 1))


def keeps(first: str, second: str) -> bool:
    return other_sum(read(first), read(second)) is None


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ROWS, True),
        (laid_out(4, (4, 8), (8, 1)), True),
        (laid_out(4, (4, 8), (2, 1), source="arith.divf"), True),
        (laid_out(4, (4, 8), (2, 1), source="arith.mulf"), False),
        (laid_out(4, (2, 16), (2, 1)), False),
        (laid_out(2, (4, 8), (2, 1)), False),
        (laid_out(4, (4, 8), (1, 2)), False),
        (laid_out(4, (4, 8), (2, 1), line=8), False),
        (laid_out(4, (4, 8), (2, 1), columns=128), False),
        (fold(ADDED), False),
    ],
    ids=["rows", "more", "no product", "product", "threads", "registers", "warps", "place", "size", "no layout"],
)
def test_more_warps_along_other_dimensions_keep_the_order_of_a_sum(other: str, same: bool) -> None:
    assert keeps(ONE_WARP, other) is same


def test_a_scan_has_an_order_as_well_and_of_an_unknown_kernel_nothing_is_known() -> None:
    first, second, columns = (laid_out(4, (4, 8), it, "tt.scan") for it in ((1, 1), (2, 1), (1, 2)))
    assert keeps(first, second) and not keeps(first, columns)
    assert other_sum(None, read(second)) is not None and other_sum(None, read()) is None


def test_a_place_with_sums_in_two_orders_tells_nothing() -> None:
    other = laid_out(2, (4, 8), (2, 1)).replace("%folded", "%again").replace("%f =", "%g =")
    assert keeps(ONE_WARP, ROWS) and not keeps(f"{ONE_WARP}\n{other}", ROWS) and not keeps(ONE_WARP, f"{ROWS}\n{other}")


def test_a_product_that_several_sums_share_tells_nothing() -> None:
    def shared(text: str) -> str:
        tile = text.partition("%folded) <{")[2].partition("}) : (")[2].partition(")")[0]
        column = tile.replace("128x64", "128x1")
        made = (
            f'%one = "arith.constant"() <{{value = dense<1.0> : {column}}}> : () -> {column}\n'
            f'%p = "arith.mulf"(%one, %one) : ({column}, {column}) -> {column}\n'
            f'%made = "tt.broadcast"(%p) : ({column}) -> {tile}\n'
        )
        return text.replace('"tt.reduce"(%folded)', '"tt.reduce"(%made)').replace("%f =", f"{made}%f =")

    assert keeps(ONE_WARP, ONE_WARP) and not keeps(shared(ONE_WARP), shared(ONE_WARP))
