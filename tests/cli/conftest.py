from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tawa.cli.main import app

KERNELS = Path(__file__).parent / "kernels.py"
GEMM = [
    f"{KERNELS}:gemm",
    "--sig",
    "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, K=i32:16",
    "--const",
    "BM=128,BN=128",
]
FILL = [f"{KERNELS}:fill", "--sig", "x=*fp16:16, n=i32", "--const", "BM=64,EVEN=false"]

Tawa = Callable[..., Result]


@pytest.fixture
def tawa(monkeypatch: pytest.MonkeyPatch) -> Tawa:
    """Runs the command in this process; wide enough that no line is folded."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def tawa_json(tawa: Tawa) -> Callable[..., dict[str, Any]]:
    """Runs the command with --json; it must succeed and print nothing but JSON."""

    def run(*arguments: str) -> dict[str, Any]:
        result = tawa(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run
