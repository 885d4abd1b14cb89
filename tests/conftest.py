"""What every test shares: a Triton cache of its own, one thread, the same random examples in every run, and no `gpu`
tests where there is no Hopper GPU.

`make fuzz` runs the property tests with fresh examples instead: ``--hypothesis-profile=fresh``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.kept import forget  # hashes the modules of Tawa, before one of them is imported
from tests.support.parsing import let_threads_parse
from tests.support.sample import EVERY_CASE, examples

# Set before Triton is imported. One folder per process: tests see neither the user's cache nor each other's.
_CACHE = tempfile.mkdtemp(prefix="tawa-tests-")
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
os.environ["TRITON_CACHE_DIR"] = os.path.join(_CACHE, "triton")

# Set before NumPy is imported. The simulator's products are small: more threads than one only wait for each other, at
# the cost of the other test processes.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

# The user's own settings must not decide what a test sees.
_EXAMPLES = ("TAWA_MAPPINGS", "TAWA_EMITTED")  # how many examples of a property are tried
for _name in [name for name in os.environ if name.startswith("TAWA_") and name not in _EXAMPLES]:
    del os.environ[_name]
os.environ["TAWA_BACKGROUND"] = "off"  # most tests want the kernel at the first launch

let_threads_parse()
forget()
gc.set_threshold(10_000)  # a program is many small objects, few of which are garbage in cycles

# Triton's back end makes the same kernels many times. All tests of `make nightly` run it.
if not EVERY_CASE and importlib.util.find_spec("triton"):
    from tests.support.back_end import keep_back_end

    keep_back_end()

# A change is judged by what it changes, not by the examples of the day.
# How long an example takes depends on what else the machine does.
ANY_TIME: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, database=None, max_examples=examples(100), **ANY_TIME)
settings.register_profile("fresh", print_blob=True, **ANY_TIME)
settings.load_profile("fixed")
if not EVERY_CASE:
    # Hypothesis reads the constants of all modules to try them as values: seconds in each process, for few examples.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture
def without_ptx(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kernels of this test are translated to LLVM IR and no further, unless a GPU runs them."""
    from tests.support.back_end import without_ptx

    with contextlib.nullcontext() if request.node.get_closest_marker("gpu") else without_ptx():
        yield


@pytest.fixture
def without_cubin() -> Iterator[None]:
    """Kernels of this test are translated to PTX and no further."""
    from tests.support.back_end import without_cubin

    with without_cubin():
        yield


@functools.cache
def hopper_present() -> bool:
    """Whether torch is installed and sees a GPU of compute capability 9.0."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def pytest_collection_finish() -> None:
    """Leaves what was collected, ten thousand tests with their modules, out of each further garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not hopper_present():
        items[:] = [item for item in items if item not in marked]
        config.hook.pytest_deselected(items=marked)
