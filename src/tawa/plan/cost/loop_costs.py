"""The cost model of one loop: costs and edges by node, lower bounds, and the resources that a schedule needs.

Source: B. R. Rau, "Iterative Modulo Scheduling" (1996), for the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tawa.analysis.loops.costs import (
    RENAMES,
    REPEATS,
    UNITS,
    OpCost,
    carried_registers_of,
    cost_of,
    is_of_numbers,
    registers_at,
    repacking_cycles,
)
from tawa.analysis.loops.dependences import Dependence, DependenceInfo, is_exchanged
from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp
from tawa.dialects.tt import through_pointers
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Operation, TensorType, Value, parse_type, shape_of
from tawa.machine.nvidia import LATENCY_CYCLES
from tawa.plan.cost.labels import label_of, tile_label
from tawa.plan.defaults import MAX_STAGES
from tawa.plan.schedule import Bound, Carried

_SCALE = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources of a schedule.

    registers: per thread of the partition. groups: partitions that run this loop. keeps: whether a loop may keep a
    buffer that it fills for readers in a later stage. behind: whether dots run a stage behind the others if they read
    what consumer groups exchange, and their results are only stored or added up in memory. owned: whether groups own
    dots: their loops differ, and so do the times of their puts.
    """

    num_warps: int
    registers: int = 255
    max_stages: int = MAX_STAGES
    groups: int = 1
    keeps: bool = False
    behind: bool = False
    owned: bool = False


