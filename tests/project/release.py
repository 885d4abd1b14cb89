"""`make release`: the sdist and the wheel as a user gets them, built, checked, and installed on every Python.

    build/release      sdist, and the wheel that is built from it    twine check --strict
    build/release/.try one environment for each Python and file      the command line, tawa doctor, tests of the sdist

Nothing is uploaded. docs/versions.md has the list of what belongs to a release.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tawa import __version__
from tawa.supported import PYTHON

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "release"
TESTS = ("tests/ir", "tests/cli/commands/test_compile.py", "tests/bridge/test_contract.py")
"""Of the sdist: the IR, a command, and what the bridge needs of the Triton that pip chose."""
VERSIONS = tuple(version for version, _ in PYTHON.runs)


class Failed(Exception):
    """A step of the release that failed, with what it printed."""


def main() -> int:
    """Builds and tries everything; 1 if something failed."""
    failures = [*unready()]
    for failure in failures:
        print(f"note: {failure}")
    files = build()
    tried = [attempt(version, file) for version in VERSIONS for file in files]
    print(f"\n{__version__}: {sum(tried)} of {len(tried)} installations work; {OUT.relative_to(ROOT)}:")
    print("\n".join(f"  {file.name}" for file in files))
    return int(not all(tried))


def unready(changelog: str | None = None, version: str = __version__) -> Iterator[str]:
    """What has to be done before this version can be uploaded."""
    text = (ROOT / "CHANGELOG.md").read_text() if changelog is None else changelog
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    heads = {section.partition("\n")[0]: section.partition("\n")[2].strip() for section in sections}
    if heads.get("Unreleased"):
        yield f"CHANGELOG.md has entries under Unreleased; move them below a new version (this is {version})"
    if not any(head.startswith(f"{version} - ") for head in heads):
        yield f"CHANGELOG.md has no section {version}"


def build() -> list[Path]:
    """The sdist and the wheel, which is built from the sdist alone; both pass the checks of the package index."""
    shutil.rmtree(OUT, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(OUT), str(ROOT)])
    files = sorted(it for it in OUT.iterdir() if it.is_file())
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    print(f"built and checked: {', '.join(file.name for file in files)}")
    return files


def attempt(version: str, file: Path) -> bool:
    """Installs a file on one Python and tries it, away from the checkout; prints how that went."""
    kind = "wheel" if file.suffix == ".whl" else "sdist"
    try:
        python = find_python(version)
        with tempfile.TemporaryDirectory(prefix="tawa-release-") as folder:
            said = _try(python, file, Path(folder))
    except Failed as failure:
        print(f"Python {version}, {kind}: FAILED\n{failure}")
        return False
    print(f"Python {version}, {kind}: {said}", flush=True)
    return True


def find_python(version: str) -> str:
    """An interpreter of this version: on the path, of pyenv, or of uv. Raises Failed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for candidate in (f"python{version}", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True))):
        if _answers(candidate, version):
            return candidate
    uv = shutil.which("uv")
    found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True) if uv else None
    if found is not None and found.returncode == 0:
        return found.stdout.strip()
    raise Failed(f"there is no Python {version} here; cure: pyenv install {version}, or uv python install {version}")


def _answers(command: str, version: str) -> bool:
    program = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        done = subprocess.run([command, "-c", program], capture_output=True, text=True)
    except OSError:
        return False
    return done.stdout.strip() == version


def _try(python: str, file: Path, folder: Path) -> str:
    """What was seen of an installation in a new environment. Raises Failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TAWA_"))}
    environment |= {"TRITON_CACHE_DIR": str(folder / "triton"), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*command: str, where: Path = folder) -> str:
        return _run(command, where, environment)

    run(python, "-m", "venv", str(folder / "venv"))
    bin = folder / "venv" / "bin"
    run(str(bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{file}[test]")
    where = run(str(bin / "python"), "-c", "import tawa; print(tawa.__file__)").strip()
    if not where.startswith(str(folder)):
        raise Failed(f"tawa is imported from {where}")
    if run(str(bin / "tawa"), "--version").strip() != f"tawa {__version__}":
        raise Failed("tawa --version names another version")
    examined = json.loads(run(str(bin / "tawa"), "doctor", "--json"))
    steps = [it["name"] for it in examined["self-test"] if it["state"] == "green"]
    if not {"compile", "proof", "simulation"} <= set(steps):
        raise Failed(json.dumps(examined, indent=2))
    tests = run(str(bin / "python"), "-m", "pytest", "-o", "pythonpath=.", *TESTS, where=_unpacked(folder)).splitlines()
    triton = next(it["version"] for it in examined["versions"] if it["name"] == "Triton")
    return f"Triton {triton}; doctor: {', '.join(steps)}; tests: {tests[-1].strip(' =')}"


def _unpacked(folder: Path) -> Path:
    """The tests of the sdist, without its sources: what is tested is what is installed."""
    (sdist,) = OUT.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("tawa-*")
    shutil.rmtree(unpacked / "src")
    return unpacked


def _run(command: Sequence[str], where: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """What a command prints; raises Failed with it if its status is not 0."""
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: status {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
