"""Writes the figures of README and docs from the result files: ``python -m bench.figures --write`` or ``--check``.

A mark behind a figure names it (`figure_values.FIGURES`); comments stand around a generated part (`PARTS`):

    up to 719<!--=attention.d128.best--> TFLOP/s

    <!-- generated: table gemm -->

    | kernel | K | …

    <!-- end -->

So the pages are readable as they are, and after a new measurement ``--write`` updates all of them. Parts with other
names come from the sources (`tests.docs.generated`) and stay as they are here.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping

from bench.corpus.report.page import render_file
from bench.figure_values import FIGURES, TABLES, Missing
from bench.harness import RESULTS, ROOT, read

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

NUMBER = r"\d+(?:\.\d+)?"
MARKED = re.compile(rf"(?P<figure>{NUMBER}(?: to {NUMBER})?)?<!--=(?P<name>[^>]*?)-->")
PART = re.compile(
    r"^(?P<indent> *)(?P<head><!-- generated: (?P<name>[\w-]+)(?: (?P<of>\S+))? -->)\n.*?^ *<!-- end -->$", re.M | re.S
)
Parts = Mapping[str, Callable[..., str]]


def table(name: str) -> str:
    """A table of a result file."""
    if name not in TABLES:
        raise Missing(f"there is no table {name}")
    return "\n".join(TABLES[name]())


def machine(name: str) -> str:
    """On which machine, when and by which command a result file was made."""
    if not (RESULTS / f"{name}.json").exists():
        raise Missing(f"there is no {name}.json")
    about = read(RESULTS / f"{name}.json")[0]
    versions = ", ".join(f"{key} {value}" for key, value in sorted(about["versions"].items()) if value)
    date, command = about["date"][:10], " ".join(about["command"].split())
    gpu = f"{about['device']}, driver {about['driver']}" if about["driver"] not in (None, "none") else "No GPU"
    return f"*{gpu}; {versions}; {date}. `{command}` wrote `{name}.json`.*"


PARTS: Parts = {"table": table, "machine": machine, "corpus": render_file}
"""What makes the generated parts that come from result files, by the first word of their names."""


def with_parts(text: str, parts: Parts) -> str:
    """The page with each generated part that one of `parts` makes, indented as its mark is."""

    def part(match: re.Match[str]) -> str:
        if match["name"] not in parts:
            return match[0]
        made = parts[match["name"]](match["of"]) if match["of"] else parts[match["name"]]()
        lines = [match["head"], "", *made.splitlines(), "", "<!-- end -->"]
        return "\n".join(match["indent"] + line if line else "" for line in lines)

    return PART.sub(part, text)


def filled(text: str) -> str:
    """The page with the figures of the result files; raises Missing if a figure cannot be computed."""

    def figure(match: re.Match[str]) -> str:
        name = match["name"]
        if match["figure"] is None:
            raise Missing(f"no number stands in front of the mark {name}")
        if name not in FIGURES:
            raise Missing(f"there is no figure {name}")
        return f"{FIGURES[name]()}<!--={name}-->"

    return with_parts(MARKED.sub(figure, text), PARTS)


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
