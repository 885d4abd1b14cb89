"""Runs the blocks of a page in a folder of its own, and compares what they print with what the page says."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.edits import apply
from tests.docs.pages import ROOT, Block, blocks_of
from tests.docs.served import client
from tests.support.sample import EVERY_CASE

LINKED = ("bench", "corpus", "docs", "src", "tests", "Makefile", "pyproject.toml")
LIMIT_S = 120
SKIP = "…"

# What differs from run to run or from machine to machine, and what stands for it.
_MASKS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|µs|s)\b"), "TIME"),
    (
        re.compile(r"\b(tawa|triton|Triton|python|Python|torch|PyTorch|numpy|ptxas)( version)? \d+(\.\d+)+\S*"),
        r"\1 VERSION",
    ),
    (re.compile(r"(/[\w.+-]+)+/(?=[\w.+-]+)"), "FOLDER/"),
    (re.compile(r"[┌┬┐└┴┘├┼┤┏┳┓┡╇┩─━]+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


def masked(text: str) -> list[str]:
    """The lines of a text, without what varies; empty lines and spaces at ends do not count."""
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def difference(wanted: str, found: str) -> str:
    """How what was printed differs from what the page says; empty if it does not. A wanted line `…` skips any lines."""
    want, have = masked(wanted), masked(found)
    if _same(want, have):
        return ""
    return "\n".join(difflib.unified_diff(want, have, "the page", "what was printed", lineterm=""))


def _same(want: list[str], have: list[str]) -> bool:
    parts: list[list[str]] = [[]]
    for line in want:
        if line == SKIP:
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return want == have
    first, *middle, last = parts
    if have[: len(first)] != first or (last and have[-len(last) :] != last) or len(have) < len(first) + len(last):
        return False
    at, end = len(first), len(have) - len(last)
    for part in middle:
        at = next((i for i in range(at, end - len(part) + 1) if have[i : i + len(part)] == part), -1)
        if at < 0:
            return False
        at += len(part)
    return True


@dataclass(frozen=True, slots=True)
class Printed:
    """What a block that was run printed."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder that looks like the checkout, for the blocks of one page. What they write stays in it."""

    folder: Path
    cache: Path

    def prepare(self, blocks: Sequence[Block] = ()) -> None:
        """Puts the checkout's files there; as copies the examples, and what blocks write to or edit."""
        edited = {block.keys["file"].partition("/")[0] for block in blocks if "file" in block.keys}
        for name in LINKED:
            if name in edited:
                # With what Python has compiled, but not with what it is writing now.
                ignored = shutil.ignore_patterns("*.pyc.*")
                shutil.copytree(ROOT / name, self.folder / name, ignore=ignored)
            else:
                (self.folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, block: Block) -> Path:
        """Writes a block to the file that its tag names, or applies it to that file where it is a diff."""
        path = self.folder / block.keys.get("file", f"block_{block.line}.py")
        if block.language == "diff":
            apply(block.text, path)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code)
        return path

    def run(self, block: Block) -> Printed:
        """Runs a block: a Python file, shell text, or an edit that `write` applied. A TOML file is only read.

        The frame of an output is shell text, whatever it prints.
        """
        if block.language == "diff":
            return Printed(0, "", "")
        if block.language == "toml":
            tomllib.loads(self.write(block).read_text())
            return Printed(0, "", "")
        if block.language == "python" and block.tag != "output":
            command = [sys.executable, str(self.write(block).relative_to(self.folder))]
        else:
            command = ["bash", "-e", "-c", block.code]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=LIMIT_S
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    def environment(self) -> dict[str, str]:
        """`tawa` and `python` are those of the tested checkout, and nothing of the user's is seen or touched."""
        scripts = self.folder / ".bin"
        if not scripts.exists():
            scripts.mkdir()
            (scripts / "tawa").write_text(self._command())
            (scripts / "tawa").chmod(0o755)
            (scripts / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (scripts / "python").chmod(0o755)
        return {
            **_variables(self.folder),
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "TRITON_CACHE_DIR": str(self.cache),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
        }

    def _command(self) -> str:
        """The program `tawa`: a process of its own in `make nightly`, and where the page changes Tawa."""
        if EVERY_CASE or not (self.folder / "src").is_symlink():
            return f"#!{sys.executable}\nimport sys\nfrom tawa.cli.main import main\nsys.exit(main())\n"
        return client(_variables(ROOT))


def _variables(root: Path) -> dict[str, str]:
    """The variables of this process without the user's settings, and with Tawa as it is in a checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TAWA_", "TRITON_"))}
    found = os.pathsep.join((str(root / "src"), str(ROOT)))
    return {**kept, "PYTHONPATH": found, "COLUMNS": "80", "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class Ran:
    """What was run: a block, or the script behind an output; what it printed; the `output` that says what it should."""

    block: Block
    printed: Printed
    output: Block | None

    @property
    def shown(self) -> str:
        """What the output block has to show."""
        stream = self.output.keys.get("stream", "stdout") if self.output else "stdout"
        return self.printed.stderr if stream == "stderr" else self.printed.stdout

    @property
    def fault(self) -> str:
        """What is wrong; empty if nothing is."""
        wanted = int(self.block.keys.get("exit", "0"))
        if self.printed.status != wanted:
            said = self.printed.stderr or self.printed.stdout
            return f"{self.block.where}: exit status {self.printed.status}, not {wanted}\n{said}"
        found = difference(self.output.text, self.shown) if self.output else ""
        return f"{self.output.where}: not what is printed\n{found}" if self.output and found else ""


def run_page(page: Path, place: Workplace) -> Iterator[Ran]:
    """Runs the `run` blocks of a page in order; files that a block names are there when it is run."""
    blocks = blocks_of(page)
    place.prepare(blocks)
    for number, block in enumerate(blocks):
        if "file" in block.keys and block.tag != "output":
            place.write(block)
        behind = blocks[number + 1] if number + 1 < len(blocks) else None
        if block.tag == "run":
            shown = behind if behind and behind.tag == "output" and not behind.frame else None
            yield Ran(block, place.run(block), shown)
        elif block.tag == "output" and block.frame:
            yield Ran(block, place.run(block), block)
