"""The reasons for which kernels are left to stock Triton: those of the code are those of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from tawa.declines import DECLINES, NOT_EXPECTED, of_reason

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tawa"


def test_every_reason_of_the_code_has_a_section_on_the_page_and_every_section_a_reason() -> None:
    page = (ROOT / "docs" / "declines.md").read_text()
    sections = re.findall(r"^#{2,3} .*\{ ?#([\w-]+) ?\}$", page, re.M)
    shown = re.findall(r"^<!-- generated: decline ([\w-]+) -->$", page, re.M)
    ids = [it.id for it in DECLINES]
    assert sorted(shown) == sorted(ids), set(shown) ^ set(ids)
    assert set(ids) <= set(sections), "each reason has a heading, so that a link can lead to it"
    assert len(set(ids)) == len(ids)


def test_no_code_declines_a_kernel_with_a_reason_of_its_own() -> None:
    made = re.compile(r'Remark\(\s*"declined"')
    found = {str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if made.search(file.read_text())}
    assert found <= {"declines.py"}


def test_every_reason_is_used() -> None:
    names = {name for name, value in vars(__import__("tawa.declines", fromlist=["*"])).items() if value in DECLINES}
    files = (file for file in SOURCE.rglob("*.py") if file.name != "declines.py")
    words = {word for file in files for word in re.findall(r"\w+", file.read_text())}
    inside = (SOURCE / "declines.py").read_text()
    unused = {name for name in names if name not in words and not re.search(rf"\b{name}\.", inside)}
    assert unused <= {"PREDICTED"}  # the model of time writes its own text, which is recognised


def test_the_text_of_a_reason_tells_its_kind() -> None:
    for decline in DECLINES:
        names = re.findall(r"\{(\w+)\}", decline.reason + decline.cure)
        said = decline.remark(**{name: f"some {name}" for name in names}).reason
        assert of_reason(said) is decline
        assert "{" not in said
    assert of_reason("a reason that nobody gives") is None
    assert (
        of_reason(f"{NOT_EXPECTED}300 us predicted for the specialised kernel, 193 us for stock Triton's") is not None
    )
