"""Mappings in files beside a kernel's module."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.compiler import ASTSource

import tawa
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import as_signature
from tawa.machine.machines import SM_90
from tests.mapping import kernels

pytestmark = pytest.mark.usefixtures("without_ptx")


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


def installed() -> Any:
    """What the record of the plain kernel has, compiled by Triton while Tawa is installed."""
    kernel = importlib.import_module("shipping.flash").attend
    signature = as_signature(kernels.ATTEND, kernels.BLOCKS, kernel.arg_names)
    source = ASTSource(kernel, signature.types, signature.constants, signature.attributes)
    tawa.install(only_if_faster=False)
    try:
        return triton.compile(source, gpu_target(SM_90), {"num_warps": 8}).metadata.tawa
    finally:
        tawa.uninstall()


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


def test_installed_tawa_finds_it_for_a_plain_kernel_and_compiles_anew_where_it_changes(package: Path) -> None:
    file = package / "attend.mapping.toml"
    for text, groups in (("[groups]\ncount = 1\n", 1), ("[groups]\ncount = 2\n[operands.k]\nring = 3\n", 2)):
        file.write_text(text)
        made = installed()
        assert made["plan"]["groups"] == groups
        (row,) = [it for it in made["decisions"] if it["field"] == "groups"]
        assert (row["by"], row["reason"]) == ("mapping", "[groups] count (attend.mapping.toml:2)")
    file.unlink()
    assert {it["by"] for it in installed()["decisions"]} <= {"planner", "feedback"}


def test_installed_tawa_leaves_one_out_that_does_not_fit(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    (package / "attend.mapping.toml").write_text("[operands.k]\nring = 50\n")
    assert installed()["applied"] and "attend.mapping.toml" in caplog.text and "cure: ring = " in caplog.text


OTHER_ORDER = '[kernel]\nsums = "after loops"\n'


def test_another_order_of_sums_needs_the_consent_of_the_process(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = package / "attend.mapping.toml"
    file.write_text(OTHER_ORDER)
    kernel = tawa.jit(importlib.import_module("shipping.flash").attend)

    def sums(**options: Any) -> Any:
        made = tawa.explain(kernel, kernels.ATTEND, kernels.BLOCKS, num_warps=8, only_if_faster=False, **options)
        return made.plan.sums, [it for it in made.remarks if str(file) in it]

    for exact in ({}, {"precision": "exact"}):
        found, (note,) = sums(**exact)
        assert found is None and "is left out: it asks for another order of sums" in note
        assert 'cure: precision="relaxed"' in caplog.text
    found, (note,) = sums(precision="relaxed")
    assert found == "after_loops" and note == f"the mapping {file} beside the kernel decides what it says"
    given = tawa.explain(kernel, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=file)
    assert given.plan.sums == "after_loops", "a mapping that is given is the user's own"


def test_installed_tawa_asks_for_consent_too(package: Path) -> None:
    (package / "attend.mapping.toml").write_text(OTHER_ORDER)
    assert "sums" not in installed()["plan"]
