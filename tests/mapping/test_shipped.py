"""Mappings in files beside a kernel's module."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tawa
from tests.mapping import kernels


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shipping"
    folder.mkdir()
    source = inspect.getsource(kernels.attend.fn)
    (folder / "__init__.py").write_text("")
    (folder / "flash.py").write_text(f"import triton\nimport triton.language as tl\n\n\n{source}")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [it for it in sys.modules if it.startswith("shipping")]:
        del sys.modules[name]


def explained() -> Any:
    kernel = tawa.jit(importlib.import_module("shipping.flash").attend)
    return tawa.explain(kernel, kernels.ATTEND, kernels.BLOCKS, num_warps=8, only_if_faster=False)


def test_a_mapping_is_found_by_the_name_of_the_kernel(package: Path) -> None:
    (package / "attend.mapping.toml").write_text("[groups]\ncount = 1\n")
    (package / "other.mapping.toml").write_text("[groups]\ncount = 2\n")
    assert explained().plan.groups == 1


def test_the_first_whose_signature_fits_is_taken(package: Path) -> None:
    (package / "attend.a.mapping.toml").write_text('[kernel]\nsignature = "q=*fp16"\n[groups]\ncount = 2\n')
    fits = '[kernel]\nname = "attend"\nsignature = "q=tensordesc<fp16[128, 64]>, N=i32"\n[groups]\ncount = 1\n'
    (package / "attend.b.mapping.toml").write_text(fits)
    assert explained().plan.groups == 1


@pytest.mark.parametrize(
    "text", ["[groups", "[groups]\ncount = 3\n", "[operands.kk]\nring = 2\n", "[operands.k]\nring = 50\n"]
)
def test_one_that_does_not_fit_is_left_out_with_a_warning(
    package: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (package / "attend.mapping.toml").write_text(text)
    assert explained().plan.groups == 2
    assert "attend.mapping.toml" in caplog.text


def test_a_mapping_or_a_plan_that_is_asked_for_goes_first(package: Path) -> None:
    (package / "attend.mapping.toml").write_text("[groups]\ncount = 1\n")
    kernel = tawa.jit(importlib.import_module("shipping.flash").attend)
    found = tawa.explain(kernel, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping="[groups]\ncount = 2\n")
    assert found.plan.groups == 2 and found.mode == "pinned"
