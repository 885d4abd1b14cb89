"""Whatever is said of a kernel names the file that was asked for, although equal files have equal keys in Triton."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.places import places_key
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions

pytestmark = pytest.mark.usefixtures("without_ptx")

KERNEL = """
import triton
import triton.language as tl
import {helpers} as helpers


@triton.jit
def scaled(x):
    return helpers.doubled(x)


{decorators}@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], scaled(acc).to(tl.float16))
"""
HELPERS = """
import triton


@triton.jit
def doubled(x):
    return x + x
"""
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
TILE = "tensordesc<fp16[64,64]>"
SIGNATURE = f"a={TILE}, b={TILE}, c={TILE}, K=i32:16"
DECORATOR = "@triton.heuristics({})\n"


def written(folder: Path, text: str, name: str = "kernels.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def pair(folder: Path, decorators: str = "", above: str = "") -> Path:
    """A file with the kernel, beside that of its helper, which is imported under a name of its own."""
    helpers = written(folder, HELPERS, f"helpers_{folder.name}.py")
    return written(folder, above + KERNEL.format(helpers=helpers.stem, decorators=decorators))


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"kernels_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.delitem(sys.modules, f"helpers_{path.parent.name}", raising=False)
    spec.loader.exec_module(module)
    kernel = module.gemm
    while not hasattr(kernel, "cache_key"):
        kernel = kernel.fn
    return kernel


def compiled(kernel: Any, **options: Any) -> Any:
    with launched_by_us(function=kernel):
        signature = parse_signature(SIGNATURE, BLOCKS, kernel.arg_names)
        return compile_kernel(kernel, signature, Request(PlanOptions(**options)))


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), start=1) if text in line)


def everything_said(kernel: Any) -> str:
    texts = [text for text in kernel.asm.values() if isinstance(text, str)]
    return "\n".join([*texts, str(kernel.metadata.tawa), tawa.explain(kernel).to_json()])


@pytest.mark.parametrize(
    ("decorators", "above"),
    [("", ""), (DECORATOR, ""), ("", "\n" * 10)],
    ids=["the same lines", "one decorator more", "ten lines further down"],
)
@pytest.mark.parametrize("options", [{}, {"only_if_faster": True}], ids=["specialised", "declined"])
def test_of_two_equal_files_the_one_that_was_asked_for_is_shown(
    decorators: str, above: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair(tmp_path / "copied"), pair(tmp_path / "asked", decorators, above)
    compiled(load(first, monkeypatch), **options)
    shutil.rmtree(first.parent)
    kernel = compiled(load(second, monkeypatch), **options)
    said = everything_said(kernel)
    assert str(second) in said and str(second.with_name("helpers_asked.py")) in said
    assert "copied" not in said
    loop = f"{second}:{line_of(second, 'tl.range')}"
    assert any("warp_specialize" in remark and loop in remark for remark in tawa.explain(kernel).remarks)


def test_a_helper_in_another_file_counts_though_the_kernel_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pair(tmp_path / "copied")
    kernel = load(path, monkeypatch)
    compiled(kernel)
    other = written(tmp_path / "other", HELPERS, "helpers_other.py")
    moved = written(tmp_path / "other", path.read_text().replace("helpers_copied", "helpers_other"), "kernels.py")
    path.with_name("helpers_copied.py").unlink()
    path.write_text(moved.read_text())
    monkeypatch.syspath_prepend(str(other.parent))
    said = everything_said(compiled(load(path, monkeypatch)))
    assert str(other) in said and "helpers_copied" not in said


def test_the_same_file_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pair(tmp_path / "copied")
    first, again = compiled(load(path, monkeypatch)), compiled(load(path, monkeypatch))
    assert first.hash == again.hash
    assert first.metadata.tawa == again.metadata.tawa


def test_a_cell_of_a_notebook_is_found_again_in_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions name a file that is none, by the number of the process."""
    import linecache

    keys: list[str] = []
    for session in ("ipykernel_1", "ipykernel_2"):
        path = pair(tmp_path / session)
        kernel = load(path, monkeypatch)
        linecache.getlines(str(path))
        shutil.rmtree(path.parent)
        keys.append(places_key(type("Source", (), {"fn": kernel, "constants": {}})()))
    assert keys == ["", ""]


def test_a_function_that_is_given_as_a_constant_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(pair(tmp_path / "copied"), monkeypatch)
    keys = {
        places_key(type("Source", (), {"fn": None, "constants": constants})())
        for constants in ({}, {(1,): kernel}, {(1,): 3})
    }
    assert len(keys) == 2
