"""Completion in the shell: kernels of files, without importing them.

tawa explain ge⇥                gemm.py:gemm   gemm.py:gemm_nt
tawa explain gemm.py:gemm_⇥     gemm.py:gemm_nt

`tawa --install-completion` sets it up. typer completes commands, options and their choices; what is completed here are
kernels, and names of options of a launch.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from tawa.cli.inputs.kernel_file import is_helper

_MOST_FILES = 200
"""Files of a folder that are read for an empty word."""


def complete_kernel(incomplete: str) -> list[str]:
    """``FILE.py:KERNEL`` for every kernel that the word may become, and folders that it may lead through.

    Without a match, the shell completes file names, because TTGIR files are valid arguments as well.
    """
    file, colon, name = incomplete.rpartition(":")
    if colon:
        return [f"{file}:{it}" for it in kernels_in(Path(file).expanduser()) if it.startswith(name)]
    folder, start = os.path.split(incomplete)
    try:
        entries = sorted(Path(folder or ".").expanduser().iterdir())
    except OSError:
        return []
    entries = [it for it in entries if it.name.startswith(start) and (start.startswith(".") or it.name[0] != ".")]
    found: list[str] = []
    for it in entries[:_MOST_FILES]:
        shown = os.path.join(folder, it.name)
        if it.suffix == ".py":
            found += [f"{shown}:{name}" for name in kernels_in(it)]
    return [*found, *(f"{os.path.join(folder, it.name)}/" for it in entries if it.is_dir())] if found else []


def complete_option(incomplete: str) -> list[str]:
    """``NAME=`` for launch options; several are separated by commas."""
    from tawa.plan import PlanOptions

    before, comma, name = incomplete.rpartition(",")
    return [f"{before}{comma}{it}=" for it in PlanOptions.names() if it.startswith(name)]


def complete_arch(incomplete: str) -> list[str]:
    """The machines that are known."""
    from tawa.machine.machines import MACHINES

    return [it.name for it in MACHINES if it.name.startswith(incomplete)]


def kernels_in(file: Path) -> list[str]:
    """The functions of a file under a decorator ``jit``, of Triton, Gluon or Tawa, in the order of the file."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [it for it in tree.body if isinstance(it, ast.FunctionDef) and not is_helper(it)]
    return [it.name for it in functions if any(map(_is_jit, it.decorator_list))]


def _is_jit(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit"


@contextlib.contextmanager
def colons_in_words(variables: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Inside the block, a word of bash may have colons, at which bash divides it.

    bash asks for ``gemm.py``, ``:``, ``ge``, and replaces what is behind the last colon only.
    """
    words, at = variables.get("COMP_WORDS", "").split("\n"), variables.get("COMP_CWORD", "")
    if not variables.get("_TAWA_COMPLETE", "").endswith("bash") or ":" not in words or not at.isdecimal():
        yield
        return
    joined, current = _joined(words, int(at))
    variables["COMP_WORDS"], variables["COMP_CWORD"] = "\n".join(joined), str(current)
    word = joined[current] if current < len(joined) else ""
    replaced = word[: word.rfind(":") + 1]
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            yield
    finally:
        for line in out.getvalue().splitlines():
            sys.stdout.write(f"{line.removeprefix(replaced)}\n")


def _joined(words: list[str], at: int) -> tuple[list[str], int]:
    """The words with what belongs to each colon, and where the word of index `at` is among them."""
    joined: list[str] = []
    current, glued = 0, False
    for index, word in enumerate(words):
        if joined and (word == ":" or glued):
            joined[-1] += word
        else:
            joined.append(word)
        glued = word == ":"
        if index == at:
            current = len(joined) - 1
    return (joined, current) if at < len(words) else ([*joined, ""], len(joined))
