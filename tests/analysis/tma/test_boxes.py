"""Boxes: which loads read one, of what tensor, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.boxes import Box, BoxFinder
from tawa.ir import Block, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Atom, Poly
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import GREATER_EQUAL, LESS, LESS_EQUAL, TileProgram

ARGUMENTS = {"a": "!tt.ptr<f16>", "m": "i32", "k": "i32", "s": "i32", "out": "!tt.ptr<f16>", "list": "!tt.ptr<i32>"}


@dataclass
class Tile:
    """A load of 64 x 32 elements: rows and columns, and what they are made of."""

    p: TileProgram
    rows: Value
    columns: Value
    stride: Value

    def address(self, base: str = "a") -> Value:
        p = self.p
        offsets = p.broadcast(p.mul(p.expand(self.rows, 1), p.splat(self.stride, 64, 1)), 64, 32)
        offsets = p.add(offsets, p.broadcast(p.expand(self.columns, 0), 64, 32))
        return p.add(p.splat(p.args[base], 64, 32), offsets)

    def below(self, rows: str = "m", columns: str = "k") -> Value:
        p = self.p
        upper = p.compare(p.expand(self.rows, 1), p.splat(p.args[rows], 64, 1), LESS)
        left = p.compare(p.expand(self.columns, 0), p.splat(p.args[columns], 1, 32), LESS)
        return p.both(p.broadcast(upper, 64, 32), p.broadcast(left, 64, 32))


def tile(
    row: Callable[[TileProgram], Value] | None = None, column: Callable[[TileProgram], Value] | None = None
) -> Tile:
    """Rows from 64·pid and columns from 0, unless other beginnings are given."""
    p = TileProgram(("a", "s"), **ARGUMENTS)
    first = row(p) if row else p.mul(p.pid(), p.number(64))
    rows = p.add(p.splat(first, 64), p.range(64))
    columns = p.range(32) if column is None else p.add(p.splat(column(p), 32), p.range(32))
    return Tile(p, rows, columns, p.args["s"])


def is_argument(atom: Atom) -> bool:
    return isinstance(atom, Value) and isinstance(atom.owner, Block)


def finder(p: TileProgram) -> BoxFinder:
    affine = Affine()
    return BoxFinder(affine, ValueRanges(p.function, affine), is_argument, is_argument)


def box_of(t: Tile, load: Value) -> tuple[Box, Callable[[Poly], str]]:
    """The box of a load, and what makes text of a Poly."""
    found = finder(t.p)
    op = load.defining_op
    assert op is not None
    return found.find(op), found.affine.atoms.text


def reason(t: Tile, load: Value) -> str:
    with pytest.raises(NotABox) as refused:
        box_of(t, load)
    return refused.value.reason


def test_a_masked_tile_is_a_box_of_a_matrix() -> None:
    t = tile()
    address = t.address()
    box, text = box_of(t, t.p.load(address, t.below(), t.p.zeros(address)))
    assert box.base.hint == "a"
    assert box.block == (64, 32)
    assert [(text(dim.stride), [text(size) for size in dim.sizes], text(dim.index)) for dim in box.dims] == [
        ("s", ["m"], "64*(a program id)"),
        ("1", ["k"], "0"),
    ]
    assert not box.offset.terms and not box.gates


def test_a_tile_without_a_mask_is_open() -> None:
    t = tile()
    box, _ = box_of(t, t.p.load(t.address()))
    assert [(dim.sizes, dim.last) for dim in box.dims] == [((), 64 * ((1 << 31) - 1)), ((), 0)]


def test_what_is_known_at_the_launch_is_left_to_the_base() -> None:
    t = tile(row=lambda p: p.add(p.args["m"], p.mul(p.pid(), p.number(64))))
    box, text = box_of(t, t.p.load(t.address()))
    assert text(box.offset) == "m*s"
    assert text(box.dims[0].index) == "64*(a program id)"


def test_a_batch_becomes_a_dimension_of_its_own() -> None:
    t = tile()
    p = t.p
    moved = p.add(t.address(), p.splat(p.mul(p.pid(1), p.args["k"]), 64, 32))
    box, text = box_of(t, p.load(moved, t.below()))
    assert [(text(dim.stride), dim.block, dim.tile) for dim in box.dims] == [("k", 1, None), ("s", 64, 0), ("1", 32, 1)]


def test_a_lower_bound_says_where_the_tensor_begins() -> None:
    t = tile(row=lambda p: p.add(p.mul(p.pid(), p.number(64)), p.number(-64)))
    p = t.p
    above = p.compare(p.expand(t.rows, 1), p.splat(p.number(0), 64, 1), GREATER_EQUAL)
    box, text = box_of(t, p.load(t.address(), p.both(t.below(), p.broadcast(above, 64, 32))))
    assert text(box.dims[0].index) == "-64 + 64*(a program id)"
    assert [text(size) for size in box.dims[0].sizes] == ["m"]


def test_without_a_lower_bound_a_tile_may_not_begin_before_the_tensor() -> None:
    t = tile(row=lambda p: p.binary("subi", p.number(0), p.mul(p.pid(), p.number(64))))
    assert "may be negative" in reason(t, t.p.load(t.address(), t.below()))


def test_a_mask_does_not_let_a_store_begin_before_its_rows() -> None:
    """A TMA load reads zeros there, and a TMA store is an illegal instruction."""
    t = tile(column=lambda p: p.add(p.mul(p.pid(1), p.number(32)), p.number(-32)))
    p = t.p
    above = p.compare(p.expand(t.columns, 0), p.splat(p.number(0), 1, 32), GREATER_EQUAL)
    mask, address = p.both(t.below(), p.broadcast(above, 64, 32)), t.address("out")
    box, text = box_of(t, p.load(address, mask))
    assert text(box.dims[1].index) == "-32 + 32*(a program id)"
    store = p.store(address, p.load(address, mask), mask)
    with pytest.raises(NotABox, match=r"dimension 1 of the tile, .*, may be negative, and TMA does not store there"):
        finder(p).find(store)


def test_a_condition_without_a_place_is_a_gate() -> None:
    t = tile()
    p = t.p
    alone = p.splat(p.compare(p.args["m"], p.args["k"]), 64, 32)
    box, text = box_of(t, p.load(t.address(), p.both(t.below(), alone)))
    assert [text(gate) for gate in box.gates] == ["-m + k"]


def test_a_wrap_around_is_a_guard() -> None:
    t = tile()
    t.rows = t.p.binary("remsi", t.rows, t.p.splat(t.p.args["m"], 64))
    box, text = box_of(t, t.p.load(t.address()))
    assert [text(size) for size in box.dims[0].sizes] == ["m"]
    assert [text(guard.room) for guard in box.dims[0].guards] == ["-64*(a program id) + m"]


def test_a_mask_on_what_wraps_around_does_not_cut_it_off() -> None:
    t = tile()
    wrapped = Tile(t.p, t.p.binary("remsi", t.rows, t.p.splat(t.p.args["m"], 64)), t.columns, t.stride)
    box, _ = box_of(t, t.p.load(wrapped.address(), wrapped.below()))
    assert len(box.dims[0].guards) == 1
    box, _ = box_of(t, t.p.load(wrapped.address(), t.below()))
    assert box.dims[0].guards == ()


def test_the_remainder_of_a_negative_number_is_no_index() -> None:
    t = tile(row=lambda p: p.add(p.mul(p.pid(), p.number(64)), p.number(-64)))
    wrapped = Tile(t.p, t.p.binary("remsi", t.rows, t.p.splat(t.p.args["m"], 64)), t.columns, t.stride)
    assert "the index that wraps around" in reason(t, t.p.load(wrapped.address(), t.below()))


def test_a_mask_beside_a_wrap_around_is_remembered() -> None:
    t = tile()
    wrapped = Tile(t.p, t.p.binary("remsi", t.rows, t.p.splat(t.p.args["m"], 64)), t.columns, t.stride)
    other = t.p.compare(t.p.expand(t.rows, 1), t.p.splat(t.p.args["m"], 64, 1), LESS_EQUAL)
    for mask, masked in ((None, False), (wrapped.below(), False), (t.p.broadcast(other, 64, 32), True)):
        box, _ = box_of(t, t.p.load(wrapped.address(), mask))
        assert box.dims[0].masked == masked


@pytest.mark.parametrize(("begin", "fits"), [(8, True), (4, False), (1, False), (64, True)])
def test_the_innermost_index_is_a_multiple_of_16_bytes(begin: int, fits: bool) -> None:
    t = tile(column=lambda p: p.mul(p.pid(1), p.number(begin)))
    load = t.p.load(t.address())
    if fits:
        box_of(t, load)
    else:
        assert f"known to be a multiple of {2 * begin} bytes, and TMA needs 16" in reason(t, load)


def test_a_fill_that_is_not_zero_stays() -> None:
    t = tile()
    address = t.address()
    assert "fills with something other than zero" in reason(
        t, t.p.load(address, t.below(), t.p.zeros(address, "1.000000e+00"))
    )
    assert "fills with something other than zero" in reason(
        t, t.p.load(address, t.below(), t.p.zeros(address, "-0.000000e+00"))
    )


def test_a_mask_of_alternatives_stays() -> None:
    t = tile()
    either = t.p.binary("ori", t.below(), t.below("k", "m"))
    assert "not a conjunction" in reason(t, t.p.load(t.address(), either))


@pytest.mark.parametrize(
    ("more", "expected"), [({"isVolatile": "true"}, "volatile"), ({"cache": "7 : i32"}, "cache modifier")]
)
def test_a_load_that_says_when_it_is_read_stays(more: dict[str, str], expected: str) -> None:
    t = tile()
    assert expected in reason(t, t.p.load(t.address(), more=more))


def test_an_eviction_policy_and_ordinary_caches_do_not_matter() -> None:
    t = tile()
    box_of(t, t.p.load(t.address(), more={"cache": "3 : i32", "evict": "2 : i32"}))


def test_a_stride_of_one_is_needed_and_only_once() -> None:
    t = tile()
    t.columns = t.p.mul(t.columns, t.p.splat(t.p.args["k"], 32))
    assert "no dimension of the tile is contiguous in memory" in reason(t, t.p.load(t.address()))
    t = tile()
    t.stride = t.p.number(1)
    assert "more than one dimension" in reason(t, t.p.load(t.address()))


@pytest.mark.parametrize("backwards", ["rows", "columns"])
def test_a_tile_that_is_read_backwards_stays(backwards: str) -> None:
    t = tile()
    p, size = t.p, 64 if backwards == "rows" else 32
    backwards = p.binary("subi", p.splat(p.number(size - 1), size), p.range(size))
    if backwards == "rows":
        t.rows, expected = (
            backwards,
            "dimension 0 of the tile is read backwards, with a stride of -s; TMA reads forwards",
        )
    else:
        t.columns, expected = backwards, "dimension 1 of the tile is read backwards, with a stride of -1;"
    assert expected in reason(t, p.load(t.address()))


def test_a_broadcast_load_stays() -> None:
    t = tile()
    t.stride = t.p.number(0)
    assert "all elements along dimension 0 of the tile have the same address" in reason(t, t.p.load(t.address()))


def test_a_stride_that_is_not_fixed_stays() -> None:
    t = tile()
    t.stride = t.p.mul(t.p.pid(2), t.p.number(16))
    assert "a stride, 16*(a program id), is not known where the descriptor is made" in reason(
        t, t.p.load(t.address(), t.below())
    )


def test_a_bound_from_memory_is_not_known_at_the_launch() -> None:
    t = tile()
    p = t.p
    end = p.scalar_load(p.args["list"])
    mask = p.compare(p.expand(t.rows, 1), p.splat(end, 64, 1))
    assert "is loaded by the kernel" in reason(t, p.load(t.address(), p.broadcast(mask, 64, 32)))


def shared(t: Tile, name: str, amount: int, then: int = 0) -> Tile:
    """Runs of rows that share one: the quotient, moved on by `then`."""
    p = t.p
    rows = p.binary(name, t.rows, p.splat(p.number(amount), 64))
    return Tile(p, p.add(rows, p.splat(p.number(then), 64)) if then else rows, t.columns, t.stride)


@pytest.mark.parametrize(("name", "amount"), [("divsi", 8), ("shrsi", 3)])
def test_runs_of_rows_that_share_an_address_are_one_row_of_the_box(name: str, amount: int) -> None:
    t = shared(tile(), name, amount)
    box, text = box_of(t, t.p.load(t.address()))
    assert [(dim.block, dim.run, text(dim.index)) for dim in box.dims] == [(8, 8, "8*(a program id)"), (32, 1, "0")]


def test_a_division_that_rounds_towards_zero_from_below_is_no_row() -> None:
    """In the first program (8·pid - 8 + r) // 8 is -1 at r = 0, and 0 from 1 to 15: no runs of eight."""
    before = tile(row=lambda p: p.binary("subi", p.mul(p.pid(), p.number(8)), p.number(8)))
    t = shared(before, "divsi", 8, then=1)
    assert "the dividend in the index" in reason(t, t.p.load(t.address()))
    shifted = shared(before, "shrsi", 3, then=1)
    box, text = box_of(shifted, shifted.p.load(shifted.address()))
    assert "program id" in text(box.dims[0].index) and box.dims[0].run == 8


