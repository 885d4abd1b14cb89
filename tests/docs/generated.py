"""What the pages take from the sources: written between two comments, so that it is also read on GitHub.

    <!-- generated: decline warps -->
    …
    <!-- end -->

`python -m tests.docs.update` writes these parts anew, and a test compares them. Parts from result files are those of
`bench.figures`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from typing import Any

import tawa
from bench import figures
from tawa import errors
from tawa.mapping import sections
from tawa.mapping.words import FIELD, KIND
from tawa.plan import Plan, PlanOptions
from tawa.plan.decision import OneOf, Split, Whole
from tawa.plan.fields import LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.runtime.settings import Settings
from tests.docs.checking import tawa_commands
from tests.docs.house import drawing
from tests.docs.pages import ROOT
from tests.docs.versions import versions

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
            lines += ['<details markdown="1">', "<summary>Before and after, and what it requires</summary>", ""]
            lines += [*_as_list(rest).splitlines(), "", "</details>", ""]
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
        rows = ["| mask | D up to | queries | dK, dV and sums of dQ | options |", "|---" * 5 + "|"]
        masks = [*HOPPER.gradients.items(), *((f"{kind}, same bits", boxes) for kind, boxes in HOPPER.in_steps.items())]
        for kind, boxes in masks:
            for box, found in boxes.items():
                rows += [f"| {kind} | {box} | {it.least or ''} | {_size(it)} | {_options(it)} |" for it in found]
        rows += ["", "| D up to | dK, dV alone | with a window or a softcap | dQ alone |", "|---" * 4 + "|"]
        for box in HOPPER.dkdv:
            kinds = (HOPPER.dkdv, {**HOPPER.dkdv, **HOPPER.narrow}, HOPPER.dq)
            rows.append(f"| {box} | {' | '.join(_size(it[box]) for it in kinds)} |")
    return "\n".join(rows)


def _size(tile: Any) -> str:
    return f"{tile.BM} × {tile.BN}, {tile.num_warps} warps"


def _options(tile: Any) -> str:
    return "<br>".join([f"`{name}={value}`" for name, value in tile.options] + ["V as rows"] * tile.transposes_v)


def _tile(tile: Any) -> str:
    kernel = "persistent" if tile.persistent else "two loops"
    return f"{tile.least or ''} | {_size(tile)} | {kernel} | {_options(tile)}"


def house() -> str:
    """The drawing of the rooms of the source."""
    return f"<!-- shown: drawn from the sources -->\n```\n{drawing()}\n```"


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
    return "".join(f"*‹{part.replace('_', ' ')}›*" if number % 2 else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    """The text, without what Markdown would read as a sign."""
    return re.sub(r"([*_\[`])", r"\\\1", text).replace("<", "&lt;")


def benches() -> str:
    """The benches, each with what its docstring says first."""
    rows: dict[str, str] = {}
    for file in sorted((ROOT / "bench").rglob("*.py")):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        first = " ".join(text.partition("\n\n")[0].split())
        found = re.search(r"(.+?)[:.] ``python -m (bench[\w.]*)", first)
        own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if found and own.startswith(found[2]) and not own.endswith("worker"):
            gpu = "; no GPU" if re.search(r"no GPU|without a GPU", text) else ""
            rows[found[2]] = found[1].replace("``", "`") + gpu
    return "\n".join(["| command | |", "|---|---|", *(f"| `python -m {name}` | {it} |" for name, it in rows.items())])


_NAMING = ("--sig", "--const", "--num-warps", "--num-stages", "--option", "--plan", "--mapping", "--arch", "--json")
"""Options of all commands that name a kernel."""


def options(command: str) -> str:
    """The options of a command and what its help says of them, or those that name a kernel (`naming`)."""
    parameters = tawa_commands()["explain" if command == "naming" else command].params
    lines = ["| option | |", "|---|---|"]
    for it in parameters:
        name = " ".join(filter(None, [", ".join((*it.opts, *it.secondary_opts)), getattr(it, "metavar", None) or ""]))
        if it.opts[0].startswith("-") and (it.opts[0] in _NAMING) == (command == "naming"):
            said = _plain(it.help or "").rstrip(".")
            lines.append(f"| `{name}` | {said} |".replace("NAME|HASH", r"NAME\|HASH"))
    return "\n".join(lines)


def fields(name: str) -> str:
    """The fields of a class of `tawa` and what its docstring says of them; variables, for the settings."""
    text = inspect.cleandoc(str({"PlanOptions": PlanOptions, "Settings": Settings}[name].__doc__))
    lines = ["| option | |" if name == "PlanOptions" else "| variable | |", "|---|---|"]
    for entry in re.split(r"\n(?=[a-z_, ]+: )", text.partition("\n\n")[2]):
        names, _, said = " ".join(entry.split()).partition(": ")
        shown = [it if name == "PlanOptions" else f"TAWA_{it.upper()}" for it in names.split(", ")]
        lines.append(f"| {', '.join(f'`{it}`' for it in shown)} | {said.replace('``', '`').rstrip('.')} |")
    return "\n".join(lines)


_SECTIONS: dict[str, tuple[type, type]] = {
    "kernel": (sections.KernelWords, Plan), "groups": (sections.GroupWords, Plan),
    "operands.NAME": (sections.OperandWords, OperandPlan), "stores.NAME": (sections.StoreWords, StorePlan),
    "loops.NAME": (sections.LoopWords, LoopPlan), "rings.NAME": (sections.RingWords, RingPlan),
    "partitions.NAME": (sections.PartitionWords, PartitionPlan),
}  # fmt: skip


def words() -> str:
    """The words of mappings: their values, and what the docstring of the section or of the Plan says of them."""
    lines = ["| word | values | meaning |", "|---|---|---|"]
    for name, (section, owner) in _SECTIONS.items():
        lines.append(f"| **`[{name}]`** | | |")
        for it in dataclasses.fields(section):
            field = it.metadata[FIELD].rpartition(".")[2]
            said = _entries(section).get(it.name) or _entries(owner).get(field) or f"`{field}` of the Plan"
            lines.append(f"| `{it.name}` | {_values(it.metadata[KIND])} | {said} |")
    return "\n".join(lines)


def _values(kind: Any) -> str:
    match kind:
        case OneOf() | Split():
            return ", ".join(f'`"{it}"`' for it in kind.words)
        case Whole():
            return f"a number, at least {kind.least}"
        case _:
            return str(type(kind).__doc__).partition("\n")[0].rstrip(".").lower()


def _entries(kind: type) -> dict[str, str]:
    """The first sentence that a docstring has of each field."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2]
    found = re.findall(r"(?:^|(?<=[.;] ))([a-z_]+(?:, [a-z_]+)*): (.+?)(?=\.(?:\s|$)|$)", " ".join(text.split()))
    return {name: said for names, said in found for name in names.split(", ")}


def raised() -> str:
    """The errors that `tawa` exports, each with the first sentence of its docstring."""
    found = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, errors.TawaError)]
    lines = ["| error | when |", "|---|---|"]
    for it in found[1:]:
        if it.__name__ in tawa.__all__:
            lines.append(f"| `{it.__name__}` | {str(it.__doc__).partition(chr(10))[0].rstrip('.')} |")
    return "\n".join(lines)


PARTS: figures.Parts = {
    "versions": versions, "decline": decline, "passes": passes, "tiles": tiles, "house": house, "benches": benches,
    "options": options, "fields": fields, "errors": raised, "words": words,
}  # fmt: skip


def written(text: str) -> str:
    """The page with its figures and all of its generated parts; raises `Missing` for what cannot be made."""
    return figures.with_parts(figures.filled(text), PARTS)


def unknown(text: str) -> list[str]:
    """The names of generated parts that nothing makes, or that have no end."""
    marks = re.findall(r"^ *<!-- generated: ([\w-]+)", text, re.M)
    made = [it["name"] for it in figures.PART.finditer(text) if it["name"] in {*PARTS, *figures.PARTS}]
    return sorted(set(marks) - set(made)) or ["a part without its end"] * (len(marks) != len(made))
