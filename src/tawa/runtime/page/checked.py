"""The page of `tawa verify --html`: a verdict, with the source of the program that was checked."""

from __future__ import annotations

from tawa.html import element
from tawa.ir import Module
from tawa.runtime.explain.explicit import NamedProgram
from tawa.runtime.explain.source import source_of_kernel
from tawa.runtime.page.page import Section, page
from tawa.runtime.page.source import source_content, styles_of
from tawa.runtime.page.verdict import steps_of, summary_of, verdict_content
from tawa.verify.verdict import Verdict
from tawa.verify.witness import fault_of, verdict_to_dict


def verdict_page(name: str, verdict: Verdict, module: Module | None, note: str = "") -> str:
    """The whole page. name: of the program. module: its barrier level; None if only another level was checked.

    note: on where the program comes from.
    """
    found = verdict_to_dict(verdict)
    program = NamedProgram.of(module) if module is not None else None
    names = program.names if program is not None else {}
    source = source_of_kernel(module, names, found["location"])
    sections = [
        Section(
            "verdict", "Protocol", (element("p", note, class_="note") if note else None, *verdict_content(found, names))
        ),
        Section(
            "source", "Source", source_content(source, styles_of(names.values()), found["location"], fault_of(found))
        ),
    ]
    return page(name, summary_of(found), sections, {"charts": {}, "steps": steps_of(found)})
