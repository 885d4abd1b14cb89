"""Fetches the packages of the corpus into a folder: by pip, as archives of repositories, and as single files.

Of large packages only the Python files are unpacked (`Package.sources`, `Package.archives`), and of one that is
imported in part (`Package.partial`) only those that are executed: the folder then fits a machine without a network, and
nothing is built.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from bench.corpus.entry import Archive, Package
from bench.corpus.partial_package import PartialPackage

_PIP = (sys.executable, "-m", "pip")


def fetch(packages: Sequence[Package], folder: Path) -> list[str]:
    """Fills `folder`, which is then given by `--packages`. Returns what could not be fetched, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    for package in packages:
        if package.requires:
            failures += _pip(package.name, "install", "--upgrade", "--target", str(folder), *package.requires)
        for requirement in package.sources:
            with tempfile.TemporaryDirectory() as wheels:
                failures += _pip(package.name, "download", "--only-binary=:all:", "-d", wheels, requirement)
                for wheel in Path(wheels).glob("*.whl"):
                    unpack_wheel(wheel, folder, package.partial)
        for archive in package.archives:
            found = _downloaded(archive.address)
            if isinstance(found, bytes):
                unpack_archive(found, archive, folder, package.partial)
            else:
                failures.append(f"{package.name}: {archive.address}: {found}")
        for name, address in package.files.items():
            if (folder / name).exists():
                continue
            found = _downloaded(address)
            if isinstance(found, bytes):
                _write(folder / name, found)
            else:
                failures.append(f"{package.name}: {address}: {found}")
    return failures


def unpack_wheel(wheel: Path, folder: Path, partial: PartialPackage | None = None) -> None:
    """Unpacks the Python files of a wheel. partial: of which only the modules are wanted that it executes."""
    with zipfile.ZipFile(wheel) as opened:
        for name in _python(opened.namelist()):
            if _executed(PurePosixPath(name), partial):
                _write(folder / name, opened.read(name))


def unpack_archive(content: bytes, archive: Archive, folder: Path, partial: PartialPackage | None = None) -> None:
    """Unpacks the Python files of the wanted folders; their first folder is that of the repository."""
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        members = {it.name: it for it in opened.getmembers() if it.isfile()}
        for name in _python(members):
            path = PurePosixPath(*PurePosixPath(name).parts[1:])
            wanted = [PurePosixPath(archive.under, it) for it in archive.folders]
            stream = opened.extractfile(members[name])
            if stream is None or not any(path.is_relative_to(it) for it in wanted):
                continue
            target = path.relative_to(archive.under)
            if _executed(target, partial):
                _write(folder / target, stream.read())


def _executed(path: PurePosixPath, partial: PartialPackage | None) -> bool:
    """Whether a file is executed, where a package is imported in part."""
    parts = path.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return partial is None or partial.wants(module)


def _python(names: Iterable[str]) -> list[str]:
    """Of the names, those of Python files inside the archive."""
    return [it for it in names if it.endswith(".py") and ".." not in PurePosixPath(it).parts and not it.startswith("/")]


def _pip(package: str, command: str, *arguments: str) -> list[str]:
    done = subprocess.run([*_PIP, command, "--no-deps", *arguments], capture_output=True, text=True)
    return [f"{package}: {' '.join(done.stderr.split())[-300:]}"] if done.returncode else []


def _downloaded(address: str) -> bytes | Exception:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read()
    except (OSError, urllib.error.URLError) as error:
        return error


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
