"""What the pages take from the sources when the site is built is there."""

from __future__ import annotations

import re

from docs.hooks.field_lists import listed
from docs.hooks.parts import PARTS, decline, tiles
from docs.hooks.versions import versions
from tests.docs.pages import PAGES, ROOT


def test_each_mark_of_a_page_gives_text() -> None:
    marks = {
        it for page in PAGES for it in re.findall(r"^ *<!-- generated: (\S+)(?: (\S+))? -->$", page.read_text(), re.M)
    }
    assert marks
    empty = [name for name, of in sorted(marks) if not (PARTS[name](of) if of else PARTS[name]())]
    assert not empty


def test_each_version_that_ci_runs_has_a_row() -> None:
    line = re.search(r"^RELEASES := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert line is not None
    for release in ("3.6.0", *line[1].split()):
        assert f"| {release.rpartition('.')[0]} | {release}: " in versions()


def test_places_of_a_message_stand_out_and_its_signs_stay_signs() -> None:
    text = decline("warps")
    assert "num\\_warps=*‹num warps›*" in text and "**Cure:**" in text


def test_the_tiles_are_those_of_the_operator() -> None:
    assert "| full | 16 bits | 128 |  | 128 × 128, 8 warps | two loops | `plan=" in tiles("forward")
    assert tiles("backward").count("\n") == 4 and "| window | 192 | 192 |" in tiles("two-parts")


def test_fields_of_a_docstring_become_a_list_and_prose_stays() -> None:
    text = "What it is: one value.\n\nname: a text,\n    on two lines. size, depth: numbers.\n\nRaises: nothing.\n"
    assert listed(text, {"name", "size", "depth"}).splitlines() == [
        "What it is: one value.", "", "- `name`: a text,", "    on two lines.", "- `size`, `depth`: numbers.", "",
        "Raises: nothing.",
    ]  # fmt: skip
