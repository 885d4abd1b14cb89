"""The source of a kernel on a page: each line with the partitions that execute it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from tawa.html import Child, Element, element
from tawa.runtime.explain.source import ALL_WARPS, Line, SourceFunction

_ROLES = ("consumer", "producer", "mma", "converter")
_STYLES = (*_ROLES, "fifth", "sixth")


def styles_of(partitions: Iterable[str]) -> dict[str, str]:
    """The style of each partition: that of its role if its name begins with it, else the next one in turn."""
    found = {ALL_WARPS: "all"}
    for number, name in enumerate(it for it in partitions if it != ALL_WARPS):
        found[name] = next((it for it in _ROLES if name.startswith(it)), _STYLES[number % len(_STYLES)])
    return found


def source_content(
    functions: Sequence[SourceFunction], styles: Mapping[str, str], marked: str | None, note: str = ""
) -> tuple[Child, ...]:
    """The functions, and a legend. marked: the line that a message is about, ``file:line``. note: of that line."""
    if not functions:
        return (element("p", "The files with the source are not here.", class_="note"),)
    used = dict.fromkeys(name for it in functions for line in it.lines for name in line.work)
    split = len(used) > 1
    legend = element("p", *(_legend(name, styles, split) for name in used), class_="legend") if used else None
    most = max((len(line.work) for it in functions for line in it.lines), default=0)
    return legend, *(
        part
        for it in functions
        for part in (
            element("h3", f"{it.name} ", element("small", _place(it), title=it.file)),
            element("ol", *(_line(it, line, styles, marked, note) for line in it.lines), class_="code",
                    start=it.lines[0].number, tabindex=0, aria_label=f"{it.name}, line by line",
                    style=f"--chips: {most}"),
        )
    )  # fmt: skip


def _place(function: SourceFunction) -> str:
    return f"{PurePath(function.file).name}:{function.lines[0].number}"


def _legend(name: str, styles: Mapping[str, str], split: bool) -> Element:
    before = "(before the partitions start)" if name == ALL_WARPS and split else None
    return element("span", chip(name, styles, full=True), before, class_="key")


def chip(name: str, styles: Mapping[str, str], full: bool = False) -> Element:
    """A partition as a small coloured box: its letter, or its letter and its name."""
    digits = "".join(filter(str.isdigit, name.rstrip(")")[-1:]))
    letter = element("b", name[:1].upper() + digits)
    style = f"chip p-{styles.get(name, 'fifth')}"
    return element("span", letter, f" {name}" if full else None, class_=style, title=name)


def _line(function: SourceFunction, line: Line, styles: Mapping[str, str], marked: str | None, note: str) -> Element:
    chips = [chip(name, styles) for name in line.work]
    work = "; ".join(f"{name}: {', '.join(_heavy(what))}" for name, what in line.work.items())
    here = marked == f"{function.file}:{line.number}"
    colours = [styles.get(name, "fifth") for name in line.work if name != ALL_WARPS]
    colours = colours or [styles[name] for name in line.work]
    style = f"--from: var(--{colours[0]}); --to: var(--{colours[-1]})" if colours else None
    return element(
        "li",
        element("span", str(line.number), class_="number"),
        element("span", *chips, class_="chips"),
        element("code", line.text or " "),
        element("span", work, class_="work") if work else None,
        element("span", note, class_="problem") if here and note else None,
        class_=" ".join(filter(None, ("tinted" * bool(colours), "marked" * here))) or None,
        style=style,
        data_line=f"{function.file}:{line.number}",
    )


def _heavy(what: Sequence[str]) -> Sequence[str]:
    """Without the numbers that other work needs."""
    return [it for it in what if it != "numbers"] or what
