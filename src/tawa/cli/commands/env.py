"""``tawa env``: versions, GPU and settings, for a bug report or a first look."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
from typing import Any

import typer

from tawa.cli.failures import reports_failures
from tawa.cli.inputs.job import JsonFlag

PACKAGES = ("triton", "torch", "numpy", "typer", "rich")


@reports_failures
def env_command(as_json: JsonFlag = False) -> None:
    """Show versions, GPU and settings.

    Example: tawa env --json
    """
    facts = environment()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    _print_table(facts)


def environment() -> dict[str, Any]:
    """Everything that affects what Tawa does on this machine, as JSON data."""
    import tawa
    from tawa.bridge.triton.versions import tested_range, untested_reason
    from tawa.runtime.settings import Settings

    return {
        "tawa": tawa.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "triton_tested": tested_range(),
        "triton_note": untested_reason(),
        "gpus": gpus(),
        "settings": Settings.from_environment().as_variables(),
    }


def gpus() -> list[dict[str, str]]:
    """The GPUs that the driver lists: name, compute capability, memory, driver. Empty without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    fields = ("name", "compute_cap", "memory.total", "driver_version")
    command = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in done.stdout.splitlines() if line.strip()]
    names = ("name", "compute_capability", "memory", "driver")
    return [dict(zip(names, row, strict=False)) for row in rows]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print_table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("tawa", facts["tawa"])
    table.add_row("python", f"{facts['python']}, {facts['platform']}")
    for name, version in facts["packages"].items():
        tested = f"  (tested: {facts['triton_tested']})" if name == "triton" else ""
        table.add_row(name, f"{version}{tested}" if version else "not installed")
    if facts["triton_note"]:
        table.add_row("", f"{facts['triton_note']}: every kernel is left to stock Triton")
    for gpu in facts["gpus"]:
        hopper = "" if gpu["compute_capability"] == "9.0" else "; not Hopper: kernels are left to stock Triton"
        capability = f"compute capability {gpu['compute_capability']}"
        table.add_row("GPU", f"{gpu['name']}, {capability}, {gpu['memory']}, driver {gpu['driver']}{hopper}")
    if not facts["gpus"]:
        table.add_row("GPU", "none: kernels can be compiled and explained, not launched")
    for name, value in facts["settings"].items():
        table.add_row(name, value or "(the planner decides)")
    Console().print(table)
