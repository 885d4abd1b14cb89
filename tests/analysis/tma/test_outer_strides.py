"""Outer strides: one for each known factor, fewer where a remainder or the rank of descriptors asks for it."""

from __future__ import annotations

from tawa.analysis.tma.outer_strides import outer_strides
from tawa.ir import Block, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Atom
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import TileProgram


def is_argument(atom: Atom) -> bool:
    return isinstance(atom, Value) and isinstance(atom.owner, Block)


class Address:
    """What is added to a pointer: numbers of 32 bits, and of 64."""

    def __init__(self) -> None:
        self.p = TileProgram((), sb="i32", sh="i32", n="i32", wide="i64")
        self.affine = Affine()
        self.sb, self.sh, self.n, self.wide = self.p.args.values()

    def parts(self, address: Value, most: int = 5) -> list[tuple[str, str]]:
        access = self.p.effect("tt.return", [])
        facts = ValueRanges(self.p.function, self.affine)
        found = outer_strides(self.affine.poly(address), self.affine, facts, is_argument, access, most)
        return [(self.affine.atoms.text(stride), self.affine.atoms.text(index)) for stride, index in found]


def test_each_known_factor_is_a_stride() -> None:
    a = Address()
    at = a.p.add(a.p.mul(a.p.pid(), a.sb), a.p.mul(a.p.pid(1), a.sh))
    assert a.parts(at) == [("sb", "(a program id)"), ("sh", "(a program id)")]


def test_the_parts_of_a_remainder_are_one_index() -> None:
    a = Address()
    pid = a.p.pid()
    rest = a.p.binary("subi", pid, a.p.mul(a.p.binary("divsi", pid, a.n), a.n))
    assert a.parts(a.p.mul(rest, a.sh)) == [("sh", "(a program id) - n*(a scalar)")]


def test_a_negative_part_of_nothing_stays_apart() -> None:
    a = Address()
    pid = a.p.pid()
    other = a.p.binary("subi", pid, a.p.mul(a.p.binary("divsi", pid, a.sb), a.n))
    assert len(a.parts(a.p.mul(other, a.sh))) == 2


def test_strides_are_joined_where_there_are_too_many() -> None:
    a = Address()
    heads = a.p.add(a.p.mul(a.p.pid(), a.n), a.p.pid(1))
    at = a.p.mul(heads, a.sh)
    assert len(a.parts(at, 2)) == 2
    assert a.parts(at, 1) == [("sh", "(a program id)*n + (a program id)")]


def test_strides_that_share_nothing_stay_too_many() -> None:
    a = Address()
    assert len(a.parts(a.p.add(a.p.mul(a.p.pid(), a.sb), a.p.mul(a.p.pid(1), a.sh)), 1)) == 2


def test_what_is_computed_in_64_bits_is_not_joined() -> None:
    a = Address()
    pid = a.p.op("arith.extsi", [a.p.pid()], "i64")
    scale, stride = (a.p.op("arith.extsi", [it], "i64") for it in (a.n, a.sh))
    at = a.p.add(a.p.mul(a.p.mul(pid, scale), stride), a.p.op("arith.extsi", [a.p.mul(a.p.pid(1), a.sh)], "i64"))
    assert len(a.parts(at, 1)) == 2
