"""One function of TTGIR as the body of a Gluon function, operation by operation.

    %s = ttg.memdesc_index %full[%slot]                      mbarrier.wait(full.index(slot), parity)
    ttng.wait_barrier %s, %parity

Scalars and views of buffers that are used once are written where they are used; every other value has the name of the
user's variable. The lines of the user's kernel stand as comments above what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from tawa.dialects.ttng import TensormapCreateOp
from tawa.emit.errors import cannot_say
from tawa.emit.expressions import ELEMENTWISE, element_of, elementwise, integers, type_source
from tawa.emit.names import Names
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.locations import source_of
from tawa.ir.types import MemDescType, PointerType, ScalarType, TensorDescType, TensorType, is_scalar, parse_type

INDENT = "    "
DEFAULT_IMPRECISE = 2**30
"""Sums of an fp8 dot that Hopper may add up in limited precision: Triton's default is all."""
TERMINATORS = ("scf.condition", "scf.yield", "ttg.warp_yield", "ttg.warp_return", "tt.return")
VIEWS = ("ttg.memdesc_index", "ttg.memdesc_trans", "ttg.memdesc_subslice", "ttg.memdesc_reshape")
REDUCTIONS: dict[tuple[str, ...], str] = {
    ("arith.maxnumf",): "gl.max", ("arith.addf",): "gl.sum", ("arith.minnumf",): "gl.min",
    ("arith.addi",): "gl.sum", ("arith.maxsi",): "gl.max", ("arith.minsi",): "gl.min",
}  # fmt: skip


@dataclass
class File:
    """What the functions of one file share. scratch: whether the kernel makes descriptors, in scratch memory."""

    module: Module
    layout_of: Callable[[str, Sequence[int]], str]
    source_line: Callable[[str, int], str]
    functions: list[list[str]] = field(default_factory=list[list[str]])
    scratch: bool = False


