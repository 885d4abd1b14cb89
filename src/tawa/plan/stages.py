"""Assignments of stages to the operations of a loop, for each that its dots may have (`tawa.plan.scheduler`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from tawa.dialects.effects import is_pure
from tawa.plan.cost.loop_costs import LoopCosts
from tawa.plan.defaults import MAX_STAGES, MOST_DELAYED


class StageAssignments(LoopCosts):
    """One loop under limits, and the stages that its operations may have."""

    def assignments(self) -> Iterator[tuple[int, ...]]:
        """The stages of all nodes, for every assignment of stages to the dots that the dependences allow.

        If the result of a dot is first used a stage later, the dot has a whole kernel iteration to complete. Two fp32
        tiles are then live, because the next dot writes another one; so this is tried only with three or more stages.
        """
        seen: set[tuple[int, ...]] = set()
        most = len(self.dots) if len(self.dots) <= MOST_DELAYED and self.limits.max_stages > MAX_STAGES else 0
        # One before the dots, one for each dot, one behind each delayed dot: in more stages, one would be empty.
        useful = min(self.limits.max_stages, 1 + len(self.dots) + most)
        for choice, delayed in product(product(range(useful), repeat=len(self.dots)), _subsets(self.dots[:most])):
            found = self.stages_of(dict(zip(self.dots, choice, strict=True)), delayed)
            if found is not None and found not in seen:
                seen.add(found)
                yield found

    def stages_of(self, fixed: dict[int, int], delayed: Sequence[int] = ()) -> tuple[int, ...] | None:
        """The stages of all nodes for these of the dots, the first one 0; None if the dependences do not allow them."""
        stages = self._earliest(fixed, delayed)
        if stages is None:
            return None
        self._move_later(stages)
        first = min(stages)
        return tuple(stage - first for stage in stages)

    def _earliest(self, fixed: dict[int, int], delayed: Sequence[int]) -> list[int] | None:
        """The earliest stages that respect the dependences and the fixed stages of the dots; None if there are none.

        delayed: dots whose results are used at least a stage later, unless the use is in a later iteration anyway.
        """
        stages = [fixed.get(number, 0) for number in range(self.count)]
        changed = True
        while changed:
            changed = False
            for edge in self.graph.edges:
                late = edge.kind == "value" and not edge.distance and edge.source in delayed
                pairs = [(edge.target, stages[edge.source] - edge.distance + late)]
                if edge.kind == "together" or (edge.kind == "fill" and not self.limits.keeps):
                    pairs = [(edge.target, stages[edge.source]), (edge.source, stages[edge.target])]
                for node, least in pairs:
                    if stages[node] < least:
                        if node in fixed or least >= self.limits.max_stages:
                            return None
                        stages[node] = least
                        changed = True
        return stages

    def _move_later(self, stages: list[int]) -> None:
        """Moves operations to later stages, last ones first, while fewer registers stay live between iterations."""
        changed = True
        while changed:
            changed = False
            for number in reversed(range(self.count)):
                for moved in self._movable(number, stages):
                    changed |= self._moved_later(moved, stages)

    def _movable(self, number: int, stages: Sequence[int]) -> list[list[int]]:
        """What to move to a later stage: the node; with its conversions; with all that it is computed from.

        P as an 8-bit operand takes as many registers between iterations as the fp32 tile that it is converted from, and
        has to be repacked. The conversions can follow their input into the later stage, but only all of them together.
        So can tiles of numbers that become the addresses of a store: each takes as many registers as the addresses.
        """
        if not self._may_move(number):
            return []
        found = [[number]]
        while self.repacking[found[-1][-1]]:
            inputs = [edge.source for edge in self.before[found[-1][-1]] if edge.kind == "value" and not edge.distance]
            inside = set(found[-1])
            if len(inputs) != 1 or not self._may_move(inputs[0]) or not self._used_only_by(inputs[0], inside):
                break
            found.append([*found[-1], inputs[0]])
        chain = self.own_feeders(number, stages) if number in self.addresses else {number}
        return [*found, sorted(chain)] if len(chain) > 1 and all(map(self._may_move, chain)) else found

    def _may_move(self, number: int) -> bool:
        """Whether a node has a stage of its own: it is no dot, and shares no buffer with another node."""
        edges = self.before[number] + self.behind[number]
        return number not in self.dots and not any(edge.kind in ("together", "fill") for edge in edges)

    def _used_only_by(self, number: int, users: set[int]) -> bool:
        return all(edge.target in users and not edge.distance for edge in self.behind[number])

    def _moved_later(self, nodes: Sequence[int], stages: list[int]) -> bool:
        """Moves nodes together to the stage that leaves the least to carry; whether that is a later one."""
        edges = [edge for number in nodes for edge in self.behind[number] if edge.target not in nodes]
        most = min((stages[edge.target] + edge.distance for edge in edges), default=0)
        first, last = max(stages[number] for number in nodes), min(most, self.limits.max_stages - 1)
        if first >= last:
            return False
        best, before = list(stages), self.burden(stages)
        for later in range(first + 1, last + 1):
            trial = list(stages)
            for number in nodes:
                trial[number] = later
            now = self.burden(trial)
            if now < before:
                best, before = trial, now
        moved = best != stages
        stages[:] = best
        return moved

    def burden(self, stages: Sequence[int]) -> tuple[int, int]:
        """What is carried from one kernel iteration to the next: the weight of the values, cycles of repacking them."""
        return self.alive(stages), sum(self.repacked(stages).values())

    def alive(self, stages: Sequence[int]) -> int:
        """The weight of the values that are live from one kernel iteration to the next."""
        kept = [self.reach(number, stages) for number in range(self.count)]
        return sum(weight * reach for weight, reach in zip(self.weights, kept, strict=True) if reach > 0)

    def own_feeders(self, number: int, stages: Sequence[int]) -> set[int]:
        """A node, and the pure operations of its iteration on which nothing else depends."""
        chain = {number}
        for other in reversed(range(self.count)):
            users = [edge for edge in self.behind[other] if edge.kind in ("value", "together")]
            own = users and all(edge.target in chain and not self.across(edge, stages) for edge in users)
            if own and is_pure(self.graph.nodes[other]) and len(users) == len(self.behind[other]):
                chain.add(other)
        return chain


def _subsets(items: Sequence[int]) -> list[tuple[int, ...]]:
    """All subsets, the empty one first."""
    return [subset for size in range(len(items) + 1) for subset in combinations(items, size)]
