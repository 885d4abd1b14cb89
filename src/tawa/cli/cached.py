"""``tawa verify --cached``: the verdicts on kernels in Triton's cache.

verdict  hash          made by  Triton  warps  …  why
checked  8cd3d7709934  Gluon    3.6.0   12        barriers: every interleaving for K in 0, 64, …, 576 (10 runs)
refuted  51f0c2a67e0b  Gluon    3.6.0   12        write before release: …
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tawa.cli.failures import CHECKING, STATUS_CHECKED, STATUS_REFUTED, UsageError, split_message
from tawa.cli.verdicts import print_verdict, save_trace, status_of
from tawa.errors import did_you_mean
from tawa.runtime.explain.table import plural
from tawa.runtime.progress import progress

if TYPE_CHECKING:
    from tawa.bridge.triton.artifacts.stored_kernels import StoredKernel
    from tawa.verify.verdict import Accept, Verdict

_WIDE = 110
"""The columns of a terminal from which on the reasons are a part of the table; else they are lines below it."""


def verify_cached(
    wanted: str, assume: Sequence[str], trips: int | None, trace: Path | None, as_json: bool, accept: Accept
) -> int:
    """Checks the kernels of that name or hash and prints the verdicts; returns the exit status of the worst.

    Raises UsageError if no kernel matches, or if several match and a trace was asked for.
    """
    from tawa.runtime.stored import check_stored

    found = _found(wanted)
    if trace is not None and len(found) > 1:
        raise UsageError(f"--trace shows one run, and {len(found)} kernels match {wanted!r}", "give the hash of one")
    checked: list[tuple[StoredKernel, Verdict]] = []
    with progress(f"checking {plural(len(found), 'kernel')}", len(found)) as tell:
        for number, kernel in enumerate(found):
            tell(number, None, f"{kernel.name} {kernel.short_hash}")
            checked.append((kernel, check_stored(kernel, assume=assume, trips=trips)))
    if len(checked) == 1:
        save_trace(trace, checked[0][1])
    if as_json:
        typer.echo(json.dumps({"cached": wanted, "kernels": [_facts(*it) for it in checked]}, indent=2))
    elif len(checked) == 1:
        kernel, verdict = checked[0]
        print_verdict(verdict, how=_about(kernel))
    else:
        _print_table(checked)
    statuses = {status_of(verdict, accept) for _, verdict in checked}
    return next(it for it in (STATUS_REFUTED, CHECKING.failed, STATUS_CHECKED, 0) if it in statuses)


def _found(wanted: str) -> list[StoredKernel]:
    from tawa.bridge.triton.artifacts.stored_kernels import cache_folder, find_stored, stored_kernels

    folder = cache_folder()
    found = find_stored(wanted, folder)
    if found:
        return found
    names = sorted({it.name for it in stored_kernels(folder)})
    if not names:
        raise UsageError(f"no kernels in Triton's cache, {folder}", "TRITON_CACHE_DIR names the folder of another one")
    cure = did_you_mean(wanted, names, "TRITON_CACHE_DIR names the folder of another cache")
    raise UsageError(f"no kernel of the name or hash {wanted!r} in Triton's cache, {folder}", cure)


def _about(kernel: StoredKernel) -> str:
    """One line about a kernel: ``gemm 8cd3d7709934, written in Gluon, compiled by Triton 3.6.0, 12 warps, …``."""
    makers = {
        "Tawa": ["specialised by Tawa"],
        "Triton": ["not specialised by Tawa"],
        "Gluon": ["written in Gluon"],
        "unknown": [],
    }
    parts = [f"{kernel.name} {kernel.short_hash}", *makers[kernel.maker]]
    if kernel.triton_version:
        parts.append(f"compiled by Triton {kernel.triton_version}")
    if "num_warps" in kernel.metadata:
        parts.append(f"{kernel.metadata['num_warps']} warps")
    if "shared" in kernel.metadata:
        parts.append(f"{kernel.metadata['shared']} bytes of shared memory")
    return f"{', '.join(parts)}; {_when(kernel)}"


def _when(kernel: StoredKernel) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(kernel.changed))


def _facts(kernel: StoredKernel, verdict: Verdict) -> dict[str, Any]:
    from tawa.verify.witness import verdict_to_dict

    return {
        "program": kernel.name,
        "hash": kernel.hash,
        "folder": str(kernel.entry),
        "made_by": kernel.maker,
        "triton": kernel.triton_version or None,
        "target": kernel.target if kernel.metadata else None,
        "num_warps": kernel.metadata.get("num_warps"),
        "shared_bytes": kernel.metadata.get("shared"),
        "changed": kernel.changed,
        **verdict_to_dict(verdict),
    }


def _print_table(checked: Sequence[tuple[StoredKernel, Verdict]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {
        0: "bold green",
        STATUS_CHECKED: "bold cyan",
        STATUS_REFUTED: "bold red",
        CHECKING.failed: "bold yellow",
    }
    named = len({kernel.name for kernel, _ in checked}) > 1  # a part of a hash may be that of several kernels
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("verdict", *(["kernel"] if named else []), "hash", "made by", "Triton", "warps", "smem", "compiled"):
        table.add_column(title, no_wrap=True)
    console = Console(highlight=False, markup=False)  # names in a cache may have brackets
    beside = console.width >= _WIDE
    if beside:
        table.add_column("why", overflow="fold")
    for kernel, verdict in checked:
        warps, shared = (str(kernel.metadata.get(name, "?")) for name in ("num_warps", "shared"))
        table.add_row(
            Text(type(verdict).__name__.lower(), style=colours[status_of(verdict)]),
            *([kernel.name] if named else []),
            *(kernel.short_hash, kernel.maker, kernel.triton_version or "?", warps, shared, _when(kernel)),
            *([Text(_why(verdict))] if beside else []),
        )
    console.print(table)
    for kernel, verdict in () if beside else checked:
        console.print(Text(f"{kernel.short_hash}: {_why(verdict)}"))
    bad = next((kernel for kernel, verdict in checked if status_of(verdict) == STATUS_REFUTED), None)
    if bad is not None:
        console.print(f"tawa verify --cached {bad.short_hash} shows the run that goes wrong", style="dim")


def _why(verdict: Verdict) -> str:
    """The verdict in one line: the runs it is about, the fault, or the reason why it is unknown."""
    from tawa.verify.verdict import Unknown
    from tawa.verify.witness import said_by, verdict_to_dict

    said = said_by(verdict_to_dict(verdict))
    return split_message(said)[0] if isinstance(verdict, Unknown) else said
