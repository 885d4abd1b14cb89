"""What Tawa uses of the installed Triton, as lines of text by subject: two versions are compared by their difference.

Runs in the environment of that Triton, which need not be supported: ``python tests/project/triton_facts.py``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

SLOTS = (
    "triton.compiler.compiler:get_cache_key",
    "triton.compiler.compiler:CompiledKernel.__init__",
    "triton.compiler.compiler:CompiledKernel._init_handles",
    "triton.compiler.compiler:ASTSource.__init__",
    "triton.runtime.jit:get_cache_key",
    "triton.runtime.jit:compute_cache_key",
    "triton.runtime.jit:JITFunction.__init__",
    "triton.runtime.jit:JITFunction.run",
    "triton.runtime.jit:JITFunction.warmup",
    "triton.runtime.jit:JITFunction._do_compile",
    "triton.runtime._async_compile:AsyncCompileMode.submit",
    "triton.runtime.autotuner:get_cache_invalidating_env_vars",
    "triton.runtime.autotuner:get_cache_manager",
    "triton.runtime.autotuner:Autotuner.prune_configs",
    "triton.runtime.autotuner:Autotuner._bench",
    "triton.runtime.autotuner:Autotuner.check_disk_cache",
    "triton.runtime.autotuner:Config.__init__",
    "triton.testing:do_bench",
    "triton.backends.nvidia.compiler:CUDABackend.make_ttgir",
    "triton.backends.nvidia.compiler:CUDABackend.add_stages",
    "triton.backends.nvidia.compiler:get_ptxas",
)
"""What is wrapped, subclassed or called (`tawa.bridge.driver.attach`, `tawa.bridge.triton`)."""


def facts() -> dict[str, list[str]]:
    """Lines by subject; a subject that cannot be read is the error."""
    subjects: dict[str, Callable[[], list[str]]] = {
        "passes of make_ttgir": passes,
        "options of the NVIDIA backend": options,
        "functions that Tawa wraps or calls": signatures,
        "hooks and settings": knobs,
        "ptxas": ptxas,
    }
    found: dict[str, list[str]] = {}
    for subject, read in subjects.items():
        try:
            found[subject] = read()
        except Exception as error:
            found[subject] = [f"{type(error).__name__}: {error}"]
    return found


def passes() -> list[str]:
    """The calls that add passes, in order."""
    from triton.backends.nvidia.compiler import CUDABackend

    return re.findall(r"\b(?:\w+\.)*add_\w+\([^\n]*\)", inspect.getsource(CUDABackend.make_ttgir))


def options() -> list[str]:
    """The options of a launch, with their defaults."""
    from triton.backends.nvidia.compiler import CUDAOptions

    return [f"{name} = {field.default!r}" for name, field in CUDAOptions.__dataclass_fields__.items()]


def signatures() -> list[str]:
    """The parameters of what is wrapped or called."""
    return [f"{slot}{_signature(slot)}" for slot in SLOTS]


def _signature(slot: str) -> str:
    module, _, path = slot.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return str(inspect.signature(found))
    except (ImportError, AttributeError) as error:
        return f" is not there ({type(error).__name__})"
    except (ValueError, TypeError):  # written in C++
        return "(…)"


def knobs() -> list[str]:
    """The names of Triton's settings, by group."""
    from triton import knobs as known

    groups = ("cache", "compilation", "language", "nvidia", "runtime", "autotuning")
    return [f"{group}.{name}" for group in groups for name in sorted(_names(getattr(known, group, None)))]


def _names(group: Any) -> list[str]:
    return [name for name in dir(type(group)) if not name.startswith("_")]


def ptxas() -> list[str]:
    """The versions of ptxas, by compute capability."""
    from triton.backends.nvidia.compiler import get_ptxas

    return [f"{capability}: {get_ptxas(capability).version}" for capability in (90, 100)]


if __name__ == "__main__":
    print(json.dumps(facts()))