class LoopCosts:
    """One loop under limits, by node.

    before, behind: the edges into and out of a node. uses: the distances and nodes to which its results go. repacking:
    cycles if its results are carried to another kernel iteration; narrow: those that are not 0, by number. addresses:
    the nodes whose tiles take no registers, because a store computes each element where it needs it.
    """

    def __init__(self, graph: DependenceInfo, limits: Limits) -> None:
        self.graph = graph
        self.limits = limits
        self.count = len(graph.nodes)
        self.dots = [number for number, op in enumerate(graph.nodes) if WarpGroupDotOp.of(op)]
        self.costs = [cost_of(op, limits.num_warps) for op in graph.nodes]
        self.before: list[list[Dependence]] = [[] for _ in graph.nodes]
        self.behind: list[list[Dependence]] = [[] for _ in graph.nodes]
        for edge in graph.edges:
            self.before[edge.target].append(edge)
            self.behind[edge.source].append(edge)
        self.leads_to_dot = [cost.tensor_cycles > 0 for cost in self.costs]
        for edge in sorted(graph.edges, key=lambda edge: -edge.target):
            if edge.kind in ("together", "fill") and not edge.distance:  # a get, or a view of its slot
                self.leads_to_dot[edge.source] |= self.leads_to_dot[edge.target]
        warps = limits.num_warps
        self.weights = [sum(self._weight(value) for value in op.results) for op in graph.nodes]
        self.addresses = self._addresses()
        self.registers = [
            0 if number in self.addresses else _registers(op, warps) for number, op in enumerate(graph.nodes)
        ]
        self.carried_registers = [_total(op, lambda type: carried_registers_of(type, warps)) for op in graph.nodes]
        self.uses = [
            [(edge.distance, edge.target) for edge in edges if edge.kind in ("value", "sum")] for edges in self.behind
        ]
        self.repacking = [_total(op, lambda type: repacking_cycles(type, warps)) for op in graph.nodes]
        self.narrow = {number: cycles for number, cycles in enumerate(self.repacking) if cycles}

    def _addresses(self) -> set[int]:
        """The nodes that compute, from numbers, the tiles of addresses and masks of stores and reductions alone."""
        found, known = set[int](), dict[Value, bool]()
        for number, op in reversed(list(enumerate(self.graph.nodes))):
            users = [edge.target for edge in self.behind[number]]
            alone = all(it in found or through_pointers(self.graph.nodes[it]) for it in users)
            if users and alone and all(shape_of(it) and is_of_numbers(it, known) for it in op.results):
                found.add(number)
        return found

    def _weight(self, value: Value) -> int:
        """The cost of keeping a value live for another kernel iteration; a scalar costs little, but not nothing."""
        count = carried_registers_of(value.type, self.limits.num_warps)
        return count * _SCALE if value.type.startswith("tensor<") else count

    def reach(self, number: int, stages: Sequence[int]) -> int:
        """For how many kernel iterations the results of a node stay live; 0: they are used in that of the node."""
        uses = self.uses[number]
        return max([distance + stages[target] for distance, target in uses]) - stages[number] if uses else 0

    def repacked(self, stages: Sequence[int]) -> dict[int, int]:
        """The nodes whose narrow results are carried to another kernel iteration, with the cycles of repacking them."""
        return {number: cycles for number, cycles in self.narrow.items() if self.reach(number, stages) > 0}

    def costs_under(self, stages: Sequence[int]) -> list[OpCost]:
        """The costs of the nodes, with those of repacking."""
        costs = list(self.costs)
        for number, cycles in self.repacked(stages).items():
            costs[number] = replace(costs[number], stream_cycles=costs[number].stream_cycles + cycles)
        return costs

    def latency(self, edge: Dependence, costs: Sequence[OpCost] = ()) -> int:
        """The least number of cycles from the start of the source to the start of the target. costs: of the nodes."""
        cost = (costs or self.costs)[edge.source]
        waits = LATENCY_CYCLES if cost.tensor_cycles and edge.kind != "sum" else 0
        return cost.stream_cycles + cost.tensor_cycles + waits

    def waiting_cycles(self) -> int:
        """Cycles of an iteration that waits for each dot immediately."""
        costs = self.costs_under([0] * self.count)
        return sum(
            cost.stream_cycles + cost.tensor_cycles + LATENCY_CYCLES * (cost.tensor_cycles > 0) for cost in costs
        )

    @staticmethod
    def across(edge: Dependence, stages: Sequence[int]) -> int:
        """Kernel iterations between source and target."""
        return edge.distance + stages[edge.target] - stages[edge.source]

    # -- bounds ----------------------------------------------------------------------------------------------------

    def bounds(self) -> tuple[Bound, ...]:
        """Lower bounds of a kernel iteration, tightest first."""
        work = {unit: sum(cost.stream_cycles for cost in self.costs if cost.unit == unit) for unit in UNITS}
        parts = [f"{unit} {cycles}" for unit, cycles in work.items() if cycles]
        found = [
            Bound("tensor cores", sum(cost.tensor_cycles for cost in self.costs)),
            Bound(f"issue slots of the consumer: {', '.join(parts)}", sum(cost.stream_cycles for cost in self.costs)),
        ]
        cycles, circle = self._recurrence()
        if circle:
            found.append(Bound(f"recurrence {' -> '.join(circle)}", cycles))
        return tuple(sorted(found, key=lambda bound: -bound.cycles))

    def _recurrence(self) -> tuple[int, list[str]]:
        """The recurrence with the most cycles per iteration that it spans."""
        best, circle = 0, list[int]()
        while True:
            found = self._longer_circle(best)
            if found is None:
                return best, [label_of(self.graph, number) for number in circle]
            edges, circle = found
            cycles = sum(self.latency(edge) for edge in edges)
            best = max(best + 1, -(-cycles // sum(edge.distance for edge in edges)))

    def _longer_circle(self, ii: int) -> tuple[list[Dependence], list[int]] | None:
        """A recurrence that takes more than `ii` cycles per iteration (Bellman and Ford)."""
        far, via = [0] * self.count, [None] * self.count
        parents: list[Dependence | None] = list(via)
        touched = -1
        for _ in range(self.count + 1):
            touched = -1
            for edge in self.graph.edges:
                reach = far[edge.source] + self.latency(edge) - ii * edge.distance
                if reach > far[edge.target]:
                    far[edge.target], parents[edge.target], touched = reach, edge, edge.target
            if touched < 0:
                return None
        for _ in range(self.count):
            touched = _source(parents[touched])
        edges: list[Dependence] = []
        node = touched
        while not edges or node != touched:
            edge = parents[node]
            assert edge is not None
            edges.append(edge)
            node = edge.source
        edges.reverse()
        return edges, [edge.source for edge in edges if self.latency(edge) > 2]

    def ring_depths(self, stages: Sequence[int], sequence: Sequence[int]) -> tuple[tuple[str, int], ...]:
        """The slots that each ring needs so that the schedule cannot deadlock on slots that it has not released.

        The producer fills slots in the order of the body: before it fills the slot of a get, it has filled those of all
        earlier gets.
        """
        found = ((number, get) for number, op in enumerate(self.graph.nodes) if (get := GetOp.of(op)))
        gets = [(number, get.ring) for number, get in found if not is_exchanged(get)]
        rings = list(dict.fromkeys(ring for _, ring in gets))
        depths, given = dict.fromkeys(rings, 1), dict.fromkeys(rings, 0)
        for round_number in range(2 * max(stages) + 2):
            for number in sequence:
                iteration = round_number - stages[number]
                op = self.graph.nodes[number]
                consumed = ConsumedOp.of(op)
                if iteration < 0:
                    continue
                if consumed:
                    given[consumed.ring] = given.get(consumed.ring, 0) + 1
                elif any(GetOp.of(nested) for nested in op.walk()):
                    for ring in rings:
                        puts = sum(iteration + (other <= number) for other, same in gets if same is ring)
                        depths[ring] = max(depths[ring], puts - given[ring])
        return tuple((_ring_name(ring), depth) for ring, depth in depths.items())

    def rings_suffice(self, stages: Sequence[int], sequence: Sequence[int]) -> bool:
        """Whether every ring of the loop has the depth that `ring_depths` requires.

        What groups exchange has a slot for dots that read it in a later stage only where they are to run behind.
        """
        nodes = self.graph.nodes
        late = any(stages[number] and (get := GetOp.of(op)) and is_exchanged(get) for number, op in enumerate(nodes))
        if late and not self.limits.behind:
            return False
        given = self.ring_slots()
        return all(depth <= given.get(name, depth) for name, depth in self.ring_depths(stages, sequence))

    def ring_slots(self) -> dict[str, int]:
        """The slots of each ring of the loop, by name."""
        return {_ring_name(ring): create.type.depth for ring, create in self._rings()}

    def _rings(self) -> list[tuple[Value, CreateOp]]:
        rings = [get.ring for op in self.graph.nodes for nested in op.walk() if (get := GetOp.of(nested))]
        return [(ring, create) for ring in dict.fromkeys(rings) if (create := CreateOp.of(ring.defining_op))]

    def carried(self, stages: Sequence[int]) -> tuple[Carried, ...]:
        """The tiles that are live across kernel iterations, in textual order."""
        found: list[Carried] = []
        for number, op in enumerate(self.graph.nodes):
            reach = self.reach(number, stages)
            tile = parse_type(op.results[0].type) if op.results else None
            if reach > 0 and isinstance(tile, TensorType):
                shape = "x".join(map(str, tile.shape))
                found.append(Carried(tile_label(self.graph, number), f"{shape}x{tile.element}", reach))
        return tuple(found)

    # -- resources of a schedule -----------------------------------------------------------------------------------

    def lasting_uses(self, number: int, stages: Sequence[int]) -> list[Dependence]:
        """The edges to whatever reads the registers of a node, also under other names in the same kernel iteration."""
        found: list[Dependence] = []
        for edge in (it for it in self.behind[number] if it.kind in ("value", "sum")):
            found.append(edge)
            renamed = self.graph.nodes[edge.target].name in RENAMES | REPEATS and not self.across(edge, stages)
            if renamed and not self.reach(edge.target, stages):
                found += self.lasting_uses(edge.target, stages)
        return found

    def live_registers(self, stages: Sequence[int], sequence: Sequence[int]) -> list[int]:
        """The registers that live tiles take at each place; a result may reuse those of an operand that dies.

        A dot in flight reads an operand in registers until a wait covers it.
        """
        at = {number: place for place, number in enumerate(sequence)}
        end = len(sequence)
        complete = self._complete(stages, at)

        def last_read(edge: Dependence) -> int:
            dot = WarpGroupDotOp.of(self.graph.nodes[edge.target])
            held = dot is not None and dot.a.defining_op is self.graph.nodes[edge.source]
            return complete.get(edge.target, at[edge.target]) if held else at[edge.target]

        change = [0] * (end + 2)
        for number in range(self.count):
            uses = self.lasting_uses(number, stages)
            reach = self.reach(number, stages)
            size = self.carried_registers[number] if reach else self.registers[number]
            last = max((last_read(edge) for edge in uses if self.across(edge, stages) == reach), default=at[number])
            # Live for `reach` whole kernel iterations, less the part before its definition and after its last use.
            spans = [(at[number] + 1, last)] if reach == 0 else [(at[number] + 1, end), (0, last)]
            spans += [(0, end)] * max(0, reach - 1)
            for first, final in spans:
                if first <= final:
                    change[first] += size
                    change[final + 1] -= size
        return list(accumulate(change))

    def _complete(self, stages: Sequence[int], at: Mapping[int, int]) -> dict[int, int]:
        """By dot with an operand in registers: the place before which a wait covers it; dots complete in order."""
        end, found = len(at) - 1, dict[int, int]()
        first = end
        for dot in sorted(self.dots, key=lambda number: -at[number]):
            needs = [edge for edge in self.behind[dot] if edge.kind != "sum" and not self.across(edge, stages)]
            first = min([first, *(at[edge.target] for edge in needs)])
            if WarpGroupDotOp(self.graph.nodes[dot]).a_in_registers:
                found[dot] = max(first, at[dot])
        return found


def _registers(op: Operation, num_warps: int) -> int:
    """Registers of a thread that the results of an operation take."""
    return 0 if op.name in RENAMES else _total(op, lambda type: registers_at(op, type, num_warps))


def _total(op: Operation, of_type: Callable[[str], int]) -> int:
    """The sum over the results of an operation, which repeated values do not count in."""
    return 0 if op.name in REPEATS else sum(of_type(value.type) for value in op.results)


def busiest(costs: Sequence[OpCost]) -> int:
    """Cycles of the busier one of the partition and the tensor cores in one iteration."""
    return max(sum(cost.stream_cycles for cost in costs), sum(cost.tensor_cycles for cost in costs))


def _ring_name(ring: Value) -> str:
    create = CreateOp.of(ring.defining_op)
    return create.name if create else ring.hint


def _source(edge: Dependence | None) -> int:
    assert edge is not None
    return edge.source
