"""The commands of the pages are left out only for a change that is known and does not concern them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.changed import changed_files, concerns_pages


def git(root: Path, *arguments: str) -> None:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *arguments]
    subprocess.run(named, cwd=root, check=True, capture_output=True)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a commit on `main`, and a branch at the same commit."""
    for name in ("docs/a.md", "src/tawa/ir/a.py"):
        write(tmp_path, name, "old\n")
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "switch", "-c", "branch")
    return tmp_path


def commit(root: Path, name: str) -> None:
    write(root, name, "new\n")
    git(root, "add", "-A")
    git(root, "commit", "-m", name)


def test_a_change_elsewhere_does_not_concern_the_pages(checkout: Path) -> None:
    commit(checkout, "src/tawa/ir/a.py")
    write(checkout, "src/tawa/ir/b.py", "new\n")
    assert changed_files(checkout) == ["src/tawa/ir/a.py", "src/tawa/ir/b.py"]
    assert not concerns_pages(checkout)


@pytest.mark.parametrize("name", ["docs/a.md", "src/tawa/cli/b.py", "README.md"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_change_of_a_page_or_of_a_command_concerns_them(checkout: Path, name: str, committed: bool) -> None:
    commit(checkout, "src/tawa/ir/a.py")
    commit(checkout, name) if committed else write(checkout, name, "new\n")
    assert concerns_pages(checkout)


def test_a_page_that_is_moved_away_concerns_them(checkout: Path) -> None:
    git(checkout, "mv", "docs/a.md", "a.md")
    git(checkout, "commit", "-m", "moved")
    assert concerns_pages(checkout)


def test_what_main_has_since_is_no_part_of_the_change(checkout: Path) -> None:
    git(checkout, "switch", "main")
    commit(checkout, "docs/b.md")
    git(checkout, "switch", "branch")
    commit(checkout, "src/tawa/ir/a.py")
    assert not concerns_pages(checkout)


def test_on_main_and_without_history_every_change_concerns_them(checkout: Path, tmp_path: Path) -> None:
    assert concerns_pages(checkout)  # the branch has no commit of its own
    commit(checkout, "src/tawa/ir/a.py")
    git(checkout, "branch", "-D", "main")
    assert concerns_pages(checkout)  # a clone of one branch
    git(checkout, "branch", "-m", "main")
    assert concerns_pages(checkout)
    (checkout / ".git").rename(tmp_path / "gone")
    assert concerns_pages(checkout)  # an unpacked sdist
