"""A hook of mkdocs: what a page takes from the sources is written when the site is built.

A page names it in a comment of its own line, which readers of the file do not see:

    <!-- generated: versions -->

Each name of `PARTS` is a function that returns Markdown. The tests of the pages build none of it: they check the
sources that it comes from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parents[2]
_CHECKOUT = [str(ROOT), str(ROOT / "src")]
sys.path[:0] = _CHECKOUT  # `mkdocs` has its own path; the pages show this checkout

from docs.hooks import parts  # noqa: E402

_MARK = re.compile(r"^(?P<indent> *)<!-- generated: (?P<name>[\w-]+)(?: (?P<of>\S+))? -->$", re.M)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Returns the page with its generated parts; raises PluginError for a name that is none."""
    sys.path[:] = [*_CHECKOUT, *(it for it in sys.path if it not in _CHECKOUT)]  # mkdocs restores it behind hooks

    def part(mark: re.Match[str]) -> str:
        made: Callable[..., str] | None = parts.PARTS.get(mark["name"])
        if made is None:
            raise PluginError(f"{page.file.src_path}: nothing generates {mark['name']!r}; known: {sorted(parts.PARTS)}")
        text = made(mark["of"]) if mark["of"] else made()
        return "\n".join(mark["indent"] + line if line else "" for line in text.splitlines())

    return _MARK.sub(part, markdown)
