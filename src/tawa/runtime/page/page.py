"""One HTML file: sections, the data of its charts, its style, its script, and the library that draws.

The file loads nothing: a browser that obeys its content security policy refuses every address. The library is a part of
Apache ECharts, see ``assets/echarts/README.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tawa.html import Child, Element, element, markup

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page. name: in its address, ``#plan``."""

    name: str
    title: str
    content: tuple[Child, ...]


def page(title: str, subtitle: str, sections: Iterable[Section], data: Mapping[str, Any]) -> str:
    """The text of a page. data: of its charts by name, and ``steps`` of a run; plain JSON data."""
    parts = list(sections)
    draws = bool(data.get("charts"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _asset("page.css")),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", title),
            element("p", subtitle, class_="headline"),
            element("button", "Theme", id="theme", type="button", title="Light or dark"),
        ),
        element("nav", *(element("a", it.title, href=f"#{it.name}") for it in parts), aria_label="Sections"),
        element("main", *map(_section, parts)),
        element("script", _as_script_data(data), id="data", type="application/json"),
        element("script", _asset("echarts/echarts.min.js")) if draws else None,
        element("script", _asset("page.js")),
    )
    return "<!doctype html>\n" + markup(element("html", head, body, lang="en")) + "\n"


def chart(name: str, label: str) -> Element:
    """The place of a chart. label: what it shows, for those who cannot see it."""
    return element("div", id=f"chart-{name}", class_="chart", data_chart=name, role="img", aria_label=label)


def _section(it: Section) -> Element:
    return element("section", element("h2", it.title), *it.content, id=it.name)


def _as_script_data(data: Mapping[str, Any]) -> str:
    """JSON that ends no script element, whatever is in it."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return files("tawa.runtime.page").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")
