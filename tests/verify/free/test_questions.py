"""The queries of the partitions: equal ranges share an unknown."""

from __future__ import annotations

from tawa.ir import Builder, parse_module, print_module
from tawa.verify.free.questions import find_questions
from tawa.verify.free.sites import Questions, Site
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import Code, Program
from tests.verify.barriers.test_check import made
from tests.verify.free.test_proof import long_loop


def queries(aref: str, free_from: int = 1 << 62) -> tuple[Program, Questions]:
    program = compile_skeleton(parse_module(aref))
    assert program is not None
    return program, find_questions(program, free_from)


def loops(program: Program, questions: Questions) -> dict[str, set[int]]:
    """The unknowns of the loops, by partition."""
    pairs = list(zip(program.parts, questions.sites, strict=True))
    return {
        part.name.rstrip("0123456789"): {site.unknown for at, site in sites.items() if part.code[at][0] == Code.FOR}
        for part, sites in pairs
    }


def test_loops_of_two_partitions_with_equal_bounds_query_one_unknown() -> None:
    found = loops(*queries(made("tile")[0]))
    assert len(found["consumer"]) == 1 and found["consumer"] <= found["producer"]


def test_loops_with_different_bounds_query_different_unknowns() -> None:
    found = loops(*queries(made("two_loops")[0]))
    assert len(found["consumer"]) == 2


def test_a_large_constant_trip_count_is_unconstrained_only_on_request() -> None:
    text = long_loop(500)
    assert 500 in queries(text)[1].constant.values()
    free = queries(text, free_from=8)[1]
    assert 500 not in free.constant.values() and free.least


def released_if(argument: str, condition: str) -> tuple[Program, Questions]:
    """A tile whose releases depend on an argument: ``4 7`` is that it is more than 7."""
    module = parse_module(made("tile", 3, 0)[0])
    releases = [it for it in module.walk() if it.name == "aref.consumed"]
    group = next(it for it in module.walk() if it.name == "warp.group")
    builder = Builder.before(group)
    (number_of,) = (it for it in module.body.ops[0].regions[0].block.args if it.hint == argument)
    predicate, number = condition.split()
    for release in releases:
        constant = builder.constant(int(number), "i32")
        properties = {"predicate": f"{predicate} : i64"}
        compared = builder.create("arith.cmpi", (number_of, constant), ("i1",), properties=properties).result
        Builder.before(release).create(
            "aref.consumed", (*release.operands[:2], compared), (), properties=dict(release.properties)
        )
        release.erase()
    return queries(print_module(module))


def releases(argument: str, condition: str) -> tuple[int, Site]:
    """How many unknowns are conditions, and the query of the release in the loop."""
    program, questions = released_if(argument, condition)
    part = next(at for at, it in enumerate(program.parts) if it.name.startswith("consumer"))
    code = program.parts[part].code
    return len(questions.flags), next(it for at, it in questions.sites[part].items() if code[at][0] == Code.CONSUMED)


def test_a_condition_and_its_denial_query_one_unknown() -> None:
    """More than 4, at least 5, and less than 5: the last one is answered the other way round."""
    more, least, less = (releases("m", condition) for condition in ("4 4", "5 5", "2 5"))
    assert more == least and more[0] == less[0] == 1
    assert more[1].unknown == less[1].unknown and more[1].inverted != less[1].inverted


def test_a_constant_that_a_bound_is_compared_with_queries_the_trips_of_its_loop() -> None:
    """``n > 4``, where a loop has n trips: whether it has a fifth one."""
    for condition, inverted in (("4 4", False), ("5 5", False), ("2 5", True)):
        flags, site = releases("n", condition)
        assert (flags, site.start, site.inverted) == (0, 4, inverted)
