from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.emit.python.text import INDENT, WIDTH, bare, closed, cut, mentions, within, wrapped, wrapped_call

LEAVES = ("a", "b", "3", "-2", "0.5", "f(a, b)", "x.index(a + 1)", "x[0]", "(-1.0)")
SIGNS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")


def tree(text: str) -> str:
    return ast.dump(ast.parse(text, mode="eval"))


def joined(left: str, sign: str, right: str) -> str:
    kind = "==" if sign in ("==", "<") else sign
    return f"{within(left, kind, True)} {sign} {within(right, kind, False)}"


expressions = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.builds(joined, inner, st.sampled_from((*SIGNS, "==", "<")), inner),
    max_leaves=8,
)


@given(expressions, st.sampled_from((*SIGNS, "==", "<")), expressions)
def test_operands_keep_their_tree(left: str, sign: str, right: str) -> None:
    assert tree(joined(left, sign, right)) == tree(f"({left}) {sign} ({right})")


@given(expressions)
def test_the_object_of_a_method_keeps_its_tree(text: str) -> None:
    assert tree(f"{within(text, '.', True)}.to(t)") == tree(f"({text}).to(t)")


@given(expressions)
def test_what_is_closed_needs_no_parentheses(text: str) -> None:
    assert not closed(text) or tree(f"{text} ** 2") == tree(f"({text}) ** 2")


def test_products_in_sums_have_no_parentheses_and_others_do() -> None:
    assert joined("a * b", "+", "c") == "a * b + c"
    assert joined("a", "-", "b + c") == "a - (b + c)"
    assert joined("a // b", "*", "c") == "(a // b) * c"


@pytest.mark.parametrize(("text", "inner"), [("(a + b)", "a + b"), ("(a) + (b)", "(a) + (b)"), ("a", "a")])
def test_parentheses_around_the_whole_are_removed(text: str, inner: str) -> None:
    assert bare(text) == inner


def test_a_name_is_mentioned_as_a_whole_word_that_is_no_attribute() -> None:
    assert mentions("acc + 1", "acc")
    assert not mentions("acc_2 + x.acc", "acc")


def test_a_long_call_has_its_arguments_in_lines_of_their_own() -> None:
    parts = [f"argument_{number}" for number in range(20)]
    text = wrapped_call(f"x = f({', '.join(parts)})", 1)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert ast.dump(ast.parse(text.replace(INDENT, ""))) == ast.dump(ast.parse(f"x = f({', '.join(parts)})"))


def test_a_tuple_of_one_that_is_wrapped_stays_a_tuple() -> None:
    assert wrapped("(f, (", ["a"], ")),", 0) == "(f, (a,)),\n"


def test_a_comment_is_cut_with_an_ellipsis() -> None:
    assert cut("# " + "word " * 40, 30) == "# word word word word word wo…"
