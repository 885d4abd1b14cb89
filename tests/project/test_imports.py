"""The promises about imports: `import tawa` is light, and the arrows between packages go one way."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules_loaded_by(statement: str) -> set[str]:
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("heavy", ["triton", "torch", "numpy", "typer", "rich"])
def test_importing_tawa_loads_nothing_heavy(heavy: str) -> None:
    assert heavy not in modules_loaded_by("import tawa")


@pytest.mark.parametrize("heavy", ["triton", "torch", "numpy"])
def test_the_command_line_starts_without_triton(heavy: str) -> None:
    assert heavy not in modules_loaded_by("import tawa.cli.main")


def test_every_public_name_of_tawa_can_be_imported() -> None:
    import tawa

    for name in tawa.__all__:
        assert getattr(tawa, name) is not None
    assert set(tawa.__all__) <= set(dir(tawa))


def test_an_unknown_name_of_tawa_is_an_attribute_error() -> None:
    import tawa

    with pytest.raises(AttributeError, match="explane"):
        _ = tawa.explane  # type: ignore[attr-defined]


def test_import_tawa_takes_less_than_a_tenth_of_a_second() -> None:
    program = "import time; t = time.process_time(); import tawa; print(time.process_time() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(runs) < 0.1


def test_every_package_of_the_design_is_under_the_import_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text()
    for package in sorted((ROOT / "src/tawa").glob("*/__init__.py")):
        assert f"tawa.{package.parent.name}" in contract


def test_imports_go_one_way_only() -> None:
    from importlinter.cli import lint_imports

    own = logging.getLogger("tawa")
    try:
        assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0
    finally:
        own.disabled = False  # it configures logging, and disables the loggers of everybody else
