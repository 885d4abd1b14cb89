"""A hook of mkdocs: links of pages to files outside `docs/` lead to the repository's address on the site.

On the pages they are relative, as ``../examples/rings``, so that they also work in a checkout and on GitHub. A link to
a file that does not exist stays as it is, and mkdocs warns.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
_LINK = re.compile(r"(?<!!)(?P<text>\[[^\]]*\])\((?P<path>\.\./[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Returns the page with the addresses of its links out of `docs/`."""
    folder = Path(page.file.abs_src_path).parent

    def address(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT) or target.is_relative_to(ROOT / "docs"):
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{link['text']}({REPOSITORY}/{kind}/main/{target.relative_to(ROOT).as_posix()}{link['anchor'] or ''})"

    return _LINK.sub(address, markdown)
