"""A specialised kernel as a file in Gluon: layouts, one function for each partition, the kernel.

`gluon_source` takes the final TTGIR. The text needs Triton, and nothing of Tawa.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tawa.dialects import ttg
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import FuncOp
from tawa.emit import control_flow, hopper, operations, tiles
from tawa.emit.body import INDENT, Body, File, Writer
from tawa.emit.errors import cannot_say
from tawa.emit.launch.made import Made
from tawa.emit.launch.source import TAKEN, launch_source
from tawa.emit.layouts import layout_source
from tawa.emit.names import Names
from tawa.emit.parameters import Parameter, find_parameters
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.attributes import attribute_of, read_int
from tawa.ir.encodings import kind_of

HEAD = '''"""{title}

{about}
"""

{imports}import triton.language as tl
{checking}from triton.experimental import gluon
from triton.experimental.gluon import language as gl
{more}from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Names that differ between Triton 3.6 and 3.9.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
thread_barrier = getattr(gl, "barrier", None) or gl.thread_barrier
{names}'''
OPTIONS = {"num_warps": "num-warps", "maxnreg": "maxnreg"}
"""Options of a launch that stand in the program, by their names."""
LAYOUT_NAMES = {
    "#ttg.nvidia_mma": "MMA", "#ttg.nvmma_shared": "TILES", "#ttg.swizzled_shared": "SHARED", "#ttg.blocked": "BLOCKED",
    "#ttg.linear": "LINEAR", "#ttg.slice": "ROW", "#ttg.dot_op": "OPERAND",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Emitted:
    """A file in Gluon. kernel: its name; parameters: of the kernel, in order; options: of its launches.

    needs: the oldest Triton that has all of what the file uses, and what an older one does not have.
    """

    text: str
    kernel: str
    parameters: tuple[Parameter, ...]
    options: Mapping[str, Any]
    needs: tuple[tuple[int, int], str] = ((3, 6), "")


def gluon_source(
    module: Module, partitions: Sequence[str] = (), title: str = "", about: str = "", made: Made | None = None
) -> Emitted:
    """The file of a kernel in its final TTGIR.

    partitions: names of the default partition and of the others, in their order. made: what the kernel was compiled
    for, which `launch` checks; without it the file has no `launch`. Raises EmitError for a program that
    cannot be said in Gluon.
    """
    return _Writer(module, partitions).write(title, about, made)


class _Writer:
    def __init__(self, module: Module, partitions: Sequence[str]) -> None:
        self.module = module
        self.partitions = list(partitions)
        self.layouts: dict[str, str] = {}  # name by source
        functions = [view for op in module.body.ops if (view := FuncOp.of(op)) is not None]
        if len(functions) != 1:
            raise cannot_say("a function that is not inlined")
        self.function = functions[0]
        if not self.function.structured:
            raise cannot_say("an early return of the kernel")
        self.file = File(module, self.layout_name, _source_line)
        here: dict[str, Writer] = by_name({ttg.WarpSpecializeOp: self.specialise})
        self.file.writers = {**tiles.WRITERS, **operations.WRITERS, **hopper.WRITERS, **control_flow.WRITERS, **here}
        self.kernel = Names({*TAKEN}).fresh(self.function.name)
        self.file.extras.taken = self.taken = {self.kernel, *TAKEN}
        self.constants = Names({argument.hint for argument in self.function.body.args})

    def layout_name(self, encoding: str, shape: Sequence[int]) -> str:
        source = layout_source(self.module.aliases, encoding, shape)
        if source not in self.layouts:
            wish = LAYOUT_NAMES[kind_of(self.module.aliases, encoding)]
            self.layouts[source] = name = self.constants.fresh(wish)
            self.taken.add(name)
        return self.layouts[source]

    def write(self, title: str, about: str, made: Made | None) -> Emitted:
        names = self.names()
        parameters = find_parameters(self.module, self.function, names, self.layout_name)
        body = Body(self.file, names)
        if body.block(self.function.body):
            raise cannot_say("a kernel that returns a value")
        kernel = ["@gluon.jit", f"def {self.kernel}({', '.join(it.source for it in parameters)}):", *body.lines]
        layouts = [f"{name} = gl.constexpr({source})" for source, name in self.layouts.items()]
        said = {name: attribute_of(self.module.op.attributes, f"ttg.{key}") for name, key in OPTIONS.items()}
        options: dict[str, Any] = {name: read_int(value) for name, value in said.items() if value is not None}
        imports = launch = ""
        if made is not None:
            options |= made.options
            imports, launch = launch_source(made, self.kernel, parameters, options, self.file.scratch)
        checking = "from triton._utils import canonicalize_dtype\n" * ("canonicalize_dtype(" in launch)
        title = title or f"{self.function.name} in Gluon."
        more = self.file.extras
        head = HEAD.format(
            title=title, about=about, imports=imports, checking=checking, more=more.imports, names=more.names
        )
        parts = [head, "\n".join(layouts)]
        parts += ["\n\n" + "\n".join(lines) for lines in (*self.file.functions, kernel)]
        return Emitted("\n".join(parts) + "\n" + launch, self.kernel, parameters, options, self.file.extras.needs)

    def names(self) -> Names:
        arguments = {argument.hint for argument in self.function.body.args}
        return Names({*self.taken, *(set(LAYOUT_NAMES.values()) - arguments)})

    # -- partitions ----------------------------------------------------------------------------------------------

    def specialise(self, outer: Body, op: Operation) -> None:
        """Writes the functions of the partitions, and the statement that starts them."""
        outer.comment(op)
        view = ttg.WarpSpecializeOp(op)
        calls: list[str] = []
        blocks: list[tuple[Block, list[tuple[Value, Value]]]] = [(view.default, _free(view.default))]
        blocks += [(block, list(zip(block.args, view.captures, strict=True))) for block in view.partitions]
        for number, (block, captures) in enumerate(blocks):
            wish = self.partitions[number] if number < len(self.partitions) else f"partition_{number}"
            name = Names(self.taken).fresh(wish)
            self.taken.add(name)
            calls.append(f"({name}, {self.partition(outer, name, block, captures)})")
        results = [outer.names.name(it) for it in op.results]
        warps = view.num_warps
        registers = op.attributes.get("requestedRegisters") or op.properties.get("requestedRegisters", "")
        asked = [int(it) for it in registers.removeprefix("array<i32:").removesuffix(">").split(",") if it.strip()]
        lead = f"{', '.join(results)}{',' if len(results) == 1 else ''} = " if results else ""
        inner = f",\n{INDENT * (outer.depth + 2)}".join(calls)
        indent = INDENT * (outer.depth + 1)
        end = INDENT * outer.depth
        outer.put(
            f"{lead}gl.warp_specialize(\n{indent}[\n{indent}{INDENT}{inner},\n{indent}],\n"
            f"{indent}{list(warps)},\n{indent}{asked},\n{end})"
        )

    def partition(self, outer: Body, name: str, block: Block, captures: Sequence[tuple[Value, Value]]) -> str:
        """Writes one partition as a function; the tuple of its arguments."""
        names = self.names()
        parameters: list[str] = []
        arguments: list[str] = []
        for inside, outside in captures:
            if not inside.uses:
                continue
            source = outer.of(outside)
            if _literal(source):
                names.sources[inside] = source
                continue
            descriptor = source.split(".", 1)[0]
            if ".shape[" in source or ".strides[" in source:
                raise cannot_say(f"the use of {source} in a partition")
            parameters.append(names.name(inside, descriptor if descriptor.isidentifier() else ""))
            arguments.append(source)
        body = Body(self.file, names)
        if values := body.block(block):
            body.put(f"return {', '.join(body.of(it) for it in values)}{',' * (len(values) == 1)}")
        if not body.lines:
            body.put("pass")
        self.file.functions.append(["@gluon.jit", f"def {name}({', '.join(parameters)}):", *body.lines])
        return f"({', '.join(arguments)}{',' if len(arguments) == 1 else ''})"


def _free(block: Block) -> list[tuple[Value, Value]]:
    """The values from outside that a block uses, in the order of their first use."""
    inside: set[Value] = set(block.args)
    found: dict[Value, None] = {}

    def visit(some: Block) -> None:
        inside.update(some.args)
        for op in some.ops:
            found.update(dict.fromkeys(it for it in op.operands if it not in inside))
            inside.update(op.results)
            for region in op.regions:
                for nested in region.blocks:
                    visit(nested)

    visit(block)
    return [(it, it) for it in found]


def _literal(source: str) -> bool:
    return source in ("True", "False") or source.lstrip("(-").rstrip(")").replace(".", "").replace("e-", "").isdigit()


def _source_line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()


__all__ = ["Emitted", "gluon_source"]
