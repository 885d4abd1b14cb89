"""A verdict on a page; the run of a refuted program is stepped through with the arrow keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from tawa.html import Child, Element, element, table
from tawa.verify.verdict import ALL_RUNS
from tawa.verify.witness import fault_of, said_by

_MEANINGS = {
    "proved": f"No deadlock and no race: {ALL_RUNS}.",
    "checked": "Runs of stated numbers have no fault; other runs are not proved.",
    "refuted": "There is a run that goes wrong.",
    "unknown": "The check does not know.",
}


def verdict_content(found: Mapping[str, Any] | None, names: Mapping[str, str]) -> tuple[Child, ...]:
    """A verdict as JSON data (`verdict_to_dict`); None if nothing was checked. names: of partitions, for people."""
    if found is None:
        return (element("p", "Not checked (TAWA_VERIFY=off).", class_="note"),)
    name: str = found["verdict"]
    facts = [
        ("what goes wrong", fault_of(found) or None),
        ("runs", found["bound"]),
        ("not proved", found["left"]),
        ("reason", found["reason"]),
        (
            "at",
            element("span", PurePath(found["location"]).name, title=found["location"]) if found["location"] else None,
        ),
    ]
    return (
        element("p", element("strong", name, class_=f"verdict {name}"), f" {_MEANINGS[name]}"),
        table(("", ""), [it for it in facts if it[1] is not None], class_="facts")
        if any(it[1] is not None for it in facts)
        else None,
        _assumptions(found["assumptions"]),
        *(_witness(found["witness"], names) if found["witness"] else ()),
    )


def summary_of(found: Mapping[str, Any]) -> str:
    """A verdict in one line."""
    return f"{found['verdict']}: {said_by(found)}"


def steps_of(found: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a refuted program's run, for the page's script."""
    witness = found["witness"] if found is not None else None
    return list(witness["steps"]) if witness else []


def _assumptions(texts: list[str]) -> Element | None:
    if not texts:
        return None
    return element("div", element("h3", "Assuming"), element("ul", *(element("li", it) for it in texts)))


def _witness(witness: Mapping[str, Any], names: Mapping[str, str]) -> tuple[Child, ...]:
    """The run as a table, time by partition; the script marks the step and says what each place was last used for."""
    steps = witness["steps"]
    partitions = list(dict.fromkeys(it["partition"] for it in steps))
    rows = [
        (str(number), *(_text(step) if step["partition"] == name else "" for name in partitions))
        for number, step in enumerate(steps, 1)
    ]
    heads = (f"{it} ({names[it]})" if names.get(it, it) != it else it for it in partitions)
    inputs = ", ".join(f"{name} = {value}" for name, value in witness["inputs"].items())
    return (
        element("h3", f"The run that goes wrong{f', with {inputs}' if inputs else ''}"),
        element(
            "div",
            element("button", "← back", type="button", data_step="-1", aria_label="one step back"),
            element("button", "forward →", type="button", data_step="1", aria_label="one step forward"),
            element("output", "", id="step", aria_live="polite"),
            class_="controls",
        ),
        element("p", "Arrow keys step; Home and End go to the first and the last step.", class_="note"),
        element("div", table(("place",), (), id="places"), class_="wide", id="state"),
        element("div", table(("#", *heads), rows, id="run"), class_="wide run", tabindex=0,
                aria_label="the run, step by step"),
    )  # fmt: skip


def _text(step: Mapping[str, Any]) -> str:
    """``wait ring0_full[1] parity 0 :27``."""
    slot = f"[{step['slot']}]" if step["slot"] is not None else ""
    parity = f"parity {step['parity']}" if step["parity"] is not None else ""
    place = f":{PurePath(step['location']).name.rpartition(':')[2]}" if step["location"] else ""
    return " ".join(filter(None, (step["action"], f"{step['target'] or ''}{slot}", parity, place)))
