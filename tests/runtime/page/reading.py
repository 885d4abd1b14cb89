"""Reads a page as a browser would: its elements, its text, its data, and whatever it would load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "br", "hr", "img", "input"}
_RAW = {"script", "style"}
_LOADING = {"src", "href", "data", "poster", "action", "srcset"}


class Page(HTMLParser):
    """A page. faults: tags that do not match. text: what people read, by section. loads: addresses outside the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.loads: list[str] = []
        self.sections: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        self.faults += [f"{tag} is not closed" for tag, _ in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        self.tags.append((tag, about))
        self.loads += [it for name, it in attrs if name in _LOADING and it and not it.startswith("#")]
        if tag not in _VOID:
            self._open.append((tag, about))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.faults.append(f"</{tag}> closes {self._open[-1][0] if self._open else 'nothing'}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        inner = self._open[-1] if self._open else ("", {})
        if inner[0] in _RAW:
            name = inner[1].get("id") or inner[0]
            self.scripts[name] = self.scripts.get(name, "") + data
            return
        for tag, about in self._open:
            if tag == "section":
                name = str(about["id"])
                self.sections[name] = self.sections.get(name, "") + data + " "

    @property
    def data(self) -> dict[str, Any]:
        """The data of the charts and of the run."""
        return json.loads(self.scripts["data"])

    def all(self, tag: str, **attributes: str) -> Iterator[dict[str, str | None]]:
        """The attributes of the elements of a tag that have these."""
        yield from (about for it, about in self.tags if it == tag and attributes.items() <= about.items())
