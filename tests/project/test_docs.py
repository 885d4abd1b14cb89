"""Links lead somewhere, settings have their rows, the tuned example is specialised. The rest is in `tests/docs`."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tawa.cli.main import app
from tawa.errors import ISSUES_URL

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_outside_the_site_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def built(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    """Builds a site of one page, with our settings and the command of `make check`."""
    dry = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in dry.splitlines() if "mkdocs build" in line]
    shutil.copytree(ROOT / "docs" / "hooks", folder / "docs" / "hooks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    settings = (ROOT / "mkdocs.yml").read_text().partition("nav:")[0]
    settings = re.sub(r"^plugins:\n(?: .*\n)+", "plugins: [search]\n", settings, flags=re.M)  # the others take seconds
    (folder / "mkdocs.yml").write_text(settings)
    (folder / "docs" / "index.md").write_text(page)
    command = line.replace(".venv/bin/mkdocs", f"{shlex.quote(sys.executable)} -m mkdocs")
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)


def test_make_check_fails_on_links_that_lead_nowhere(tmp_path: Path) -> None:
    links = ["missing.md", "../missing.py", "#missing", "index.md#absent", "../docs/missing.md"]
    done = built(tmp_path, "# Home\n\n" + "".join(f"See [this]({link}).\n" for link in links))
    assert done.returncode == 1 and "Aborted with 5 warnings in strict mode" in done.stdout, done.stderr


def test_links_out_of_docs_lead_to_the_repository_on_the_site(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    done = built(tmp_path, "# Home\n\n[a](../pyproject.toml#L1), [b\nc](../src), [d](index.md#home)\n")
    assert done.returncode == 0, done.stdout + done.stderr
    links = re.findall(r'<a href="([^"]*)">[a-d]', (tmp_path / "build" / "docs" / "index.html").read_text())
    repository = ISSUES_URL.removesuffix("/issues")
    assert links == [f"{repository}/blob/main/pyproject.toml#L1", f"{repository}/tree/main/src", "index.html#home"]


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
