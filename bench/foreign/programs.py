"""Where the programs come from: files outside of this repository, and its own kernels with named barriers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import ROOT, Row
from tawa.dialects.inline.code import INLINE
from tawa.ir import parse_module, print_module
from tests.verify.mutations_edits import PROTOCOL

GLUON = ("python/tutorials/gluon", "python/examples/gluon")
"""The folders of Triton's repository with Gluon kernels."""
NAMED, TENSOR_MEMORY = "tests/verify/barriers/named.py", "tests/verify/tensor_memory"
PARTS = PROTOCOL | INLINE
LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class Program:
    """One version of a kernel. file: relative to the path that was given. text: TTGIR in the generic form.

    grid, arguments: of a launch, as `bench.foreign.stand_in` describes them; empty if there was none.
    """

    file: str
    kernel: str
    version: str
    text: str
    grid: tuple[int, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def shape(self) -> tuple[str, ...]:
        """The operations of the protocol, loops and branches in their order: what decides where a fault applies."""
        return tuple(op.name for op in parse_module(self.text).walk() if op.name in PARTS or op.regions)


def files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a path, each with its name relative to it."""
    if path.is_file():
        yield path.name, path
        return
    folders = [path / it for it in GLUON if (path / it).is_dir()] or [path]
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            if file.name not in ("__init__.py", "conftest.py"):
                yield str(file.relative_to(path)), file


def programs_of(name: str, file: Path, architecture: int = 90) -> tuple[list[Program], list[Row]]:
    """The versions of the kernels of a file, and a row for each that does not compile."""
    programs, failed = list[Program](), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "bench.foreign.collect",
            str(file.resolve()),
            folder,
            "--arch",
            str(architecture),
        ]
        made = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, check=False)
        if made.returncode:
            failed.append(Row({"file": name}, "compile", error=made.stderr.strip().splitlines()[-1][:300]))
        for line in made.stdout.splitlines():
            answer = json.loads(line)
            if "text" in answer:
                text = (Path(folder) / answer["text"]).read_text()
                launch = tuple(answer["grid"]), answer["arguments"]
                programs.append(Program(name, answer["kernel"], answer["version"], text, *launch))
            else:
                failed.append(Row({"file": name, "kernel": answer["kernel"]}, "compile", error=answer["error"]))
    return programs, failed


def own_programs(architecture: int = 90) -> Iterator[Program]:
    """The kernels of this repository: for Hopper, those with named barriers; for Blackwell, those in tensor memory."""
    if architecture == 90:
        from tests.verify.barriers.named import handed_on

        for slots in (1, 2, 4):
            yield Program(NAMED, "rows_handed_on", f"D={slots}", print_module(handed_on(slots)))
        return
    from tests.verify.tensor_memory.attention import attention_module
    from tests.verify.tensor_memory.gemm import gemm_module

    products = {**{it: _matrix(256, 256) for it in "abc"}, "tiles": 4, "columns": 2, "steps": 4}
    attention = {**{it: _matrix(128, 64) for it in ("q", "out")}, **{it: _matrix(512, 64) for it in "kv"}}
    attention |= {"scale": 0.1, "blocks": 4}
    for name, module_of, arguments in (
        ("gemm", gemm_module, products), ("attention", attention_module, attention)
    ):  # fmt: skip
        for slots in (2, 3):
            text = print_module(module_of(slots))
            yield Program(f"{TENSOR_MEMORY}/{name}.py", name, f"D={slots}", text, (1, 1, 1), arguments)


def _matrix(rows: int, columns: int) -> dict[str, Any]:
    """A matrix behind a descriptor, as `bench.foreign.stand_in` describes it."""
    return {"shape": [rows, columns], "type": "float16", "descriptor": True}
