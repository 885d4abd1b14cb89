"""What the pages take from the sources is what the sources say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.figures import differences
from docs.hooks.field_lists import listed
from tests.docs.generated import decline, tiles, unknown, written
from tests.docs.pages import PAGES, ROOT
from tests.docs.versions import versions


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_of_a_page_are_what_the_sources_say(page: Path) -> None:
    text = page.read_text()
    assert not unknown(text)
    assert differences(text, written(text)) == [], "python -m tests.docs.update --parts"


def test_a_part_that_is_old_unknown_or_open_is_found() -> None:
    mark = "  <!-- generated: decline warps -->\n"
    made = written(f"{mark}old\n  <!-- end -->\n")
    assert made.startswith(f"{mark}\n  > num") and made.endswith("\n\n  <!-- end -->\n") and written(made) == made
    assert unknown(mark) and unknown("<!-- generated: unheard -->\n<!-- end -->") and not unknown(made)


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
    backward = tiles("backward").splitlines()
    assert backward[2].startswith("| full | 64 |  | 128 × 128, 8 warps | `plan=") and backward[-1].startswith("| 256 |")
    assert "| window | 192 | 192 |" in tiles("two-parts")


def test_fields_of_a_docstring_become_a_list_and_prose_stays() -> None:
    text = "What it is: one value.\n\nname: a text,\n    on two lines. size, depth: numbers.\n\nRaises: nothing.\n"
    assert listed(text, {"name", "size", "depth"}).splitlines() == [
        "What it is: one value.", "", "- `name`: a text,", "    on two lines.", "- `size`, `depth`: numbers.", "",
        "Raises: nothing.",
    ]  # fmt: skip
