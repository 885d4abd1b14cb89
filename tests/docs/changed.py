"""Whether a change may concern what the commands of the pages print.

It does if it touches the pages, what they run, or the rooms that print. The change is everything since the branch left
`main`, as Git has it, with what is not committed. Where Git does not say what the change is (on `main` itself, in a
copy without history), it concerns the pages.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.docs.pages import ROOT

_PRINTING = ("cli", "demo", "emit", "mapping", "runtime")
INPUTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/",
    "examples/",
    "src/tawa/declines.py",
    "tests/docs/",
    *(f"src/tawa/{it}/" for it in _PRINTING),
)
_MAINS = ("refs/remotes/origin/main", "refs/heads/main")


def concerns_pages(root: Path = ROOT) -> bool:
    """Whether the commands of the pages have to be run for the change in the checkout `root`."""
    files = changed_files(root)
    return files is None or any(name.startswith(INPUTS) for name in files)


def changed_files(root: Path) -> list[str] | None:
    """The files that differ from those where the branch left `main`; None if that place is not known."""
    head = _git(root, "rev-parse", "HEAD")
    bases = [base for main in _MAINS if (base := _git(root, "merge-base", "HEAD", main))]
    if not head or not bases or head[0] in (base[0] for base in bases):
        return None
    changed = _git(root, "diff", "--name-only", "--no-renames", bases[0][0])
    added = _git(root, "ls-files", "--others", "--exclude-standard")
    return None if changed is None or added is None else [*changed, *added]


def _git(root: Path, *arguments: str) -> list[str] | None:
    """The lines that a command of Git prints; None if it fails, or if `root` is not the top of a checkout."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:  # no Git
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None
