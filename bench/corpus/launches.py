"""Launches of an entry's kernels, recorded for the model of time: what rebuilds its predictions without a GPU.

They are kept in a folder that is not committed, since the TTIR of a kernel is another project's code;
`bench.model.foreign` makes of them what is committed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness import ROOT

KEPT = Path(os.environ.get("TAWA_BENCH_LAUNCHES", ROOT / "bench" / ".work" / "launches"))
"""Where launches and TTIR are kept."""
Recorded = tuple[Any, tuple[int, int, int], list[int | None]]
"""A compiled kernel, the grid, and the integers among the arguments of the kernel's function (None: no integer)."""


@contextmanager
def recorded_launches() -> Iterator[list[Recorded]]:
    """Records each launch meanwhile."""
    from triton.compiler import compiler

    from tawa.bridge.launch.argument_paths import argument_paths, values_at

    found: list[Recorded] = []
    kernels: Any = compiler.CompiledKernel
    usual = kernels.run

    def run(self: Any) -> Any:
        launcher = usual.fget(self)
        paths = argument_paths(tuple(self.src.signature.values()))

        def record(x: int, y: int, z: int, *rest: Any) -> Any:
            args = rest[6:]  # behind stream, function, metadata, launch metadata and two hooks
            values = values_at(paths, [_number(it) for it in args])
            found.append(
                (self, (x, y, z), [value if path else None for value, path in zip(values, paths, strict=True)])
            )
            return launcher(x, y, z, *rest)

        return record

    kernels.run = property(run)
    try:
        yield found
    finally:
        kernels.run = usual


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_number(it) for it in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return int(value) if isinstance(value, int) else None


def keep_launches(case: str, launches: Sequence[Recorded], names: Mapping[str, str]) -> Path:
    """Keeps the launches of an entry's kernels, and their TTIR. names: the kernels, by the name of the compiled one.

    Launches that differ in their arguments are told apart; `times` counts the others.
    """
    from tawa.bridge.launch.stock_facts import facts_of

    kernels: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in names.values()}
    for kernel, grid, values in launches:
        if kernel.metadata.name not in names:
            continue
        facts = facts_of(kernel)
        entry = {"ttir": _kept(kernel.asm["ttir"]), "num_warps": kernel.metadata.num_warps,
                 "num_stages": kernel.metadata.num_stages, "facts": asdict(facts) if facts is not None else None,
                 "grid": list(grid), "values": values, "times": 1}  # fmt: skip
        told = kernels[names[kernel.metadata.name]]
        same = next((it for it in told if all(it[key] == entry[key] for key in entry if key != "times")), None)
        if same is None:
            told.append(entry)
        else:
            same["times"] += 1
    path = KEPT / f"{hashlib.sha256(case.encode()).hexdigest()[:16]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"case": case, "kernels": kernels}))
    return path


def _kept(ttir: str) -> str:
    key = hashlib.sha256(ttir.encode()).hexdigest()[:16]
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{key}.ttir").write_text(ttir)
    return key
