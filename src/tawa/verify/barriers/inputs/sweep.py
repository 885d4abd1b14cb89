"""The choices of numbers that give different runs, without enumerating all combinations.

    cu[0] = 0, 1, 640   cu[1] = 0, 1, 640   SK = cu[1] − cu[0]      nine choices, seven values of SK: seven remain

Numbers are chosen one by one, in the order in which the program needs them. Choices that agree in all live values are
merged at that point, and the one with the fewest trips represents them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from tawa.ir import Value
from tawa.verify.barriers.inputs.fingerprint import ALWAYS, Assumed, Cell, Chosen, Computed, Fingerprints, Known

Numbers = Callable[[str, Mapping[str, int]], Sequence[int]]
"""Maps the name of a number that is not an argument, and the numbers chosen so far, to the numbers to try."""

_PER_STATE = 20
"""The cost of choosing a number, in computed scalars."""
_FIXED = 2
"""The fixed cost of a run, in trips."""


@dataclass(slots=True)
class State:
    """A class of merged choices, by its representative. `rank`: the sum of the positions of its numbers, 0 smallest."""

    cells: list[Known]
    numbers: dict[Value, int] = field(default_factory=dict[Value, int])
    chosen: dict[str, int] = field(default_factory=dict[str, int])
    rank: int = 0


@dataclass(slots=True)
class _Stage:
    """One number to choose if `reached` holds, and the computations up to the next one.

    read: the live cells, each with the condition under which it is read.
    """

    given: Chosen | None
    reached: Cell = ALWAYS
    made: list[Computed | Assumed] = field(default_factory=list[Computed | Assumed])
    read: tuple[tuple[Cell, Cell], ...] = ()
    groups: frozenset[Hashable] = frozenset()


class Sweep:
    """The choices of one program; `states` are those that give different runs, fewest trips first.

    most: the limit of choices that are kept at a time. dropped: the number of choices dropped because of it. coarse: do
    not distinguish choices by loaded numbers that are read again only through addresses not known in advance.
    """

    def __init__(
        self,
        prints: Fingerprints,
        arguments: Mapping[Value, Sequence[int]],
        numbers: Numbers,
        most: int,
        coarse: bool = False,
    ) -> None:
        self.prints = prints
        self.arguments = arguments
        self.numbers = numbers
        self.most = most
        self.dropped = 0
        self.offered: dict[str, dict[int, None]] = {}
        self._groups: dict[str, Hashable] = {}
        states = [State(list(prints.first))]
        for stage in _stages(prints):
            if stage.given is not None:
                states = [it for one in self._merged(states, stage) for it in self._with(one, stage, stage.given)]
                states = self._keep(states, (stage.given.cell, *(cell for cell, _ in stage.read)), len(stage.made))
            states = [state for state in states if _fill(state.cells, stage.made)]
        end = _Stage(
            None,
            read=tuple((out, ALWAYS) for out in prints.outs),
            groups=frozenset(self._memory() if prints.open_memory and not coarse else ()),
        )
        self.states = self._keep(self._merged(states, end), prints.outs, 0)

    def covering(self) -> list[State]:
        """The states, starting with a cheap cover of all trip counts and numbers."""
        return _covering(self.states, self.prints.outs, self.cost)

    def cost(self, state: State) -> int:
        """The estimated cost of a state: its trips and a fixed cost."""
        known = [state.cells[cell] for cell in self.prints.trips]
        return _FIXED + sum([trips for trips in known if type(trips) is int])

    def numbers_in(self, states: Sequence[State]) -> int:
        """The number of different trip counts and numbers in some states."""
        return len({(out, state.cells[out]) for state in states for out in self.prints.outs})

    def _memory(self) -> list[Hashable]:
        return [group for key, group in self._groups.items() if key.startswith("*")]

    def _with(self, state: State, stage: _Stage, given: Chosen) -> list[State]:
        """The state extended by each number that may be chosen; by the first only if the number is not read."""
        if given.argument is not None:
            key, numbers = None, self.arguments[given.argument]
            numbers = numbers if state.cells[stage.reached] else numbers[:1]
        else:
            key = self.prints.key_of(given, state.cells)
            if key is None or key in state.chosen:
                state.cells[given.cell] = None if key is None else state.chosen[key]
                return [state]
            numbers = self.numbers(key, state.chosen)
            self.offered.setdefault(key, {}).update(dict.fromkeys(numbers))
            self._groups[key] = given.group
        found: list[State] = []
        for place, number in enumerate(numbers):
            made = State(list(state.cells), dict(state.numbers), dict(state.chosen), state.rank + place)
            made.cells[given.cell] = number
            if given.argument is not None:
                made.numbers[given.argument] = number
            elif key is not None:
                made.chosen[key] = number
            found.append(made)
        return found

    def _merged(self, states: list[State], stage: _Stage) -> list[State]:
        found: dict[Hashable, State] = {}
        for state in states:
            cells, groups = state.cells, self._groups
            held = [item for item in state.chosen.items() if groups[item[0]] in stage.groups] if stage.groups else []
            key = _renamed([cells[cell] if cells[reached] else None for cell, reached in stage.read], held)
            known = found.get(key)
            if known is None or state.rank < known.rank:
                found[key] = state
        return list(found.values())

    def _keep(self, states: list[State], read: tuple[Cell, ...], made: int) -> list[State]:
        """Limits the states, fewest trips first; prefers a cover of all values of the live cells.

        made: the number of computations per state before the next number is chosen.
        """
        states.sort(key=lambda state: state.rank)
        most = self.most // (made + _PER_STATE)
        if len(states) <= most:
            return states
        self.dropped += len(states) - most
        first = _covering(states, read)
        places = sorted({place * len(first) // most for place in range(most)} | {*range(most // 4)})
        return sorted([first[place] for place in places[:most]], key=lambda state: state.rank)


def _renamed(cells: list[Known], held: list[tuple[str, int]]) -> Hashable:
    """The key of a state. Addresses are renamed: only their equality matters."""
    names: dict[str, str] = {}
    memory = [(names.setdefault(key, key if key[0] != "*" else f"*{len(names)}"), number) for key, number in held]
    plain = [known if type(known) is not str else names.setdefault(f"*({known})", f"*{len(names)}") for known in cells]
    return (*plain, *memory)


def _covering(states: list[State], cells: Sequence[Cell], cost_of: Callable[[State], int] = lambda _: 1) -> list[State]:
    """The states in the order of a greedy set cover: most new values per cost first, then the rest by cost."""
    left = [(state, {(cell, state.cells[cell]) for cell in cells}) for state in states]
    cost = {id(state): cost_of(state) for state in states}
    found: list[State] = []
    while left:
        best = max(range(len(left)), key=lambda place: len(left[place][1]) / cost[id(left[place][0])])
        state, new = left[best]
        if not new:
            break
        found.append(state)
        del left[best]
        for _, others in left:
            others -= new
    return found + sorted((state for state, _ in left), key=lambda state: cost[id(state)])


def _fill(cells: list[Known], made: list[Computed | Assumed]) -> bool:
    """Makes the computations; returns False if they violate an assumption of the program."""
    for step in made:
        if isinstance(step, Computed):
            step.fill(cells)
        elif cells[step.reached] and cells[step.cell] == 0:
            return False
    return True


def _stages(prints: Fingerprints) -> list[_Stage]:
    """The stages of a program, from one choice to the next, each with its live cells."""
    fixed = {cell for cell, known in enumerate(prints.first) if known is not None}
    stages = [_Stage(None)]
    for step in prints.steps:
        if isinstance(step, Chosen):
            stages.append(_Stage(step))
        else:
            stages[-1].made.append(step)
    read, groups = dict.fromkeys(prints.outs, ALWAYS), set[Hashable]()

    def reads(cells: Sequence[Cell], reached: Cell) -> None:
        for cell in cells:
            if cell not in fixed:
                read[cell] = _common(prints, read[cell], reached) if cell in read else reached

    for stage in reversed(stages):
        for step in reversed(stage.made):
            if isinstance(step, Computed):
                read.pop(step.cell, None)
                reads(step.operands, step.reached)
                reads((step.reached,), prints.within.get(step.reached, ALWAYS))
            else:
                reads((step.cell, step.reached), ALWAYS)
        if stage.given is not None:
            stage.reached = _known_before(prints, read.pop(stage.given.cell, ALWAYS), stage.given.cell)
            reads((stage.given.address, stage.given.reached, stage.reached), ALWAYS)
            groups.add(stage.given.group)
            first = stage.given.cell
            stage.read = tuple((cell, _known_before(prints, read[cell], first)) for cell in sorted(read))
        stage.groups = frozenset(groups)
    return stages


def _common(prints: Fingerprints, one: Cell, other: Cell) -> Cell:
    """The innermost condition that encloses both."""
    around = [one]
    while around[-1] != ALWAYS:
        around.append(prints.within[around[-1]])
    while other not in around:
        other = prints.within[other]
    return other


def _known_before(prints: Fingerprints, reached: Cell, cell: Cell) -> Cell:
    """The innermost condition around `reached` that is computed before a cell."""
    while reached > cell:
        reached = prints.within[reached]
    return reached
