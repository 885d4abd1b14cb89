"""Operations in the words of the language."""

from __future__ import annotations

import pytest

from tawa.ir import Operation
from tawa.symbolic.words import word_of


@pytest.mark.parametrize(
    ("name", "properties", "word"),
    [
        ("arith.divsi", {}, "//"),
        ("arith.remui", {}, "%"),
        ("math.exp2", {}, "tl.exp2"),
        ("math.absf", {}, "tl.abs"),
        ("tt.store", {}, "tl.store"),
        ("tt.atomic_rmw", {"atomic_rmw_op": "5 : i32"}, "tl.atomic_add"),
        ("tt.atomic_rmw", {"atomic_rmw_op": "10 : i32"}, "tl.atomic_xchg"),
        ("ttng.warp_group_dot", {}, "tl.dot"),
        ("made.up", {}, "made.up"),
    ],
)
def test_an_operation_is_called_as_the_user_wrote_it(name: str, properties: dict[str, str], word: str) -> None:
    assert word_of(Operation(name, properties=properties)) == word
