"""Operations, values, blocks and regions: the whole data model, without any dialect.

Types, properties and attributes are text, as in MLIR's generic form, and are parsed on demand (`tawa.ir.types`,
`tawa.ir.attributes`). Every value knows its uses, so the cost of a slice or a replacement depends only on the
operations that it touches. Every operation keeps its location through every rewrite.

Source of the structure: MLIR Language Reference, "Operations", "Regions", "Blocks".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

UNKNOWN_LOC = "unknown"


class Value:
    """An SSA value: the `index`-th result of an operation or argument of a block."""

    __slots__ = ("hint", "index", "loc", "owner", "type", "uses")

    def __init__(self, type: str, owner: Operation | Block, index: int, hint: str = "", loc: str = UNKNOWN_LOC) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.hint = hint
        self.loc = loc  # block arguments only; a result's location is its operation's
        self.uses: list[Use] = []

    @property
    def defining_op(self) -> Operation | None:
        """The operation this is a result of; None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def users(self) -> list[Operation]:
        """Operations that use this value, each once, in the order in which they were linked."""
        seen: dict[int, Operation] = {}
        for use in self.uses:
            seen.setdefault(id(use.op), use.op)
        return list(seen.values())

    def replace_all_uses_with(self, new: Value) -> None:
        """Replaces this value by `new` in all its users."""
        if new is self:
            return
        for use in list(self.uses):
            use.op.set_operand(use.index, new)

    def __repr__(self) -> str:
        return f"<value {self.hint or '?'}: {self.type}>"


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """Operand `index` of `op`."""

    op: Operation
    index: int

    @property
    def value(self) -> Value:
        """The operand."""
        return self.op.operands[self.index]