def test_a_mask_from_below_may_cut_a_run() -> None:
    t = shared(tile(), "divsi", 8)
    p = t.p
    rows = p.add(p.splat(p.mul(p.pid(), p.number(64)), 64), p.range(64))
    above = p.compare(p.expand(rows, 1), p.splat(p.number(0), 64, 1), GREATER_EQUAL)
    address = t.address()
    found = reason(t, p.load(address, p.broadcast(above, 64, 32), p.zeros(address)))
    assert "share an address, and the mask may cut between them" in found


def chunked(step: int) -> tuple[Tile, Value]:
    """Rows of a chunk of k rows, and the mask that ends with the chunk or with all m rows."""
    t = tile(row=lambda p: p.add(p.mul(p.pid(), p.args["k"]), p.mul(p.pid(1), p.number(step))))
    p = t.p
    left = p.binary("subi", p.args["m"], p.mul(p.pid(), p.args["k"]))
    inside = p.add(p.splat(p.mul(p.pid(1), p.number(step)), 64), p.range(64))
    mask = p.compare(p.expand(inside, 1), p.splat(p.binary("minsi", p.args["k"], left), 64, 1))
    return t, p.broadcast(mask, 64, 32)


def test_the_rows_of_a_chunk_are_rows_of_the_whole() -> None:
    t, mask = chunked(64)
    box, text = box_of(t, t.p.load(t.address(), mask))
    assert [text(size) for size in box.dims[0].sizes] == ["m"]
    assert text(box.dims[0].index) == "(a program id)*k + 64*(a program id)"
    assert [(text(whole.poly), whole.number) for whole in box.wholes] == [("k", 64)]
    assert [text(gate) for gate in box.gates] == ["k - 64*(a program id)"]


