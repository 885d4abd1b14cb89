"""Functions out of a script that must not be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.corpus.module_slice import load_slice

SCRIPT = """
import math
LIMIT = 2
items = [1]
if LIMIT > 5:
    items = [2]
raise_if_run = None
def helper(x, LATER=0):
    return x * SCALE + len(items)
def double(function):
    return lambda x: function(x) * LIMIT
@double
def wanted(x):
    value = helper(x)
    return math.floor(value)
SCALE = 10
value = 1 / 0
print(1 / 0)
items = 1 / 0
for value in wanted(3), 1 / 0:
    pass
"""


def test_a_function_comes_with_what_it_needs_and_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "a-script.py"
    path.write_text(SCRIPT.replace("items = 1 / 0\n", ""))
    module = load_slice(path, ["wanted"])
    assert module.wanted(1) == (10 + 1) * 2
    assert not hasattr(module, "value") and not hasattr(module, "raise_if_run")


def test_kernels_stay_at_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "b.py"
    path.write_text("x = 1 / 0\n\n\ndef wanted():\n    pass\n")
    code = load_slice(path, ["wanted"]).wanted.__code__
    assert (code.co_filename, code.co_firstlineno) == (str(path), 4)


def test_a_name_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text("def other(): pass\n")
    with pytest.raises(KeyError, match="wanted"):
        load_slice(path, ["wanted"])
