"""A specialised kernel as a file in Gluon: layouts, one function for each partition, the kernel.

`gluon_source` takes the final TTGIR. The text needs Triton, and nothing of Tawa.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tawa.dialects import ttg
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tt import FuncOp
from tawa.emit import control_flow, hopper, tiles, transfers
from tawa.emit.body import INDENT, Body, File, Writer
from tawa.emit.errors import cannot_say
from tawa.emit.launch import Made, launch_source
from tawa.emit.layouts import layout_source
from tawa.emit.names import Names
from tawa.emit.prepare import prepare
from tawa.emit.ring_source import ring_source
from tawa.emit.rings import Member, advances_of, memory_of, rings_of, stem_of
from tawa.emit.roles import roles_of
from tawa.emit.views import EXPRESSIONS
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.attributes import attribute_of, read_int
from tawa.ir.encodings import kind_of
from tawa.ir.rewriter import copy_module
from tawa.ir.types import TensorDescType, parse_type

HEAD = '''"""{title}

{about}
"""

{imports}import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
{aggregate}
# Names that differ between Triton 3.6 and 3.9.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
thread_barrier = getattr(gl, "barrier", None) or gl.thread_barrier

'''
WIDTH = 110
"""Characters of a line."""
OPTIONS = {"num_warps": "num-warps", "maxnreg": "maxnreg"}
"""Options of a launch that stand in the program, by their names."""
LAYOUT_NAMES = {
    "#ttg.nvidia_mma": "MMA", "#ttg.nvmma_shared": "TILES", "#ttg.swizzled_shared": "SHARED", "#ttg.blocked": "BLOCKED",
    "#ttg.linear": "LINEAR", "#ttg.slice": "ROW", "#ttg.dot_op": "OPERAND",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Emitted:
    """A file in Gluon. kernel: its name; parameters: of the kernel, in order; options: of its launches."""

    text: str
    kernel: str
    parameters: tuple[str, ...]
    options: Mapping[str, int]


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
        self.partitions = list(partitions)
        self.layouts: dict[str, str] = {}  # name by source
        self.boxes: dict[str, tuple[list[int], str]] = {}
        functions = [view for op in module.body.ops if (view := FuncOp.of(op)) is not None]
        if len(functions) != 1:
            raise cannot_say("a function that is not inlined")
        self.function = functions[0]
        if not self.function.structured:
            raise cannot_say("an early return of the kernel")
        self.file = File(module, self.layout_name, library)
        here: dict[str, Writer] = by_name({ttg.WarpSpecializeOp: self.specialise})
        self.file.writers = {**tiles.WRITERS, **hopper.WRITERS, **transfers.WRITERS, **control_flow.WRITERS, **here}
        self.file.expressions = EXPRESSIONS
        self.rings = list(rings_of(module, self.function.body))
        self.taken = {self.function.name}
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
        parameters = self.parameters(names)
        body = self.body(names, self.function.body)
        for ring in self.rings:
            body.ring_names[ring] = names.fresh(f"{ring.stem}_ring")
            body.allocations.update(dict.fromkeys(ring.allocations, ring))
            body.written |= ring.inits
        self.add_members(body, {it: member for ring in self.rings for it, member in ring.members.items()})
        body.wishing(roles_of(self.function.body, body.members, {}, body.advances.values()).items())
        body.wishing(_buffers(self.function.body))
        if body.block(self.function.body):
            raise cannot_say("a kernel that returns a value")
        kernel = ["@gluon.jit", _head(self.function.name, parameters), *body.lines]
        layouts = [_constant(name, source) for source, name in self.layouts.items()]
        title = title or f"{self.function.name} in Gluon."
        parts = [_imports(title, about, self.file) + "\n".join(layouts), ring_source(self.file.methods)]
        parts += ["\n\n" + "\n".join(lines) for lines in (*self.file.functions, kernel)]
        said = {name: attribute_of(self.module.op.attributes, f"ttg.{key}") for name, key in OPTIONS.items()}
        options = {name: read_int(value) for name, value in said.items() if value is not None}
        text = "\n".join(part.rstrip("\n") for part in parts if part) + "\n"
        if made is not None:
            text += "\n" + launch_source(made, self.function.name, parameters, options, self.boxes, self.file.scratch)
        return Emitted(text, self.function.name, tuple(parameters), options)

    def body(self, names: Names, block: Block) -> Body:
        """A writer for a function with this block."""
        body = Body(self.file, names)
        body.current = block
        ops = [it for op in block.ops for it in op.walk()]
        blocks = [block, *(some for op in ops for region in op.regions for some in region.blocks)]
        for step in (found for some in blocks for found in advances_of(some)):
            body.advances.update(dict.fromkeys(step.ops, step))
        return body

    def add_members(self, body: Body, members: Mapping[Value, Member]) -> None:
        """Names the parts of rings in a function."""
        body.members.update(members)
        for value, member in members.items():
            body.names.sources[value] = member.of(body.ring(member.ring))

    def names(self) -> Names:
        arguments = {argument.hint for argument in self.function.body.args}
        return Names({*self.taken, *(set(LAYOUT_NAMES.values()) - arguments)})

    def parameters(self, names: Names) -> list[str]:
        """Names the arguments of the kernel: a descriptor is one, though TTGIR has its shape and strides, too."""
        found: list[str] = []
        inside: list[str] = []
        for argument in self.function.body.args:
            if inside:
                names.sources[argument] = inside.pop(0)
                continue
            found.append(name := names.fresh(argument.hint or "x"))
            type = parse_type(argument.type)
            names.give(argument, name, None if isinstance(type, TensorDescType) else self.function.body)
            if isinstance(type, TensorDescType):
                rank = len(type.block.shape)
                self.boxes[name] = (list(type.block.shape), self.layout_name(type.block.encoding, type.block.shape))
                inside = [f"{name}.shape[{i}]" for i in range(rank)] + [f"{name}.strides[{i}]" for i in range(rank)]
        return found

    # -- partitions ----------------------------------------------------------------------------------------------

    def specialise(self, outer: Body, op: Operation) -> None:
        """Writes the functions of the partitions, and the statement that starts them."""
        view = ttg.WarpSpecializeOp(op)
        calls: list[str] = []
        used = [it for it in op.results if it.uses]
        returned = [view.default.terminator.operands[it.index] for it in used]
        blocks: list[tuple[Block, list[tuple[Value, Value]]]] = [(view.default, _free(view.default, returned))]
        blocks += [(block, list(zip(block.args, view.captures, strict=True))) for block in view.partitions]
        for number, (block, captures) in enumerate(blocks):
            wish = self.partitions[number] if number < len(self.partitions) else f"partition_{number}"
            name = Names(self.taken).fresh(wish)
            self.taken.add(name)
            arguments = self.partition(outer, name, block, captures, [] if number else used)
            calls.append(_wrapped(f"({name}, (", arguments, ")),", outer.depth + 2))
        wishes = [it.hint for it in returned]
        results = [outer.take(it, wish) for it, wish in zip(used, wishes, strict=True)]
        registers = op.attributes.get("requestedRegisters") or op.properties.get("requestedRegisters", "")
        asked = [int(it) for it in registers.removeprefix("array<i32:").removesuffix(">").split(",") if it.strip()]
        lead = f"({results[0]},) = " if len(results) == 1 else f"{', '.join(results)} = " if results else ""
        indent = INDENT * (outer.depth + 1)
        outer.put(
            f"{lead}gl.warp_specialize(\n{indent}[\n{''.join(calls)}{indent}],\n"
            f"{indent}{list(view.num_warps)},\n{indent}{asked},\n{INDENT * outer.depth})"
        )

    def partition(
        self, outer: Body, name: str, block: Block, captures: Sequence[tuple[Value, Value]], results: Sequence[Value]
    ) -> list[str]:
        """Writes one partition as a function, which returns some of its results; the arguments of its call."""
        names = self.names()
        parameters: list[str] = []
        arguments: list[str] = []
        body = self.body(names, block)
        rest: list[tuple[Value, Value]] = []
        members: dict[Value, Member] = {}
        for inside, outside in captures:
            found = outer.members.get(outside)
            slot = outer.slot_of(outside)
            ring = found.ring if found is not None else slot[0].ring if slot is not None else None
            if not inside.uses:
                continue
            if ring is None or (slot is not None and not slot[1].isdigit()):
                rest.append((inside, outside))
                continue
            if ring not in body.ring_names:
                parameters.append(names.fresh(outer.ring(ring)))
                body.ring_names[ring] = parameters[-1]
                arguments.append(outer.ring(ring))
            if found is not None:
                members[inside] = found
            elif slot is not None:
                body.slots[inside] = (slot[0], slot[1])
                names.sources[inside] = f"{slot[0].of(body.ring(ring))}.index({slot[1]})"
        self.add_members(body, members)
        slots = {it: member for it, (member, _) in body.slots.items()}
        body.wishing(roles_of(block, members, slots, body.advances.values()).items())
        body.wishing(_buffers(block))
        for inside, outside in rest:
            source = outer.of(outside)
            if _literal(source):
                names.sources[inside] = source
                continue
            descriptor = source.split(".", 1)[0]
            if ".shape[" in source or ".strides[" in source:
                raise cannot_say(f"the use of {source} in a partition")
            wish = body.wishes.get(inside) or (descriptor if descriptor.isidentifier() else inside.hint or "x")
            parameters.append(names.fresh(wish))
            names.give(inside, parameters[-1], None if _descriptor(inside) else block)
            body.left[inside] = sum(use.op.within(block) is not None for use in inside.uses)
            arguments.append(source)
        values = body.block(block)
        if returned := [body.of(values[it.index]) for it in results]:
            body.put(f"return ({returned[0]},)" if len(returned) == 1 else f"return {', '.join(returned)}")
        if not body.lines:
            body.put("pass")
        self.file.functions.append(["@gluon.jit", _head(name, parameters), *body.lines])
        return arguments


def _free(block: Block, returned: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The values from outside that a block uses or returns, in the order of their first use."""
    inside: set[Value] = set(block.args)
    found: dict[Value, None] = {}

    def visit(some: Block) -> None:
        inside.update(some.args)
        for op in some.ops:
            used = op.operands if op is not block.terminator else returned
            found.update(dict.fromkeys(it for it in used if it not in inside))
            inside.update(op.results)
            for region in op.regions:
                for nested in region.blocks:
                    visit(nested)

    visit(block)
    return [(it, it) for it in found]


