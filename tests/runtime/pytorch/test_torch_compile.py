"""Kernels of torch.compile: compiled where Tawa is, and never confused with stock ones. A fake plays PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.runtime.pytorch.inductor import parser_fails_in_threads

ASYNC_COMPILE = """
from concurrent.futures import ThreadPoolExecutor
import torch._inductor.codecache

class CompiledTritonKernels:
    cleared = 0
    kernels = {}

    @staticmethod
    def cache_clear():
        CompiledTritonKernels.cleared += 1

    @staticmethod
    def get(source_code):
        return CompiledTritonKernels.kernels.get(source_code)


class AsyncCompile:
    @classmethod
    def use_process_pool(cls):
        return True

    @staticmethod
    def pool():
        return ThreadPoolExecutor(2)

    def triton(self, kernel_name, source_code, device_str="cuda"):
        return CompiledTritonKernels.get(source_code) or ("worker" if self.use_process_pool() else "here")
"""
CODE_CACHE = """
import threading

class LambdaFuture:
    def __init__(self, result_fn, future=None):
        self.result_fn, self.future = result_fn, future

    def result(self):
        return self.result_fn()

class Kernel:
    compiled_by = []

    def precompile(self, warm_cache_only=False):
        assert warm_cache_only
        Kernel.compiled_by.append(threading.get_ident())
        if "fails" in self.source:
            raise ValueError("ptxas")

class Module:
    def __init__(self, source):
        self.k = Kernel()
        self.k.source = source

class PyCodeCache:
    modules_no_attr = {}

    @classmethod
    def load(cls, source):
        return Module(source)

    @classmethod
    def cache_clear(cls, purge=False):
        cls.modules_no_attr.clear()

class PersistentCache:
    def lookup(self, choices, op, inputs, benchmark, hint_override=None):
        return (choices, op, inputs, benchmark, hint_override)
"""
HEURISTICS = """
import tawa.bridge.launch.added_arguments

class CachingAutotuner:
    configs = None  # once one is chosen; then others near it are tried

    def __init__(self, **inductor_meta):
        self.inductor_meta = inductor_meta

    def _precompile_config(self, cfg):
        return cfg, tawa.bridge.launch.first.compiles.launch_is_ours()
"""
CONFIG = 'import os\ncache_key_tag = os.environ.get("TORCH_COMPILE_CACHE_KEY_TAG", "")\n'
PRELUDE = """
import os, sys, tawa
def where(source):
    from torch._inductor.async_compile import AsyncCompile
    made = AsyncCompile().triton("k", source)
    return made if isinstance(made, str) else made.result()
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
        "torch/_inductor/config.py": "cpp_wrapper = False",
        "torch/_inductor/runtime/__init__.py": "",
        "torch/_inductor/runtime/triton_heuristics.py": HEURISTICS,
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


@pytest.mark.parametrize("threads", [True, False])
def test_a_kernel_with_a_dot_is_a_future_as_one_of_a_worker_is(threads: bool, run) -> None:
    run(
        f"""
import threading
import tawa.runtime.pytorch.inductor
tawa.runtime.pytorch.inductor.parser_fails_in_threads = lambda: not {threads}
tawa.install()
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import Kernel, LambdaFuture
made = AsyncCompile().triton("k", "tl.dot(a, b)")
assert isinstance(made, LambdaFuture)
made.future.result()
assert (Kernel.compiled_by[0] != threading.get_ident()) == {threads}
assert made.result() == "here"
failed = AsyncCompile().triton("k", "tl.dot(a, b) fails")
assert isinstance(failed.future.exception(), ValueError)
try:
    failed.result()
except ValueError as error:
    assert str(error) == "ptxas"
else:
    raise AssertionError
"""
    )


def test_what_inductor_has_compiled_is_taken_as_it_is(run) -> None:
    run(
        """
tawa.install()
from torch._inductor.async_compile import CompiledTritonKernels
CompiledTritonKernels.kernels["tl.dot(a, b)"] = "known"
assert where("tl.dot(a, b)") == "known"
"""
    )


@pytest.mark.parametrize("first", ["", "import torch._inductor.runtime.triton_heuristics\n"])
def test_inductors_own_launches_may_have_added_arguments(first: str, run) -> None:
    run(
        first
        + """
tawa.install()
import torch._inductor.config as config
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
assert CachingAutotuner()._precompile_config("c") == ("c", True)
assert CachingAutotuner(store_cubin=True)._precompile_config("c") == ("c", False)
config.cpp_wrapper = True
assert CachingAutotuner()._precompile_config("c") == ("c", False)
config.cpp_wrapper = False
child = os.fork()  # as Inductor's workers may be started
if child == 0:
    os._exit(CachingAutotuner()._precompile_config("c")[1])
assert os.waitpid(child, 0)[1] == 0
tawa.uninstall()
assert CachingAutotuner()._precompile_config("c") == ("c", False)
"""
    )


def test_timings_of_templates_are_kept_apart_by_request(run) -> None:
    run(
        """
from torch._inductor.codecache import PersistentCache
def key():
    choices, op, inputs, benchmark, hint = PersistentCache().lookup([1], "mm", "[4, 4]", None, hint_override=3)
    assert (choices, op, benchmark, hint) == ([1], "mm", None, 3)
    return inputs
stock = key()
tawa.install()
one = key()
tawa.install(aref_depth=3)
two = key()
tawa.uninstall()
assert len({stock, one, two}) == 3 and key() == stock
"""
    )


def test_only_some_pythons_parse_badly_in_threads() -> None:
    faulty = {(3, 11, 0), (3, 11, 7), (3, 12, 1)}
    mended = {(3, 11, 8), (3, 12, 2), (3, 13, 0)}
    assert {version for version in faulty | mended if parser_fails_in_threads(version)} == faulty
