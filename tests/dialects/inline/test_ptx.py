"""PTX text as statements; text that is not a plain list of instructions is not read."""

from __future__ import annotations

import pytest

from tawa.dialects.inline.ptx import statements


def read(text: str) -> list[str] | None:
    found = statements(f'"{text}"')
    return None if found is None else [f"{'@ ' if it.predicated else ''}{it}" for it in found]


def test_instructions_have_their_operands_by_number() -> None:
    assert read("bar.sync 8, $1; @p mov.u32 $0, ${1:x};") == ["bar.sync 8, $1", "@ mov.u32 $0, $1"]


def test_declarations_scopes_and_comments_are_no_instructions() -> None:
    assert read(r"{\0A .reg .b32 t<3>;\0A // bar.sync 0;\0A shl.b32 t1, $1, 4; }") == ["shl.b32 t1, $1, 4"]


def test_commas_inside_of_brackets_do_not_separate() -> None:
    (found,) = statements('"mov.b32 {$0, $1}, $2;"') or ()
    assert found.operands == ("{$0, $1}", "$2")


@pytest.mark.parametrize(
    "text", ["again: bra again;", "mov.b32 $0, $1 bar.sync 8;", "$(bar.sync 8;$|$)", ".shared .b32 x;", r"// x\0Dbar;"]
)
def test_other_text_is_not_read(text: str) -> None:
    assert read(text) is None
