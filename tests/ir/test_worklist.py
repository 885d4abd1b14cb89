from __future__ import annotations

from tawa.ir import Worklist


def test_each_item_comes_once_the_last_one_first_and_more_may_be_added_meanwhile() -> None:
    edges = {"a": "bc", "b": "d", "c": "da", "d": "d"}
    work = Worklist(["e", "a"])
    order = ""
    for item in work:
        order += item
        work += edges.get(item, "")
    assert order == "acdbe" and work.given == set("abcde")
    assert list(work) == []
