"""Terms are hash-consed."""

from __future__ import annotations

from tawa.verify.skeleton.program import Terms, plain_name


def test_equal_terms_are_one_object_and_know_their_subterms() -> None:
    terms = Terms()
    n = terms(("argument", 0), "n")
    more = terms(("arith.addi", n, 1))
    assert more is terms(("arith.addi", n, 1)) and more is not terms(("arith.addi", n, 2))
    assert list(more.walk()) == [more, n]


def test_a_term_without_a_name_is_described_by_those_it_is_computed_from() -> None:
    terms = Terms()
    k, n = terms(("argument", 0), "K"), terms(("argument", 1), "N")
    tiles = terms(("arith.divsi", terms(("arith.addi", k, 63)), 64))
    assert tiles.name == "(K + 63) // 64"
    assert terms(("tt.load", "1 : i32", terms(("tt.addptr", n, tiles)))).name == "a number in memory computed from N, K"
    assert terms(("opaque", "tt.atomic_rmw", 7)).name == "the result of tt.atomic_rmw"
    assert terms(("while", terms(("opaque", "tt.call", 8)))).name == "the trips of a while loop"
    deep = k
    for _ in range(9):
        deep = terms(("arith.muli", deep, n))
    assert deep.name == "(((a number computed from K, N) * N) * N) * N"


def test_a_name_that_is_found_later_is_used() -> None:
    terms = Terms()
    found = terms(("arith.subi", 1, 2))
    assert terms(("arith.subi", 1, 2), "total") is found and found.name == "total"


def test_a_term_with_an_opaque_subterm_is_opaque() -> None:
    terms = Terms()
    loaded = terms(("opaque", "tt.atomic_rmw", 7))
    assert terms(("arith.addi", loaded, 1)).opaque
    assert not terms(("arith.addi", terms(("argument", 0)), 1)).opaque


def test_a_plain_name_has_no_numeric_suffix() -> None:
    assert [plain_name(hint) for hint in ("n_3", "n", "tile_n", "_3")] == ["n", "n", "tile_n", "_3"]
