"""Fetches the packages of the corpus into a folder: wheels by pip, single files by their address."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.corpus.entry import Package


def fetch(packages: Sequence[Package], folder: Path) -> list[str]:
    """Fills `folder`, which is then given by `--packages`. Returns what could not be fetched, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    for package in packages:
        if package.requires:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"]
            done = subprocess.run([*command, str(folder), *package.requires], capture_output=True, text=True)
            if done.returncode:
                failures.append(f"{package.name}: {' '.join(done.stderr.split())[-300:]}")
        for name, address in package.files.items():
            if not (folder / name).exists():
                failures += _download(package.name, address, folder / name)
    return failures


def _download(package: str, address: str, target: Path) -> list[str]:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            target.write_bytes(answer.read())
    except (OSError, urllib.error.URLError) as error:
        return [f"{package}: {address}: {error}"]
    return []
