"""HTML as a tree: text is escaped when the tree is written, so that no source text can become markup.

element("td", "a < b", title="x")   →   <td title="x">a &lt; b</td>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None
"""What an element has inside; None is left out."""


def element(tag: str, *children: Child, **attributes: object) -> Element:
    """An element.

    attributes: `class_` for class, `data_x` for data-x. True is an empty attribute; None and False are none.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            made.set(name.rstrip("_").replace("_", "-"), "" if value is True else str(value))
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child and len(made):
            made[-1].tail = (made[-1].tail or "") + child
        elif child:
            made.text = (made.text or "") + child
    return made


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], **attributes: object) -> Element:
    """A table with a row of headings; the first cell of each row is a heading as well."""
    top = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = (
        element(
            "tr", *(element("td" if at else "th", cell, scope=None if at else "row") for at, cell in enumerate(row))
        )
        for row in rows
    )
    return element("table", top if any(head) else None, element("tbody", *body), **attributes)


def markup(*elements: Element) -> str:
    """Elements as text."""
    return "".join(tostring(it, encoding="unicode", method="html") for it in elements)


def notebook_markup(*elements: Element) -> str:
    """Elements as text for the output of a notebook's cell, which would move the text of tables to the right."""
    for it in elements:
        for kind in ("th", "td"):
            for cell in it.iter(kind):
                cell.set("style", "text-align: left")
    return markup(*elements)


__all__ = ["Child", "Element", "element", "markup", "notebook_markup", "table"]
