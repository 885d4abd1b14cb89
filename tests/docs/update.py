"""Writes the pages anew: ``python -m tests.docs.update [--parts] [PAGE …]``.

First the figures and the generated parts, then the `output` blocks, from what the blocks above them print; with
``--parts`` nothing is run. An output that still matches (numbers that vary aside) stays as it is. One with a line `…`
is written whole where it does not match any more; shorten it again by hand.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.generated import written
from tests.docs.pages import PAGES
from tests.docs.running import Ran, Workplace, difference, run_page


def updated(text: str, runs: list[Ran]) -> str:
    """The page's text with what was printed in its output blocks."""
    for ran in reversed(runs):
        if ran.output and difference(ran.output.text, ran.shown):
            indent = text[text.rindex("\n", 0, ran.output.begin - 1) + 1 :].partition("`")[0]
            lines = "".join((indent + line).rstrip() + "\n" for line in ran.shown.strip("\n").splitlines())
            text = text[: ran.output.begin] + lines + text[ran.output.end :]
    return text


def main(names: list[str]) -> int:
    """Updates the pages whose names are given, or all; 1 if a block fails."""
    failed = False
    known = {page.name for page in PAGES}
    runs_blocks = "--parts" not in names
    names = [Path(name).name for name in names if name != "--parts"]
    if unknown := [name for name in names if name not in known]:
        print(f"no such page: {', '.join(unknown)}", file=sys.stderr)
        return 1
    for page in PAGES:
        if names and page.name not in names:
            continue
        before = page.read_text()
        page.write_text(written(before))
        runs: list[Ran] = []
        if runs_blocks:
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
                runs = list(run_page(page, Workplace(Path(folder), Path(cache))))
            page.write_text(updated(page.read_text(), runs))
        print(f"{page.name}: {'written' if page.read_text() != before else 'up to date'}")
        for ran in runs:
            wrong_status = ran.printed.status != int(ran.block.keys.get("exit", "0"))
            if wrong_status:
                print(ran.fault, file=sys.stderr)
            failed |= wrong_status
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
