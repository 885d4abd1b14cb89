"""Some modules of a package are executed; the rest is replaced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.corpus.partial_package import Absent, PartialPackage

SOURCES = {
    "pack_of_parts/__init__.py": "raise RuntimeError('everything is imported')",
    "pack_of_parts/engine.py": "raise RuntimeError('the engine is imported')",
    "pack_of_parts/platform.py": "raise RuntimeError('the platform is asked')",
    "pack_of_parts/ops/numbers.py": "SIZE = 7",
    "pack_of_parts/ops/gemm.py": """
import not_installed.utils
from not_installed import register
from pack_of_parts import platform
from pack_of_parts.engine import Engine, wrapped
from .numbers import SIZE

@wrapped("gemm")
@register
def gemm():
    return SIZE, platform.is_cuda()

class Layer(Engine):
    kind: "Engine | None" = None

def layer():
    return Engine().size
""",
}


@pytest.fixture(autouse=True)
def _packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before, finders = set(sys.modules), list(sys.meta_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _package() -> PartialPackage:
    values = {"pack_of_parts.platform": {"is_cuda": lambda: True}}
    return PartialPackage("pack_of_parts", ("pack_of_parts.ops.*",), lambda: values, absent=("not_installed",))


def test_a_module_is_executed_without_its_package() -> None:
    module = _package().load("pack_of_parts.ops.gemm")
    assert module.gemm() == (7, True)
    assert Path(module.__file__).name == "gemm.py"
    assert issubclass(module.Layer, object)


def test_what_is_absent_does_nothing() -> None:
    found = _package().load("pack_of_parts.ops.gemm").layer()
    assert isinstance(found, Absent) and not found
    assert repr(found) == "<pack_of_parts.engine.Engine().size, which is absent>"


def test_a_module_that_is_not_there_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pack_of_parts\.ops\.attention"):
        _package().load("pack_of_parts.ops.attention")
    with pytest.raises(ModuleNotFoundError, match="pack_of_nothing"):
        PartialPackage("pack_of_nothing", ("pack_of_nothing.ops.*",)).load("pack_of_nothing.ops.gemm")


def test_other_packages_are_found_as_always() -> None:
    _package().load("pack_of_parts.ops.gemm")
    with pytest.raises(ModuleNotFoundError):
        __import__("something_that_is_not_installed")
