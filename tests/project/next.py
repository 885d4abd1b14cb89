"""`make next`: the contract on the newest Triton and the newest PyTorch of the package index, and what changed.

    newest Triton       a copy of the checkout, its upper bound raised    the contract
    newest PyTorch      the same, with the Triton that it requires        the contract, and the tests that need PyTorch

A copy and its environment are under `build/next`. The checkout stays as it is.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tawa.supported import TRITON, TRITON_OF_PYTORCH, parse_version

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "next"
COPIED = (
    "src", "tests", "bench", "examples", "docs", ".ci", "pyproject.toml", "mkdocs.yml", "Makefile", "LICENSE",
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
)  # fmt: skip
NEED_PYTORCH = ("tests/runtime/pytorch", "tests/ops")
WORKERS = "2"


@dataclass(frozen=True, slots=True)
class Newest:
    """What pip would install today. pytorch: empty if only Triton is asked for."""

    triton: str
    pytorch: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"PyTorch {self.pytorch} with Triton {self.triton}" if self.pytorch else f"Triton {self.triton}"

    @property
    def news(self) -> list[str]:
        """What of it `tawa.supported` does not know yet."""
        found: list[str] = []
        if parse_version(self.triton) not in TRITON:
            found.append(f"Triton {self.triton} is outside the supported range, {TRITON}")
        elif parse_version(self.triton) > max(parse_version(it) for it, _ in TRITON.runs):
            found.append(f"Triton {self.triton} is a newer patch than the ones that CI runs")
        if self.pytorch and TRITON_OF_PYTORCH.get(_minor(self.pytorch)) != _minor(self.triton):
            found.append(f"the table of pairs does not have PyTorch {self.pytorch} with Triton {self.triton}")
        return found


def main(wanted: Sequence[str]) -> int:
    """Tries what is wanted, of triton and pytorch; 1 if a test fails."""
    found = [newest(it) for it in wanted or ("triton", "pytorch")]
    failed = [it.name for it in found if not tried(it)]
    print("\n" + (f"failed: {', '.join(failed)}" if failed else "all of it passes"))
    print("docs/versions.md says how to support a new version" if any(it.news for it in found) else "nothing is new")
    return int(bool(failed))


def newest(wanted: str) -> Newest:
    """The newest Triton of the index, or the newest PyTorch with the Triton that pip chooses for it."""
    package = {"triton": "triton", "pytorch": "torch"}[wanted]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
        package,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pip finds no {package}:\n{done.stderr}")
    versions = {it["metadata"]["name"]: it["metadata"]["version"] for it in json.loads(done.stdout)["install"]}
    return Newest(versions["triton"], versions.get("torch", ""))


def tried(it: Newest) -> bool:
    """Installs it, prints what changed, and runs the tests; whether they pass."""
    print(f"\n{it.name}: {'; '.join(it.news) or 'known'}", flush=True)
    folder = OUT / ("pytorch" if it.pytorch else "triton")
    copy(folder, it.triton)
    python = environment(folder, it)
    supported = next((path for path in _supported_pythons() if path.exists()), None)
    if supported is not None:
        print("\n".join(changes(facts(supported), facts(python))) or "nothing changed in what Tawa uses of Triton")
    contract = subprocess.run(
        ["grep", "-rl", r"mark\.contract", "tests", "--include=test_*.py"], cwd=folder, capture_output=True, text=True
    ).stdout.split()
    passed = run_tests(python, folder, ["-m", "contract", *contract])
    return (run_tests(python, folder, list(NEED_PYTORCH)) if it.pytorch else True) and passed


def copy(folder: Path, triton: str) -> None:
    """A copy of the checkout that supports a Triton, as if its bound had been raised."""
    shutil.rmtree(folder / "checkout", ignore_errors=True)
    for name in COPIED:
        source, target = ROOT / name, folder / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".work"))
        else:
            shutil.copy(source, target)
    for name in ("src/tawa/supported.py", "pyproject.toml"):
        path = folder / "checkout" / name
        path.write_text(raised(path.read_text(), triton))


def raised(text: str, triton: str) -> str:
    """The text with the upper bound of Triton at least at this version."""
    major, minor, _ = parse_version(triton)
    if TRITON.last is None or (major, minor) <= TRITON.last:
        return text
    last = ", ".join(map(str, TRITON.last))
    return text.replace(f"last=({last})", f"last=({major}, {minor})").replace(
        TRITON.requirement, f"triton>={'.'.join(map(str, TRITON.first))},<{major}.{minor + 1}"
    )


def environment(folder: Path, it: Newest) -> Path:
    """The interpreter of an environment that has it, the copy, and what the tests need."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    packages = [f"triton=={it.triton}", *([f"torch=={it.pytorch}"] if it.pytorch else [])]
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e"]
    subprocess.run([*command, f"{folder / 'checkout'}[test]", *packages], check=True)
    return python


def _supported_pythons() -> list[Path]:
    """Environments of the newest supported Triton: the Makefile's, and that of this process."""
    minor = ".".join(map(str, TRITON.last or TRITON.first))
    return [ROOT / f".venv-{minor}" / "bin" / "python", Path(sys.executable)]


def facts(python: Path) -> Mapping[str, list[str]]:
    """What `triton_facts` finds in an environment."""
    script = Path(__file__).with_name("triton_facts.py")
    done = subprocess.run([str(python), str(script)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def changes(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[str]:
    """The lines that differ, below their subject."""
    lines: list[str] = []
    for subject in after:
        differ = list(difflib.unified_diff(before.get(subject, []), after[subject], n=0, lineterm=""))[2:]
        if differ:
            lines += [f"changed: {subject}", *(f"  {line}" for line in differ if not line.startswith("@@"))]
    return lines


def run_tests(python: Path, folder: Path, arguments: Sequence[str]) -> bool:
    """Runs tests of the copy and prints the failed ones; whether all pass."""
    command = [
        str(python),
        "-m",
        "pytest",
        "-n",
        WORKERS,
        "--dist",
        "worksteal",
        "--no-header",
        "-rfE",
        "--tb=line",
        *arguments,
    ]
    done = subprocess.run(command, cwd=folder / "checkout", capture_output=True, text=True)
    shown = [line for line in done.stdout.splitlines() if re.match(r"(FAILED|ERROR) ", line)]
    log = folder / f"{'contract' if '-m' in arguments else 'pytorch'}.log"
    log.write_text(done.stdout + done.stderr)
    summary = done.stdout.strip().splitlines()[-1:] or ["nothing ran"]
    print("\n".join([*shown, f"{' '.join(arguments[:2])}: {summary[0]} ({log.relative_to(ROOT)})"]), flush=True)
    return done.returncode == 0


def _minor(version: str) -> str:
    return ".".join(map(str, parse_version(version)[:2]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
