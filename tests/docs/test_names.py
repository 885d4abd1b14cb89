"""Files, modules, names and variables that the text of a page mentions exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.figures import PART
from tests.docs.checking import module_fault, pip_fault, script_fault, tawa_commands
from tests.docs.pages import PAGES, ROOT

FOLDERS = ("", "src/tawa", "src/tawa/transforms", "docs", "bench", "bench/results", "tests", "tests/matrix")
NOT_OURS = {
    "FILE.json",
    "KERNEL.mapping.toml",
    "__init__.py",
    "mygemm.py",
    "tuned.json",
    "script.py",
    "train.py",
    "FILE.py",
    "kernel.py",
    "forward.py",
    "report.jsonl",
}  # the reader's, or in examples
TORCH = ("tawa.ops",)  # imported only where PyTorch is


def words(page: Path) -> Iterator[str]:
    """What stands in backticks in the text of a page, outside of its blocks and generated parts."""
    text = re.sub(r"^<!--.*?-->$|^```.*?^```$", "", PART.sub("", page.read_text()), flags=re.M | re.S)
    yield from (found.strip() for found in re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    found = {
        file
        for word in words(page)
        for file in re.findall(r"(?<![\w/<.…*-])[\w/.-]+\.(?:py|json|toml|yml|md)(?![\w:])", word)
    }
    # A new pass or a table of results of one's own is named on pages that say how to make one.
    exercise = {"src/tawa/transforms/share_constants.py", "tests/transforms/test_share_constants.py"}
    made = {"src/tawa/transforms/evict_first.py", "schedules.json", *exercise}
    missing = {it for it in found - NOT_OURS - made if not any((ROOT / folder / it).exists() for folder in FOLDERS)}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_tawa_that_a_page_mentions_exist(page: Path) -> None:
    found = {name for word in words(page) for name in re.findall(r"(?<![\w./])tawa(?:\.[A-Za-z_]\w*)+", word)}
    missing = {name for name in found if not _exists(name)}
    assert not missing


def _exists(name: str) -> bool:
    module, _, last = name.rpartition(".")
    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except ImportError:  # what is in front of the last dot is no package
        pass
    if name.startswith(TORCH):
        name, _, last = name.partition(".ops.")
        source = ROOT / "src" / "tawa" / "ops" / "__init__.py"
        return not last or f'"{last}"' in source.read_text()
    try:
        return hasattr(importlib.import_module(module), last)
    except ImportError:
        return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_have_the_options_that_they_name(page: Path) -> None:
    scripts = [word.split() for word in words(page) if re.match(r"python examples/", word)]
    assert not [fault for _, script, *rest in scripts if (fault := script_fault(ROOT / script, rest))]
    installs = [shlex.split(word) for word in words(page) if word.startswith("pip install ")]
    assert not [fault for _, *rest in installs if (fault := pip_fault(rest))]
    modules = [word.split()[2:] for word in words(page) if word.startswith("python -m ")]
    assert not [fault for name, *rest in modules if (fault := module_fault(name, rest))]
    commands = [word.split()[1] for word in words(page) if re.match(r"tawa [a-z]+", word)]
    assert set(commands) <= set(tawa_commands())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_that_a_page_mentions_exist(page: Path) -> None:
    from tawa.runtime.settings import Settings

    found = {name for word in words(page) for name in re.findall(r"\bTAWA_\w+", word)}
    assert found <= set(Settings.from_environment({}).as_variables())
