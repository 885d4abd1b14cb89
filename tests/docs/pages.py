"""The fenced blocks of the pages, each with the tag that says how it is tested.

A tag is an HTML comment on the lines right above a fence, which no renderer shows:

    <!-- run -->                    a test runs it; the `output` block that follows is what it prints. A diff is applied
                                    to a copy of the sources, with which the rest of the page runs
    <!-- output -->                 what the block above prints; numbers that vary are masked, a line `…` skips lines
    <!-- compile -->                not run: kernels are compiled, names resolved, options and files looked up
    <!-- gpu -->                    runs on a Hopper GPU only; elsewhere it is treated like `compile`
    <!-- shown: reason -->          an illustration, in no language that a program could check

Behind the tag's name may stand `key=value` pairs (`KEYS`), and on further lines a frame: the code around the block,
which takes the place of the frame's line `# the block`. An `output` with further lines is what these lines, as a shell
script, print.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

from bench.figures import PART

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRAMES = ROOT / "tests" / "docs" / "frames"
TAGS = ("run", "output", "compile", "gpu", "shown")
KEYS = {
    "file": "the block is written to this file, which later blocks of the page may use; a diff is applied to it",
    "exit": "the exit status of a block that is run, 0 if left out",
    "stream": "of an output: `stderr` if that is what it shows",
    "kernel": "the Triton kernel of the block that is compiled",
    "sig": "its signature, as for `tawa explain --sig`",
    "const": "its constants, as for `tawa explain --const`",
    "warps": "its number of warps, 4 if left out",
    "options": "its launch options, as for `tawa explain --option`",
    "fill": "what fills its rings: `tma`, `cp.async`, `registers`; several with commas between",
    "frame": "the frame is this file of `tests/docs/frames`; keys may stand in its first line",
    "reason": "of a declined kernel: the reason, as `tawa.declines` names it",
    "verdict": "`specialised` if left out, `declined` where automatic mode declines it, `legal` where it may be",
}
HOLE = "# the block"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>[^\n`]*)\n(?P<text>.*?)^\1\2[ ]*$", re.M | re.S)
_TAG = re.compile(r"<!-- (?P<name>[a-z]+)(?:: (?P<rest>[^\n]*?))?(?:\n(?P<frame>.*?))?\s*-->\n\Z", re.M | re.S)


class BadTag(Exception):
    """A block without a tag, or with one that means nothing."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. line: of the fence. begin, end: where its text stands in the page's text."""

    page: Path
    line: int
    language: str
    text: str
    tag: str
    keys: dict[str, str]
    frame: str
    begin: int
    end: int

    @property
    def where(self) -> str:
        """``docs/page.md:12``."""
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name
        return f"{page}:{self.line}"

    @property
    def code(self) -> str:
        """The block inside its frame."""
        if self.tag == "output" or not self.frame:
            return self.frame or self.text
        (hole,) = [line for line in self.frame.splitlines() if line.strip() == HOLE]
        indent = hole[: len(hole) - len(hole.lstrip())]
        return self.frame.replace(hole, textwrap.indent(self.text.rstrip("\n"), indent)) + "\n"


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order; raises BadTag, also on one that can have no tag."""
    text = page.read_text()
    bare = re.sub(r"^ *<!--.*?-->$", _blank, _FENCE.sub(_blank, PART.sub(_blank, text)), flags=re.M | re.S)
    indented = re.search(r"(?<=\n)\n {4,}(?![ *+-])(?!\d+\.)\S", bare)
    before = bare[: indented.start()].rstrip().rpartition("\n")[2] if indented else ""
    if indented and not re.match(r"\s*([*+:-] |\d+\. |\?\?\? )|\s+", before):
        line = bare.count("\n", 0, indented.start()) + 2
        raise BadTag(f"{page.name}:{line}: an indented block can have no tag; put it between fences")
    if other := re.search(r"^\s*(?:>\s*(?:```|~~~)|<pre\b)", bare, flags=re.M | re.I):
        line = bare.count("\n", 0, other.end()) + 1
        raise BadTag(f"{page.name}:{line}: a block in a quotation or in HTML can have no tag; put it between fences")
    return [_block(page, text, match) for match in _FENCE.finditer(text)]


def _blank(match: re.Match[str]) -> str:
    """As many empty lines."""
    return "\n" * match[0].count("\n")


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    line = text.count("\n", 0, match.start()) + 1
    where = f"{page.name}:{line}"
    found = _tag_above(text[: match.start()])
    if found is None:
        raise BadTag(
            f"{where}: a block without a tag; one of <!-- {' -->, <!-- '.join(TAGS)} --> stands right above it"
        )
    name, rest, frame = found
    if name not in TAGS:
        raise BadTag(f"{where}: no such tag: {name}; there are {', '.join(TAGS)}")
    if name == "shown" and not rest:
        raise BadTag(f"{where}: `shown` takes a reason: <!-- shown: reason -->")
    language = match["info"].split()[0] if match["info"].split() else ""
    keys = {} if name == "shown" else _keys(rest, where)
    if "frame" in keys:
        first, _, frame = (FRAMES / f"{keys['frame']}.txt").read_text().partition("\n")
        keys = {**_keys(first.removeprefix("#"), where), **keys}
    if frame and name != "output" and sum(line.strip() == HOLE for line in frame.splitlines()) != 1:
        raise BadTag(f"{where}: the frame has one line `{HOLE}`")
    shown = textwrap.dedent(match["text"]) if match["indent"] else match["text"]
    frame = textwrap.dedent(frame)
    return Block(page, line, language, shown, name, keys, frame, match.start("text"), match.end("text"))


def _tag_above(text: str) -> tuple[str, str, str] | None:
    begin = text.rfind("<!-- ")
    match = _TAG.match(text, begin) if begin >= 0 else None
    return (match["name"], match["rest"] or "", match["frame"] or "") if match else None


def _keys(rest: str, where: str) -> dict[str, str]:
    parts = [part.partition("=") for part in shlex.split(rest)]
    keys = {key: value for key, _, value in parts}
    for key in keys:
        if key not in KEYS:
            raise BadTag(f"{where}: no such key: {key}; there are {', '.join(KEYS)}")
    return keys