class Body:
    """Writes the operations of a block, and of the blocks in it."""

    def __init__(self, file: File, names: Names, workers: Callable[[Body, Operation], str]) -> None:
        self.file = file
        self.names = names
        self.lines: list[str] = []
        self.workers = workers
        self.depth = 1
        self.place: tuple[str, int] | None = None
        self.accumulators: set[Value] = set()

    # -- text ----------------------------------------------------------------------------------------------------

    def put(self, text: str) -> None:
        """One line of code."""
        self.lines.append(f"{INDENT * self.depth}{text}")

    def of(self, value: Value, atomic: bool = False) -> str:
        """The expression of a value; atomic: in parentheses if it is more than a name or a call."""
        text = self.names[value]
        return f"({text})" if atomic and " " in text and not _closed(text) else text

    def layout(self, type: TensorType | MemDescType) -> str:
        """The name of the layout of a tile."""
        return self.file.layout_of(type.encoding, type.shape)

    def comment(self, op: Operation) -> None:
        """The line of the user's kernel, if this is the first operation of it here."""
        found = source_of(self.file.module, op)
        if found is None or (found.file, found.line) == self.place:
            return
        self.place = (found.file, found.line)
        if text := self.file.source_line(found.file, found.line):
            self.put(f"# {text}")

    # -- blocks --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Sequence[Value]:
        """Writes the operations of a block; the values that it hands on."""
        last = block.ops[-1] if block.ops and block.ops[-1].name in TERMINATORS else None
        for op in block.ops:
            if op is not last:
                self.operation(op)
        return last.operands if last is not None else ()

    def operation(self, op: Operation) -> None:
        """Writes one operation, or remembers its expression."""
        written = _WRITERS.get(op.name)
        if written is not None:
            written(self, op)
            return
        text = self.expression(op)
        if text is None:
            raise cannot_say(op.name, source_of(self.file.module, op))
        self.keep(op, text)

    def keep(self, op: Operation, text: str) -> None:
        """Gives the result of a pure operation a name, or leaves its expression to its only user."""
        result = op.result
        if not result.uses:
            return
        once = len(result.uses) == 1 and result.uses[0].op.parent is op.parent
        small = is_scalar(result.type) or op.name in VIEWS
        if once and small and len(text) < 60 and result.uses[0].op.name not in ("scf.for", "scf.yield", "scf.while"):
            self.names.sources[result] = text
            return
        self.assign(op, text)

    def assign(self, op: Operation, text: str) -> None:
        """`name = text`."""
        self.comment(op)
        wish = op.result.hint if not op.name.startswith("ttg.memdesc") else ""
        self.put(f"{self.names.name(op.result, wish)} = {text}")

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self, op: Operation) -> str | None:
        """The expression of a pure operation, or None."""
        of = self.operand(op)
        if (text := elementwise(op, of)) is not None:
            return text
        type = parse_type(op.results[0].type) if op.results else None
        match op.name:
            case "tt.get_program_id" | "tt.get_num_programs":
                call = "program_id" if op.name.endswith("id") else "num_programs"
                return f"gl.{call}({integers(op.properties['axis'])[0]})"
            case "tt.make_range":
                assert isinstance(type, TensorType)
                start, end = (integers(op.properties[it])[0] for it in ("start", "end"))
                return f"gl.arange({start}, {end}, {self.layout(type)})"
            case "tt.expand_dims":
                axis = integers(op.properties["axis"])[0]
                return f"gl.expand_dims({self.of(op.operands[0])}, {axis})"
            case "tt.reshape":
                assert isinstance(type, TensorType)
                return self.placed(f"gl.reshape({self.of(op.operands[0])}, {list(type.shape)})", type)
            case "tt.trans":
                assert isinstance(type, TensorType)
                order = list(integers(op.properties["order"]))
                return self.placed(f"gl.permute({self.of(op.operands[0])}, {order})", type)
            case "tt.join":
                assert isinstance(type, TensorType)
                return self.placed(f"gl.join({self.of(op.operands[0])}, {self.of(op.operands[1])})", type)
            case "ttg.convert_layout":
                assert isinstance(type, TensorType)
                return f"gl.convert_layout({self.of(op.operands[0])}, {self.layout(type)})"
            case "ttg.memdesc_index":
                return f"{of(0)}.index({self.of(op.operands[1])})"
            case "ttg.memdesc_trans":
                return f"{of(0)}.permute({list(integers(op.properties['order']))})"
            case "ttg.memdesc_subslice":
                return self.sliced(op, of(0))
            case "ttg.memdesc_reshape":
                assert isinstance(type, MemDescType)
                return f"{of(0)}.reshape({list(type.shape)})"
            case "ttg.memdesc_reinterpret":
                assert isinstance(type, MemDescType)
                shape = list(type.shape)
                return f"{of(0)}._reinterpret({type_source(type.element)}, {shape}, {self.layout(type)})"
            case _:
                return None

    def operand(self, op: Operation) -> Callable[[int], str]:
        """The expression of operand i as a part of an elementwise operation: a scalar takes the other's shape."""
        shaped = op.name in ELEMENTWISE

        def of(index: int) -> str:
            value = op.operands[index]
            if shaped and (scalar := self.spread(op, index)) is not None:
                return scalar
            return self.of(value, atomic=True)

        return of

    def spread(self, op: Operation, index: int) -> str | None:
        """The scalar, or the smaller tile, that operand `index` repeats, where another operand gives the shape."""
        made = op.operands[index].defining_op
        if made is None or made.name not in ("tt.splat", "tt.broadcast", "arith.constant"):
            return None
        others = [it for number, it in enumerate(op.operands) if number != index and it.type.startswith("tensor")]
        full = any(
            it.defining_op is None or it.defining_op.name not in ("tt.splat", "tt.broadcast", "arith.constant")
            for it in others
        )
        if op.name == "arith.select" or not full or not op.operands[index].type.startswith("tensor"):
            return None
        if made.name == "arith.constant":
            return _constant(made)
        return self.of(made.operands[0], atomic=True)

    def placed(self, text: str, type: TensorType) -> str:
        """A tile in this layout, which costs no instruction."""
        return f"gl.convert_layout({text}, {self.layout(type)}, assert_trivial=True)"

    def sliced(self, op: Operation, buffer: str) -> str:
        """A part of a buffer along one axis after the other."""
        source, result = parse_type(op.operands[0].type), parse_type(op.result.type)
        assert isinstance(source, MemDescType) and isinstance(result, MemDescType)
        offsets = integers(op.properties["offsets"])
        for axis, (size, part, offset) in enumerate(zip(source.shape, result.shape, offsets, strict=True)):
            if part != size:
                buffer += f".slice({offset}, {part}, {axis})"
        return buffer


