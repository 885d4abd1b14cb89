"""What the code from each instruction on depends on: registers and memory."""

from __future__ import annotations

from functools import cache

from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.lookahead import look_ahead
from tawa.verify.skeleton.program import Code, Part, Program
from tests.verify.barriers.test_check import barrier


@cache
def program() -> Program:
    return compile_barriers(barrier("two_loops"))


def places(part: Part, code: Code) -> list[int]:
    return [at for at, instruction in enumerate(part.code) if instruction[0] == code]


def test_what_starts_partitions_depends_on_all_that_they_depend_on() -> None:
    main, *started = program().parts
    (fork,) = places(main, Code.FORK)
    assert started and all(part.touches[0] and part.live.bits[0] for part in started)
    for part in started:
        assert not part.touches[0] & ~main.touches[fork]
        assert not part.writes[0] & ~main.writes[fork]
        assert not part.live.bits[0] & ~main.live.bits[fork]


def test_code_that_accesses_no_memory_touches_what_the_partitions_that_it_starts_touch() -> None:
    found = compile_barriers(barrier("two_loops"))
    main, *started = found.parts
    (fork,) = places(main, Code.FORK)
    main.code = [(Code.MOVE, (), ()) if it[0] == Code.ACT else it for it in main.code]
    look_ahead(found, Accesses(found.module.op))
    assert main.touches[fork] == started[0].touches[0] != 0
    assert main.writes[fork] == started[0].writes[0] != 0
    assert main.touches[fork + 1] == 0


def test_memory_is_touched_up_to_its_last_access() -> None:
    for part in program().parts[1:]:
        *_, last = places(part, Code.ACT)
        assert part.touches[0] & part.touches[last] == part.touches[last] != 0
        assert part.touches[last + 1] == 0 or places(part, Code.NEXT), "only a loop leads back to an access"
        assert part.touches[places(part, Code.END)[0]] == 0


def test_what_is_behind_the_ends_of_the_other_partitions_is_left_out() -> None:
    main = program().parts[0]
    (join,) = places(main, Code.JOIN)
    assert places(main, Code.ACT)[-1] > join and main.touches[join] == 0


def test_an_allocation_that_is_only_read_is_touched_and_not_written() -> None:
    parts = program().parts[1:]
    assert any(part.touches[0] & ~part.writes[0] for part in parts)
    assert all(not part.writes[0] & ~part.touches[0] for part in parts)
