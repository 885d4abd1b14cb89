"""What README and docs show is true: their code runs, their commands work, their links lead somewhere."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tawa.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_parses(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: page.name)
def test_every_relative_link_outside_the_site_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_kernel_of_the_readme_is_specialised(tmp_path: Path) -> None:
    (example,) = [block for block in blocks(ROOT / "README.md", "python") if "@tawa.jit" in block]
    kernel = example[: example.index("a, b = ")].replace("import torch, triton,", "import triton,")
    file = tmp_path / "readme.py"
    file.write_text(kernel)
    sig = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, K=i32:16"
    arguments = ["compile", f"{file}:gemm", "--sig", sig, "--const", "BM=128,BN=256,BK=64", "--num-warps", "8"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "gemm: specialised" in result.stdout


def commands(page: Path) -> list[list[str]]:
    """The complete `tawa` commands of a page; those with an ellipsis are not."""
    text = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("tawa ")]
    return [shlex.split(line) for line in lines if "…" not in line and "|" not in line]


@pytest.mark.parametrize("page", ["README.md", "docs/command-line.md"])
def test_the_commands_of_a_page_work_as_written(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = [command for command in commands(ROOT / page) if command[1] == "explain"]
    assert found
    for command in found:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, result.output
        headline = result.stdout[: result.stdout.index("┌")].split()
        assert "specialised" in " ".join(headline)
        assert " ".join(headline) in " ".join((ROOT / page).read_text().split())


def test_the_example_pass_of_the_docs_passes_its_own_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("example_pass")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "example_pass", module)
    namespace = vars(module)
    for block in blocks(ROOT / "docs" / "adding-a-pass.md", "python"):
        exec(block, namespace)
    tests = [value for name, value in list(namespace.items()) if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_every_setting_has_its_row_in_the_docs() -> None:
    from tawa.plan import PlanOptions
    from tawa.runtime.settings import Settings

    page = (ROOT / "docs" / "runtime.md").read_text()
    for name in (*Settings.from_environment({}).as_variables(), *PlanOptions.names()):
        assert f"`{name}`" in page


def test_the_tuned_example_is_specialised() -> None:
    sig = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[256,64]>, c=tensordesc<fp16[128,256]>, M=i32, N=i32, K=i32:16"
    target = f"{ROOT / 'examples' / 'autotune.py'}:gemm_nt"
    arguments = ["compile", target, "--sig", sig, "--const", "BM=128,BN=256,BK=64", "--num-warps", "8"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "gemm_nt: specialised" in result.stdout