def _closed(text: str) -> bool:
    """Whether the text is a call or an index as a whole: `f(a, b)`, `x.index(a + b)`."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and depth == 0:
            return False
    return True


def _constant(op: Operation) -> str:
    """The number of a constant, or the one number of a dense one."""
    text = op.properties["value"].strip()
    if text.startswith("dense<"):
        inner = text[len("dense<") :]
        text = f"{inner[: inner.index('>')]} : {op.result.type}"
        if text.startswith(("[", '"')):
            raise cannot_say("a constant of several numbers")
    if text in ("true", "false") or text.split(" ")[0] in ("true", "false"):
        return text.split(" ")[0].capitalize()
    number = text.split(" : ")[0].strip()
    element = element_of(op.result.type)
    if number.startswith("0x") and element.startswith(("f", "bf")):
        return _bits(int(number, 16), element)
    return repr(float(number)) if element.startswith(("f", "bf")) else number


def _bits(number: int, element: str) -> str:
    import numpy as np

    widths = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}
    if element == "bf16":
        number, element = number << 16, "f32"
    whole, real = widths[element]
    value = float(np.array(number, whole).view(real))
    return repr(value) if np.isfinite(value) else f'float("{value}")'


# --- operations that are statements ---


def _constant_op(body: Body, op: Operation) -> None:
    text = _constant(op)
    type = parse_type(op.result.type)
    if isinstance(type, ScalarType):
        body.names.sources[op.result] = text if not text.startswith("-") else f"({text})"
        return
    assert isinstance(type, TensorType)
    for use in op.result.uses:
        if use.op.name not in ELEMENTWISE or body.spread(use.op, use.index) is None:
            break
    else:
        body.names.sources[op.result] = text
        return
    shape, element, layout = list(type.shape), type_source(type.element), body.layout(type)
    body.assign(op, f"gl.full({shape}, {text}, {element}, {layout})")


def _splat(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    if all(use.op.name in ELEMENTWISE and body.spread(use.op, use.index) is not None for use in op.result.uses):
        body.names.sources[op.result] = body.of(op.operands[0], atomic=True)
        return
    if isinstance(parse_type(op.operands[0].type), PointerType):
        offsets = f"gl.full({list(type.shape)}, 0, gl.int32, {body.layout(type)})"
        body.assign(op, f"{body.of(op.operands[0], atomic=True)} + {offsets}")
        return
    element = type_source(type.element)
    body.assign(op, f"gl.full({list(type.shape)}, {body.of(op.operands[0])}, {element}, {body.layout(type)})")


def _broadcast(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    if all(use.op.name in ELEMENTWISE and body.spread(use.op, use.index) is not None for use in op.result.uses):
        body.names.sources[op.result] = body.of(op.operands[0], atomic=True)
        return
    shape = f"gl.full({list(type.shape)}, 0, gl.int32, {body.layout(type)})"
    body.assign(op, f"gl.broadcast({body.of(op.operands[0])}, {shape})[0]")


def _reduce(body: Body, op: Operation) -> None:
    inner = [it.name for it in op.regions[0].block.ops[:-1]]
    axis = integers(op.properties["axis"])[0]
    if tuple(inner) not in REDUCTIONS:
        raise cannot_say(f"a reduction by {', '.join(inner)}", source_of(body.file.module, op))
    body.assign(op, f"{REDUCTIONS[tuple(inner)]}({body.of(op.operands[0])}, {axis})")


def _alloc(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, MemDescType)
    barrier = type.element == "i64" and type.shape[-1:] == (1,)
    layout = "mbarrier.MBarrierLayout()" if barrier else body.layout(type)
    value = f", {body.of(op.operands[0])}" if op.operands else ""
    shape = list(type.shape)
    body.comment(op)
    wish = op.result.hint or ("barriers" if barrier else "tiles")
    name = body.names.name(op.result, wish)
    body.put(f"{name} = gl.allocate_shared_memory({type_source(type.element)}, {shape}, {layout}{value})")


def _statement(text: Callable[[Body, Operation], str]) -> Callable[[Body, Operation], None]:
    def write(body: Body, op: Operation) -> None:
        body.comment(op)
        body.put(text(body, op))

    return write


def _pred(body: Body, value: Value | None) -> str:
    text = body.of(value) if value is not None else "True"
    return "" if text == "True" else f", pred={text}"


def _wait(body: Body, op: Operation) -> str:
    bar, phase, *more = op.operands
    return f"mbarrier.wait({body.of(bar)}, {body.of(phase)}{_pred(body, more[0] if more else None)})"


def _arrive(body: Body, op: Operation) -> str:
    count = integers(op.properties["count"])[0]
    pred = _pred(body, op.operands[1] if len(op.operands) > 1 else None)
    return f"mbarrier.arrive({body.of(op.operands[0])}, count={count}{pred})"


def _expect(body: Body, op: Operation) -> str:
    size = integers(op.properties["size"])[0]
    return f"mbarrier.expect({body.of(op.operands[0])}, {size}{_pred(body, op.operands[1])})"


def _tma_load(body: Body, op: Operation) -> str:
    desc, *coordinates, bar, result, pred = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma_load({body.of(desc)}, [{where}], {body.of(bar)}, {body.of(result)}{_pred(body, pred)})"


def _tma_store(body: Body, op: Operation) -> str:
    desc, *coordinates, source = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma_store({body.of(desc)}, [{where}], {body.of(source)})"


def _load_shared(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    body.assign(op, f"{body.of(op.operands[0], atomic=True)}.load({body.layout(type)})")


def _dot(body: Body, op: Operation) -> None:
    known = {"inputPrecision", "isAsync", "maxNumImpreciseAcc", "operandSegmentSizes"}
    if extra := set(op.properties) - known:
        raise cannot_say(f"{sorted(extra)[0]} of a dot")
    a, b, acc, *use = op.operands
    if element_of_buffer(b.type) == "f32" and integers(op.properties.get("inputPrecision", "0 : i32"))[0] != 0:
        raise cannot_say("a dot in float32 at full precision", source_of(body.file.module, op))
    more = ""  # Triton 3.6 takes no precision here; the default is tf32
    if use:
        more += f", use_acc={body.of(use[0])}"
    most = integers(op.properties.get("maxNumImpreciseAcc", "0 : i32"))[0]
    if element_of_buffer(b.type).startswith("f8") and most != DEFAULT_IMPRECISE:
        more += f", max_num_imprecise_acc={most}"
    is_async = op.properties.get("isAsync", "false") == "true"
    more += ", is_async=True" if is_async else ""
    if is_async:
        body.accumulators.add(op.result)
    body.assign(op, f"warpgroup_mma({body.of(a)}, {body.of(b)}, {body.of(acc)}{more})")


def element_of_buffer(text: str) -> str:
    """The element type of a buffer in shared memory."""
    type = parse_type(text)
    assert isinstance(type, MemDescType)
    return type.element


def _dot_wait(body: Body, op: Operation) -> None:
    body.comment(op)
    pendings = integers(op.properties["pendings"])[0]
    deps = [body.of(it) for it in op.operands]
    names = [body.names.name(it) for it in op.results]
    tensors = [isinstance(parse_type(it.type), TensorType) for it in op.operands]
    if not all(tensors):
        raise cannot_say("a wait for a dot that holds a buffer", source_of(body.file.module, op))
    body.put(f"{', '.join(names)} = warpgroup_mma_wait({pendings}, deps=({', '.join(deps)},))")


def _pointer_options(op: Operation) -> str:
    cache = integers(op.properties.get("cache", "1 : i32"))[0]
    evict = integers(op.properties.get("evict", "1 : i32"))[0]
    modifiers = {1: "", 2: ".ca", 3: ".cg", 4: ".wb", 5: ".cs", 6: ".wt", 7: ".cv"}
    policies = {1: "", 2: "evict_first", 3: "evict_last"}
    more = f', cache_modifier="{modifiers[cache]}"' if modifiers[cache] else ""
    return more + (f', eviction_policy="{policies[evict]}"' if policies[evict] else "")


def _load(body: Body, op: Operation) -> None:
    pointer, *rest = op.operands
    segments = integers(op.properties["operandSegmentSizes"])
    more = f", mask={body.of(rest[0])}" if segments[1] else ""
    more += f", other={body.of(rest[segments[1]])}" if segments[2] else ""
    if op.properties.get("isVolatile", "false") == "true":
        more += ", volatile=True"
    body.assign(op, f"gl.load({body.of(pointer)}{more}{_pointer_options(op)})")


def _store(body: Body, op: Operation) -> str:
    pointer, value, *mask = op.operands
    more = f", mask={body.of(mask[0])}" if mask else ""
    return f"gl.store({body.of(pointer)}, {body.of(value)}{more}{_pointer_options(op)})"


def _made_descriptor(body: Body, op: Operation) -> None:
    """A descriptor made in scratch memory: allocation, creation and fence are one call."""
    type = parse_type(op.result.type)
    created = [use.op for use in op.operands[0].uses if TensormapCreateOp.matches(use.op)]
    if len(created) != 1 or not isinstance(type, TensorDescType):
        raise cannot_say("a descriptor that is changed", source_of(body.file.module, op))
    view, width = TensormapCreateOp(created[0]), type.block.bytes // prod(type.block.shape)
    shape = ", ".join(body.of(it) for it in reversed(view.shape))
    strides = [_elements(body, it, width) for it in reversed(view.strides)]
    padding = ', padding_option="nan"' if view.op.attributes.get("fill_mode", "0").startswith("1") else ""
    block, layout = list(type.block.shape), body.file.layout_of(type.block.encoding, type.block.shape)
    body.file.scratch = True
    body.assign(
        op,
        f"tma.make_tensor_descriptor({body.of(view.base)}, [{shape}], [{', '.join([*strides, '1'])}], "
        f"{block}, {layout}{padding})",
    )


def _elements(body: Body, stride: Value, width: int) -> str:
    """A stride in elements, of `width` bytes, from one in bytes."""
    made = stride.defining_op
    if made is not None and made.name == "arith.muli" and body.of(made.operands[1]) == str(width):
        return body.of(made.operands[0])
    text = body.of(stride)
    return str(int(text) // width) if text.isdigit() else f"({text}) // {width}"


# --- control flow ---


def _for(body: Body, op: Operation) -> None:
    lower, upper, step, *inits = op.operands
    block = op.regions[0].block
    induction, *carried = block.args
    body.comment(op)
    names: list[str] = []
    for argument, result, init in zip(carried, op.results, inits, strict=True):
        wish = result.hint or init.hint or "x"
        name = body.names.name(argument, wish)
        names.append(name)
        body.put(f"{name} = {_own(body, op, init, block.terminator.operands[argument.index - 1])}")
    index = body.names.name(induction, _user_induction(body, op))
    body.put(f"for {index} in range({body.of(lower)}, {body.of(upper)}, {body.of(step)}):")
    body.depth += 1
    before = len(body.lines)
    _hand_on(body, names, body.block(block))
    if len(body.lines) == before:
        body.put("pass")
    body.depth -= 1
    body.place = None
    for result, name in zip(op.results, names, strict=True):
        body.names.sources[result] = name


def _own(body: Body, op: Operation, init: Value, handed_on: Value) -> str:
    """The initial value of a carried variable, as an object of its own.

    Triton's front end does not see that `a = b` changes `a` in a loop if both were the same object before it.
    """
    text = body.of(init)
    shared = sum(it is init for it in op.operands[3:]) > 1 and handed_on.owner is op.regions[0].block
    if not shared or _plain(text):
        return text
    if _number_type(init).startswith("i") and _number_type(init) != "i1":
        return f"{text} + 0"
    raise cannot_say(
        "two variables of a loop that begin with one value and are exchanged", source_of(body.file.module, op)
    )


def _number_type(value: Value) -> str:
    """The type of a number; empty for everything else."""
    type = parse_type(value.type)
    return type.name if isinstance(type, ScalarType) else ""


def _plain(text: str) -> bool:
    return text in ("True", "False") or text.lstrip("(-").rstrip(")").isdigit()


def _while(body: Body, op: Operation) -> None:
    """The part before the condition is written twice: before the loop, and at its end."""
    before, after = (region.block for region in op.regions)
    body.comment(op)
    for argument, init in zip(before.args, op.operands, strict=True):
        body.put(f"{body.names.name(argument, init.hint or argument.hint)} = {_changed(body, init)}")
    carried = [body.of(it) for it in before.args]
    go = body.names.fresh("go")
    handed_on = [body.names.name(it) for it in after.args]
    for result, name in zip(op.results, handed_on, strict=True):
        body.names.sources[result] = name

    def condition() -> None:
        holds, *values = body.block(before)
        _hand_on(body, [go, *handed_on], [holds, *values])

    condition()
    body.put(f"while {go}:")
    body.depth += 1
    _hand_on(body, carried, body.block(after))
    condition()
    body.depth -= 1
    body.place = None


def _changed(body: Body, init: Value) -> str:
    """The initial value of a variable, as an object of its own (see `_own`)."""
    text = body.of(init)
    number = _number_type(init)
    return f"{text} + 0" if number.startswith("i") and number != "i1" and not _plain(text) else text


def _split(body: Body, op: Operation) -> None:
    body.comment(op)
    names = [body.names.name(it) for it in op.results]
    body.put(f"{', '.join(names)} = gl.split({body.of(op.operands[0])})")


def _user_induction(body: Body, op: Operation) -> str:
    """The name of the loop's variable in the user's line."""
    found = source_of(body.file.module, op)
    text = body.file.source_line(found.file, found.line) if found else ""
    words = text.split()
    return words[1] if len(words) > 2 and words[0] == "for" and words[2] == "in" else "i"


def _hand_on(body: Body, names: Sequence[str], values: Sequence[Value]) -> None:
    pairs = [(name, body.of(value)) for name, value in zip(names, values, strict=True)]
    pairs = [(name, value) for name, value in pairs if name != value]
    targets = {name for name, _ in pairs}
    if any(value in targets for _, value in pairs):
        body.put(f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}")
        return
    for name, value in pairs:
        body.put(f"{name} = {value}")


def _if(body: Body, op: Operation) -> None:
    body.comment(op)
    names = [body.names.name(it) for it in op.results]
    body.put(f"if {body.of(op.operands[0])}:")
    for number, region in enumerate(op.regions):
        if not region.blocks:
            continue
        if number and not names and len(region.block.ops) <= 1:
            continue
        if number:
            body.put("else:")
        body.depth += 1
        before = len(body.lines)
        _hand_on(body, names, body.block(region.block))
        if len(body.lines) == before:
            body.put("pass")
        body.depth -= 1
    body.place = None


def _warp_specialize(body: Body, op: Operation) -> None:
    body.comment(op)
    body.put(body.workers(body, op))


_WRITERS: dict[str, Callable[[Body, Operation], None]] = {
    "arith.constant": _constant_op,
    "tt.splat": _splat,
    "tt.broadcast": _broadcast,
    "tt.reduce": _reduce,
    "tt.load": _load,
    "tt.store": _statement(_store),
    "ttg.local_alloc": _alloc,
    "ttg.local_dealloc": _statement(lambda body, op: f"{body.of(op.operands[0])}._keep_alive()"),
    "ttg.local_load": _load_shared,
    "ttg.local_store": _statement(
        lambda body, op: f"{body.of(op.operands[1], atomic=True)}.store({body.of(op.operands[0])})"
    ),
    "ttng.init_barrier": _statement(
        lambda body, op: f"mbarrier.init({body.of(op.operands[0])}, count={integers(op.properties['count'])[0]})"
    ),
    "ttng.inval_barrier": _statement(lambda body, op: f"mbarrier.invalidate({body.of(op.operands[0])})"),
    "ttng.wait_barrier": _statement(_wait),
    "ttng.arrive_barrier": _statement(_arrive),
    "ttng.barrier_expect": _statement(_expect),
    "ttng.fence_async_shared": _statement(lambda body, op: "fence_async_shared()"),
    "ttng.async_tma_copy_global_to_local": _statement(_tma_load),
    "ttng.async_tma_copy_local_to_global": _statement(_tma_store),
    "ttng.async_tma_store_wait": _statement(
        lambda body, op: f"tma.store_wait({integers(op.properties['pendings'])[0]})"
    ),
    "ttng.warp_group_dot": _dot,
    "ttng.warp_group_dot_wait": _dot_wait,
    "scf.for": _for,
    "ttg.global_scratch_alloc": lambda body, op: None,
    "ttng.tensormap_create": lambda body, op: None,
    "ttng.tensormap_fenceproxy_acquire": lambda body, op: None,
    "ttng.reinterpret_tensor_descriptor": _made_descriptor,
    "scf.if": _if,
    "scf.while": _while,
    "tt.split": _split,
    "ttg.warp_specialize": _warp_specialize,
    "gpu.barrier": _statement(lambda body, op: "thread_barrier()"),
}

__all__ = ["Body", "File"]
