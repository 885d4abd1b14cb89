"""Terms are hash-consed."""

from __future__ import annotations

from tawa.verify.skeleton.program import Term, Terms, plain_name, text_of


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


def test_sums_and_products_are_one_however_they_are_associated() -> None:
    terms = Terms()
    a, b, c = (terms(("argument", number), name) for number, name in enumerate("abc"))
    for name in ("arith.addi", "arith.muli"):
        one = terms((name, terms((name, a, b)), terms((name, c, 5))))
        other = terms((name, terms((name, 5, c)), terms((name, b, a))))
        assert one is other
        assert one is not terms((name, terms((name, a, b)), terms((name, c, 6))))
    assert terms(("arith.addi", terms(("arith.addi", a, 2)), 3)) is terms(("arith.addi", a, 5))
    assert terms(("arith.subi", a, b)) is not terms(("arith.subi", b, a))


def test_a_choice_within_a_choice_by_the_same_condition_is_one() -> None:
    terms = Terms()
    c, d, x, y, z = (terms(("argument", number), name) for number, name in enumerate("cdxyz"))
    select = "arith.select"
    assert terms((select, c, terms((select, c, x, y)), z)) is terms((select, c, x, z))
    assert terms((select, c, x, terms((select, c, y, z)))) is terms((select, c, x, z))
    assert terms((select, c, terms((select, d, x, y)), z)) is not terms((select, c, x, z))


def compared(terms: Terms, predicate: int, left: object, right: object) -> Term:
    return terms(("arith.cmpi", "predicate", f"{predicate} : i64", left, right))


def test_comparisons_are_one_in_all_of_their_forms() -> None:
    terms = Terms()
    a, b = (terms(("argument", number), name) for number, name in enumerate("ab"))
    assert compared(terms, 4, a, -1) is compared(terms, 5, a, 0) is compared(terms, 3, 0, a)
    assert compared(terms, 2, a, b) is compared(terms, 4, b, a) is not compared(terms, 2, b, a)
    assert compared(terms, 0, a, b) is compared(terms, 0, b, a)
    assert terms(("arith.xori", compared(terms, 2, a, 0), 1)) is compared(terms, 5, a, 0)
    flags = ("arith.cmpi", "predicate", "4 : i64", "of", "flags", a, 0)
    assert terms(flags).key == flags, "one bit has no numbers above 0"


def test_a_term_is_evaluated_for_numbers_of_its_parts() -> None:
    terms = Terms()
    a, b = (terms(("argument", number), name) for number, name in enumerate("ab"))
    terms.functions["arith.addi",] = lambda one, other: one + other
    more = compared(terms, 2, terms(("arith.addi", a, 3)), b)
    assert [terms.evaluate(more, {text_of(a): 4, text_of(b): number}) for number in (7, 8)] == [0, 1]
    assert terms.evaluate(more, {text_of(a): 4}) is None


def test_a_term_is_evaluated_for_many_numbers_of_a_part_as_for_each() -> None:
    terms = Terms()
    a, b, c = (terms(("argument", number), name) for number, name in enumerate("abc"))
    terms.functions["arith.divsi",] = lambda one, other: one // other if other else None
    terms.functions["arith.muli",] = lambda one, other: one * other
    quotient = terms(("arith.divsi", terms(("arith.muli", b, b)), a))
    made = compared(terms, 2, terms(("arith.muli", quotient, quotient)), c)
    given, numbers = {text_of(b): 5, text_of(c): 20}, [-3, 0, 1, 5, 6]
    each = [terms.evaluate(made, {**given, text_of(a): number}) for number in numbers]
    assert terms.evaluate_each(made, given, text_of(a), numbers) == each == [0, None, 0, 0, 1]
    assert terms.evaluate_each(made, {text_of(b): 5}, text_of(a), numbers) == [None] * 5
    assert terms.evaluate_each(terms(("arith.muli", b, b)), given, text_of(a), numbers) == [25] * 5


def test_an_address_has_one_offset() -> None:
    """An address in memory is one number, however it is computed."""
    terms = Terms()
    base, n = terms(("argument", 0), "p"), terms(("argument", 1), "n")

    def there(*offsets: object) -> Term:
        made = base
        for offset in offsets:
            made = terms(("tt.addptr", made, offset))
        return made

    assert there(0) is there(0, 0) is there(2, -2) is base
    assert there(1, 2) is there(3) and there(n, 1, 2) is there(n, 3)
    assert len({there(), there(1), there(2), there(n), there(n, 1)}) == 5


def test_a_plain_name_has_no_numeric_suffix() -> None:
    assert [plain_name(hint) for hint in ("n_3", "n", "tile_n", "_3")] == ["n", "n", "tile_n", "_3"]
