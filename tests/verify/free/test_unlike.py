"""Numbers of two partitions that look alike and are not: protocols by hand, in which one of them is a trip count.

A producer puts as many tiles as its number says, a consumer gets as many as its own says.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tawa.ir import Module, parse_module
from tawa.verify.arefs import check_credits
from tawa.verify.effort import Effort
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown
from tests.cases.programs.ttgir import LOCK, SLOT, binary, branch, compare, for_loop, kernel, load, op, scalar_load

RING, COUNT = f"!aref.ring<1 x ({SLOT})>", "!aref.index<1>"
ROW = "tensor<64xi32>"


def put(ring: str, at: str, behind: str) -> str:
    """Fills a slot with one tile."""
    filled = op("aref.filled", f"%tile_{behind}", "tensor<64x64xf16, #blocked>")
    body = f"({{\n{load(f'tile_{behind}', 'a_desc', '%zero, %zero')}\n{filled}\n}})"
    return f'"aref.put"(%{ring}, %{at}) {body} : ({RING}, {COUNT}) -> ()\n{_advance(at, behind)}'


def get(ring: str, at: str, behind: str) -> str:
    """Reads a slot, and releases it."""
    return f"{borrow(ring, at, behind)}\n{release(ring, at)}"


def borrow(ring: str, at: str, behind: str) -> str:
    """Reads a slot."""
    return op("aref.get", f"%{ring}, %{at}", f"{RING}, {COUNT}", f"%slot_{behind}", SLOT) + f"\n{_advance(at, behind)}"


def release(ring: str, at: str) -> str:
    """Releases a slot."""
    return op("aref.consumed", f"%{ring}, %{at}", f"{RING}, {COUNT}")


def _advance(at: str, behind: str) -> str:
    return op("aref.advance", f"%{at}", COUNT, f"%{behind}", COUNT)


def first(ring: str, count: str) -> str:
    """The first count of a ring."""
    return op("aref.first", f"%{ring}", RING, f"%{count}", COUNT)


Access = Callable[[str, str, str], str]


def protocol(producer: str, consumer: str, rings: int = 1, before: str = "") -> Module:
    """A kernel with two partitions, and what is computed before they start."""
    made = [op("aref.create", "", "", f"%ring{at}", RING, properties=f'name = "ring{at}"') for at in range(rings)]
    groups = [
        f'"warp.group"() <{{partition = "{role}", role = "{role}", num_warps = 4 : i32, registers = 64 : i32}}> ({{\n'
        f'{body}\n"warp.end"() : () -> ()\n}}) : () -> ()'
        for role, body in (("producer", producer), ("consumer", consumer))
    ]
    return parse_module(kernel("\n".join((before, *made, *groups)), arguments={**LOCK, "wide": "i64"}))


def accessed(access: Access, number: str, *, upper: str = "r", start: str = "start", result: str = "end") -> str:
    """A loop of as many accesses as a number says."""
    carried = {"at": (start, "behind", COUNT)}
    return "\n".join(
        (number, for_loop(access("ring0", "at", "behind"), upper=upper, carried=carried, results=f"%{result}"))
    )


def counted(one: str, other: str) -> Module:
    """Two computations of %r."""
    start = first("ring0", "start")
    return protocol(f"{start}\n{accessed(put, one)}", f"{start}\n{accessed(get, other)}")


def chosen(value: str) -> str:
    """%r is %x, which `value` computes, or %m: a branch that is not run."""
    return (
        f'{compare("f", "m", "two", 2)}\n%r = "scf.if"(%f) ({{\n{value}\n"scf.yield"(%x) : (i32) -> ()\n}}, {{\n'
        '"scf.yield"(%m) : (i32) -> ()\n}) : (i1) -> i32'
    )


def through(type: str, into: str = "trunci", back: str = "extui") -> str:
    """%x is %n after a conversion, and back."""
    return "\n".join((op(f"arith.{into}", "%n", "i32", "%y", type), op(f"arith.{back}", "%y", type, "%x", "i32")))


def nested(which: str) -> str:
    """%r is a sum over two loops with the same bounds. which: the iteration number that is added."""
    twice, more = binary("twice", "addi", "t", "t"), binary("more", "addi", "twice", which)
    inner = for_loop(f"{twice}\n{more}", induction="j", carried={"t": ("s", "more", "i32")}, results="%inner")
    return for_loop(inner, induction="i", carried={"s": ("zero", "inner", "i32")}, results="%r")


def from_minus_one(properties: str) -> str:
    """%r is %m times the trips from -1 to 2."""
    minus = op("arith.constant", "", "", "%minus", "i32", properties="value = -1 : i32")
    loop = for_loop(
        binary("more", "addi", "s", "m"),
        lower="minus",
        upper="two",
        carried={"s": ("zero", "more", "i32")},
        results="%r",
    )
    return f"{minus}\n{loop.replace(' ({', f' {properties}({{', 1)}"


def unsigned(body: str, result: str, lower: int, upper: int) -> str:
    """%r is the sum of %r_next over a loop over unsigned numbers."""
    bounds = [
        op("arith.constant", "", "", f"%{name}", "i32", properties=f"value = {number} : i32")
        for name, number in (("low", lower), ("high", upper))
    ]
    carried = {"t": ("zero", result, "i32")}
    loop = for_loop(body, lower="low", upper="high", carried=carried, results="%r", induction="i")
    return "\n".join((*bounds, loop.replace(" ({", " <{unsignedCmp}> ({", 1)))


def test_a_run_of_numbers_counts_a_loop_over_unsigned_numbers_without_a_sign() -> None:
    """From -1, which is the largest number, up to 2 there is no trip; around 2^31, numbers change their sign."""
    none = unsigned(binary("more", "addi", "t", "one"), "more", -1, 2)
    negative = "\n".join((compare("is", "i", "zero", 2), op("arith.extui", "%is", "i1", "%by", "i32")))
    one = unsigned(f"{negative}\n{binary('more', 'addi', 't', 'by')}", "more", (1 << 31) - 1, 1 - (1 << 31))
    for loop, right, wrong in ((none, "zero", "one"), (one, "one", "two")):
        assert isinstance(check_credits(counted(loop, binary("r", "addi", right, "zero"))), Checked)
        assert isinstance(check_credits(counted(loop, binary("r", "addi", wrong, "zero"))), Refuted)


def _hints(other: str) -> str:
    """The properties of a load with a mask."""
    return f"isVolatile = false, operandSegmentSizes = array<i32: 1, 1, {int(bool(other))}>"


def masked(other: str = "", result: str = "r") -> str:
    """A number in memory if m is positive; else `other`, or undefined."""
    types = "!tt.ptr<i32>, i1, i32" if other else "!tt.ptr<i32>, i1"
    load = op("tt.load", f"%lock, %some{other}", types, f"%{result}", "i32", properties=_hints(other))
    return f"{compare('some', 'm', 'zero', 4)}\n{load}"


def folded(element: str = "", captured: str = "", other: str | None = None) -> str:
    """%r is the largest element of a tile.

    element: what it passes through. captured: a number inside of the fold. other: the tile is loaded, and this is what
    a mask leaves out; "" is undefined.
    """
    tile = [op("tt.splat", "%n", "i32", "%given", ROW)]
    if element:
        narrow = ROW.replace("i32", element)
        tile += [
            op("arith.trunci", "%given", ROW, "%narrow", narrow),
            op("arith.extui", "%narrow", narrow, "%tile", ROW),
        ]
    if other is not None:
        types = [ROW.replace("i32", "!tt.ptr<i32>"), ROW.replace("i32", "i1"), *([ROW] if other else [])]
        tile += [
            compare("some", "m", "zero", 4),
            op("tt.splat", "%lock", "!tt.ptr<i32>", "%at", types[0]),
            op("tt.splat", "%some", "i1", "%mask", types[1]),
            op("tt.load", f"%at, %mask{other}", ", ".join(types), "%tile", ROW, properties=_hints(other)),
        ]
    largest = binary("largest", "maxsi", "l", captured or "h")
    source = "tile" if element or other is not None else "given"
    fold = (
        f'%r = "tt.reduce"(%{source}) <{{axis = 0 : i32}}> ({{\n^bb0(%l: i32, %h: i32):\n{largest}\n'
        f'"tt.reduce.return"(%largest) : (i32) -> ()\n}}) : ({ROW}) -> i32'
    )
    return "\n".join((*tile, fold))


UNLIKE = {
    "the iteration of the outer or of the inner loop": (nested("i"), nested("j")),
    "a loop over signed or unsigned numbers": (from_minus_one(""), from_minus_one("<{unsignedCmp}> ")),
    "two widths": (through("i1").replace("%x", "%r"), through("i8").replace("%x", "%r")),
    "two widths in a branch": (chosen(through("i1")), chosen(through("i8"))),
    "two widths of floats": (chosen(through("bf16", "sitofp", "fptosi")), chosen(through("f32", "sitofp", "fptosi"))),
    "two widths of tiles": (folded("i8"), folded("i16")),
    "two numbers inside of a fold": (folded(captured="n"), folded(captured="m")),
    "two constants inside of a fold": (folded(captured="one"), folded(captured="two")),
}


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("what", UNLIKE)
def test_numbers_that_differ_are_not_one_number(what: str, effort: Effort) -> None:
    one, other = UNLIKE[what]
    assert not isinstance(check_credits(counted(one, other), effort=effort), Proved)
    if "number" not in what:  # what a fold makes of a number from outside is not modelled
        assert isinstance(check_credits(counted(one, one), effort=effort), Proved) == ("unsigned" not in what)


def in_a_nest(access: Access, which: str) -> str:
    """In each iteration of two loops with the same bounds: %r accesses of one ring, and one of another."""
    number = chosen(binary("x", "addi", which, "zero"))
    inner = f"{accessed(access, number, start='a', result='a_next')}\n{access('ring1', 'b', 'b_next')}"
    carried = {"a": ("c", "a_next", COUNT), "b": ("d", "b_next", COUNT)}
    loop = for_loop(inner, induction="j", carried=carried, results="%in:2")
    around = {"c": ("start", "in#0", COUNT), "d": ("start1", "in#1", COUNT)}
    return "\n".join(
        (
            first("ring0", "start"),
            first("ring1", "start1"),
            for_loop(loop, induction="i", carried=around, results="%all:2"),
        )
    )


def test_iterations_of_two_loops_with_the_same_bounds_are_two_numbers() -> None:
    assert isinstance(check_credits(protocol(in_a_nest(put, "i"), in_a_nest(get, "i"), 2)), Proved)
    assert isinstance(check_credits(protocol(in_a_nest(put, "i"), in_a_nest(get, "j"), 2)), Refuted)


def flagged(access: Access, at: str, *, upper: str, first: str = "start", result: str = "end") -> str:
    """In iteration i of a loop: as many accesses as the number in memory at `at` says."""
    there = op("tt.addptr", f"%lock, %{at}", "!tt.ptr<i32>, i32", "%there", "!tt.ptr<i32>")
    number = f"{binary('on', 'addi', 'i', 'k')}\n{there}\n{scalar_load('r', 'there')}"
    loop = accessed(access, number, start="a", result="a_next")
    return for_loop(loop, upper=upper, induction="i", carried={"a": (first, "a_next", COUNT)}, results=f"%{result}")


def in_stages(access: Access, at: str) -> str:
    """Of the iterations up to n, some in one loop, the others in a loop that starts at 0 again. on: goes on there."""
    return "\n".join(
        (
            first("ring0", "start"),
            binary("least", "maxsi", "m", "zero"),
            binary("some", "minsi", "least", "n"),
            binary("left", "subi", "n", "some"),
            binary("k", "addi", "zero", "zero"),
            flagged(access, "i", upper="some", result="between"),
            binary("k", "addi", "some", "zero"),
            flagged(access, at, upper="left", first="between"),
        )
    )


def test_a_loop_that_goes_on_where_another_one_ended_has_numbers_of_its_own() -> None:
    """The trips of both are those of one range, but the second starts at 0 again, and reads the numbers from there."""
    whole = f"{first('ring0', 'start')}\n{binary('k', 'addi', 'zero', 'zero')}\n{flagged(get, 'i', upper='n')}"
    assert isinstance(check_credits(protocol(in_stages(put, "i"), in_stages(get, "i"))), Proved)
    assert isinstance(check_credits(protocol(in_stages(put, "i"), whole)), Refuted)
    assert not isinstance(check_credits(protocol(in_stages(put, "on"), whole)), Refuted)


def guarded(body: str) -> str:
    """A part that runs if there are trips."""
    return f"{first('ring0', 'start')}\n{compare('some', 'zero', 'n', 2)}\n{branch(body, condition='some')}"


def test_a_loop_behind_a_guard_for_its_trips_has_the_trips_that_the_guard_asked_for() -> None:
    """``if n > 0: for k in range(n)`` beside a consumer whose first iteration is peeled."""
    producer = guarded(accessed(put, "", upper="n"))
    carried = {"at": ("next", "behind", COUNT)}

    def peeled(lower: str = "one") -> str:
        rest = for_loop(get("ring0", "at", "behind"), lower=lower, carried=carried, results="%end")
        return f"{get('ring0', 'start', 'next')}\n{rest}"

    assert isinstance(check_credits(protocol(producer, guarded(peeled()))), Proved)
    assert isinstance(check_credits(protocol(producer, f"{first('ring0', 'start')}\n{peeled()}")), Refuted)
    assert isinstance(check_credits(protocol(producer, guarded(peeled("zero")))), Refuted)
    twice = f"{producer}\n{for_loop('', induction='more')}"
    assert isinstance(check_credits(protocol(twice, guarded(peeled()))), Proved)


def conditional(body: str, least: str, number: str = "n", flag: str = "some") -> str:
    """A part that runs if a number is more than another one."""
    return f"{compare(flag, least, number, 2)}\n{branch(body, condition=flag)}"


@pytest.mark.parametrize("least", ["zero", "one", "two"])
def test_a_condition_behind_a_loop_asks_for_the_trips_that_it_had(least: str) -> None:
    """One more put behind a loop with enough trips, which nobody gets: 2 trips and 20 are not the same state."""
    loop = {it: f"{first('ring0', 'start')}\n{accessed(it, '', upper='n')}" for it in (put, get)}
    more = {it: conditional(it("ring0", "end", "more"), least) for it in (put, get)}
    producer = f"{loop[put]}\n{more[put]}"
    assert isinstance(check_credits(protocol(producer, loop[get])), Refuted)
    assert isinstance(check_credits(protocol(producer, f"{loop[get]}\n{more[get]}")), Proved)


def test_a_ring_that_was_filled_and_has_no_reader_is_another_state() -> None:
    starts = f"{first('ring0', 'start')}\n{first('ring1', 'begin')}"
    unread = conditional(put("ring1", "begin", "behind"), "zero", "m", "other")
    same = {it: conditional(it("ring0", "start", "next"), "zero") for it in (put, get)}
    consumer = f"{first('ring0', 'start')}\n{same[get]}"
    assert isinstance(check_credits(protocol(f"{starts}\n{unread}\n{same[put]}", consumer, 2)), Refuted)


def in_one_order(flag: str, tag: str, access: Access, at: tuple[str, str, str], between: str = "") -> str:
    """Accesses of ring0, ring2, ring1, or of ring1, ring2, ring0; gives the counts behind them."""

    def block(order: tuple[int, ...]) -> str:
        steps = [access(f"ring{it}", at[it], f"{at[it]}{tag}{order[0]}") for it in order]
        steps.insert(1, between)
        behind = ", ".join(f"%{at[it]}{tag}{order[0]}" for it in range(3))
        return "\n".join((*steps, f'"scf.yield"({behind}) : ({COUNT}, {COUNT}, {COUNT}) -> ()'))

    types = f"({COUNT}, {COUNT}, {COUNT})"
    return f'%{tag}:3 = "scf.if"(%{flag}) ({{\n{block((0, 2, 1))}\n}}, {{\n{block((1, 2, 0))}\n}}) : (i1) -> {types}'


def handing() -> Module:
    """A ``while`` that hands a flag on: the producer uses it, the consumer that of the next trip, ahead of the test."""
    number = op("tt.addptr", "%lock, %x", "!tt.ptr<i32>, i32", "%there", "!tt.ptr<i32>")
    flag = "\n".join((number, scalar_load("number", "there"), compare("flag_of", "zero", "number", 2)))
    more, following = compare("more", "x", "n", 2), binary("x_next", "addi", "y", "one")
    starts = "\n".join(first(f"ring{it}", f"s{it}") for it in range(3))
    c, three = COUNT, f"{COUNT}, {COUNT}, {COUNT}"
    order = in_one_order("flag_in", "put", put, ("h0", "h1", "h3"))
    producer = (
        f"{starts}\n{put('ring2', 's2', 's3')}\n{put('ring0', 's0', 's4')}\n{put('ring1', 's1', 's5')}\n"
        f'{put("ring2", "s3", "s6")}\n%w:5 = "scf.while"(%zero, %s4, %s5, %s6) ({{\n'
        f"^bb0(%x: i32, %b0: {c}, %b1: {c}, %b2: {c}):\n{more}\n{flag}\n"
        f'"scf.condition"(%more, %x, %flag_of, %b0, %b1, %b2) : (i1, i32, i1, {three}) -> ()\n}}, {{\n'
        f"^bb0(%y: i32, %flag_in: i1, %h0: {c}, %h1: {c}, %h2: {c}):\n"
        f"{put('ring2', 'h2', 'h3')}\n{order}\n{following}\n"
        f'"scf.yield"(%x_next, %put#0, %put#1, %put#2) : (i32, {three}) -> ()\n'
        f"}}) : (i32, {three}) -> (i32, i1, {three})"
    )
    order = in_one_order("flag_of", "got", get, ("b0", "b1", "b2"), release("ring2", "held"))
    consumer = (
        f'{starts}\n{borrow("ring2", "s2", "s3")}\n%w:4 = "scf.while"(%zero, %s0, %s1, %s3, %s2) ({{\n'
        f"^bb0(%x: i32, %b0: {c}, %b1: {c}, %b2: {c}, %held: {c}):\n{more}\n{flag}\n{order}\n"
        f'"scf.condition"(%more, %x, %got#0, %got#1, %got#2) : (i1, i32, {three}) -> ()\n}}, {{\n'
        f"^bb0(%y: i32, %h0: {c}, %h1: {c}, %h2: {c}):\n{borrow('ring2', 'h2', 'h3')}\n{following}\n"
        f'"scf.yield"(%x_next, %h0, %h1, %h3, %h2) : (i32, {three}, {c}) -> ()\n'
        f"}}) : (i32, {three}, {c}) -> (i32, {three})"
    )
    return protocol(producer, consumer, 3)


def test_what_a_while_hands_on_is_not_what_it_computes_for_the_next_trip() -> None:
    assert isinstance(check_credits(handing()), Refuted)


def of_bytes(name: str, result: str, left: str, right: str) -> str:
    """An operation on the lowest bytes of two numbers, as a signed number."""
    short = [op("arith.trunci", f"%{it}", "i32", f"%short_{result}_{it}", "i8") for it in dict.fromkeys((left, right))]
    made = binary(f"byte_{result}", name, f"short_{result}_{left}", f"short_{result}_{right}", "i8")
    return "\n".join((*short, made, op("arith.extsi", f"%byte_{result}", "i8", f"%{result}", "i32")))


def test_the_search_computes_numbers_in_the_type_that_they_have() -> None:
    """The product of 32 and 32 is 1024, and 0 in 8 bits; the last operation that is compiled is in 8 bits."""
    start, end = first("ring0", "start"), op("arith.constant", "", "", "%end", "i32", properties="value = 1024 : i32")
    square = f"{binary('square', 'muli', 'n', 'n')}\n{end}\n{compare('is', 'square', 'end', 0)}"
    put_once = branch(put("ring0", "start", "behind"), condition="is")
    byte = f"{of_bytes('muli', 'less', 'm', 'm')}\n{compare('few', 'less', 'two', 2)}"
    never = branch(put("ring1", "start1", "behind1"), condition="few")
    got = branch(get("ring1", "start1", "behind1"), condition="few")
    producer = f"{start}\n{first('ring1', 'start1')}\n{square}\n{put_once}\n{byte}\n{never}"
    consumer = f"{start}\n{first('ring1', 'start1')}\n{byte}\n{got}"
    assert isinstance(check_credits(protocol(producer, consumer, 2)), Refuted)


MASKED = {
    "a number": masked,
    "a number that a branch gives": lambda other: chosen(masked(other, "x")),
    "a tile": lambda other: folded(other=other and ", %given"),
}


@pytest.mark.parametrize("what", MASKED)
def test_a_number_that_a_mask_leaves_undefined_is_another_one_in_each_partition(what: str) -> None:
    number, undefined = MASKED[what](", %zero"), MASKED[what]("")
    assert isinstance(check_credits(counted(number, number)), Proved)
    found = check_credits(counted(undefined, undefined))
    assert not isinstance(found, Proved)
    if what == "a number":
        assert isinstance(found, Refuted) and found.witness.inputs["m"] <= 0, found


def test_a_number_that_a_mask_leaves_undefined_is_one_where_it_is_loaded_once() -> None:
    start = first("ring0", "start")
    module = protocol(f"{start}\n{accessed(put, '')}", f"{start}\n{accessed(get, '')}", before=masked())
    assert isinstance(check_credits(module), Proved)


def halving(access: Access, number: str, half: str, by: str) -> str:
    """An access for each halving of a number until it is 0."""
    types = f"(i32, {COUNT})"
    return (
        f'{first("ring0", "start")}\n{number}\n%w:2 = "scf.while"(%r, %start) ({{\n^bb0(%k: i32, %c: {COUNT}):\n'
        f'{compare("more", "k", "zero", 4)}\n"scf.condition"(%more, %k, %c) : (i1, i32, {COUNT}) -> ()\n}}, {{\n'
        f"^bb0(%h: i32, %d: {COUNT}):\n{access('ring0', 'd', 'e')}\n{binary('less', half, 'h', by)}\n"
        f'"scf.yield"(%less, %e) : {types} -> ()\n}}) : {types} -> {types}'
    )


@pytest.mark.parametrize("memory", [False, True], ids=["of an argument", "of a number in memory"])
def test_two_while_loops_that_compute_otherwise_with_one_number_are_no_two_choices(memory: bool) -> None:
    """A quotient by 2 and a shift are equal for what is above 0, and the number decides the trips of both."""
    number = scalar_load("r", "lock") if memory else binary("r", "addi", "n", "zero")
    module = protocol(halving(put, number, "divsi", "two"), halving(get, number, "shrsi", "one"))
    assert isinstance(check_credits(module), Unknown if memory else Checked)
    module = protocol(halving(put, number, "divsi", "two"), halving(get, number, "subi", "one"))
    assert isinstance(check_credits(module), Unknown if memory else Refuted)


@pytest.mark.parametrize(
    ("number", "right"),
    [
        (through("i8", back="extsi"), False),
        (through("i64", "extsi", "trunci"), True),
        (op("arith.trunci", "%wide", "i64", "%x", "i32"), False),
        (
            "\n".join(
                (
                    op("arith.constant", "", "", "%far", "i64", properties="value = 1048576 : i64"),
                    op("arith.extsi", "%n", "i32", "%long", "i64"),
                    binary("product", "muli", "long", "far", "i64"),
                    op("arith.trunci", "%product", "i64", "%x", "i32"),
                )
            ),
            False,
        ),
    ],
    ids=["256 in 8 bits", "64 bits", "2^32 in 32 bits", "2^12 times 2^20 in 32 bits"],
)
def test_facts_say_nothing_about_a_number_of_fewer_bits(number: str, right: bool) -> None:
    """If n and wide are 3 or more, is x? The numbers of the wrong ones have lowest bits that are 0."""
    guarded = branch(get("ring0", "start", "behind"), condition="many")
    consumer = "\n".join((number, compare("many", "x", "two", 4), guarded))
    start = first("ring0", "start")
    module = protocol(f"{start}\n{put('ring0', 'start', 'behind')}", f"{start}\n{consumer}")
    assert isinstance(check_credits(module, assume=["n >= 3", "wide >= 3"]), Proved) == right
