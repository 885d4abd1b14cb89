"""A kernel from the text of its IR, compiled and launched like the function that it came from.

Triton compiles a text only from its next stage on, and makes no launcher that takes the arguments of the function. Here
the text is what Triton's front end made (``asm["source"]``), and the signature is that of the function: every stage
runs, and launches pass the arguments that the user passed. The user's code is not needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module
from tawa.bridge.triton.surroundings import surroundings_named
from tawa.machine.machines import SM_90


def recorded_source(text: str, name: str, signature: Mapping[str, Any], may_be_one: Sequence[str]) -> Any:
    """What `triton.compile` takes in place of an `ASTSource`.

    text: the IR. name: of the kernel. signature: of its arguments, "constexpr" included. may_be_one: arguments that
    Triton does not make constants when they are 1.
    """
    from triton.compiler.compiler import ASTSource

    class RecordedSource(ASTSource):
        """Built below, since Triton's class reads a function."""

        def __init__(self) -> None:
            parameters = [
                SimpleNamespace(name=it, is_constexpr=False, do_not_specialize=True, annotation_type="")
                for it in may_be_one
            ]
            self.fn: Any = SimpleNamespace(
                __name__=name, arg_names=list(signature), params=parameters, launch_metadata=None
            )
            self.language = _language()
            self.ext, self.name, self.signature = "ttir", name, dict(signature)
            self.constants: dict[Any, Any] = {}
            self.attrs: dict[Any, Any] = {}

        def hash(self) -> str:
            """Of the text and the signature."""
            return hashlib.sha256(f"{text}|{self.signature}".encode()).hexdigest()

        def make_ir(self, *args: Any, **kwargs: Any) -> Any:
            """Reads the text into the context of the compile."""
            return parse_module(text, kwargs["context"] if "context" in kwargs else args[-1])

    return RecordedSource()


def _language() -> Any:
    from triton.backends.compiler import Language

    return Language.TRITON


def compile_recorded(source: Any, request: Request, options: Mapping[str, Any]) -> Any:
    """Compiles it for a launch in this process. options: Triton's."""
    import triton

    with surroundings_named(source.name), attached(), activate(request), launched_by_us(function=source.fn):
        return triton.compile(source, target=gpu_target(SM_90), options=dict(options))
