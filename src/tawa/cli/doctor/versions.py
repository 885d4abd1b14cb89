"""The installed versions, against the table of `tawa.supported`."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path

from tawa.bridge.triton.versions import untested_reason, why_not_importable
from tawa.cli.doctor.finding import Finding, Findings
from tawa.supported import PYTHON, PYTORCH, TRITON, parse_version, pytorch_beside

_KEEPS = (
    "each PyTorch requires one Triton (docs/versions.md); if pip finds none for the installed Triton, leave the Triton "
    "out of the command: PyTorch then brings its own"
)
_OTHERS = ("numpy", "typer", "rich")


def versions() -> Findings:
    """Tawa, Python, Triton, PyTorch, and the packages that are required."""
    import tawa

    folder = Path(tawa.__file__).parent
    yield Finding("Tawa", f"{tawa.__version__}, {folder}", data={"version": tawa.__version__, "path": str(folder)})
    yield _python()
    yield _triton()
    yield _pytorch()
    others = {name: installed(name) for name in _OTHERS}
    missing = [name for name, version in others.items() if version is None]
    text = ", ".join(f"{name} {version or 'not installed'}" for name, version in others.items())
    state, cure = ("red", f"pip install {' '.join(missing)}") if missing else ("green", "")
    yield Finding("packages", text, state, cure, data={"versions": others})


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> Finding:
    version = platform.python_version()
    data = {"version": version, "platform": f"{platform.system()} {platform.machine()}"}
    text = f"{version}, {data['platform']} (supported: {PYTHON})"
    if parse_version(version) not in PYTHON:
        return Finding("Python", text, "red", f"an environment of Python {PYTHON}", data=data)
    if platform.system() != "Linux":
        return Finding("Python", text, "red", "Linux: Triton compiles for NVIDIA's GPUs there alone", data=data)
    return Finding("Python", text, data=data)


def _triton() -> Finding:
    version = installed("triton")
    data = {"version": version, "supported": TRITON.requirement}
    if version is None:
        return Finding("Triton", f"not installed (supported: {TRITON})", "red", TRITON.cure, data=data)
    text, reason = f"{version} (supported: {TRITON})", untested_reason()
    if reason:
        return Finding("Triton", f"{reason}: every kernel is left to stock Triton", "red", _other_triton(), data=data)
    failure = why_not_importable()
    if failure:
        cure = f"pip install --force-reinstall 'triton=={version}'"
        return Finding("Triton", f"{text} cannot be imported: {failure}", "red", cure, data=data)
    return Finding("Triton", text, data=data)


def _pytorch() -> Finding:
    version = installed("torch")
    data = {"version": version, "supported": PYTORCH.requirement}
    if version is None:
        text = "not installed: kernels are compiled, not launched, and tawa.ops is not there"
        return Finding("PyTorch", text, "yellow", pytorch_beside(installed("triton")), _KEEPS, data)
    text = f"{version} (supported: {PYTORCH})"
    if parse_version(version) not in PYTORCH:
        return Finding("PyTorch", text, "red", pytorch_beside(installed("triton")), _KEEPS, data)
    required, here = required_triton(), installed("triton")
    if required and here and parse_version(required)[:2] != parse_version(here)[:2]:
        what = f"{text} requires Triton {required}, and {here} is installed: torch.compile may fail"
        supported = parse_version(required) in TRITON
        return Finding("PyTorch", what, "yellow", _exactly(required) if supported else PYTORCH.cure, data=data)
    return Finding("PyTorch", text, data=data)


def required_triton() -> str:
    """The version of Triton that the installed PyTorch requires; empty if it names none."""
    for text in importlib.metadata.requires("torch") or ():
        found = re.match(r"triton\s*(?:==|~=)\s*([\w.]+)", text)
        if found:
            return found[1]
    return ""


def _exactly(version: str) -> str:
    return f"pip install 'triton=={version}'"


def _other_triton() -> str:
    """The cure for a wrong Triton: PyTorch decides which one, if it is installed."""
    required = required_triton() if installed("torch") else ""
    return _exactly(required) if required and parse_version(required) in TRITON else TRITON.cure
