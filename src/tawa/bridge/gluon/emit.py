"""A compiled kernel as a file in Gluon, verified once more from its text."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton

from tawa.bridge.gluon.check import check_module
from tawa.bridge.gluon.compile import compile_gluon
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.why_stock import why_not_specialised
from tawa.bridge.report.record import KEY, plan_of
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.versions import triton_version
from tawa.emit.launch import Made
from tawa.emit.module import Emitted, gluon_source
from tawa.errors import EmitError
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.verify.verdict import Refuted


def emit_gluon(compiled: Any) -> Emitted:
    """The Gluon module of a specialised kernel, from its final TTGIR.

    compiled: Triton's `CompiledKernel`. The module is compiled and its barriers are verified before it is returned.
    Raises EmitError for a kernel that was left to stock Triton, that needs arguments from Tawa's launcher, or that uses
    what Gluon has no word for; and if the module is refuted.
    """
    name = compiled.metadata.name
    if reason := why_not_specialised(compiled):
        raise EmitError(f"{name} is not specialised: {reason}")
    if launch_spec(compiled) != LaunchSpec():
        raise EmitError(
            f"{name}: this form of the kernel takes arguments that Tawa's launcher makes. Cure: compile it without a "
            "launch, as `tawa compile` does"
        )
    source = compiled.src
    constants = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    divisible = [source.fn.arg_names[path[0]] for path, some in source.attrs.items() if ["tt.divisibility", 16] in some]
    about = (
        f"Made by Tawa from {name}, with Triton {'.'.join(map(str, triton_version()))}. It needs Triton and nothing of "
        "Tawa.\n"
        "Comments are the lines of the kernel that it came from; `launch` takes the arguments of that kernel."
    )
    emitted = gluon_source(
        read_final(compiled),
        partition_names(compiled),
        about=about,
        library=str(Path(triton.__file__).parent),
        made=Made(source.fn.arg_names, constants, divisible, blocks_of(source.signature)),
    )
    verdict = check_module(read_final(compile_emitted(emitted, compiled)), "fast")
    if isinstance(verdict, Refuted):
        raise EmitError(f"{name}: the Gluon module is refuted, which is a fault of Tawa:\n{verdict}")
    return emitted


def compile_emitted(emitted: Emitted, compiled: Any) -> Any:
    """Compiles the Gluon module for the types that a kernel was compiled for; returns Triton's `CompiledKernel`."""
    loaded = load_emitted(emitted)
    kernel, source = loaded[emitted.kernel], compiled.src
    names = list(emitted.parameters)
    types = {name: source.signature[name] for name in names}
    for name, (_, block, layout) in loaded["BOXES"].items():
        element = types[name].partition("<")[2].partition("[")[0]
        types[name] = f"tensordesc<{element}{block},{layout.value!r}>"
    attributes = {
        (names.index(source.fn.arg_names[path[0]]),): some
        for path, some in source.attrs.items()
        if source.fn.arg_names[path[0]] in names
    }
    return compile_gluon(kernel, Signature(types, {}, attributes), **emitted.options)


def blocks_of(signature: Mapping[str, Any]) -> dict[str, list[int]]:
    """The blocks of descriptors, by parameter, in a signature of Triton."""
    return {
        name: [int(it) for it in kind.partition("[")[2].partition("]")[0].split(",")]
        for name, kind in signature.items()
        if isinstance(kind, str) and kind.startswith("tensordesc<")
    }


def load_emitted(emitted: Emitted) -> dict[str, Any]:
    """Executes the module; returns its names."""
    file = f"<{emitted.kernel} in Gluon {abs(hash(emitted.text))}>"
    linecache.cache[file] = (len(emitted.text), None, emitted.text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "tawa_emitted", "__file__": file}
    exec(compile(emitted.text, file, "exec", dont_inherit=True), names)
    return names


def partition_names(compiled: Any) -> list[str]:
    """Names of the default partition and of the others, in the order of the program."""
    plan = plan_of(getattr(compiled.metadata, KEY))
    names = [part.name.replace(" ", "_") for part in plan.partitions] if plan is not None else []
    consumers = [name for name in names if name.startswith("consumer")]
    return [*consumers, *(name for name in names if name not in consumers)]


__all__ = ["compile_emitted", "emit_gluon", "load_emitted", "partition_names"]
