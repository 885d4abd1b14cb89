"""Finds the kernel that ``FILE.py:KERNEL`` names: imports the file and unwraps decorators down to Triton's function.

The file may belong to a package (relative imports work), may import modules in its folder, and may print: its output
goes to stderr, so that ``--json`` and ``--emit`` stay clean. Code that launches kernels must be guarded by
``if __name__ == "__main__"``.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from tawa.cli.failures import UsageError, split_message
from tawa.errors import TawaError, did_you_mean
from tawa.remarks import SourceLocation

_NO_KERNELS = "give a file that has functions under @triton.jit"
_EXAMPLE = "tawa explain gemm.py:gemm_kernel --sig '…'"


def load_kernel(target: str) -> Any:
    """Returns the `triton.JITFunction` that ``FILE.py:KERNEL`` names, or raises UsageError."""
    file, separator, name = target.rpartition(":")
    if not separator or not file or not name:
        raise UsageError(
            f"{target!r} names no kernel: a file and a kernel are needed, FILE.py:KERNEL",
            cure=_target_cure(target.rstrip(":")),
        )
    path = Path(file).expanduser()
    if not path.is_file():
        raise UsageError(f"no file {file!r} (looked in {Path.cwd()})", cure=_file_cure(path))
    os.environ.pop("TRITON_INTERPRET", None)  # it makes kernels Python functions, which cannot be compiled
    module = _import_file(path.resolve())
    if name not in vars(module):
        raise UsageError(f"{file} has no kernel {name!r}", cure=_name_cure(module, name))
    kernel = jit_function(getattr(module, name))
    if kernel is None:
        kind, cure = _kind(getattr(module, name))
        raise UsageError(
            f"{name!r} in {file} is a {kind}, not a Triton kernel", cure=f"{cure}{_name_cure(module, name)}"
        )
    if is_helper(ast.parse(kernel.src)):
        raise UsageError(
            f"{name!r} in {file} is a function that kernels call, not a kernel: it returns a value",
            _name_cure(module, name),
        )
    return kernel


def is_helper(function: ast.AST) -> bool:
    """Whether a jitted function is for kernels to call: it returns a value, which Triton refuses of a kernel."""
    return any(isinstance(it, ast.Return) and it.value is not None for it in ast.walk(function))


def jit_function(value: Any) -> Any | None:
    """Unwraps `tawa.jit`, `triton.autotune` and `triton.heuristics` down to the JITFunction; None without one."""
    from tawa.bridge.driver.compile import jit_function as unwrap

    try:
        return unwrap(value)
    except TypeError:
        return None


def kernel_names(module: ModuleType) -> list[str]:
    """The names of a module's top-level kernels, in source order."""
    found = {name: jit_function(it) for name, it in vars(module).items() if not name.startswith("__")}
    return [name for name, it in found.items() if it is not None and not is_helper(ast.parse(it.src))]


def _import_file(path: Path) -> ModuleType:
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__":
        parts.pop()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = importlib.import_module(".".join(parts))
            if Path(getattr(module, "__file__", None) or "").resolve() != path:  # a module of the same name came first
                module = _import_by_path(path)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise _import_failure(path, error) from error
    return module


def _import_by_path(path: Path) -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"tawa_kernel_file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", cure="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _import_failure(path: Path, error: BaseException) -> UsageError:
    location = None
    if isinstance(error, SyntaxError) and error.filename:
        location = SourceLocation(error.filename, error.lineno or 1, max(0, (error.offset or 1) - 1))
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if frames:
            location = SourceLocation(frames[-1].filename, frames[-1].lineno or 1, frames[-1].colno or 0)
    cure = 'guard what should run only as a script with: if __name__ == "__main__":'
    if isinstance(error, ModuleNotFoundError):
        cure = f"pip install {(error.name or '').partition('.')[0]}, or keep the kernel in a file that does not need it"
    if isinstance(error, SyntaxError):
        cure = "fix the syntax"
    if isinstance(error, TawaError):
        what, _, cure = split_message(str(error))
        return UsageError(f"{path.name} cannot be imported: {what}", cure, location)
    return UsageError(f"{path.name} cannot be imported: {type(error).__name__}: {error}", cure, location)


def _target_cure(text: str) -> str:
    """The kernels of the file that is named alone; an example if there is no such file."""
    path = Path(text).expanduser()
    if path.suffix != ".py" or not path.is_file():
        return f"for example: {_EXAMPLE}"
    names = kernel_names(_import_file(path.resolve()))
    return f"one of {', '.join(f'{text}:{name}' for name in names)}" if names else _NO_KERNELS


def _file_cure(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    names = [entry.name for entry in folder.glob("*.py")]
    return did_you_mean(path.name, names, f"for example: {_EXAMPLE}", show=lambda name: str(folder / name))


def _kind(value: Any) -> tuple[str, str]:
    """The kind of a value that is not a kernel, and how to make it one."""
    if isinstance(value, type):
        return "class", ""
    if getattr(value, "__name__", "") == "<lambda>":
        return "lambda", "Triton reads a kernel from its def: write it as one, under @triton.jit; "
    return type(value).__name__, "put @triton.jit over it; "


def _name_cure(module: ModuleType, name: str) -> str:
    names = kernel_names(module)
    if not names:
        return _NO_KERNELS
    there = f"{'the kernel' if len(names) == 1 else 'kernels'} there: {', '.join(names)}"
    return did_you_mean(name, names, there)