class Operation:
    """One operation in generic form: name, operands, successors, properties, regions, attributes, result types."""

    __slots__ = (
        "_uses",
        "aliases",
        "attributes",
        "loc",
        "name",
        "operands",
        "parent",
        "properties",
        "regions",
        "results",
        "successors",
    )

    def __init__(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[str] = (),
        *,
        properties: dict[str, str] | None = None,
        attributes: dict[str, str] | None = None,
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        loc: str = UNKNOWN_LOC,
        hints: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.loc = loc
        self.parent: Block | None = None
        self.aliases: dict[str, str] | None = None  # of a module's top operation: those of the module
        self.properties = properties if properties is not None else {}
        self.attributes = attributes if attributes is not None else {}
        self.successors = list(successors)
        self.operands: list[Value] = []
        self._uses: list[Use] = []
        for operand in operands:
            self.add_operand(operand)
        self.results = [
            Value(type, self, index, hints[index] if index < len(hints) else "")
            for index, type in enumerate(result_types)
        ]
        self.regions: list[Region] = []
        for region in regions:
            self.add_region(region)

    # -- operands ------------------------------------------------------------------------------------------------

    def add_operand(self, value: Value) -> None:
        """Appends an operand."""
        use = Use(self, len(self.operands))
        self.operands.append(value)
        self._uses.append(use)
        value.uses.append(use)

    def set_operand(self, index: int, value: Value) -> None:
        """Replaces operand `index`."""
        use = self._uses[index]
        _unlink(self.operands[index], use)
        self.operands[index] = value
        value.uses.append(use)

    def set_operands(self, values: Iterable[Value]) -> None:
        """Replaces the whole operand list."""
        for operand, use in zip(self.operands, self._uses, strict=True):
            _unlink(operand, use)
        self.operands, self._uses = [], []
        for value in values:
            self.add_operand(value)

    def use(self, index: int) -> Use:
        """Operand `index` as a use: the object that `Value.uses` of the operand holds."""
        return self._uses[index]

    # -- results and regions -------------------------------------------------------------------------------------

    @property
    def result(self) -> Value:
        """The only result."""
        if len(self.results) != 1:
            raise ValueError(f"{self.name} has {len(self.results)} results, not one")
        return self.results[0]

    def add_region(self, region: Region) -> None:
        """Appends a region and takes ownership of it."""
        region.parent = self
        self.regions.append(region)

    # -- place ---------------------------------------------------------------------------------------------------

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region contains this one; None at the top and for detached operations."""
        return self.parent.parent_op if self.parent else None

    def within(self, block: Block) -> Operation | None:
        """The operation of `block` that is this one or contains it, or None."""
        return next((it for it in (self, *self.ancestors()) if it.parent is block), None)

    def ancestors(self) -> Iterator[Operation]:
        """The enclosing operations, innermost first."""
        op = self.parent_op
        while op is not None:
            yield op
            op = op.parent_op

    def is_ancestor_of(self, other: Operation) -> bool:
        """Whether `other` is nested, at any depth, in a region of this operation."""
        return any(op is self for op in other.ancestors())

    def walk(self) -> Iterator[Operation]:
        """This operation, then every nested one, in textual order. Visited operations may change during the walk."""
        stack: list[Operation] = [self]
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                for block in reversed(region.blocks):
                    stack.extend(reversed(block.ops))

    # -- removal -------------------------------------------------------------------------------------------------

    def detach(self) -> Operation:
        """Takes this operation out of its block and returns it; operands and uses stay."""
        if self.parent is not None:
            self.parent.ops.remove(self)
            self.parent = None
        return self

    def erase(self) -> None:
        """Erases this operation. Its results must have no uses outside this operation."""
        nested = list(self.walk())
        inside = set(nested)
        for result in self.results:
            for use in result.uses:
                if use.op not in inside:
                    raise ValueError(f"cannot erase {self.name}: result {result.index} is used by {use.op.name}")
        for op in nested:
            for operand, use in zip(op.operands, op._uses, strict=True):
                _unlink(operand, use)
            op.operands, op._uses = [], []
        self.detach()

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Block:
    """A list of operations with arguments; the last operation is its terminator."""

    __slots__ = ("args", "ops", "parent")

    def __init__(self, arg_types: Sequence[str] = (), hints: Sequence[str] = ()) -> None:
        self.parent: Region | None = None
        self.ops: list[Operation] = []
        self.args: list[Value] = []
        for index, type in enumerate(arg_types):
            self.add_arg(type, hints[index] if index < len(hints) else "")

    def add_arg(self, type: str, hint: str = "", loc: str = UNKNOWN_LOC) -> Value:
        """Appends an argument."""
        arg = Value(type, self, len(self.args), hint, loc)
        self.args.append(arg)
        return arg

    @property
    def parent_op(self) -> Operation | None:
        """The operation that owns the region of this block."""
        return self.parent.parent if self.parent else None

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        return self.ops[-1]

    def append(self, op: Operation) -> Operation:
        """Puts `op` at the end."""
        return self.insert(len(self.ops), op)

    def insert(self, index: int, op: Operation) -> Operation:
        """Puts `op` before the operation at `index`."""
        op.parent = self
        self.ops.insert(index, op)
        return op

    def index_of(self, op: Operation) -> int:
        """The position of `op`."""
        return self.ops.index(op)


class Region:
    """A list of blocks; the first is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Sequence[Block] = ()) -> None:
        self.parent: Operation | None = None
        self.blocks: list[Block] = []
        for block in blocks:
            self.append(block)

    @property
    def block(self) -> Block:
        """The only block of a structured region."""
        if len(self.blocks) != 1:
            raise ValueError(f"region of {self.parent} has {len(self.blocks)} blocks, not one")
        return self.blocks[0]

    def append(self, block: Block) -> Block:
        """Puts `block` at the end."""
        block.parent = self
        self.blocks.append(block)
        return block


@dataclass(slots=True)
class Module:
    """A whole file: the top operation and the aliases (`#mma = …`, `#loc3 = loc(…)`) of its text."""

    op: Operation
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    locs: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.op.aliases = self.aliases

    @property
    def body(self) -> Block:
        """The block of the module."""
        return self.op.regions[0].block

    def walk(self) -> Iterator[Operation]:
        """Every operation, in textual order."""
        return self.op.walk()


def _unlink(value: Value, use: Use) -> None:
    value.uses.remove(use)  # Use compares by identity
