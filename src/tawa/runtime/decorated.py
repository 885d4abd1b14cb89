"""Checks what `tawa.jit` decorates, and what decorates it; what a tuner above it is about to do.

Triton reads a kernel's source from its file, from the ``def`` on. For a lambda it reads the *enclosing* function; for a
class, or for text typed at the prompt, it fails in a regular expression.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from tawa.errors import KernelError

_RIGHT = "cure: @tawa.jit over @triton.jit over the function (@triton.autotune and @triton.heuristics above both)"


def check_source(function: Any) -> None:
    """Raises KernelError for anything but a function whose ``def`` is in a file."""
    if inspect.isclass(function):
        raise KernelError(
            f"tawa.jit takes a kernel, not the class {function.__qualname__}; cure: put it over a function"
        )
    if not inspect.isfunction(function):
        raise KernelError(
            f"tawa.jit takes a kernel, not {function!r} ({type(function).__name__}); cure: put it over a function, def "
            "kernel(…), or over what triton.jit makes of one"
        )
    refuse_lambda(function)
    code = function.__code__
    try:
        inspect.getsourcelines(function)
    except OSError as error:
        raise KernelError(
            f"{function.__qualname__} has no source: {code.co_filename} is no file, and Triton reads a kernel from its "
            "file; cure: write the kernel to a .py file and import it from there"
        ) from error


def refuse_lambda(function: Any) -> None:
    """Raises KernelError for a lambda."""
    code = function.__code__
    if code.co_name == "<lambda>":
        raise KernelError(
            f"tawa.jit takes a kernel, not a lambda ({code.co_filename}:{code.co_firstlineno}): Triton reads a kernel "
            "from its def; cure: def kernel(…) with the same body"
        )


def tuned_launch() -> dict[str, Any] | None:
    """The keyword arguments of the launch for which Triton's autotuner makes the key of a stored result, as a copy.

    To be called by an attribute of the kernel, which the tuner reads for its key; None if another function reads it.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_name != "check_disk_cache" or frame.f_globals.get("__name__") != "triton.runtime.autotuner":
        return None
    launch = frame.f_back.f_locals if frame.f_back is not None else {}
    return dict(launch.get("kwargs", {}))


def refuse_outer_jit(function: Any) -> None:
    """Raises KernelError if `triton.jit` is being applied to `function`, which is under `tawa.jit`.

    Triton would ask for the source of the wrapper, and fail with an error about "module, class, method".
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == inspect.__file__:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "__init__" or frame.f_globals.get("__name__") != "triton.runtime.jit":
        return
    if frame.f_locals.get("fn") is function:
        name = function.__name__
        raise KernelError(f"{name}: triton.jit stands over tawa.jit, which has the kernel already; {_RIGHT}")
