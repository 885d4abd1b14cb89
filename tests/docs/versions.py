"""The tables of versions, from `tawa.supported`."""

from __future__ import annotations

from tawa.machine.machines import MACHINES, SM_90
from tawa.supported import DRIVER, GPUS, PYTHON, RANGES, TRITON, TRITON_OF_PYTORCH, parse_version


def versions(name: str = "short") -> str:
    """One of the tables, in Markdown: its first row is the head."""
    head, *rows = _TABLES[name]()
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def _short() -> list[list[str]]:
    """A row for each Triton: what runs in CI, and what goes with it."""
    rows = [["Triton", "in CI", "PyTorch that requires it", "Python", "GPU"]]
    for version, runs in TRITON.runs:
        minor = ".".join(map(str, parse_version(version)[:2]))
        torch = ", ".join(it for it, triton in TRITON_OF_PYTORCH.items() if triton == minor)
        rows.append([minor, f"{version}: {runs.removeprefix('CI: ')}", torch or "-", str(PYTHON), str(SM_90)])
    return rows


def _ranges() -> list[list[str]]:
    """The ranges, with the reasons for their bounds."""
    rows = [[it.name, str(it), it.why_first, it.why_last] for it in RANGES]
    return [["", "supported", "why not older", "why not newer"], *rows, ["NVIDIA driver", *DRIVER, ""]]


def _runs() -> list[list[str]]:
    """What runs on which version."""
    return [["", "what runs"], *([_named(it.name, version), what] for it in RANGES for version, what in it.runs)]


def _named(name: str, version: str) -> str:
    return f"no {name}" if version == "none" else f"{name} {version}"


def _gpus() -> list[list[str]]:
    """What is supported of each GPU."""
    return [["GPU", "supported"], *([str(it), GPUS[it.name]] for it in MACHINES)]


def _pairs() -> list[list[str]]:
    """The Triton of each PyTorch."""
    return [["PyTorch", *TRITON_OF_PYTORCH], ["requires Triton", *TRITON_OF_PYTORCH.values()]]


_TABLES = {"short": _short, "ranges": _ranges, "runs": _runs, "gpus": _gpus, "pairs": _pairs}
