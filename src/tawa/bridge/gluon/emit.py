"""A compiled kernel as a file in Gluon, verified once more from its text."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton

from tawa.bridge.gluon.check import check_module
from tawa.bridge.gluon.compile import compile_gluon, with_layout
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.argument_paths import BASE, argument_paths
from tawa.bridge.launch.why_stock import why_not_specialised
from tawa.bridge.report.record import KEY, plan_of
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.versions import triton_version
from tawa.dialects.warp import order_beside
from tawa.emit.launch.made import Made
from tawa.emit.module import Emitted, gluon_source
from tawa.errors import EmitError
from tawa.verify.verdict import Refuted


def emit_gluon(compiled: Any) -> Emitted:
    """The Gluon module of a specialised kernel, from its final TTGIR.

    compiled: Triton's `CompiledKernel`. The module is compiled and its barriers are verified before it is returned.
    Raises EmitError for a kernel that was left to stock Triton or that uses what Gluon has no word for; and if the
    module is refuted.
    """
    name = compiled.metadata.name
    if reason := why_not_specialised(compiled):
        raise EmitError(f"{name} is not specialised: {reason}")
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
        made=made_for(compiled),
    )
    least, what = emitted.needs
    if triton_version()[:2] < least:
        raise EmitError(f"{name}: {what} are in Gluon from Triton {'.'.join(map(str, least))} on")
    loaded = load_emitted(emitted)
    verdict = check_module(read_final(_compiled(emitted, loaded)), "fast")
    if isinstance(verdict, Refuted):
        raise EmitError(f"{name}: the Gluon module is refuted, which is a fault of Tawa:\n{verdict}")
    return replace(emitted, text=emitted.text.replace(about, about + _how_to_verify(emitted, loaded), 1))


def _how_to_verify(emitted: Emitted, loaded: dict[str, Any]) -> str:
    """The command that verifies the file after an edit; empty if its descriptors need a layout of their own."""
    types = {it.name: it.type.replace(" ", "") for it in emitted.parameters}
    layouts = {it.name: f",{loaded[it.box.layout].value!r}>" for it in emitted.parameters if it.box is not None}
    if any(with_layout(types[name]) != types[name][:-1] + layout for name, layout in layouts.items()):
        return ""
    given = (f"{it.name}={types[it.name]}{':16' * it.divisible}" for it in emitted.parameters)
    lines = textwrap.fill(", ".join(given), 112, initial_indent=" " * 8, subsequent_indent=" " * 8)
    command = f"tawa verify THIS_FILE.py:{emitted.kernel} --num-warps {emitted.options['num_warps']} --sig"
    return f"\n\nAfter an edit, Tawa checks its barriers:\n\n    {command} '\n{lines}'"


def compile_emitted(emitted: Emitted) -> Any:
    """Compiles the Gluon module for the types that it was made for; returns Triton's `CompiledKernel`."""
    return _compiled(emitted, load_emitted(emitted))


def _compiled(emitted: Emitted, loaded: dict[str, Any]) -> Any:
    types: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for number, it in enumerate(emitted.parameters):
        types[it.name] = it.type if it.box is None else f"{it.type[:-1]},{loaded[it.box.layout].value!r}>"
        if it.divisible:
            attributes[(number,)] = [["tt.divisibility", 16]]
    signature = Signature(types, {}, attributes)
    return compile_gluon(loaded[emitted.kernel], signature, target=emitted.machine, **emitted.options)


def made_for(compiled: Any) -> Made:
    """What a kernel was compiled for."""
    source = compiled.src
    names = list(source.signature)
    constants = {_part(names, path): value for path, value in source.constants.items()}
    defaults = {
        it.name: it.default
        for it in source.fn.params
        if it.is_constexpr and it.has_default and constants.get(it.name, it.default) != it.default
    }
    types: dict[str, str] = {}
    values: list[str] = []
    passed: list[str] = []
    for path in argument_paths(tuple(source.signature.values())):
        part = _part(names, path)
        kind: Any = source.signature[names[int(path[0])]]
        for at in path[1:]:
            kind = kind[int(at)] if isinstance(kind, tuple) else kind
        fields = [it for it in path if isinstance(it, str)]
        is_number = not fields and not kind.startswith("*")
        values.append(part if is_number or fields[:1] not in ([], [BASE]) else f"{part}.data_ptr()")
        whole = part.removesuffix(f".{BASE}") if fields[:1] in ([], [BASE]) else ""
        passed.append(whole)
        if whole:
            types[whole] = kind
    divisible = [_part(names, path) for path, some in source.attrs.items() if ["tt.divisibility", 16] in some]
    options: dict[str, Any] = {"debug": True} if getattr(compiled.metadata, "debug", False) else {}
    options |= {name: value for name in _NUMERICS if (value := getattr(compiled.metadata, name, True)) is not True}
    spec = launch_spec(compiled)
    return Made(names, constants, defaults, types, divisible, values, passed, spec, options)


_NUMERICS = ("enable_fp_fusion", "enable_reflect_ftz")
"""Options of Triton's, true unless a user turned them off, that change results."""


def _part(names: Sequence[str], path: Sequence[int | str]) -> str:
    """An argument, or a part of one, as an expression of the parameters' names."""
    return names[int(path[0])] + "".join(f".{it}" if isinstance(it, str) else f"[{it}]" for it in path[1:])


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
    parts = plan.partitions if plan is not None else ()
    beside = [it for it in parts if it.role != "consumer"]
    beside.sort(key=lambda it: order_beside(it.num_warps, it.role))
    return [it.name.replace(" ", "_") for it in (*(it for it in parts if it.role == "consumer"), *beside)]
