"""`issue_ahead`: dots that wait for the threads are issued behind the first dots of the next iteration."""

from __future__ import annotations

from tawa.ir import Module
from tawa.transforms.tensor_memory.issue_ahead import IssueAhead
from tests.cases.programs.tensor_memory import MEMORY, MMA, blackwell
from tests.cases.programs.ttgir import SLOT, for_loop, kernel, op
from tests.support.passes import checked

KEYS = "!aref.ring<{} x (" + SLOT + ")>"
TENSOR = f"!aref.ring<1 x ({MEMORY})>"
ONE = "!aref.index<1>"


def access(name: str, ring: str, type: str, index: str, count: str, result: str = "", to: str = "()") -> str:
    return op(f"aref.{name}", f"%{ring}, %{count}", f"{type}, {index}", f"%{result}" if result else "", to)


def advance(count: str, index: str) -> str:
    return op("aref.advance", f"%{count}", index, f"%{count}_next", index)


def mma(a: str, b: str, d: str, a_type: str = SLOT) -> str:
    types = f"{a_type}, {SLOT}, {MEMORY}, i1, i1"
    return op("ttng.tc_gen5_mma", f"%{a}, %{b}, %{d}, %flag, %flag", types, properties=MMA)


def ring(name: str, type: str, index: str, **properties: str) -> str:
    given = ", ".join(f'{key} = "{value}"' for key, value in {"name": name, **properties}.items())
    made = op("aref.create", "", "", f"%{name}", type, properties=given)
    return f"{made}\n{op('aref.first', f'%{name}', type, f'%{name}_first', index)}"


def issued(late: int = 1, depth: int = 2) -> tuple[Module, bool]:
    """Scores of keys, and after the threads so many dots of the weights, which lie over the scores, with the keys."""
    keys, index = KEYS.format(depth), f"!aref.index<{depth}>"
    rings = (
        ring("keys", keys, index, reader="mma"),
        ring("scores", TENSOR, ONE, fill="commit", reader="consumer"),
        ring("sums", TENSOR, ONE, fill="commit", reader="consumer"),
        access("acquire", "sums", TENSOR, ONE, "sums_first", "o", MEMORY),
    )
    body = (
        access("get", "keys", keys, index, "kc", "k", SLOT),
        advance("kc", index),
        access("acquire", "scores", TENSOR, ONE, "sc", "s", MEMORY),
        mma("q", "k", "s"),
        access("publish", "scores", TENSOR, ONE, "sc"),
        advance("sc", ONE),
        access("acquire", "scores", TENSOR, ONE, "sc_next", "p", MEMORY),
        *[mma("p", "k", "o", MEMORY)] * late,
        access("consumed", "keys", keys, index, "kc"),
    )
    carried = {"kc": ("keys_first", "kc_next", index), "sc": ("scores_first", "sc_next", ONE)}
    # the induction variable of the loop is "at": "k" is a slot
    loop = for_loop("\n".join(body), induction="at", carried=carried, results="%ends:2")
    name = 'partition = "mma", role = "mma", num_warps = 1 : i32'
    group = f'"warp.group"() <{{{name}}}> ({{\n{loop}\n"warp.end"() : () -> ()\n}}) : () -> ()'
    module = blackwell(kernel("\n".join((*rings, group)), arguments={"q": SLOT}))
    result = IssueAhead().run(module)
    return checked(module), result.changed


def dots_of_the_loop(module: Module) -> list[str]:
    """The accumulators, in order."""
    loop = next(it for it in module.walk() if it.name == "scf.for")
    return [it.operands[2].hint for it in loop.walk() if it.name == "ttng.tc_gen5_mma"]


def test_the_scores_of_the_next_iteration_follow_the_dot_that_reads_the_weights() -> None:
    module, changed = issued()
    assert changed and dots_of_the_loop(module) == ["o", "s"]


def test_they_follow_every_dot_that_reads_the_weights() -> None:
    module, changed = issued(late=2)
    assert changed and dots_of_the_loop(module) == ["o", "o", "s"]


def test_without_a_second_slot_for_the_keys_the_order_stays() -> None:
    module, changed = issued(depth=1)
    assert not changed and dots_of_the_loop(module) == ["s", "o"]
