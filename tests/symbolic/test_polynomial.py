"""Polynomials: sums, products, division by one term."""

from __future__ import annotations

from tawa.ir import Block, Operation
from tawa.symbolic.polynomial import ONE, ZERO, Atoms, Carried, Poly, Trip, constant


def values(*names: str, type: str = "i32") -> tuple[Atoms, list[Poly]]:
    op = Operation("test.numbers", result_types=[type] * len(names), hints=names)
    atoms = Atoms()
    return atoms, [atoms.poly(value) for value in op.results]


def test_equal_monomials_are_collected_and_zeros_dropped() -> None:
    _, (x, y) = values("x", "y")
    assert x * y + y * x == x * y * constant(2)
    assert x + constant(3) - x - constant(3) == ZERO
    assert (x - x).number == 0 and constant(7).number == 7 and x.number is None


def test_only_a_whole_quotient_is_a_quotient() -> None:
    _, (x, y) = values("x", "y")
    total = x * y * constant(8) + y * constant(4)
    assert total.divided_by(y * constant(4)) == x * constant(2) + ONE
    assert total.divided_by(x) is None
    assert total.parted_by(x * constant(8)) == (y, y * constant(4))
    assert (x + y).divided_by(x + y) == ONE


def test_the_content_is_the_common_divisor_of_the_coefficients() -> None:
    _, (x, y) = values("x", "y")
    assert (x * constant(12) + y * constant(-8)).content() == 4


def test_atoms_are_numbered_in_the_order_in_which_they_are_met() -> None:
    atoms, (x, y) = values("x", "y")
    assert (x.atoms, y.atoms) == ((0,), (1,))
    assert atoms.text(y * constant(128) + x + ONE) == "1 + x + 128*y"


def test_messages_name_numbers_as_the_source_does() -> None:
    atoms, (x, y) = values("x_12", "")
    assert atoms.text(ONE - x * constant(2)) == "1 - 2*x"
    assert atoms.text(-x) == "-x" and atoms.text(y) == "(a scalar)" and atoms.text(ZERO) == "0"
    pid = Operation("tt.get_program_id", result_types=["i32"]).result
    counter, argument = Block(["i32"]).args[0], Block(["i32"], ["n_0"]).args[0]
    texts = [atoms.text(atoms.poly(it)) for it in (pid, counter, argument)]
    assert texts == ["(a program id)", "(loop counter)", "n_0"]


def test_equal_values_share_an_atom_and_are_its_versions() -> None:
    op = Operation("test.numbers", result_types=["i32", "i32"])
    first, second = op.results
    atoms = Atoms()
    assert atoms.equal(first, ("key",)) is first and atoms.equal(second, ("key",)) is first
    assert atoms.versions(first) == (first, second) and atoms.versions(second) == (second,)


def test_what_is_computed_in_64_bits_is_wide() -> None:
    atoms, (x, y) = values("x", "y")
    assert not atoms.wide(x * y)
    atoms.widen(x * y)
    assert atoms.wide(x * y) and not atoms.wide(x)
    assert atoms.wide(constant(1 << 31))
    atoms, (wide,) = values("wide", type="i64")
    assert atoms.wide(wide)


def test_what_a_loop_makes_is_not_invariant_in_it() -> None:
    atoms, (x,) = values("x")
    loop = Operation("scf.for")
    assert atoms.invariant(x, loop)
    assert not atoms.invariant(x * atoms.poly(Trip(loop)), loop)
    assert not atoms.invariant(atoms.poly(Carried(loop, x)), loop)
