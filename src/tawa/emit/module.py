"""A specialised kernel as a file in Gluon: layouts, one function for each partition, the kernel.

`gluon_source` takes the final TTGIR. The text needs Triton, and nothing of Tawa.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tawa.dialects import ttg
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import FuncOp
from tawa.emit import blackwell, control_flow, hopper, memory, operations, tiles
from tawa.emit.body import File, Writer
from tawa.emit.errors import cannot_say
from tawa.emit.extras import BLACKWELL, HOPPER
from tawa.emit.launch.made import Made
from tawa.emit.launch.source import TAKEN, launch_source
from tawa.emit.parameters import Parameter, find_parameters
from tawa.emit.partitions import Partitions, head
from tawa.emit.prepare import prepare
from tawa.emit.python.names import Names
from tawa.emit.python.text import INDENT, WIDTH
from tawa.emit.rings import transfers
from tawa.emit.rings.recognised import rings_of
from tawa.emit.rings.ring_class import ring_source
from tawa.emit.values.layouts import layout_source
from tawa.emit.values.views import EXPRESSIONS
from tawa.ir import Module
from tawa.ir.attributes import attribute_of, read_int
from tawa.ir.encodings import kind_of
from tawa.ir.rewriter import copy_module
from tawa.machine.machines import SM_90, SM_100, Machine, machine_of_module

HEAD = '''"""{title}

