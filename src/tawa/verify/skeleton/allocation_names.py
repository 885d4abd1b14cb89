"""Names of allocations in messages: no two have the same.

An allocation has the name of the variable that it was assigned to. Where one line makes several, as `tawa.rings` makes
all barriers of a kernel, barriers are named by their role (`skeleton.rings`), and the others by number. If several
barriers have one role, each has the first tile of its ring in front:

    %made, %made, of one ring            full, empty
    %made, %made, with several rings     k_ring.full, v_ring.full
    %tiles, %tiles                       tiles.0, tiles.1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import count

from tawa.ir import Operation
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.rings import Rings


def allocation_names(accesses: Accesses) -> list[str]:
    """The name of each allocation."""
    allocations = list(accesses.allocations)
    given = {op: op.results[0].hint or f"alloc{number}" for number, op in enumerate(allocations)}
    times = Counter(given.values())
    if len(times) == len(given):
        return list(given.values())
    found = Rings(accesses)
    rings = [(role, it.allocation, ring) for ring in (*found.rings, *found.unfilled) for role, it in ring.ends.items()]
    roles = {op: (role, ring.tiles[:1]) for role, op, ring in rings if times[given[op]] > 1}
    taken = {name for name in given.values() if times[name] == 1}
    names: dict[Operation, str] = {}
    _number({op: name for op, name in given.items() if op not in roles}, taken, names)
    alike = Counter(name for name, _ in roles.values())
    tiles = {op: "".join(f"{names[it]}." for it in first if alike[role] > 1) for op, (role, first) in roles.items()}
    _number({op: f"{tiles[op]}{roles[op][0]}" for op in allocations if op in roles}, taken, names)
    return [names[op] for op in allocations]


def _number(wished: Mapping[Operation, str], taken: set[str], names: dict[Operation, str]) -> None:
    """Gives each operation the name that it wishes, with a number where others have it, too."""
    times = Counter(wished.values())
    for op, name in wished.items():
        if times[name] > 1 or (name in taken and op.results[0].hint != name):
            name = next(it for it in (f"{name}.{number}" for number in count()) if it not in taken)
        taken.add(name)
        names[op] = name
