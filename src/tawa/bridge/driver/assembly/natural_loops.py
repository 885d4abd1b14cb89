"""The natural loops of a control flow graph, whose nodes are blocks of PTX or instructions of machine code."""

from __future__ import annotations

from collections.abc import Sequence


def preceding(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each node those before it. after: for each node those that may follow it."""
    found: list[list[int]] = [[] for _ in after]
    for node, following in enumerate(after):
        for it in following:
            found[it].append(node)
    return found


def natural_loops(after: Sequence[Sequence[int]]) -> list[tuple[int, set[int]]]:
    """The header and the nodes of each loop that node 0 reaches. after: for each node those that may follow it."""
    before = preceding(after)
    found: dict[int, set[int]] = {}
    state = [0] * len(after)  # 1: on the path, 2: done
    path = [(0, iter(after[0]))]
    state[0] = 1
    while path:
        node, rest = path[-1]
        following = next(rest, None)
        if following is None:
            state[node] = 2
            path.pop()
        elif state[following] == 1:  # an edge back
            body = found.setdefault(following, {following})
            work = [node]
            while work:
                it = work.pop()
                if it not in body:
                    body.add(it)
                    work += before[it]
        elif not state[following]:
            state[following] = 1
            path.append((following, iter(after[following])))
    return list(found.items())
