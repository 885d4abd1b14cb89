"""What the site takes from the sources, by the name in the comment of a page (`generated`)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.hooks.versions import versions

ROOT = Path(__file__).resolve().parents[2]


def table(name: str) -> str:
    """A table of a result file (`bench.figure_values`)."""
    from bench.figure_values import TABLES

    return "\n".join(TABLES[name]())


_ROOMS = {
    "ttir": "On TTIR: tiles have no layouts yet",
    "partition": "Rings and partitions",
    "pipelining": "Loops",
    "epilogue": "Stores and what is behind the loops",
    "lowering": "From rings to barriers",
    "tensor_memory": "Tensor memory, on Blackwell",
}


def passes() -> str:
    """The docstring of every pass, by room."""
    lines: list[str] = []
    for room, title in _ROOMS.items():
        lines += [f"## {title}", ""]
        for file in sorted((ROOT / "src" / "tawa" / "transforms" / room).rglob("*.py")):
            text = ast.get_docstring(ast.parse(file.read_text())) or ""
            if "Ensures:" not in text and "Requires:" not in text:
                continue  # a part of a pass
            first, _, rest = text.partition("\n\n")
            head, _, about = " ".join(first.split()).partition(": ")
            lines += [f"### {head}", "", f"`{room}/{file.name}`: {about}", ""]
            lines += ['??? info "Before and after, and what it requires"', ""]
            lines += ["    " + line if line else "" for line in _as_list(rest).splitlines()] + [""]
    return "\n".join(lines)


def _as_list(text: str) -> str:
    """A docstring's last lines, ``Requires: …``, as paragraphs of their own."""
    return re.sub(r"^(Requires|Ensures|Declines|Source)\b", r"\n**\1**", text, flags=re.M)


def tiles(which: str) -> str:
    """The tiles of attention on Hopper, as a table: forward, two-parts (of the head dimension), or backward."""
    from tawa.ops.attention_ops.tiles import HOPPER

    if which == "forward":
        rows = ["| mask | type | D up to | keys | tile | kernel | options |", "|---" * 7 + "|"]
        for bits, kinds in (("16 bits", HOPPER.forward), ("8 bits", HOPPER.fp8)):
            for kind, boxes in kinds.items():
                rows += [f"| {kind} | {bits} | {box} | {_tile(it)} |" for box, found in boxes.items() for it in found]
    elif which == "two-parts":
        rows = ["| mask | D up to | columns of `v` up to | keys | tile | kernel | options |", "|---" * 7 + "|"]
        for kind, parts in HOPPER.two_parts.items():
            for (first, values), found in parts.items():
                rows += [f"| {kind} | {first * 3 // 2} | {values} | {_tile(it)} |" for it in found]
    else:
        either = {**HOPPER.gradients, **HOPPER.narrow}
        rows = [
            "| D up to | dK, dV and sums of dQ | with a window or a softcap | dK, dV alone | dQ alone |",
            "|---" * 5 + "|",
        ]
        for box in HOPPER.dkdv:
            kinds = (HOPPER.gradients, either, HOPPER.dkdv, HOPPER.dq)
            rows.append(f"| {box} | {' | '.join(_size(it[box]) if box in it else '' for it in kinds)} |")
    return "\n".join(rows)


def _size(tile: Any) -> str:
    return f"{tile.BM} × {tile.BN}, {tile.num_warps} warps"


def _tile(tile: Any) -> str:
    options = [f"`{name}={value}`" for name, value in tile.options] + ["V as rows"] * tile.transposes_v
    kernel = "persistent" if tile.persistent else "two loops"
    return f"{tile.least or ''} | {_size(tile)} | {kernel} | {'<br>'.join(options)}"


def house() -> str:
    """The drawing of the rooms of the source."""
    from tests.docs.house import drawing

    return f"```\n{drawing()}\n```"


def corpus() -> str:
    """The results of the kernels of other packages."""
    from bench.corpus.report.page import render_file

    return render_file()


def machine(name: str) -> str:
    """On which machine, when and by which command a result file was made."""
    data = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text())
    versions = ", ".join(f"{key} {value}" for key, value in sorted(data["versions"].items()))
    date, command = data["date"][:10], " ".join(data["command"].split())
    return f"*{data['device']}, driver {data['driver']}; {versions}; {date}. `{command}` wrote `{name}.json`.*"


def decline(name: str) -> str:
    """What Tawa says of one reason for which a kernel is declined, and its usual cure."""
    from tawa.declines import DECLINES

    found = next(it for it in DECLINES if it.id == name)
    lines = [f"> {_said(found.within + found.reason)}"]
    if found.cure:
        lines += [">", f"> **Cure:** {_said(found.cure)}"]
    return "\n".join(lines)


def _said(text: str) -> str:
    """A template with its places in italics."""
    parts = re.split(r"\{(\w+)\}", text)
    plain = [re.sub(r"([*_<\[`])", r"\\\1", part) for part in parts]
    return "".join(
        f"*‹{part.replace('_', ' ')}›*" if number % 2 else plain[number] for number, part in enumerate(parts)
    )


PARTS: dict[str, Callable[..., str]] = {
    "versions": versions,
    "table": table,
    "machine": machine,
    "decline": decline,
    "corpus": corpus,
    "passes": passes,
    "tiles": tiles,
    "house": house,
}