def _literal(source: str) -> bool:
    return source in ("True", "False") or source.lstrip("(-").rstrip(")").replace(".", "").replace("e-", "").isdigit()


def _descriptor(value: Value) -> bool:
    return isinstance(parse_type(value.type), TensorDescType)


def _buffers(block: Block) -> Iterator[tuple[Value, str]]:
    """Names of buffers and barriers that are in no ring."""
    for op in (it for outer in block.ops for it in outer.walk()):
        if ttg.LocalAllocOp.matches(op):
            source = ttg.LocalAllocOp(op).source
            yield op.result, _buffer_name(op, source)


def _buffer_name(op: Operation, source: Value | None) -> str:
    type = memory_of(op.result)
    if type.element == "i64" and type.shape[-1:] == (1,):
        return f"{op.result.hint}_full" if op.result.hint else "barrier"
    stem = (source.hint if source is not None else "") or stem_of(op)
    return f"{stem}_tile" if stem else "tile"


def _head(name: str, parameters: Sequence[str]) -> str:
    return _wrapped(f"def {name}(", parameters, "):", 0).rstrip("\n")


def _wrapped(lead: str, parts: Sequence[str], end: str, depth: int) -> str:
    """A call or the head of a function in lines that are not too long."""
    trailing = "," if len(parts) == 1 and lead.endswith("((") else ""
    lead, indent = INDENT * depth + lead, INDENT * (depth + 1)
    one = f"{lead}{', '.join(parts)}{trailing}{end}\n"
    if len(one) <= WIDTH:
        return one
    inner = textwrap.fill(", ".join(parts), WIDTH - 1, initial_indent=indent, subsequent_indent=indent)
    return f"{lead}\n{inner},\n{INDENT * depth}{end}\n"


def _constant(name: str, source: str) -> str:
    """A layout, in lines that are not too long."""
    line = f"{name} = gl.constexpr({source})"
    if len(line) <= WIDTH:
        return line
    whole = re.sub(r"\[[^][]*\]", lambda it: it[0].replace(" ", "\xa0"), source)  # lists of numbers stay in one line
    inner = textwrap.fill(whole, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2, break_long_words=False)
    return f"{name} = gl.constexpr(\n{inner}\n)".replace("\xa0", " ")


def _imports(title: str, about: str, file: File) -> str:
    scratch = "import contextvars\n\nimport triton\n" if file.scratch else ""
    core = "from triton.language.core import _aggregate as aggregate\n" if "mbarriers" in file.methods else ""
    return HEAD.format(title=title, about=about, imports=scratch, aggregate=core)


__all__ = ["Emitted", "gluon_source"]
