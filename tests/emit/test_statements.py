from __future__ import annotations

import linecache

import pytest

from tawa.emit.python.statements import Sources, Statement

TEXT = """\
@triton.jit
def kernel(a, b):
    # Two comments
    # above a statement.
    k = load(
        desc,  # of the keys
        [n, 0],
    )

    # apart

    acc += tl.dot(q, k)
    total: tl.float32 = 0.0  # behind it
    first, second = pair
    for n in tl.range(
        0, end,
    ):
        # in the loop
        store(k)
    while k < 3: k += 1
    if k:
        pass
    return acc
"""


@pytest.fixture
def sources() -> Sources:
    lines: list[str] = list(TEXT.splitlines(keepends=True))
    linecache.cache["<statements>"] = (len(TEXT), None, lines, "<statements>")
    return Sources()


def at(sources: Sources, line: int) -> Statement:
    found = sources.statement("<statements>", line)
    assert found is not None
    return found


@pytest.mark.parametrize("line", [5, 6, 7, 8])
def test_every_line_of_a_statement_is_the_statement_with_the_comments_above(sources: Sources, line: int) -> None:
    comments = ("# Two comments", "# above a statement.")
    assert at(sources, line) == Statement("k = load(desc, [n, 0])", comments, "k")


def test_a_comment_apart_from_a_statement_is_none_of_it(sources: Sources) -> None:
    assert at(sources, 12) == Statement("acc += tl.dot(q, k)", (), "acc")


def test_a_comment_behind_a_statement_of_one_line_stays(sources: Sources) -> None:
    assert at(sources, 13) == Statement("total: tl.float32 = 0.0  # behind it", (), "total")


def test_a_statement_that_assigns_several_variables_has_no_target(sources: Sources) -> None:
    assert at(sources, 14).target == ""


def test_the_head_of_a_loop_is_a_statement_without_its_body(sources: Sources) -> None:
    assert at(sources, 16).text == "for n in tl.range(0, end):"
    assert at(sources, 19) == Statement("store(k)", ("# in the loop",), "")
    assert at(sources, 21).text == "if k:"


def test_the_head_of_a_function_and_a_file_without_source_are_no_statements(sources: Sources) -> None:
    assert sources.statement("<statements>", 2) is None
    assert sources.statement("<no such file>", 1) is None


def test_a_file_that_is_no_python_has_no_statements() -> None:
    linecache.cache["<broken>"] = (4, None, ["def (\n"], "<broken>")
    assert Sources().statement("<broken>", 1) is None
