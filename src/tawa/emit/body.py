"""One function of TTGIR as the body of a Gluon function, operation by operation.

    %s = ttg.memdesc_index %full[%slot]                      mbarrier.wait(full.index(slot), parity)
    ttng.wait_barrier %s, %parity

Scalars and views of buffers that are used once are written where they are used; every other value has the name of the
user's variable. The lines of the user's kernel stand as comments above what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tawa.dialects import arith, scf, tt, ttg
from tawa.dialects.declare.declaration import op_names
from tawa.emit.constants import literal_of
from tawa.emit.errors import cannot_say
from tawa.emit.expressions import ELEMENTWISE, elementwise, integers, type_source
from tawa.emit.extras import Extras
from tawa.emit.names import Names
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.locations import source_of
from tawa.ir.types import MemDescType, TensorType, is_scalar, parse_type

INDENT = "    "
TERMINATORS = op_names(scf.ConditionOp, scf.YieldOp, ttg.WarpYieldOp, ttg.WarpReturnOp, tt.ReturnOp)
VIEWS = op_names(ttg.MemDescIndexOp, ttg.MemDescTransOp, ttg.MemDescSubsliceOp, ttg.MemDescReshapeOp)
CARRYING = op_names(scf.ForOp, scf.YieldOp, scf.WhileOp)
REPEATING = op_names(tt.SplatOp, tt.BroadcastOp, arith.ConstantOp)
"""Operations whose result repeats a smaller value."""


@dataclass
class File:
    """What the functions of one file share.

    scratch: whether the kernel makes descriptors, in scratch memory. writers: of the operations that are statements.
    """

    module: Module
    layout_of: Callable[[str, Sequence[int]], str]
    source_line: Callable[[str, int], str]
    functions: list[list[str]] = field(default_factory=list[list[str]])
    scratch: bool = False
    extras: Extras = field(default_factory=Extras)
    writers: Mapping[str, Writer] = field(default_factory=dict[str, "Writer"])


class Body:
    """Writes the operations of a block, and of the blocks in it."""

    def __init__(self, file: File, names: Names) -> None:
        self.file = file
        self.names = names
        self.lines: list[str] = []
        self.depth = 1
        self.place: tuple[str, int] | None = None

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
        written = self.file.writers.get(op.name)
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
        if (
            once
            and small
            and len(text) < 60
            and result.uses[0].op.name not in (scf.ForOp.NAME, scf.YieldOp.NAME, scf.WhileOp.NAME)
        ):
            self.names.sources[result] = text
            return
        self.assign(op, text)

    def assign(self, op: Operation, text: str) -> None:
        """`name = text`."""
        self.comment(op)
        wish = op.result.hint if op.name not in ttg.VIEWS else ""
        self.put(f"{self.names.name(op.result, wish)} = {text}")

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self, op: Operation) -> str | None:
        """The expression of a pure operation, or None."""
        of = self.operand(op)
        if (text := elementwise(op, of)) is not None:
            return text
        type = parse_type(op.results[0].type) if op.results else None
        match op.name:
            case tt.GetProgramIdOp.NAME | tt.GetNumProgramsOp.NAME:
                call = "program_id" if op.name.endswith("id") else "num_programs"
                return f"gl.{call}({integers(op.properties['axis'])[0]})"
            case tt.MakeRangeOp.NAME:
                assert isinstance(type, TensorType)
                start, end = (integers(op.properties[it])[0] for it in ("start", "end"))
                return f"gl.arange({start}, {end}, {self.layout(type)})"
            case tt.ExpandDimsOp.NAME:
                axis = integers(op.properties["axis"])[0]
                return f"gl.expand_dims({self.of(op.operands[0])}, {axis})"
            case tt.ReshapeOp.NAME:
                assert isinstance(type, TensorType)
                return self.placed(f"gl.reshape({self.of(op.operands[0])}, {list(type.shape)})", type)
            case tt.TransOp.NAME:
                assert isinstance(type, TensorType)
                order = list(integers(op.properties["order"]))
                return self.placed(f"gl.permute({self.of(op.operands[0])}, {order})", type)
            case tt.JoinOp.NAME:
                assert isinstance(type, TensorType)
                return self.placed(f"gl.join({self.of(op.operands[0])}, {self.of(op.operands[1])})", type)
            case ttg.ConvertLayoutOp.NAME:
                assert isinstance(type, TensorType)
                return f"gl.convert_layout({self.of(op.operands[0])}, {self.layout(type)})"
            case ttg.MemDescIndexOp.NAME:
                return f"{of(0)}.index({self.of(op.operands[1])})"
            case ttg.MemDescTransOp.NAME:
                return f"{of(0)}.permute({list(integers(op.properties['order']))})"
            case ttg.MemDescSubsliceOp.NAME:
                return self.sliced(op, of(0))
            case ttg.MemDescReshapeOp.NAME:
                assert isinstance(type, MemDescType)
                return f"{of(0)}.reshape({list(type.shape)})"
            case ttg.MemDescReinterpretOp.NAME:
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
        if made is None or made.name not in REPEATING:
            return None
        others = [it for number, it in enumerate(op.operands) if number != index and it.type.startswith("tensor")]
        full = any(it.defining_op is None or it.defining_op.name not in REPEATING for it in others)
        if arith.SelectOp.matches(op) or not full or not op.operands[index].type.startswith("tensor"):
            return None
        if op.operands[index] in self.names:  # also of a function that gets the scalar as an argument
            return self.of(op.operands[index], atomic=True)
        if arith.ConstantOp.matches(made):
            return literal_of(made)
        return self.of(made.operands[0], atomic=True)

    def repeated(self, op: Operation, text: str) -> bool:
        """Leaves a tile that repeats a value to its users, if all of them take the shape of another operand."""
        if any(use.op.name not in ELEMENTWISE or self.spread(use.op, use.index) is None for use in op.result.uses):
            return False
        self.names.sources[op.result] = text
        return True

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


def statement(text: Callable[[Body, Operation], str]) -> Writer:
    """A writer of one line."""

    def write(body: Body, op: Operation) -> None:
        body.comment(op)
        body.put(text(body, op))

    return write


Writer = Callable[[Body, Operation], None]
"""Writes one operation."""

__all__ = ["Body", "File", "Writer", "statement"]
