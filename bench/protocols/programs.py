"""The programs of the text files beside this one.

# --- nofence: faulty              a name, and whether it is right; "right below 2^25 accesses" has a bound
# no fence between …               why
# --sig …   --const D=3   --assume …        as for ``tawa verify``, where they are not the usual ones
@gluon.jit                         what follows ``prelude.txt``, whose functions it may define anew
def consumer(…): …
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
PRELUDE = FOLDER / "prelude.txt"
SIGNATURE = "a=tensordesc<fp16[64,64]>, o=*fp32, p=*i32, n=i32"
DEPTH = 2
_HEAD = re.compile(r"^# --- (?P<name>\w+): (?P<truth>faulty|right)(?: below (?P<bound>\S+) accesses)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """One protocol. topic: the name of its file. bound: accesses below which a program is right; its verdict names it.

    why: what is wrong, or what is special. text: the whole module; its kernel is named ``kernel``.
    """

    topic: str
    name: str
    right: bool
    bound: str
    why: str
    text: str
    signature: str = SIGNATURE
    depth: int = DEPTH
    assume: tuple[str, ...] = ()


def programs(topic: str = "") -> list[Program]:
    """All programs, or those of one file."""
    paths = [FOLDER / f"{topic}.txt"] if topic else sorted(set(FOLDER.glob("*.txt")) - {PRELUDE})
    prelude = PRELUDE.read_text()
    return [it for path in paths for it in _read(path.stem, path.read_text(), prelude)]


def topics() -> list[str]:
    """The names of the files."""
    return sorted(path.stem for path in FOLDER.glob("*.txt") if path != PRELUDE)


def _read(topic: str, text: str, prelude: str) -> list[Program]:
    found: list[Program] = []
    heads = list(_HEAD.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        lines = text[head.end() : following.start() if following is not None else len(text)].strip("\n").split("\n")
        count = next((number for number, line in enumerate(lines) if not line.startswith("# ")), len(lines))
        comments, body = [line[2:] for line in lines[:count]], "\n".join(lines[count:])
        parts = (it.partition(" ") for it in comments if it.startswith("--"))
        options = [(name, value) for name, _, value in parts]
        given = dict(options)
        found.append(
            Program(
                topic,
                head["name"],
                head["truth"] == "right",
                head["bound"] or "",
                why=" ".join(it for it in comments if not it.startswith("--")),
                text=f"{prelude}\n\n{body}\n",
                signature=given.get("--sig", SIGNATURE),
                depth=int(given.get("--const", f"D={DEPTH}").removeprefix("D=")),
                assume=tuple(value for name, value in options if name == "--assume"),
            )
        )
    return found


__all__ = ["Program", "programs", "topics"]
