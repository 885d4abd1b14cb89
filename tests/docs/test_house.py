"""The drawing of the house says what the imports say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import house


def test_each_room_stands_above_what_it_imports() -> None:
    lines = [line.split()[0] for line in house.drawing().splitlines() if not line.startswith(" ")]
    for name, below in house.graph().items():
        for other in below.intersection(lines):
            if name in lines:
                assert lines.index(name) < lines.index(other), f"{name} imports {other}"


def test_rooms_that_import_each_other_are_a_circle() -> None:
    with pytest.raises(ValueError, match="a → b → a"):
        house.height("a", {"a": {"b"}, "b": {"a"}})


def test_imports_inside_functions_count_and_those_for_type_checkers_do_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from tawa.ir import Module\nimport tawa.plan.plan\nif TYPE_CHECKING:\n    import tawa.sim\n"
        "def f():\n    from tawa import pipeline\n"
    )
    assert list(house.imported(module)) == ["ir", "plan", "pipeline"]