def test_tiles_that_may_cross_the_end_of_a_chunk_stay() -> None:
    t, mask = chunked(16)
    found = reason(t, t.p.load(t.address(), mask))
    assert found.startswith("positions along dimension 0 of the tile must be less than k - 16*(a program id) and less")
    assert found.endswith("a box has one bound in each dimension, and tiles may cross the other")


def of_head(factor: str, stride: str = "k") -> tuple[Tile, Value]:
    """Tiles of one head: the program id is taken apart by a quotient and a difference."""
    t = tile()
    p = t.p
    batch = p.binary("divsi", p.pid(1), p.args["m"])
    head = p.binary("subi", p.pid(1), p.mul(batch, p.args[factor]))
    return t, p.load(p.add(t.address(), p.splat(p.mul(head, p.args[stride]), 64, 32)))


def test_a_remainder_that_is_a_difference_is_an_index() -> None:
    box, text = box_of(*of_head("m"))
    assert (text(box.dims[0].stride), box.dims[0].block) == ("k", 1)
    assert text(box.dims[0].index) == "(a program id) - m*(a scalar)" and not box.proof.arguments


@pytest.mark.parametrize(("batches", "fits"), [(1, True), (2, False)])
def test_strides_that_are_multiples_of_others_share_a_dimension_if_there_are_too_many(batches: int, fits: bool) -> None:
    """Heads are counted by group and one by one: two strides, of which one is enough."""
    t = tile()
    p = t.p
    at = p.mul(p.add(p.mul(p.pid(1), p.args["m"]), p.scalar_load(p.args["list"])), p.args["k"])
    for axis in range(batches + 1):
        at = p.add(at, p.mul(p.scalar_load(p.add(p.args["list"], p.number(axis))), p.number(1048592 + 16 * axis)))
    load = p.load(p.add(t.address(), p.splat(at, 64, 32)))
    if not fits:
        assert "6 dimensions: a TMA descriptor has at most 5" in reason(t, load)
        return
    box, text = box_of(t, load)
    assert [text(dim.stride) for dim in box.dims] == ["k", "1048592", "1048608", "s", "1"]


