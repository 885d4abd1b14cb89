"""`hand_over`: buffers that the dots and the threads use in turn become rings."""

from __future__ import annotations

from tawa.dialects.aref import CreateOp
from tawa.ir import Module
from tawa.remarks import Remark
from tawa.transforms.tensor_memory.hand_over import HandOver
from tests.cases.programs.tensor_memory import blackwell, memory, mma, tmem_load, tmem_store
from tests.cases.programs.ttgir import ACC, BUFFER, OPERAND, SLOT, TILE, branch, for_loop, kernel, op
from tests.support.passes import checked


def lines(*parts: str) -> str:
    return "\n".join(parts)


ARGUMENTS = {"x": BUFFER, "y": BUFFER, "tile": TILE}
SHORT = {
    "aref.acquire": "acquire", "aref.publish": "publish", "aref.get": "get", "aref.consumed": "consumed",
    "ttng.tc_gen5_mma": "M", "ttng.tmem_load": "C", "ttng.tmem_store": "C", "ttg.local_store": "C",
    "scf.for": "loop", "scf.if": "if", "scf.yield": "end",
}  # fmt: skip


def run(body: str) -> tuple[Module, tuple[Remark, ...]]:
    module = blackwell(kernel(lines(memory("d"), body), arguments=ARGUMENTS))
    result = HandOver().run(module)
    return checked(module), result.remarks


def turns(body: str) -> str:
    """The accesses, by dots (M) and threads (C), and what is around them."""
    module, remarks = run(body)
    assert remarks == ()
    assert not any(it.name == "ttng.tmem_alloc" for it in module.walk())
    return " ".join(SHORT[it.name] for it in module.walk() if it.name in SHORT)


def rings(body: str) -> list[tuple[str, str, int]]:
    """Who fills and who reads each ring, and D."""
    module, _ = run(body)
    return [(view.fill, view.reader, view.type.depth) for it in module.walk() if (view := CreateOp.of(it))]


M, C, S = mma("x", "y", "d"), tmem_load("c", "d", ACC), tmem_store("zeros", "d", ACC)


def test_the_dots_of_a_loop_are_one_turn() -> None:
    body = lines(for_loop(M), C)
    assert turns(body) == "acquire loop M end publish get C consumed"
    assert rings(body) == [("commit", "consumer", 1)]


def test_in_a_loop_in_which_both_access_it_the_buffer_comes_back() -> None:
    body = lines(S, for_loop(lines(S, M)), C)
    assert turns(body) == "acquire C loop acquire C publish get M consumed end acquire C"
    assert rings(body) == [("threads", "mma", 1)]


def test_a_result_that_is_only_read_has_two_slots_for_the_tiles_of_a_loop() -> None:
    tile = mma("x", "y", "d", "no")
    no = op("arith.constant", "", "", "%no", "i1", properties="value = false")
    assert rings(lines(no, for_loop(lines(tile, C)))) == [("commit", "consumer", 2)]


def test_a_branch_in_which_both_access_it_ends_as_it_begins() -> None:
    assert turns(branch(lines(for_loop(M), C))) == "if acquire loop M end publish get C consumed end end"
    assert turns(lines(S, branch(lines(S, M)), C)) == "acquire C if acquire C publish get M consumed end end acquire C"


def test_a_branch_that_leaves_it_in_other_hands_is_declined() -> None:
    _, (remark,) = run(lines(S, branch(lines(S, M)), M, C))
    assert remark.kind == "declined" and "and does not get it back" in remark.reason


def test_branches_that_begin_in_different_hands_are_declined() -> None:
    _, (remark,) = run(lines(S, branch(lines(S, M), M), C))
    assert remark.kind == "declined" and "first use an accumulator in different partitions" in remark.reason


def test_an_operand_that_the_threads_store_is_handed_to_the_dots() -> None:
    operand = op("ttg.local_alloc", "", "", "%o", SLOT)
    stored = op("ttg.local_store", "%tile, %o", f"{TILE}, {SLOT}")
    dots = mma("o", "y", "d").replace(BUFFER, SLOT, 1)
    body = lines(operand, for_loop(lines(stored, dots)), C)
    assert ("threads", "mma", 1) in rings(body)
    assert "acquire C publish get M consumed" in turns(body)


def test_a_loaded_tile_that_both_read_is_declined() -> None:
    ring = "!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>"
    index = "!aref.index<2>"
    body = "\n".join(
        (
            op("aref.create", "", "", "%r", ring, properties='name = "ring0"'),
            op("aref.first", "%r", ring, "%i", index),
            op("aref.get", "%r, %i", f"{ring}, {index}", "%v", SLOT),
            op("ttg.local_load", "%v", SLOT, "%t", OPERAND),
            mma("v", "y", "d").replace(BUFFER, SLOT, 1),
            op("aref.consumed", "%r, %i", f"{ring}, {index}"),
            C,
        )
    )
    _, (remark,) = run(body)
    assert "both a dot and the threads read a tile" in remark.reason and "'consumer'" in remark.cure


def test_accumulators_that_do_not_fit_are_declined_with_their_columns() -> None:
    names = [f"d{number}" for number in range(9)]
    uses = (lines(mma("x", "y", it), tmem_load(f"of_{it}", it, ACC)) for it in names)
    _, (remark,) = run(lines(*map(memory, names), *uses, M, C))
    assert "need 640 columns of tensor memory, which has 512" in remark.reason and remark.cure == "use a smaller tile"
