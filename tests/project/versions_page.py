"""The tables of docs/versions.md, from `tawa.supported`: ``python -m tests.project.versions_page`` writes them."""

from __future__ import annotations

import re
from pathlib import Path

from tawa.machine.machines import MACHINES
from tawa.supported import DRIVER, GPUS, RANGES, TRITON_OF_PYTORCH

PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n\n).*?\n(\n<!-- end -->)", re.DOTALL)


def ranges() -> list[list[str]]:
    """The ranges, with the reasons for their bounds."""
    rows = [[it.name, str(it), it.why_first, it.why_last] for it in RANGES]
    return [["", "supported", "why not older", "why not newer"], *rows, ["NVIDIA driver", DRIVER[0], DRIVER[1], ""]]


def runs() -> list[list[str]]:
    """What runs on which version."""
    rows = [
        [f"{it.name} {version}" if version != "none" else f"no {it.name}", what]
        for it in RANGES
        for version, what in it.runs
    ]
    return [["", "what runs"], *rows]


def gpus() -> list[list[str]]:
    """What is supported of each GPU."""
    return [["GPU", "supported"], *([str(it), GPUS[it.name]] for it in MACHINES)]


def pairs() -> list[list[str]]:
    """The Triton of each PyTorch."""
    return [["PyTorch", *TRITON_OF_PYTORCH], ["requires Triton", *TRITON_OF_PYTORCH.values()]]


def markdown(rows: list[list[str]]) -> str:
    """A table in Markdown; its first row is the head."""
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


TABLES = {"ranges": ranges, "runs": runs, "gpus": gpus, "pairs": pairs}


def with_tables(text: str) -> str:
    """The text of the page with its tables as `tawa.supported` has them."""
    return TABLE.sub(lambda found: f"{found[1]}{markdown(TABLES[found[2]]())}{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
