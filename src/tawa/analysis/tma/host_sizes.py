"""Host sizes: the tensor of a box as host expressions over the kernel's arguments.

    size M + 127, stride K       →   ("sum", M, 127), K; conditions 1 <= M + 127, K·2 % 16 == 0, …

The launcher can compute a scalar that is an integer argument, or that is computed from such arguments without reading
memory. The sizes and strides of a descriptor that the user passes are arguments of the function, but not of the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tawa.analysis.tma.accesses import NotABox
from tawa.analysis.tma.boxes import OPEN, STRIDE_LIMIT, Box, BoxDim
from tawa.dialects.arith import DivSIOp, MaxSIOp, MinSIOp, RemSIOp
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.parameters import parameter_name
from tawa.dialects.scalars import width_of
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, TensorDescType, Value, parse_type
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine import Affine
from tawa.symbolic.host.expr import Apply, Argument, Condition, HostValue, Number, Operator, add, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec
from tawa.symbolic.polynomial import Atom, Poly, constant
from tawa.symbolic.value_ranges import ValueRanges

STRIDES_OF_TMA = "TMA limits strides"
ALIGNED_FOR_TMA = "TMA needs an alignment of 16 bytes"
_WHOLE_CHUNKS = "TMA would write behind rows that do not end at a multiple of 16 bytes"
_OPERATORS: Mapping[str, Operator] = by_name(
    {DivSIOp: "divide", RemSIOp: "remainder", MinSIOp: "smallest", MaxSIOp: "largest"}
)


class HostSizes:
    """What the launcher can compute about one function. Built once for a module and passed on to the rewrite."""

    def __init__(self, module: Module, function: FuncOp, affine: Affine) -> None:
        self.module, self.function, self.affine = module, function, affine
        self.of_descriptors = frozenset(_of_descriptors(function.body.args))

    def in_size(self, atom: Atom) -> bool:
        """Whether the launcher can compute a scalar."""
        if not isinstance(atom, Value):
            return False
        op = atom.defining_op
        if op is None:
            passed = atom.owner is self.function.body and atom not in self.of_descriptors
            return passed and width_of(atom.type) not in (None, 1)
        if op.name not in _OPERATORS:
            return False
        polys = [self.affine.poly(operand) for operand in op.operands]
        return all(self.in_size(inner) for poly in polys for inner in self.affine.atoms.of(poly))

    in_offset = in_size

    def name(self, argument: Value) -> str:
        """The name of an argument in the kernel's source, or its name in the IR."""
        return parameter_name(self.module, argument, f"argument {argument.index}")

    def value(self, poly: Poly) -> HostValue:
        """A polynomial over atoms that the launcher can compute, as a host expression."""
        terms: list[HostValue] = []
        for monomial, factor in poly.terms:
            factors = [self._atom(self.affine.atoms[index]) for index in monomial]
            terms.append(multiply(*factors, Number(factor)))
        return add(*terms)

    def _atom(self, atom: Atom) -> HostValue:
        assert isinstance(atom, Value)
        op = atom.defining_op
        if op is None:
            return Argument(atom.index, self.name(atom))
        operands = tuple(self.value(self.affine.poly(operand)) for operand in op.operands)
        return Apply(_OPERATORS[op.name], operands)

    def size(self, dim: BoxDim) -> HostValue:
        """The size of a dimension; for an open one, the end of the last box, or the largest possible size."""
        if not dim.sizes:
            return Number(min(OPEN, dim.last + dim.block) if dim.last is not None else OPEN)
        parts = [(size, size.divided_by(constant(dim.run))) for size in dim.sizes]
        sizes = tuple(
            self.value(part) if part is not None else Apply("divide", (self.value(size), Number(dim.run)))
            for size, part in parts
        )
        return sizes[0] if len(sizes) == 1 else Apply("smallest", sizes)

    def spec(self, box: Box) -> DescriptorSpec:
        """The descriptor of a box. Its argument index is not known yet and is set to 0."""
        return DescriptorSpec(
            base=box.base.index,
            offset=self.value(box.offset),
            shape=tuple(self.size(dim) for dim in box.dims),
            strides=tuple(self.value(dim.stride) for dim in box.dims),
            block=box.block,
            element=box.element,
            element_bytes=box.element_bytes,
            argument=0,
        )

    def conditions(self, box: Box, facts: ValueRanges) -> tuple[Condition, ...]:
        """The conditions that each launch checks; raises NotABox where a constant violates one."""
        found = [Condition(Argument(it.index, self.name(it)), "no index is negative", 0) for it in box.proof.arguments]
        width = box.element_bytes
        if facts.value_multiple(box.base) % TMA_CHUNK_BYTES:
            found.append(
                Condition(Argument(box.base.index, self.name(box.base)), ALIGNED_FOR_TMA, multiple=TMA_CHUNK_BYTES)
            )
        if facts.multiple(box.offset) * width % TMA_CHUNK_BYTES:
            start = multiply(self.value(box.offset), Number(width))
            if isinstance(start, Number):
                reason = f"its tensor begins {start.value} bytes from the pointer, and TMA needs a multiple of 16"
                raise NotABox(reason, "load from a multiple of 16 bytes on, and mask what is in front")
            found.append(Condition(start, ALIGNED_FOR_TMA, multiple=TMA_CHUNK_BYTES))
        found += self.strides(box)
        sizes = [self.size(dim) for dim in box.dims if dim.sizes]
        found += [Condition(size, "TMA limits sizes", 1, OPEN) for size in sizes]
        for dim in box.dims:
            cut = [size for size in dim.sizes if facts.multiple(size) % dim.run]
            reason = "the mask must not cut elements that share an address"
            found += [Condition(self.value(size), reason, multiple=dim.run) for size in cut]
        reason = "a second bound of the mask must not cut a tile"
        found += [Condition(self.value(whole.poly), reason, multiple=whole.number) for whole in box.wholes]
        return _open(found)

    def whole_rows(self, box: Box, facts: ValueRanges) -> tuple[Condition, ...]:
        """The condition on the rows of a store; raises NotABox if a constant violates it.

        TMA stores whole chunks of 16 bytes: behind a row that ends within one, it overwrites up to 15 bytes.
        """
        inner = box.dims[-1]
        if all(facts.multiple(size) * box.element_bytes % TMA_CHUNK_BYTES == 0 for size in inner.sizes):
            return ()
        length = multiply(self.size(inner), Number(box.element_bytes))
        if isinstance(length, Number):
            reason = f"its rows end after {length.value} bytes, and TMA writes whole chunks of 16 bytes"
            raise NotABox(reason, "let the rows end at a multiple of 16 bytes, if nothing lies there")
        return (Condition(length, _WHOLE_CHUNKS, multiple=TMA_CHUNK_BYTES, only_for="stores"),)

    def aligned(self, box: Box, facts: ValueRanges) -> bool:
        """Whether the alignment that TMA requires is proved at compile time."""
        width = box.element_bytes
        parts = [facts.value_multiple(box.base), width * facts.multiple(box.offset)]
        parts += [width * facts.multiple(dim.stride) for dim in box.dims[:-1]]
        return all(part % TMA_CHUNK_BYTES == 0 for part in parts)

    def beside(self, box: Box, arguments: Iterable[Value]) -> tuple[Condition, ...]:
        """The launch conditions if the kernel makes the descriptor. arguments: assumed to be 0 or more."""
        found = [Condition(Argument(it.index, self.name(it)), "no index is negative", 0) for it in arguments]
        return _open((*found, *self.strides(box)))

    def strides(self, box: Box) -> tuple[Condition, ...]:
        """The conditions on the strides that the launcher can compute, including constant strides."""
        known = [dim.stride for dim in box.dims[:-1] if all(map(self.in_size, self.affine.atoms.of(dim.stride)))]
        bytes = [multiply(self.value(stride), Number(box.element_bytes)) for stride in known]
        return tuple(Condition(it, STRIDES_OF_TMA, TMA_CHUNK_BYTES, STRIDE_LIMIT - 1, TMA_CHUNK_BYTES) for it in bytes)


def _open(found: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions that depend on the launch; raises NotABox if a constant violates one."""
    for condition in found:
        if isinstance(condition.value, Number) and not condition.holds(()):
            raise NotABox(f"{condition.reason}: {condition} does not hold", "change the constant")
    return tuple(condition for condition in found if not isinstance(condition.value, Number))


def _of_descriptors(args: Sequence[Value]) -> Iterator[Value]:
    """The arguments that follow each descriptor: one size and one stride per dimension."""
    for at, arg in enumerate(args):
        type = parse_type(arg.type)
        if isinstance(type, TensorDescType):
            yield from args[at + 1 : at + 1 + 2 * len(type.block.shape)]
