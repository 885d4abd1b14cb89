"""Links lead somewhere, settings have their rows, the tuned example is specialised. The rest is in `tests/docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tawa.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: page.name)
def test_every_relative_link_outside_the_site_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


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
