"""Kernels of torch.compile: compiled where Tawa is, and never confused with stock ones. A fake plays PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASYNC_COMPILE = """
class CompiledTritonKernels:
    cleared = 0

    @staticmethod
    def cache_clear():
        CompiledTritonKernels.cleared += 1


class AsyncCompile:
    @classmethod
    def use_process_pool(cls):
        return True

    def triton(self, kernel_name, source_code, device_str="cuda"):
        return "worker" if self.use_process_pool() else "here"
"""
CODE_CACHE = """
class PyCodeCache:
    modules_no_attr = {}

    @classmethod
    def cache_clear(cls, purge=False):
        cls.modules_no_attr.clear()
"""
CONFIG = 'import os\ncache_key_tag = os.environ.get("TORCH_COMPILE_CACHE_KEY_TAG", "")\n'
PRELUDE = """
import os, sys, tawa
def where(source):
    from torch._inductor.async_compile import AsyncCompile
    return AsyncCompile().triton("k", source)
def tag():
    import torch.compiler.config
    return torch.compiler.config.cache_key_tag
"""


@pytest.fixture
def run(tmp_path: Path):
    """Runs a script where ``torch`` is the fake; a failed assertion in it fails the test."""
    for name, text in {
        "torch/__init__.py": "",
        "torch/_inductor/__init__.py": "",
        "torch/_inductor/async_compile.py": ASYNC_COMPILE,
        "torch/_inductor/codecache.py": CODE_CACHE,
        "torch/compiler/__init__.py": "",
        "torch/compiler/config.py": CONFIG,
    }.items():
        path = tmp_path / "fake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def call(script: str, **variables: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "fake"), *sys.path]), **variables}
        done = subprocess.run([sys.executable, "-c", PRELUDE + script], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return call


@pytest.mark.parametrize("first", ["", "import torch._inductor.async_compile, torch.compiler.config\n"])
def test_kernels_with_a_dot_are_compiled_in_this_process(first: str, run) -> None:
    run(
        first
        + """
meta_path = list(sys.meta_path)
tawa.install()
assert where("tl.dot(a, b)") == "here"
assert where("tl.load(p)") == "worker"
assert where("tl.dot(a, b)") == "here"
tawa.uninstall()
assert where("tl.dot(a, b)") == "worker"
assert sys.meta_path == meta_path
"""
    )


@pytest.mark.parametrize("first", ["", "import torch._inductor.async_compile, torch.compiler.config\n"])
def test_graphs_on_disk_are_kept_apart_by_request(first: str, run) -> None:
    run(
        first
        + """
tawa.install()
one = tag()
tawa.install(aref_depth=3)
two = tag()
assert len({one, two, "users"}) == 3 and one.startswith("users") and two.startswith("users")
assert os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] == two
tawa.uninstall()
assert tag() == os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] == "users"
""",
        TORCH_COMPILE_CACHE_KEY_TAG="users",
    )


def test_kernels_in_inductors_memory_are_forgotten(run) -> None:
    run(
        """
from torch._inductor.async_compile import CompiledTritonKernels
tawa.install()
assert CompiledTritonKernels.cleared == 1
tawa.uninstall()
assert CompiledTritonKernels.cleared == 2
"""
    )


def test_an_installation_does_not_import_torch(run) -> None:
    run("tawa.install(); assert 'torch' not in sys.modules")


def test_switched_off_nothing_of_torch_is_changed(run) -> None:
    run(
        """
before = list(sys.meta_path)
tawa.install()
assert sys.meta_path == before and "TORCH_COMPILE_CACHE_KEY_TAG" not in os.environ
""",
        TAWA_ENABLE="off",
    )


def test_modules_of_generated_code_are_not_found_again_in_memory(run) -> None:
    run(
        """
from torch._inductor.codecache import PyCodeCache
for change in (tawa.install, tawa.uninstall):
    PyCodeCache.modules_no_attr["/tmp/same_source.py"] = "a module with its kernels"
    change()
    assert not PyCodeCache.modules_no_attr
"""
    )
