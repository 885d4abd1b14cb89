"""Splits Triton's `make_ttgir` for Hopper, so that Tawa can replace its software pipeliner.

```
front   TTIR -> TTGIR with layouts, up to the loop-aware CSE         Triton's own
middle  fuse loops, LICM, warpspec, latencies, schedule, pipeline    stock: Triton's own; specialised: `clean_up`
back    canonicaliser ... tensor descriptor metadata                 Triton's own
```

The three parts are cut out of the source of the *installed* `make_ttgir`, so each follows the installed Triton exactly.
Its body is a straight list of statements around one ``if capability // 10 in [8, 9]:``, and that statement is the
middle. For a body of another shape `split_make_ttgir` returns None, and every kernel stays stock.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Stage = Callable[[Any, dict[str, Any], Any, int], Any]

_PIPELINER_CALLS = ("add_assign_latencies", "add_schedule_loops", "add_pipeline")


@dataclass(frozen=True, slots=True)
class StageSplit:
    """The parts of `make_ttgir`. Each is called as ``part(mod, metadata, options, capability)``; returns the module."""

    front: Stage
    middle: Stage
    back: Stage


@functools.cache
def split_make_ttgir(backend_class: type) -> StageSplit | None:
    """Splits the `make_ttgir` of Triton's NVIDIA backend; None if it has an unknown shape.

    backend_class: `triton.backends.nvidia.compiler.CUDABackend` or a subclass.
    """
    try:
        make_ttgir = inspect.unwrap(backend_class.make_ttgir)  # type: ignore[attr-defined]
        tree = ast.parse(textwrap.dedent(inspect.getsource(make_ttgir)))
    except (AttributeError, OSError, TypeError, SyntaxError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or [arg.arg for arg in function.args.args] != _PARAMETERS:
        return None
    body = function.body
    at = next((i for i, statement in enumerate(body) if _is_middle(statement)), None)
    if (
        at is None
        or _calls(body[:at])[-1:] != ["add_loop_aware_cse"]
        or _calls(body[at + 1 :])[:1] != ["add_canonicalizer"]
    ):
        return None
    setup = [statement for statement in body[:at] if isinstance(statement, ast.Assign)]
    finish = ast.parse("pm.run(mod, 'make_ttgir')\nreturn mod").body
    parts = (
        [*body[:at], *finish],
        [*setup, body[at], *finish],
        [*setup, *body[at + 1 :]],
    )
    front, middle, back = (_compile_part(function, part, make_ttgir) for part in parts)
    return StageSplit(front, middle, back)


def clean_up(mod: Any, capability: int, *, hoist: bool = True) -> Any:
    """Replaces the middle for a specialised module: its passes except the pipeliner.

    Triton's pipeliner must not see a specialised loop: it would wait for every wgmma in it. hoist: whether to run
    loop-invariant code motion. Triton treats making a descriptor as pure, but if a wait for the copies that use the
    previous descriptor precedes it, it must stay after that wait.
    """
    from triton._C.libtriton import ir, passes

    pm = ir.pass_manager(mod.context)
    pm.enable_debug()
    passes.common.add_canonicalizer(pm)
    if hoist:
        passes.ttir.add_triton_licm(pm)
        passes.common.add_canonicalizer(pm)
    passes.ttgpuir.add_combine_tensor_select_and_if(pm)
    pm.run(mod, "tawa_clean_up")
    return mod


_PARAMETERS = ["mod", "metadata", "opt", "capability"]


def _is_middle(statement: ast.stmt) -> bool:
    """Whether this is ``if capability // 10 in [8, 9]:`` with the pipeliner at the end of its body."""
    if not isinstance(statement, ast.If) or ast.unparse(statement.test) != "capability // 10 in [8, 9]":
        return False
    names = _calls(statement.body)
    return names[0] == "add_fuse_nested_loops" and tuple(names[-3:]) == _PIPELINER_CALLS


def _calls(statements: list[ast.stmt]) -> list[str]:
    """Names of the ``add_*`` pass calls in these statements, in order; those under an ``if`` are ignored."""
    calls = [statement.value for statement in statements if isinstance(statement, ast.Expr)]
    names = [call.func.attr for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    return [name for name in names if name.startswith("add_")]


def _compile_part(function: ast.FunctionDef, body: list[ast.stmt], original: Any) -> Stage:
    part = ast.FunctionDef(
        name=function.name, args=function.args, body=body, decorator_list=[], returns=None, type_comment=None
    )
    if hasattr(function, "type_params"):
        part.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module(body=[part], type_ignores=[]))
    namespace: dict[str, Any] = {}
    # Triton's own statements in a function of their own; `make_ttgir` cannot be called in parts otherwise.
    exec(compile(module, original.__code__.co_filename, "exec"), original.__globals__, namespace)
    return namespace[function.name]