{about}
"""

{imports}import triton.language as tl
{checking}from triton.experimental import gluon
from triton.experimental.gluon import language as gl
{more}from triton.experimental.gluon.language.nvidia.{machine} import (
    {words}
)
from triton.experimental.gluon.nvidia.{machine} import TensorDescriptor
{aggregate}
# Names that differ between Triton 3.6 and 3.9.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
thread_barrier = getattr(gl, "barrier", None) or gl.thread_barrier
{names}
'''
OPTIONS = {"num_warps": "num-warps", "maxnreg": "maxnreg"}
"""Options of a launch that stand in the program, by their names."""
LAYOUT_NAMES = {
    "#ttg.nvidia_mma": "MMA", "#ttg.nvmma_shared": "TILES", "#ttg.swizzled_shared": "SHARED", "#ttg.blocked": "BLOCKED",
    "#ttg.linear": "LINEAR", "#ttg.slice": "ROW", "#ttg.dot_op": "OPERAND", "#ttng.tensor_memory_encoding": "TENSOR",
    "#ttng.tensor_memory_scales_encoding": "SCALES", "#ttg.shared_linear": "BLOCKS",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Emitted:
    """A file in Gluon. kernel: its name; parameters: of the kernel, in order; options: of its launches.

    needs: the oldest Triton that has all of what the file uses, and what an older one does not have. machine: that the
    kernel is for.
    """

    text: str
    kernel: str
    parameters: tuple[Parameter, ...]
    options: Mapping[str, Any]
    needs: tuple[tuple[int, int], str] = ((3, 6), "")
    machine: Machine = SM_90


def gluon_source(
    module: Module,
    partitions: Sequence[str] = (),
    title: str = "",
    about: str = "",
    made: Made | None = None,
    library: str = "",
) -> Emitted:
    """The file of a kernel in its final TTGIR.

    partitions: names of the default partition and of the others, in their order. made: what the kernel was compiled
    for, which `launch` checks; without it the file has no `launch`. library: the folder of Triton, whose lines are
    none of the user's. Raises EmitError for a program that cannot be said in Gluon.
    """
    module = copy_module(module)
    prepare(module)
    return _Writer(module, partitions, library).write(title, about, made)


class _Writer:
    def __init__(self, module: Module, partitions: Sequence[str], library: str) -> None:
        self.module = module
        self.machine = machine_of_module(module) or SM_90
        self.layouts: dict[str, str] = {}  # name by source
        functions = [view for op in module.body.ops if (view := FuncOp.of(op)) is not None]
        if len(functions) != 1:
            raise cannot_say("a function that is not inlined")
        self.function = functions[0]
        if not self.function.structured:
            raise cannot_say("an early return of the kernel")
        self.file = File(module, self.layout_name, library)
        self.kernel = Names({*TAKEN}).fresh(self.function.name)
        self.file.extras.taken = self.taken = {self.kernel, *TAKEN}
        self.parts = Partitions(self.file, partitions, self.taken, self.variables())
        here: dict[str, Writer] = by_name({ttg.WarpSpecializeOp: self.parts.write})
        own = {**tiles.WRITERS, **operations.WRITERS, **memory.WRITERS, **transfers.WRITERS}
        self.file.writers = {**own, **hopper.WRITERS, **blackwell.WRITERS, **control_flow.WRITERS, **here}
        self.file.expressions = EXPRESSIONS
        self.rings = list(rings_of(module, self.function.body))
        self.constants = Names({argument.hint for argument in self.function.body.args})

    def layout_name(self, encoding: str) -> str:
        source = layout_source(self.module.aliases, encoding)
        if source not in self.layouts:
            wish = LAYOUT_NAMES[kind_of(self.module.aliases, encoding)]
            self.layouts[source] = name = self.constants.fresh(wish)
            self.taken.add(name)
        return self.layouts[source]

    def write(self, title: str, about: str, made: Made | None) -> Emitted:
        names = Names({*self.taken, *self.variables()})
        types = {index: made.types.get(it, "") for index, it in enumerate(made.passed)} if made is not None else {}
        parameters = find_parameters(self.module, self.function, names, self.layout_name, types)
        body = self.parts.body(names, self.function.body)
        for ring in self.rings:
            body.ring_names[ring] = names.fresh(f"{ring.stem}_ring")
            body.allocations.update(dict.fromkeys(ring.allocations, ring))
            body.written |= ring.inits
        members = {it: member for ring in self.rings for it, member in ring.members.items()}
        self.parts.prepare(body, self.function.body, members)
        if body.block(self.function.body):
            raise cannot_say("a kernel that returns a value")
        signed = [f"{INDENT}{it.signed}" for it in parameters if it.signed]
        kernel = ["@gluon.jit", head(self.kernel, [it.source for it in parameters]), *signed, *body.lines]
        said = {name: attribute_of(self.module.op.attributes, f"ttg.{key}") for name, key in OPTIONS.items()}
        options: dict[str, Any] = {name: read_int(value) for name, value in said.items() if value is not None}
        imports = launch = ""
        if made is not None:
            options |= made.options
            imports, launch = launch_source(made, self.kernel, parameters, options, self.file.scratch)
        layouts = "\n".join(_constant(name, source) for source, name in self.layouts.items())
        top = self.head(title or f"{self.function.name} in Gluon.", about, imports, launch)
        parts = [top + layouts, ring_source(self.file.methods)]
        parts += ["\n\n" + "\n".join(lines) for lines in (*self.file.functions, kernel)]
        text = "\n".join(part.rstrip("\n") for part in parts if part) + "\n"
        text += "\n" + launch if launch else ""
        return Emitted(text, self.kernel, parameters, options, self.file.extras.needs, self.machine)

    def variables(self) -> set[str]:
        """Names of layouts, which no variable may have, except for parameters of the kernel."""
        return set(LAYOUT_NAMES.values()) - {argument.hint for argument in self.function.body.args}

    def head(self, title: str, about: str, imports: str, launch: str) -> str:
        """The lines above the layouts."""
        more = self.file.extras
        machine, words = BLACKWELL if self.machine == SM_100 else HOPPER
        core = "from triton.language.core import _aggregate as aggregate\n" if "mbarriers" in self.file.methods else ""
        checking = "from triton._utils import canonicalize_dtype\n" * ("canonicalize_dtype(" in launch)
        return HEAD.format(
            title=title, about=about, imports=imports, checking=checking, more=more.imports, names=more.names,
            aggregate=core, machine=machine, words=words,
        )  # fmt: skip


def _constant(name: str, source: str) -> str:
    """A layout, in lines that are not too long."""
    line = f"{name} = gl.constexpr({source})"
    if len(line) <= WIDTH:
        return line
    whole = re.sub(r"\[[^][]*\]", lambda it: it[0].replace(" ", "\xa0"), source)  # lists of numbers stay in one line
    inner = textwrap.fill(whole, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2, break_long_words=False)
    return f"{name} = gl.constexpr(\n{inner}\n)".replace("\xa0", " ")