def test_a_difference_that_is_no_remainder_may_be_negative() -> None:
    assert "an index in front of the tile, -(a scalar), may be negative" in reason(*of_head("k", "m"))


def test_columns_may_begin_at_a_remainder() -> None:
    def first(p: TileProgram) -> Value:
        quotient = p.binary("divsi", p.pid(1), p.args["m"])
        return p.mul(p.binary("subi", p.pid(1), p.mul(quotient, p.args["m"])), p.number(32))

    t = tile(column=first)
    box, text = box_of(t, t.p.load(t.address()))
    assert text(box.dims[-1].index) == "32*(a program id) - 32*m*(a scalar)" and len(box.dims) == 2


def heads(t: Tile) -> tuple[Tile, Value]:
    """Rows are tokens with a stride of s, and four heads each with a stride of k; and the heads."""
    p = t.p
    four = p.splat(p.number(4), 64)
    tokens, heads = p.binary("divsi", t.rows, four), p.binary("remsi", t.rows, four)
    split = Tile(p, tokens, t.columns, t.stride)
    more = p.mul(p.expand(heads, 1), p.splat(p.args["k"], 64, 1))
    address = p.add(split.address(), p.broadcast(more, 64, 32))
    return split, address


def test_rows_of_tokens_and_heads_are_a_box_of_three_dimensions() -> None:
    t = tile()
    split, address = heads(t)
    p = t.p
    below = p.compare(p.expand(split.rows, 1), p.splat(p.args["m"], 64, 1))
    box, text = box_of(t, p.load(address, p.broadcast(below, 64, 32)))
    assert [(text(dim.stride), dim.block, dim.low) for dim in box.dims] == [
        ("s", 16, False), ("k", 4, True), ("1", 32, False),
    ]  # fmt: skip
    assert [text(size) for size in box.dims[0].sizes] == ["4*m"] and text(box.dims[0].index) == "16*(a program id)"
    assert [box.repeats(dim) for dim in box.dims] == [1, 1, 1]


def test_a_mask_may_bound_the_heads() -> None:
    t = tile()
    _, address = heads(t)
    p = t.p
    places = p.binary("remsi", t.rows, p.splat(p.number(4), 64))
    below = p.compare(p.expand(places, 1), p.splat(p.args["m"], 64, 1))
    box, text = box_of(t, p.load(address, p.broadcast(below, 64, 32)))
    assert [[text(size) for size in dim.sizes] for dim in box.dims] == [[], ["m"], []]


def test_a_mask_of_other_runs_than_the_address_stays() -> None:
    t = tile()
    _, address = heads(t)
    p = t.p
    places = p.binary("remsi", t.rows, p.splat(p.number(8), 64))
    below = p.compare(p.expand(places, 1), p.splat(p.args["m"], 64, 1))
    assert "apart in another way than the address" in reason(t, p.load(address, p.broadcast(below, 64, 32)))


def test_tokens_before_the_first_are_no_tokens() -> None:
    t = tile(row=lambda p: p.binary("subi", p.mul(p.pid(), p.number(64)), p.number(64)))
    _, address = heads(t)
    assert "the dividend in the index" in reason(t, t.p.load(address))
