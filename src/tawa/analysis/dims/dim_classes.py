"""Classes of dimensions: a union-find over (value, dimension) along the ties of `tawa.symbolic.dim_relations`.

    %p = exp2 (subf %s, broadcast %m)     %p, %s in dimensions 0 and 1, and %m in dimension 0, are tied

*Free* values belong to no class: tiles that are computed from scalars alone, without memory (ranges, constants, splats,
and arithmetic on them). Triton's CSE merges equal ones, so that one range may index both rows and columns. Whoever
changes a dimension computes a free value again for each use along it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tawa.ir import Operation, Value, shape_of
from tawa.symbolic.dim_relations import FREE, SHAPING, SOURCES, Mixed, Place, relations_of

Node = tuple[Value, int]
"""A dimension of a value."""
Tie = tuple[Place, ...]


class DimClasses:
    """The classes of a kernel.

    free: the free values. ties: each with the operation that it comes from. mixed: the dimensions that operations mix.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        follows: Callable[[Operation, Tie], bool] = lambda op, tie: True,
        parts: int = 1,
    ) -> None:
        """ops: all operations of the kernel, in order. follows: whether a tie puts its dimensions into one class.

        parts: as of `tawa.symbolic.dim_relations.relations_of`.
        """
        self.ops = ops
        self.free: set[Value] = set()
        self.ties: list[tuple[Operation, Tie]] = []
        self.mixed: list[Mixed] = []
        self._parents: dict[Node, Node] = {}
        for op in ops:
            if _is_free(op, self.free):
                self.free.update(result for result in op.results if shape_of(result))
                continue
            relations = relations_of(op, parts)
            self.ties += [(op, tie) for tie in relations.ties if follows(op, tie)]
            self.mixed += relations.mixed
        for _, tie in self.ties:
            rigid = [(place.value, place.dim) for place in tie if place.value not in self.free]
            for node in rigid:
                self._parents[self.root(node)] = self.root(rigid[0])

    def root(self, node: Node) -> Node:
        """The representative of a dimension's class."""
        while (parent := self._parents.setdefault(node, node)) != node:
            self._parents[node] = self._parents[parent]
            node = parent
        return node

    def members(self, root: Node) -> Iterator[Node]:
        """The dimensions of a class, in order of insertion."""
        return (node for node in list(self._parents) if self.root(node) == root)


def _is_free(op: Operation, free: set[Value]) -> bool:
    """Whether the results are tiles that are computed from scalars alone."""
    if not any(shape_of(result) for result in op.results):
        return False
    known = op.name in SOURCES or op.name in FREE or op.name in SHAPING
    return known and all(value in free or not shape_of(value) for value in op.operands)
