"""Reads programs from files and from compiled kernels.

    custom form (what Triton prints)     → Triton reads it, prints the generic form → Module
    generic form (also the aref level)   → Module, without Triton
    TTIR of a compiled kernel            → Triton's front half, up to its pipeliner → Module

If the text has no locations, each operation gets its line in the file, so that messages can show it.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tawa.bridge.driver.annotations import without_annotations
from tawa.bridge.triton.apart import Fate, run_apart
from tawa.bridge.triton.device import capability_of, gpu_target, whole_options
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.ir_compat import respelt
from tawa.bridge.triton.stages import split_make_ttgir
from tawa.bridge.triton.structured import new_context
from tawa.bridge.triton.surroundings import temporary_text
from tawa.bridge.triton.versions import nested_descriptors, refuse_untested, triton_version
from tawa.dialects.control_flow import public_functions
from tawa.dialects.declare.structure import structure_rules, unreadable_attribute
from tawa.dialects.tt import FuncOp
from tawa.errors import CompileError, ParseError
from tawa.ir import Module, TensorDescType, Value, parse_module, parse_type, source_of, verify_structure
from tawa.ir.attributes import attribute_of
from tawa.ir.text import match_bracket
from tawa.machine.machines import SM_90, machine_for
from tawa.supported import TRITON

_NUM_WARPS = "ttg.num-warps"
_HEADER = re.compile(r"\btt\.func\s+(?:(?:public|private)\s+)?@[^(]*\(")
_PARAMETER = re.compile(r"%([\w$.-]+)\s*:")
_LINE = re.compile(r"line (\d+): ")


def read_ttgir(path: Path) -> Module:
    """Reads a program with layouts (TTGIR, or Tawa's aref or barrier level); raises ParseError with line and cure."""
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise ParseError(f"{path} is not text: {error}. Cure: give what tawa compile --emit ttgir prints") from error
    lines = (line.strip() for line in text.splitlines())
    if not any(line for line in lines if not line.startswith("//")):
        raise ParseError(f"{path.name} holds no program. Cure: give what tawa compile --emit ttgir prints")
    if is_generic(text):
        module = _parse(text, path)
        names: list[str] = []
    else:
        try:
            generic = _generic_text(path, text)
        except Exception:
            refuse_untested(f"{path.name} is not in MLIR's generic form, the only form that is read without Triton")
            raise
        module = _parse(generic, path)
        names = _parameter_names(text)
    if attribute_of(module.op.attributes, _NUM_WARPS) is None:
        raise _no_layouts(path)
    _name_parameters(module, names)
    return module


def is_generic(text: str) -> bool:
    """Whether the first operation of a text is in MLIR's generic form."""
    lines = (line.lstrip() for line in text.splitlines())
    return next((line[0] in '"%' for line in lines if line and not line.startswith(("//", "#", "!"))), False)


def read_final(compiled: Any) -> Module:
    """The final TTGIR of a `CompiledKernel`, after all of Triton's passes."""
    return _printed(parse_with_triton(compiled.asm["ttgir"], new_context()))


def read_unspecialised(compiled: Any, *, num_warps: int, num_stages: int) -> Module:
    """The TTGIR of a `CompiledKernel` before Triton's pipeliner: the input of Tawa's pipeline.

    num_warps, num_stages: of the compile; the kernel's metadata has the warps of all partitions.
    """
    target = machine_for(capability_of(compiled)) or SM_90
    from triton.compiler.compiler import make_backend

    backend: Any = make_backend(gpu_target(target))
    split = split_make_ttgir(type(backend))
    if split is None:
        raise CompileError(f"Triton {_version()} has a pass pipeline that Tawa does not know. Cure: use {TRITON}")
    options = backend.parse_options(whole_options({"num_warps": num_warps, "num_stages": num_stages}))
    module, _ = without_annotations(parse_with_triton(compiled.asm["ttir"], new_context()))
    return parse_module(print_generic(split.front(module, {}, options, target.capability)))


def read_levels(compiled: Any) -> tuple[Module, Module]:
    """The aref and the barrier level of a specialised `CompiledKernel`.

    The aref level is stored without locations. Locations hold the names of the parameters, so those are copied over.
    """
    aref, barrier = parse_module(compiled.asm["aref"]), parse_module(compiled.asm["barrier"])
    for arg, named in zip(kernel_of(aref).body.args, kernel_of(barrier).body.args, strict=True):
        arg.loc = barrier.locs.get(named.loc, named.loc)
    return aref, barrier


def kernel_of(module: Module) -> FuncOp:
    """The public function of a module; raises ParseError unless there is exactly one."""
    public = public_functions(module)
    if len(public) != 1:
        raise ParseError(f"the program has {len(public)} public functions. Cure: give a program of one kernel")
    return public[0]


# --- custom form ------------------------------------------------------------------------------------------------------


def _generic_text(path: Path, text: str) -> str:
    """The generic form of a file in custom form; raises ParseError with Triton's diagnostics.

    text: of the file. If another Triton printed it, a copy is read, with the types of descriptors respelt.
    """
    spelt, other = respelt(text, nested_descriptors())
    with temporary_text(spelt, ".ttgir") if other else nullcontext(str(path)) as source:
        fate = run_apart(lambda: _read_with_triton(source))
    if fate.text is None:
        raise _refused(path, replace(fate, said=fate.said.replace(source, str(path))), other)
    if not fate.text:
        raise _no_layouts(path)
    own = re.compile(rf'loc\("{re.escape(source)}":(\d+):(\d+)')
    # MLIR counts columns of a text from 1. Triton's front end, and Tawa, count columns of a kernel from 0.
    return own.sub(lambda match: f'loc("{path}":{match[1]}:{int(match[2]) - 1}', fate.text)


def _read_with_triton(path: str) -> str:
    """The generic form of a file that Triton can read; empty for a program without layouts."""
    from triton._C.libtriton import ir

    context = new_context()
    module = ir.parse_mlir_module(path, context)
    module.context = context
    return "" if module.get_int_attr(_NUM_WARPS) is None else print_generic(module)


def _printed(module: Any) -> Module:
    return parse_module(print_generic(module))


def _refused(path: Path, fate: Fate, other: str) -> ParseError:
    """The error for a text that Triton refuses. other: a type as another version spells it; empty if there is none."""
    said, location = fate.diagnostic
    place = f"\n  at {location}" if location else ""
    reason = f"it ends the process ({fate.died})" if fate.died else said or fate.said.strip() or "it gives no reason"
    if other:
        printer = "Triton 3.8 or later" if nested_descriptors() else "Triton 3.6 or 3.7"
        return ParseError(
            f"Triton {_version()} cannot read {path.name}: {reason}{place}\n"
            f"Cure: {printer} printed this text ({other}); install that version, or give MLIR's generic form, which is "
            "read without Triton"
        )
    return ParseError(
        f"Triton {_version()} cannot read {path.name}: {reason}{place}\n"
        "Cure: give TTGIR as this version of Triton prints it, or MLIR's generic form, which is read without Triton"
    )


def _no_layouts(path: Path) -> ParseError:
    return ParseError(
        f"{path.name} has no {_NUM_WARPS}: it is TTIR, a program without layouts and barriers. "
        "Cure: give its TTGIR (tawa compile … --emit ttgir, or compiled.asm['ttgir'])"
    )


def _version() -> str:
    return ".".join(map(str, triton_version()))


# --- places and names -------------------------------------------------------------------------------------------------


def _parse(text: str, path: Path) -> Module:
    """Parses generic text; operations of a text without locations get their lines."""
    try:
        module = parse_module(text)
    except ParseError as error:
        found = _LINE.match(str(error))
        place = f"\n  at {path}:{found[1]}" if found else ""
        reason = _LINE.sub("", str(error).partition("\n")[0], count=1)
        raise ParseError(
            f"{path.name} cannot be read: {reason}{place}\nCure: one operation a line, as MLIR prints the generic form"
        ) from error
    if " loc(" not in text:
        lines = [
            (number, len(line) - len(line.lstrip()))
            for number, line in enumerate(text.splitlines(), start=1)
            if line.lstrip()[:1] in ('"', "%")
        ]
        operations = [module.op, *(op for op in module.walk() if op is not module.op)]
        for op, (number, column) in zip(operations, lines, strict=True):
            op.loc = f'"{path}":{number}:{column}'
    for op in module.walk():
        if name := unreadable_attribute(op):
            place = source_of(module, op)
            raise ParseError(
                f"{path.name} cannot be read: {op.name} has no attribute {name}, or one of another kind"
                + (f"\n  at {place}" if place else "")
                + "\nCure: write it as tawa compile --emit ttgir prints it"
            )
    for error in verify_structure(module, structure_rules()):
        place = source_of(module, error.op)
        raise ParseError(
            f"{path.name} is not well formed: {error}"
            + (f"\n  at {place}" if place else "")
            + "\nCure: write it as tawa compile --emit ttgir prints it"
        )
    return module


def _parameter_names(text: str) -> list[str]:
    """The names in ``tt.func public @kernel(%a: …, %K: …)``, of the first function."""
    found = _HEADER.search(text)
    if found is None:
        return []
    header = text[found.end() - 1 : match_bracket(text, found.end() - 1)]
    return _PARAMETER.findall(header)


def _name_parameters(module: Module, names: list[str]) -> None:
    """Names parameters without a name, for messages and the simulator: as in the text, else ``arg<number>``.

    Triton passes the shape and strides of each host descriptor after it; they get the descriptor's name.
    """
    args = kernel_of(module).body.args
    for arg in args:
        if not arg.hint:
            arg.hint = names[arg.index] if len(names) == len(args) else f"arg{arg.index}"
    for arg in args:
        for follower in _shape_and_strides(arg, args):
            follower.hint = arg.hint


def _shape_and_strides(arg: Value, args: list[Value]) -> list[Value]:
    kind = parse_type(arg.type)
    if not isinstance(kind, TensorDescType):
        return []
    rank = len(kind.block.shape)
    behind = args[arg.index + 1 : arg.index + 1 + 2 * rank]
    return behind if [it.type for it in behind] == ["i32"] * rank + ["i64"] * rank else []
