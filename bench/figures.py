"""Writes the figures of README and docs from the result files: ``python -m bench.figures --write`` or ``--check``.

A mark behind a figure names it (`figure_values.FIGURES`); comments stand around a table (`TABLES`):

    up to 719<!--=attention.d128.best--> TFLOP/s

    <!-- figures: gemm -->
    | kernel | K | …
    <!-- end -->

So the pages are readable as they are, and after a new measurement ``--write`` updates all of them.
"""

from __future__ import annotations

import argparse
import re

from bench.figure_values import FIGURES, TABLES, Missing
from bench.harness import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

NUMBER = r"\d+(?:\.\d+)?"
MARKED = re.compile(rf"(?P<figure>{NUMBER}(?: to {NUMBER})?)?<!--=(?P<name>[^>]*?)-->")
TABLE = re.compile(r"(?P<head><!-- figures: (?P<name>\S+) -->\n)(?P<lines>.*?)(?P<end>^<!-- end -->$)", re.M | re.S)


def filled(text: str) -> str:
    """The page with the figures of the result files; raises Missing if a figure cannot be computed."""

    def figure(match: re.Match[str]) -> str:
        name = match["name"]
        if match["figure"] is None:
            raise Missing(f"no number stands in front of the mark {name}")
        if name not in FIGURES:
            raise Missing(f"there is no figure {name}")
        return f"{FIGURES[name]()}<!--={name}-->"

    def table(match: re.Match[str]) -> str:
        if match["name"] not in TABLES:
            raise Missing(f"there is no table {match['name']}")
        return match["head"] + "".join(f"{line}\n" for line in TABLES[match["name"]]()) + match["end"]

    return TABLE.sub(table, MARKED.sub(figure, text))


def differences(before: str, after: str) -> list[str]:
    """The lines that change, before and after."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    found = [f"{number}: {was}\n   becomes {new}" for number, (was, new) in enumerate(pairs, 1) if was != new]
    return found or (["its length changes"] if before != after else [])


def write_pages() -> None:
    """Writes the figures into the pages; prints which changed, and which figures cannot be computed."""
    for page in PAGES:
        before = page.read_text()
        try:
            after = filled(before)
        except Missing as error:
            print(f"{page.name}: {error}")
            continue
        if after != before:
            page.write_text(after)
            print(f"{page.name}: written")


def faults() -> list[str]:
    """The lines of the pages that differ from the result files."""
    found: list[str] = []
    for page in PAGES:
        before = page.read_text()
        try:
            found += [f"{page.name}:{line}" for line in differences(before, filled(before))]
        except Missing as error:
            found.append(f"{page.name}: {error}")
    return found


def main() -> int:
    """Checks or writes the pages; returns 1 if a figure differs from its file or cannot be computed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="list the figures that differ from the result files")
    what.add_argument("--write", action="store_true", help="write them into the pages")
    arguments = parser.parse_args()
    if arguments.write:
        write_pages()
    found = faults()
    print("\n".join(found) or "every figure is that of its file")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
