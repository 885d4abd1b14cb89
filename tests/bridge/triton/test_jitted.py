"""Which jitted functions a kernel may call, and where each is defined."""

from __future__ import annotations

import triton
import triton.language as tl

from tawa.bridge.triton.jitted import definition_of, reachable


@triton.jit
def leaf(x):
    return x + 1


@triton.jit
def middle(x):
    return leaf(x)


@triton.jit
def unrelated(x):
    return x


class Library:
    helper = middle


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, Library.helper(tl.load(x_ptr)))


def test_calls_are_followed_through_helpers_and_members() -> None:
    names = [it.__name__ for it in reachable([kernel])]
    assert names == ["kernel", "middle", "leaf"]


def test_functions_may_come_in_tuples_and_each_is_named_once() -> None:
    assert [it.__name__ for it in reachable([(leaf, (middle,)), leaf, 3, None])] == ["leaf", "middle"]


def test_functions_of_triton_itself_are_left_out() -> None:
    assert not list(reachable([tl.zeros]))


def test_the_definition_is_the_line_of_the_def_below_its_decorators() -> None:
    line, indent = definition_of(kernel)
    with open(__file__) as file:
        assert file.read().splitlines()[line - 1].startswith("def kernel(")
    assert indent == 0
